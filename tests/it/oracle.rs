//! hyper as the oracle: what both servers take must mean the same to both, however it is cut into
//! segments; what hyper takes and we refuse stands in `tests/data/stricter-than-hyper.md`.
//!
//! Both run in memory on one thread. Only the number of body bytes is compared, because the engine
//! reads and drops bodies; their end is what the next request depends on.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use scalws::config::checked::AccessFormat;
use scalws::connection::wire::Wire;
use scalws::connection::{Context, h1};
use scalws::limits::Limits;
use scalws::message::{Answer, Fields, Reply, Request, Service, Where};
use scalws::semantics::head::{Version, trim};
use scalws::semantics::path::{SafePath, Target};
use scalws::telemetry::access::AccessLog;
use scalws::telemetry::counters;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf};

/// A request as a server understood it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Understood {
    method: String,
    /// Normalised path with its query.
    target: String,
    is_http_1_1: bool,
    /// Lower-case names and trimmed values, in order of the names; equal names keep theirs.
    fields: Vec<(String, Vec<u8>)>,
    body_bytes: u64,
}

fn sorted<'a>(fields: impl Iterator<Item = (&'a str, &'a [u8])>) -> Vec<(String, Vec<u8>)> {
    let mut fields: Vec<_> =
        fields.map(|(name, value)| (name.to_ascii_lowercase(), trim(value).to_vec())).collect();
    fields.sort_by(|(one, _), (other, _)| one.cmp(other));
    fields
}

/// One end of a pipe in memory, as the engine wants it.
struct Memory(DuplexStream);

impl AsyncRead for Memory {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(task, into)
    }
}

impl AsyncWrite for Memory {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Task<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(task, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(task)
    }
}

impl Wire for Memory {
    fn poll_write_ready(&self, _: &mut Task<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn reset_on_close(&self) {}
}

struct Recorder(Rc<RefCell<Vec<Understood>>>);

impl Service for Recorder {
    fn answer(&self, request: &Request<'_>) -> Answer {
        let target = match &request.target {
            Where::Server => b"*".to_vec(),
            Where::Path(path, query) => with_query(path.escaped(), *query),
        };
        let fields = request.fields.iter().map(|field| (field.name, field.value));
        self.0.borrow_mut().push(Understood {
            method: request.method.as_str().to_owned(),
            target: String::from_utf8(target).unwrap(),
            is_http_1_1: request.version == Version::Http11,
            fields: sorted(fields),
            body_bytes: request.body_bytes,
        });
        Answer::Ready(Reply::bodiless(204, Fields::Empty))
    }
}

fn with_query(path: &[u8], query: Option<&[u8]>) -> Vec<u8> {
    match query {
        Some(query) => [path, b"?", query].concat(),
        None => path.to_vec(),
    }
}

/// The client: one segment after the other, each read by the server before the next one comes; then
/// the end. Returns all that came back.
async fn client(mut stream: DuplexStream, segments: Vec<&[u8]>) -> Vec<u8> {
    for segment in segments {
        // A server that has closed takes no more.
        if stream.write_all(segment).await.is_err() {
            break;
        }
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
    }
    let _ = stream.shutdown().await;
    let mut answers = Vec::new();
    let _ = stream.read_to_end(&mut answers).await;
    answers
}

/// In memory there is always room: neither side waits for the other to read.
const PIPE_BYTES: usize = 1 << 20;

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(work)
}

fn through_ours(segments: Vec<&[u8]>) -> (Vec<Understood>, Vec<u8>) {
    let (near, far) = tokio::io::duplex(PIPE_BYTES);
    let understood = Rc::new(RefCell::new(Vec::new()));
    let service = Box::new(Recorder(Rc::clone(&understood)));
    let access = AccessLog::new(AccessFormat::Off, None);
    let context = Context::new(Limits::default(), access, Arc::new(counters::Worker::default()), service);
    let serve = h1::serve(Memory(far), [127, 0, 0, 1].into(), Rc::new(context));
    let ((), answers) = block_on(async { tokio::join!(serve, client(near, segments)) });
    (understood.take(), answers)
}

