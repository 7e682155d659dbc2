//! hyper as the oracle of the HTTP/1 engine: what both accept must mean the same, however the bytes
//! are cut; what hyper takes and we refuse stands in `tests/data/stricter-than-hyper.md`.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use proptest::collection::vec;
use proptest::prelude::*;
use scalws::config::checked::AccessFormat;
use scalws::connection::{Context, h1};
use scalws::limits::Limits;
use scalws::message::{Answer, Fields, Reply, Request, Service, Where};
use scalws::semantics::head::Version;
use scalws::telemetry::access::AccessLog;

use crate::support::memory::Segments;

/// What one side made of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Understood {
    method: String,
    path: String,
    query: Option<String>,
    version: u8,
    fields: Vec<(String, Vec<u8>)>,
    body_bytes: u64,
}

/// Notes every request and answers 204.
struct Notes(Rc<RefCell<Vec<Understood>>>);

impl Service for Notes {
    fn answer(&self, request: &Request<'_>) -> Answer {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("a target is ASCII");
        let (path, query) = match &request.target {
            Where::Path(path, query) => (text(path.escaped()), query.map(text)),
            Where::Server => ("*".to_owned(), None),
        };
        let mut fields: Vec<_> = request
            .fields
            .iter()
            .map(|field| (field.name.to_ascii_lowercase(), field.value.to_vec()))
            .collect();
        fields.sort();
        self.0.borrow_mut().push(Understood {
            method: request.method.as_str().to_owned(),
            path,
            query,
            version: u8::from(request.version == Version::Http11),
            fields,
            body_bytes: request.body_bytes,
        });
        Answer::Ready(Reply::bodiless(204, Fields::Empty))
    }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(work)
}

/// What our engine makes of the bytes, and the statuses that it answers.
fn ours(bytes: &[u8], cuts: &[usize]) -> (Vec<Understood>, Vec<u16>) {
    let notes = Rc::new(RefCell::new(Vec::new()));
    let service = Box::new(Notes(Rc::clone(&notes)));
    let access = AccessLog::new(AccessFormat::Off, None);
    let context = Rc::new(Context::new(Limits::default(), access, Arc::default(), service));
    let stream = Segments::new(bytes, cuts);
    let written = stream.written();
    run(h1::serve(stream, IpAddr::V4(Ipv4Addr::LOCALHOST), context, ()));
    let statuses = statuses(&written.borrow());
    (notes.take(), statuses)
}

/// Statuses of the answers in a stream of bodiless answers and one last error with a body.
fn statuses(written: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(written);
    let lines = text.split("\r\n").filter_map(|line| line.strip_prefix("HTTP/1.1 "));
    lines.map(|line| line[..3].parse().expect("a status has three digits")).collect()
}

/// What hyper makes of the same bytes.
fn hypers(bytes: &[u8]) -> Vec<Understood> {
    let notes = Rc::new(RefCell::new(Vec::new()));
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let notes = Rc::clone(&notes);
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let mut fields: Vec<_> = head
                .headers
                .iter()
                .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
                .collect();
            fields.sort();
            notes.borrow_mut().push(Understood {
                method: head.method.to_string(),
                path: head.uri.path().to_owned(),
                query: head.uri.query().map(str::to_owned),
                version: u8::from(head.version == hyper::Version::HTTP_11),
                fields,
                body_bytes: body.len() as u64,
            });
            let mut response = hyper::Response::new(Empty::<Bytes>::new());
            *response.status_mut() = hyper::StatusCode::NO_CONTENT;
            Ok::<_, hyper::Error>(response)
        }
    });
    let stream = TokioIo::new(Segments::new(bytes, &[]));
    let connection =
        hyper::server::conn::http1::Builder::new().half_close(true).serve_connection(stream, service);
    // An error ends the connection: what was understood before it counts.
    let _ = run(connection);
    notes.take()
}

/// One valid message as bytes.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let method = prop::sample::select(vec!["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]);
    let segment = "([a-z0-9_~!$&'()*+,;=:@-]|%20|%2[fF]|%C3%A9){1,8}";
    let path = vec(segment, 0..4).prop_map(|segments| format!("/{}", segments.join("/")));
    let target = (path, proptest::option::of("[a-zA-Z0-9=&%?/:@!|-]{0,12}"))
        .prop_map(|(path, query)| query.map_or(path.clone(), |query| format!("{path}?{query}")));
    let field = (
        "X-[A-Za-z0-9!#$%&'*+.^_`|~-]{1,10}",
        "[!-~]([ -~\t\u{e9}]{0,20}[!-~])?",
        "[ \t]{0,2}",
        "[ \t]{0,2}",
    )
        .prop_map(|(name, value, before, after)| format!("{name}:{before}{value}{after}\r\n"));
    (method, target, vec(field, 0..5), body(), any::<bool>()).prop_map(
        |(method, target, fields, body, absolute)| {
            let origin = if absolute { "http://h.example:80" } else { "" };
            let (framing, body) = body;
            let head = format!(
                "{method} {origin}{target} HTTP/1.1\r\nHost: h.example\r\n{}{framing}\r\n",
                fields.concat()
            );
            [head.as_bytes(), &body].concat()
        },
    )
}

