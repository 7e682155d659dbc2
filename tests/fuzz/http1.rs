//! The HTTP/1 engine: heads and what follows them, however the bytes are cut.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;

use scalws::config::checked::AccessFormat;
use scalws::connection::{Context, h1};
use scalws::limits::Limits;
use scalws::message::{Answer, Fields, Reply, Request, Service, Where};
use scalws::semantics::head::is_authority;
use scalws::telemetry::access::AccessLog;

use super::engine::{self, Target, ensure};
use super::input::Random;
use super::memory::Segments;

/// Small ones, so that inputs reach them.
pub fn limits() -> Limits {
    Limits {
        head_bytes_max: 1024,
        target_bytes_max: 200,
        fields_max: 12,
        body_bytes_max: 300,
        chunk_extension_bytes_max: 60,
        ..Limits::default()
    }
}

/// What the engine made of a conversation.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Each request that reached the handler.
    pub requests: Vec<String>,
    pub bodies: Vec<u64>,
    /// Of all answers.
    pub statuses: Vec<u16>,
}

/// Notes every request and what is wrong with it; answers 204.
#[derive(Clone, Default)]
struct Notes(Rc<RefCell<(Heard, Option<String>)>>);

impl Service for Notes {
    fn answer(&self, request: &Request<'_>) -> Answer {
        let mut noted = self.0.borrow_mut();
        noted.0.requests.push(format!("{request:?}"));
        noted.0.bodies.push(request.body_bytes);
        let fault = fault(request);
        noted.1 = noted.1.take().or(fault);
        Answer::Ready(Reply::bodiless(204, Fields::Empty))
    }
}

/// What must hold of any request that a handler sees.
fn fault(request: &Request<'_>) -> Option<String> {
    let limits = limits();
    if let Where::Path(path, _) = &request.target {
        let is_plain = |segment: &[u8]| !matches!(segment, b"." | b"..");
        if !path.decoded().split(|byte| *byte == b'/').all(is_plain) || path.decoded().starts_with(b"/") {
            return Some(format!("path {path:?}"));
        }
    }
    if !is_authority(request.authority) {
        return Some("an authority that is none".to_owned());
    }
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_value = |byte: &u8| matches!(byte, b'\t' | 0x20..=0x7e | 0x80..);
    for field in request.fields {
        if field.name.is_empty() || !field.name.bytes().all(is_name) || !field.value.iter().all(is_value) {
            return Some(format!("field {field:?}"));
        }
    }
    let hosts = request.values("host").count();
    let is_framed_twice =
        request.values("content-length").count() + request.values("transfer-encoding").count() > 1;
    let is_beyond =
        request.body_bytes > limits.body_bytes_max || request.fields.len() as u64 > limits.fields_max;
    (hosts > 1 || is_framed_twice || is_beyond).then(|| format!("a request that is refused: {request:?}"))
}

thread_local! {
    static RUNTIME: tokio::runtime::Runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
}

/// Serves a conversation, its bytes cut at `cuts`.
pub fn serve(bytes: &[u8], cuts: &[usize]) -> Result<Heard, String> {
    let notes = Notes::default();
    let access = AccessLog::new(AccessFormat::Off, None);
    let context = Rc::new(Context::new(limits(), access, Arc::default(), Box::new(notes.clone())));
    let stream = Segments::new(bytes, cuts);
    let written = stream.written();
    RUNTIME.with(|runtime| runtime.block_on(h1::serve(stream, IpAddr::V4(Ipv4Addr::LOCALHOST), context, ())));
    let (mut heard, fault) = notes.0.take();
    if let Some(fault) = fault {
        return Err(fault);
    }
    heard.statuses = statuses(&written.borrow())?;
    Ok(heard)
}

/// Takes what was written apart, to its last byte. A 204 has no body, and an error is the last.
fn statuses(mut written: &[u8]) -> Result<Vec<u16>, String> {
    let mut found = Vec::new();
    while !written.is_empty() {
        let end = written.windows(4).position(|window| window == b"\r\n\r\n").ok_or("half a head")? + 4;
        let head = std::str::from_utf8(&written[..end]).map_err(|error| error.to_string())?;
        let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        found.push(status.ok_or("no status line")?);
        let length =
            head.split("\r\n").find_map(|line| line.strip_prefix("Content-Length: ")?.parse::<usize>().ok());
        // An error to HEAD has a length and no body, and ends the connection.
        let rest = &written[end..];
        let is_bodiless = rest.is_empty() || rest.starts_with(b"HTTP/1.1 ");
        written = if is_bodiless { rest } else { rest.get(length.unwrap_or(0)..).ok_or("half a body")? };
    }
    Ok(found)
}

/// Places to cut, from the input itself: the same ones whenever it is checked.
fn cuts(input: &[u8]) -> Vec<Vec<usize>> {
    let mut random = Random::new(
        input.iter().fold(7, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte))),
    );
    let some =
        |random: &mut Random| (0..1 + random.below(6)).map(|_| random.below(input.len() + 1)).collect();
    let mut cuts = vec![some(&mut random), some(&mut random)];
    if input.len() <= 400 {
        cuts.push((0..input.len()).collect());
    }
    cuts
}

