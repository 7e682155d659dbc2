//! Request heads: `httparse` for the grammar, and the strictness of RFC 9112 that it leaves out.

use std::mem::MaybeUninit;

use crate::limits::Limits;
use crate::message::Field;
use crate::semantics::head::{self, Refusal, Rules, Version, is_token_byte};

/// Largest accepted value of the `fields` limit: size of the array on the stack.
pub(super) const FIELDS_MAX: usize = 256;
/// Longest method that is still looked at as one; `MKREDIRECTREF` and the like have 13.
const METHOD_BYTES_MAX: usize = 32;
/// ` HTTP/1.1\r\n` behind the target.
const VERSION_BYTES: usize = 11;

/// Room for the fields of one head.
pub(super) type Storage<'a> = [MaybeUninit<Field<'a>>; FIELDS_MAX];

/// Room that nothing has been written to.
pub(super) const fn storage<'a>() -> Storage<'a> {
    [const { MaybeUninit::uninit() }; FIELDS_MAX]
}

/// A complete head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'a> {
    /// Method token.
    pub(super) method: &'a [u8],
    /// Request target.
    pub(super) target: &'a [u8],
    /// Protocol version.
    pub(super) version: Version,
    /// Field lines.
    pub(super) fields: &'a [Field<'a>],
    /// What they mean for the message.
    pub(super) rules: Rules<'a>,
    /// Bytes up to and with the empty line.
    pub(super) bytes: usize,
}

/// What stands at the beginning of some input.
#[derive(Debug)]
pub(super) enum Parsed<'a> {
    /// The beginning of a head.
    Partial,
    /// A head.
    Complete(Head<'a>),
    /// Something that is answered with an error and ends the connection.
    Refused(Refusal),
}

/// Reads a head at the start of `input`. Empty lines before it were skipped by the caller.
///
/// `line_start` is 0 for a new head and is moved on while it is partial, so that a head that comes in
/// single bytes is not looked at from its beginning each time.
pub(super) fn parse<'a>(
    input: &'a [u8],
    line_start: &mut usize,
    limits: &Limits,
    storage: &'a mut Storage<'a>,
) -> Parsed<'a> {
    match find_end(input, line_start) {
        Err(refusal) => Parsed::Refused(refusal),
        Ok(None) => match partial_refusal(input, limits) {
            Some(refusal) => Parsed::Refused(refusal),
            None => Parsed::Partial,
        },
        Ok(Some(end)) => match complete(&input[..end], limits, storage) {
            Ok(head) => Parsed::Complete(head),
            Err(refusal) => Parsed::Refused(refusal),
        },
    }
}

/// Where the head ends, behind its empty line. Every line must end with CRLF: RFC 9112 §2.2 allows a
/// lone LF to be taken for it, and two parsers that differ there can be played against each other.
fn find_end(input: &[u8], line_start: &mut usize) -> Result<Option<usize>, Refusal> {
    let from = *line_start;
    for line_feed in memchr::memchr_iter(b'\n', &input[from..]).map(|at| from + at) {
        if line_feed == *line_start || input[line_feed - 1] != b'\r' {
            return Err(Refusal::bad("line that does not end with CRLF"));
        }
        if line_feed == *line_start + 1 {
            return Ok(Some(line_feed + 1));
        }
        *line_start = line_feed + 1;
    }
    Ok(None)
}

/// What can be said before the head is complete: too large, or nothing that HTTP begins with.
fn partial_refusal(input: &[u8], limits: &Limits) -> Option<Refusal> {
    let method_end = input.iter().take(METHOD_BYTES_MAX).position(|byte| !is_token_byte(*byte));
    match method_end {
        Some(end) if end == 0 || input[end] != b' ' => return Some(Refusal::bad("not an HTTP request")),
        None if input.len() >= METHOD_BYTES_MAX => {
            return Some(METHOD_TOO_LONG);
        }
        _ => {}
    }
    let line_bytes = memchr::memchr(b'\n', input).unwrap_or(input.len());
    let line_bytes_max = as_usize(limits.target_bytes_max) + METHOD_BYTES_MAX + VERSION_BYTES;
    if line_bytes > line_bytes_max {
        return Some(TARGET_TOO_LONG);
    }
    (input.len() > as_usize(limits.head_bytes_max)).then_some(HEAD_TOO_LARGE)
}

/// Reason of the refusal at the limit `fields`.
pub(super) const TOO_MANY_FIELDS: &str = "too many fields";
const METHOD_TOO_LONG: Refusal = Refusal { status: 501, reason: "method too long" };
const TARGET_TOO_LONG: Refusal = Refusal { status: 414, reason: "request target too long" };
const HEAD_TOO_LARGE: Refusal = Refusal { status: 431, reason: "request head too large" };