fn through_hyper(segments: Vec<&[u8]>) -> Vec<Understood> {
    let (near, far) = tokio::io::duplex(PIPE_BYTES);
    let understood = RefCell::new(Vec::new());
    let service = hyper::service::service_fn(|request: hyper::Request<Incoming>| {
        let understood = &understood;
        async move {
            let (head, body) = request.into_parts();
            let uri = head.uri.to_string();
            // A body that cannot be read is no request that was understood.
            let body = body.collect().await.map_err(|error| error.to_string())?;
            let fields = head.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
            understood.borrow_mut().push(Understood {
                method: head.method.as_str().to_owned(),
                target: normalised(&uri),
                is_http_1_1: head.version == hyper::Version::HTTP_11,
                fields: sorted(fields),
                body_bytes: body.to_bytes().len() as u64,
            });
            Ok::<_, String>(hyper::Response::builder().status(204).body(Empty::<Bytes>::new()).unwrap())
        }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.half_close(true).header_read_timeout(None);
    let serve = builder.serve_connection(TokioIo::new(far), service);
    block_on(async { tokio::join!(serve, client(near, segments)) }).0.ok();
    understood.into_inner()
}

/// hyper hands the target over as it was sent.
fn normalised(target: &str) -> String {
    match Target::parse(target.as_bytes()) {
        Ok(Target::Path { path, query, .. }) => {
            let path = SafePath::parse(path).map(|path| with_query(path.escaped(), query));
            path.map_or_else(|_| target.to_owned(), |target| String::from_utf8(target).unwrap())
        }
        _ => target.to_owned(),
    }
}

/// A valid message as bytes.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let method = prop::sample::select(vec!["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]);
    let segment = "[a-zA-Z0-9._~!$&'()*+,;=:@-]{0,6}(%[2-7][1-9a-e])?";
    let target =
        (prop::collection::vec(segment, 1..4), prop::option::of("[a-z0-9=&%?/]{0,12}"), any::<bool>());
    let fields = prop::collection::vec(("x-[a-zA-Z0-9!#$%&'*+.^_`|~-]{1,12}", value(), "[ \t]{0,2}"), 0..6);
    (method, target, fields, body()).prop_map(|(method, (segments, query, is_absolute), fields, body)| {
        let mut bytes = format!("{method} ").into_bytes();
        if is_absolute {
            bytes.extend_from_slice(b"http://example.com:8080");
        }
        for segment in &segments {
            // A dot segment could climb above the root, and that is refused.
            let segment = if segment.starts_with('.') { "dot" } else { segment };
            bytes.extend_from_slice(format!("/{segment}").as_bytes());
        }
        if let Some(query) = query {
            bytes.extend_from_slice(format!("?{query}").as_bytes());
        }
        bytes.extend_from_slice(b" HTTP/1.1\r\nHost: example.com:8080\r\n");
        for (name, value, blank) in fields {
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(b':');
            for part in [blank.as_bytes(), &value, blank.as_bytes(), b"\r\n"] {
                bytes.extend_from_slice(part);
            }
        }
        bytes.extend_from_slice(&body);
        bytes
    })
}

/// Field content: visible ASCII and obs-text, blanks inside (RFC 9110 §5.5).
fn value() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![8 => 0x21..=0x7e_u8, 1 => 0x80..=0xff_u8, 1 => Just(b' '), 1 => Just(b'\t')];
    prop::collection::vec(byte, 0..20)
}