/// A framing field and the body that goes with it.
fn body() -> impl Strategy<Value = (String, Vec<u8>)> {
    let content = || vec(any::<u8>(), 1..40);
    let length = content().prop_map(|content| (format!("Content-Length:  {}\r\n", content.len()), content));
    let extension = "(;[a-z]{1,4}(=([a-z0-9]{1,4}|\"[ a-z;,\r]{0}[ a-z;,]{0,6}\"))?){0,2}";
    let chunk = (content(), extension, any::<bool>()).prop_map(|(content, extension, upper)| {
        let size = if upper { format!("{:X}", content.len()) } else { format!("0{:x}", content.len()) };
        [format!("{size}{extension}\r\n").as_bytes(), &content, b"\r\n"].concat()
    });
    let trailers = prop::sample::select(vec!["", "Expires: never\r\n", "A: b\r\nC:\r\n"]);
    let chunked = (vec(chunk, 0..4), trailers).prop_map(|(chunks, trailers)| {
        let end = format!("0\r\n{trailers}\r\n").into_bytes();
        ("Transfer-Encoding: chunked\r\n".to_owned(), [chunks.concat(), end].concat())
    });
    prop_oneof![Just((String::new(), Vec::new())), length, chunked]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    /// Valid messages, pipelined: the same to both sides, in one piece, in every two-way split, byte by
    /// byte and in random pieces.
    #[test]
    fn valid_messages_mean_the_same(
        messages in vec(message(), 1..4),
        cuts in vec(any::<usize>(), 0..12),
    ) {
        let bytes = messages.concat();
        let (expected, statuses) = ours(&bytes, &[]);
        prop_assert_eq!(expected.len(), messages.len(), "{:?}", String::from_utf8_lossy(&bytes));
        prop_assert_eq!(&statuses, &vec![204; messages.len()]);
        prop_assert_eq!(&hypers(&bytes), &expected);
        for at in 1..bytes.len() {
            prop_assert_eq!(&ours(&bytes, &[at]).0, &expected, "cut at {}", at);
        }
        let every: Vec<usize> = (0..bytes.len()).collect();
        prop_assert_eq!(&ours(&bytes, &every).0, &expected, "byte by byte");
        prop_assert_eq!(&ours(&bytes, &cuts).0, &expected, "cut at {:?}", cuts);
    }

    /// Valid messages with a few bytes changed: we may refuse more than hyper, but what we understand
    /// hyper understands in the same way. (No quotes: we take them in a target, as browsers send them,
    /// and hyper does not.)
    #[test]
    fn broken_messages_never_mean_more_to_us_than_to_hyper(
        messages in vec(message(), 1..3),
        changes in vec((any::<usize>(), prop::sample::select(b"\r\n :;,0\0\t\x0b/%#5a".to_vec())), 1..3),
        cuts in vec(any::<usize>(), 0..4),
    ) {
        let mut bytes = messages.concat();
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let (found, statuses) = ours(&bytes, &cuts);
        let (mut found, shown) = (found.iter(), String::from_utf8_lossy(&bytes));
        let theirs = hypers(&bytes);
        // One status for each message: 204 from the handler, others from the engine, which refuses a
        // broken path or an unknown method and goes on, or breaks off.
        for (at, status) in statuses.iter().enumerate() {
            if *status != 204 {
                continue;
            }
            let mine = found.next().expect("a 204 was understood");
            let Some(other) = theirs.get(at) else { panic!("more to us than to hyper: {shown:?}") };
            prop_assert_eq!(&mine.method, &other.method, "{:?}", shown);
            prop_assert_eq!(mine.body_bytes, other.body_bytes, "{:?}", shown);
            prop_assert_eq!(&mine.fields, &other.fields, "{:?}", shown);
        }
    }
}

/// Cases of each property: a few by default, many in `scripts/long.sh`.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64)
}

/// The list is complete in both directions that a list can be: hyper takes each message on it, and we
/// refuse it with the status that it says.
#[test]
fn the_list_of_what_we_refuse_is_true() {
    let list = include_str!("../data/stricter-than-hyper.md");
    let rows: Vec<Vec<&str>> = list
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    assert!(rows.len() >= 12, "the list has lost rows");
    let mut seen = BTreeSet::new();
    for row in rows {
        let [bytes, status, section, _] = row[..] else { panic!("a row has four cells: {row:?}") };
        let bytes = unescape(bytes.trim_matches('`'));
        assert!(section.starts_with("RFC 9112 §") || section.starts_with("RFC 9110 §"), "{section}");
        assert!(seen.insert(bytes.clone()), "twice on the list");
        assert!(!hypers(&bytes).is_empty(), "hyper refuses it as well: {row:?}");
        let every: Vec<usize> = (0..bytes.len()).collect();
        for cuts in [&[], &every[..]] {
            let (understood, statuses) = ours(&bytes, cuts);
            assert!(understood.is_empty(), "we understand it: {row:?}");
            assert_eq!(statuses, [status.parse::<u16>().expect("a status")], "{row:?}");
        }
    }
}

/// The corpus is part of the comparison: what our verdict accepts and hyper takes means the same.
#[test]
fn the_corpus_means_the_same() {
    let mut compared = 0;
    for bytes in crate::corpus::accepted_with_host() {
        for (mine, other) in ours(&bytes, &[]).0.iter().zip(&hypers(&bytes)) {
            assert_eq!(mine, other, "{:?}", String::from_utf8_lossy(&bytes));
            compared += 1;
        }
    }
    assert!(compared >= 20, "only {compared} requests were understood by both");
}

/// `\r`, `\n`, `\t`, `\\` and `\xHH`.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        if next != '\\' {
            bytes.extend(next.to_string().into_bytes());
            continue;
        }
        match rest.next() {
            Some('r') => bytes.push(b'\r'),
            Some('n') => bytes.push(b'\n'),
            Some('t') => bytes.push(b'\t'),
            Some('x') => {
                let digits: String = rest.by_ref().take(2).collect();
                bytes.push(u8::from_str_radix(&digits, 16).expect("two digits"));
            }
            other => bytes.push(u8::try_from(other.expect("something follows a backslash")).expect("ASCII")),
        }
    }
    bytes
}