/// The same whatever the segments: requests and answers, but for the status of a last error, where
/// several things are wrong and another one is seen first.
pub fn check_segments(input: &[u8], whole: &Heard) -> Result<(), String> {
    for cuts in cuts(input) {
        let parted = serve(input, &cuts)?;
        let is_same = parted.requests == whole.requests && parted.statuses.len() == whole.statuses.len();
        let differ = parted.statuses.iter().zip(&whole.statuses).enumerate().filter(|(_, (a, b))| a != b);
        let only_last =
            differ.clone().all(|(at, (a, b))| at + 1 == whole.statuses.len() && *a >= 400 && *b >= 400);
        ensure!(is_same && only_last, "cut at {cuts:?}: {parted:?} instead of {whole:?}");
    }
    Ok(())
}

fn check_head(input: &[u8]) -> Result<String, String> {
    let whole = serve(input, &[])?;
    let lines = input.iter().filter(|byte| **byte == b'\n').count();
    ensure!(whole.requests.len() * 2 <= lines, "more requests than lines make");
    ensure!(whole.statuses.len() <= whole.requests.len() + lines + 1, "more answers than requests");
    check_segments(input, &whole)?;
    let bodies = whole.bodies.iter().filter(|bytes| **bytes > 0).count();
    Ok(format!("{:?} {bodies}", &whole.statuses[..whole.statuses.len().min(4)]))
}

fn make_head(random: &mut Random) -> Vec<u8> {
    let field = |random: &mut Random| {
        let name = random.of(&[
            "Host",
            "Content-Length",
            "Transfer-Encoding",
            "Connection",
            "Expect",
            "X",
            "host",
            "Range",
            "X-\u{e9}",
            "",
        ]);
        let value = random.of(&[
            "a",
            "a:80",
            "[::1]",
            "0",
            "5",
            "5, 5",
            "+5",
            "chunked",
            "gzip, chunked",
            "CHUNKED",
            "close",
            "keep-alive",
            "100-continue",
            "",
            "\u{e9}",
            "a b",
            " a\t",
            "bytes=0-1",
        ]);
        let (colon, end) = (
            random.of(&[":", ": ", ": ", ": ", " :", ":\t"]),
            random.of(&["\r\n", "\r\n", "\r\n", "\r\n", "\n"]),
        );
        format!("{name}{colon}{value}{end}")
    };
    let request = |random: &mut Random| {
        let method =
            random.of(&["GET", "GET", "HEAD", "POST", "OPTIONS", "CONNECT", "TRACE", "FOO", "get", ""]);
        let target =
            random.of(&["/", "/a?b", "*", "http://h/x", "/%2e%2e/x", "/\u{e9}", "a:80", "/a/../b", "/%zz"]);
        let version =
            random.of(&["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "http/1.1", "HTTP/1.1 "]);
        let before = random.of(&["", "", "", "\r\n", "\n", "\r\n\r\n"]);
        let body = random.of(&[
            "",
            "",
            "hello",
            "5\r\nhello\r\n0\r\n\r\n",
            "0\r\nA: b\r\n\r\n",
            "5;a=\"b\"\r\nhello\r\n0\r\n\r\n",
        ]);
        let host = if random.once_in(8) { "" } else { "Host: a\r\n" };
        format!("{before}{method} {target} {version}\r\n{host}{}\r\n{body}", random.several(3, "", field))
    };
    random.several(3, "", request).into_bytes()
}

/// The requests of llhttp's vectors, as `tests/it/corpus.rs` has them, and those of our own list.
fn head_seeds() -> Vec<Vec<u8>> {
    let vectors = include_str!("../data/http1-requests.jsonl").lines();
    let vectors = vectors.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let mut seeds: Vec<Vec<u8>> =
        vectors.map(|vector| from_base64(vector["base64"].as_str().unwrap())).collect();
    // Found here: a method too long ended the connection in pieces, and not in one.
    seeds.push(b"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA / HTTP/1.1\r\nHost: a\r\n\r\n:".to_vec());
    seeds.push(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nHEAD /x HTTP/1.0\r\n\r\n".to_vec());
    seeds.push(
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: a\r\n\r\n"
            .to_vec(),
    );
    seeds
}

fn from_base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        let digit = ALPHABET.iter().position(|known| *known == byte).expect("base64");
        bits = bits << 6 | u32::try_from(digit).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    bytes
}

#[test]
fn heads() {
    let target = Target {
        name: "heads",
        inputs: 8_000,
        seeds: head_seeds(),
        words: &[
            "\r\n",
            "\n",
            "\r",
            "\r\n\r\n",
            ":",
            " ",
            "\t",
            "\0",
            "Host: a\r\n",
            "Content-Length: 3\r\n",
            "HTTP/1.1",
            "Transfer-Encoding: chunked\r\n",
            "Connection: close\r\n",
            "Expect: 100-continue\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "\x0b",
            "\u{e9}",
            "%00",
            "#",
            "0\r\n\r\n",
        ],
        make: make_head,
        kinds_min: 15,
    };
    engine::run(&target, &check_head);
}