/// The end of a head and what follows it: nothing, a length, or chunks with extensions and trailers.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let content = prop::collection::vec(any::<u8>(), 0..60);
    let extension = prop_oneof![
        3 => Just(String::new()),
        1 => "(;[a-z]{1,4}){1,2}",
        1 => ";[a-z]{1,4}=[a-zA-Z0-9]{1,5}",
        1 => ";[a-z]{1,4}=\"[a-z ;,=]{0,8}\"",
    ];
    let chunk = (prop::collection::vec(any::<u8>(), 1..40), extension, any::<bool>(), 0..4_usize);
    let trailers = prop::collection::vec("x-[a-z]{1,8}: ?[ -~]{0,12}", 0..3);
    let chunked = (prop::collection::vec(chunk, 0..4), trailers).prop_map(|(chunks, trailers)| {
        let mut bytes = b"Transfer-Encoding: chunked\r\n\r\n".to_vec();
        for (content, extension, is_upper, zeros) in chunks {
            let size = format!("{}{:x}", "0".repeat(zeros), content.len());
            let size = if is_upper { size.to_uppercase() } else { size };
            bytes.extend_from_slice(format!("{size}{extension}\r\n").as_bytes());
            bytes.extend_from_slice(&content);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n");
        for trailer in trailers {
            bytes.extend_from_slice(format!("{trailer}\r\n").as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes
    });
    let length = content.prop_map(|content| {
        [format!("Content-Length: {}\r\n\r\n", content.len()).as_bytes(), &content].concat()
    });
    prop_oneof![1 => Just(b"\r\n".to_vec()), 2 => length, 3 => chunked]
}

/// Cuts `bytes` at those places.
fn cut<'a>(bytes: &'a [u8], places: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = places.iter().map(|place| place.index(bytes.len())).collect();
    places.sort_unstable();
    let mut segments = Vec::new();
    let mut start = 0;
    for place in places.into_iter().chain([bytes.len()]) {
        if place > start {
            segments.push(&bytes[start..place]);
            start = place;
        }
    }
    segments
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Two parsers that read one message differently are how requests are smuggled; a parser that
    /// reads it differently at a seam is the same between one server and itself.
    #[test]
    fn valid_messages_mean_the_same(
        messages in prop::collection::vec(message(), 1..4),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let bytes = messages.concat();
        let expected = through_hyper(vec![&bytes]);
        prop_assert_eq!(expected.len(), messages.len(), "hyper refuses {:?}", String::from_utf8_lossy(&bytes));
        let (found, answers) = through_ours(vec![&bytes]);
        prop_assert_eq!(&found, &expected, "answers: {}", String::from_utf8_lossy(&answers));
        prop_assert_eq!(through_hyper(bytes.chunks(1).collect()), expected.clone());
        prop_assert_eq!(&through_ours(bytes.chunks(1).collect()).0, &expected);
        prop_assert_eq!(&through_ours(cut(&bytes, &places)).0, &expected);
        for place in 1..bytes.len() {
            let (one, other) = bytes.split_at(place);
            prop_assert_eq!(&through_ours(vec![one, other]).0, &expected, "cut at {}", place);
        }
    }
}

/// The rows of the list: what is sent, with its escapes read.
fn stricter() -> Vec<(String, Vec<u8>)> {
    let text = include_str!("../data/stricter-than-hyper.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| {
        let shown = row.split('`').next().unwrap().to_owned();
        let bytes =
            shown.replace("\\r", "\r").replace("\\n", "\n").replace("\\t", "\t").replace("\\x0b", "\u{b}");
        (shown, bytes.into_bytes())
    })
    .collect()
}

/// Every row is true: hyper takes it, and we refuse it with an error and a close.
#[test]
fn the_list_of_what_we_refuse_is_true() {
    let rows = stricter();
    assert!(rows.len() >= 10, "{} rows", rows.len());
    for (shown, bytes) in rows {
        assert!(!through_hyper(vec![&bytes]).is_empty(), "hyper refuses it as well: {shown}");
        for segments in [vec![bytes.as_slice()], bytes.chunks(1).collect()] {
            let (understood, answers) = through_ours(segments);
            assert!(understood.is_empty(), "we take it: {shown}");
            let answers = crate::support::Response::split(&answers, false)
                .map(|(answer, length)| (answer, answers.len() - length));
            let Some((answer, rest)) = answers else { panic!("no answer: {shown}") };
            assert!(answer.status >= 400 && answer.closes() && rest == 0, "{}: {shown}", answer.head);
        }
    }
}

/// The corpus is part of the comparison: what our verdict accepts and hyper takes means the same.
#[test]
fn the_corpus_means_the_same() {
    let mut compared = 0;
    for bytes in crate::corpus::accepted_with_host() {
        let (ours, hypers) = (through_ours(vec![&bytes]).0, through_hyper(vec![&bytes]));
        for (our, hyper) in ours.iter().zip(&hypers) {
            assert_eq!(our, hyper, "{:?}", String::from_utf8_lossy(&bytes));
            compared += 1;
        }
    }
    assert!(compared >= 20, "only {compared} requests were understood by both");
}