fn complete<'a>(input: &'a [u8], limits: &Limits, storage: &'a mut Storage<'a>) -> Result<Head<'a>, Refusal> {
    let mut request = httparse::Request::new(&mut []);
    let fields_max = as_usize(limits.fields_max).min(FIELDS_MAX);
    let outcome = request.parse_with_uninit_headers(input, &mut storage[..fields_max]);
    // The target first: a long line is 414 even where the whole head is too large as well.
    let target = request.path.unwrap_or_default().as_bytes();
    if target.len() > as_usize(limits.target_bytes_max) {
        return Err(TARGET_TOO_LONG);
    }
    if input.len() > as_usize(limits.head_bytes_max) {
        return Err(HEAD_TOO_LARGE);
    }
    match outcome {
        Ok(httparse::Status::Complete(bytes)) if bytes == input.len() => {}
        // Cannot be: the end was found before. Refused rather than trusted.
        Ok(_) => return Err(Refusal::bad("head that ends in two places")),
        Err(error) => return Err(explain(error, input)),
    }
    let version = if request.version == Some(1) { Version::Http11 } else { Version::Http10 };
    let method = request.method.unwrap_or_default().as_bytes();
    // As for half a head: whether the connection lives on must not depend on how its bytes came.
    if method.len() >= METHOD_BYTES_MAX {
        return Err(METHOD_TOO_LONG);
    }
    let fields: &'a [Field<'a>] = request.headers;
    let rules = head::rules(version, fields.iter().map(|field| (field.name, field.value)))?;
    Ok(Head { method, target, version, fields, rules, bytes: input.len() })
}

fn explain(error: httparse::Error, input: &[u8]) -> Refusal {
    match error {
        httparse::Error::HeaderName => Refusal::bad("field name that is not a token"),
        httparse::Error::HeaderValue => Refusal::bad("field value with a control byte"),
        httparse::Error::NewLine => Refusal::bad("line that does not end with CRLF"),
        httparse::Error::TooManyHeaders => Refusal { status: 431, reason: TOO_MANY_FIELDS },
        httparse::Error::Version if names_other_version(input) => {
            Refusal { status: 505, reason: "version other than HTTP/1.0 and HTTP/1.1" }
        }
        httparse::Error::Token | httparse::Error::Version | httparse::Error::Status => {
            Refusal::bad("malformed request line")
        }
    }
}

/// Whether the request line ends with a well-formed version: `HTTP/` digit `.` digit.
fn names_other_version(input: &[u8]) -> bool {
    let line = input.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let version = line.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    let is_version = matches!(version, [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
        if major.is_ascii_digit() && minor.is_ascii_digit());
    // Ours on a line with a blank too many is a malformed line, not another version.
    is_version && !version.ends_with(b"/1.0") && !version.ends_with(b"/1.1")
}

fn as_usize(limit: u64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Status of the refusal, 0 for a partial head, 200 for a complete one.
    fn check(input: &[u8], expected: u16) {
        let limits =
            Limits { target_bytes_max: 100, head_bytes_max: 1024, fields_max: 8, ..Limits::default() };
        let mut storage = storage();
        let found = match parse(input, &mut 0, &limits, &mut storage) {
            Parsed::Partial => 0,
            Parsed::Complete(_) => 200,
            Parsed::Refused(refusal) => refusal.status,
        };
        assert_eq!(found, expected, "{:?}", String::from_utf8_lossy(input));
    }

    #[test]
    fn heads_are_complete_partial_or_refused() {
        check(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 200);
        check(b"GET / HTTP/1.1\r\nHost: a\r\n\r", 0);
        check(b"G", 0);
        check(b"GET / HTTP/1.0\r\n\r\nrest", 200);
        check(b"GET / HTTP/1.1\r\nHost: a\r\nX: D\xfcsseldorf\r\n\r\n", 200);
        for bad in [
            &b"GET / HTTP/1.1\nHost: a\r\n\r\n"[..],
            b"GET / HTTP/1.1\r\nHost: a\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\n\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\n X: b\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n",
            b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
            b" GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /\r\n\r\n",
            b"GET / ICE/1.0\r\nHost: a\r\n\r\n",
            b"GET / http/1.1\r\nHost: a\r\n\r\n",
            b"\x16\x03\x01\xff\xff",
            b"SSH-2.0\\",
            b"G\x80",
        ] {
            check(bad, 400);
        }
        check(b"GET / HTTP/5.6\r\n\r\n", 505);
        check(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505);
        let method = |bytes: usize, rest: &[u8]| [&b"A".repeat(bytes)[..], b" / HTTP/1.1\r\n", rest].concat();
        check(&method(31, b""), 0);
        check(&method(32, b""), 501);
        check(&method(31, b"Host: a\r\n\r\n"), 200);
        check(&method(32, b"Host: a\r\n\r\n"), 501);
    }

    #[test]
    fn sizes_are_told_apart() {
        let target =
            |bytes: usize| [b"GET /", &b"a".repeat(bytes)[..], b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
        check(&target(99), 200);
        check(&target(100), 414);
        check(&target(5000), 414);
        check(&target(5000)[..2000], 414);
        let field = |bytes: usize| {
            [b"GET / HTTP/1.1\r\nHost: a\r\nX: ", &b"a".repeat(bytes)[..], b"\r\n\r\n"].concat()
        };
        check(&field(900), 200);
        check(&field(1024), 431);
        check(&field(5000)[..2000], 431);
        let many = |count: usize| {
            [b"GET / HTTP/1.1\r\nHost: a\r\n", &b"X: y\r\n".repeat(count)[..], b"\r\n"].concat()
        };
        check(&many(7), 200);
        check(&many(8), 431);
    }
}
