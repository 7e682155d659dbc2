//! Answers as bytes (RFC 9112 §4): status line, Date, the handler's fields, and what belongs to the
//! connection.

use super::identify::push_fields;
use crate::connection::clock::Clock;
use crate::semantics::head::Version;
use crate::semantics::status;
use crate::telemetry::identity::Identity;
use crate::telemetry::record::Record;

/// What a request means for its answer; a copy of the few facts, because the head may be gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meta {
    /// Version of the request.
    pub(super) version: Version,
    /// The client wants to go on with the connection, and nothing speaks against it.
    pub(super) keep_alive: bool,
    /// A HEAD request: everything but the body.
    pub(super) is_head: bool,
}

/// Appends a whole head with its empty line. `body_bytes` is the length that a GET would get.
pub(super) fn push_head(
    out: &mut Vec<u8>,
    clock: &Clock,
    meta: &Meta,
    status: u16,
    fields: &[u8],
    body_bytes: u64,
    known_as: Option<(&Identity, &Record)>,
) {
    if status == 200 {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\nDate: ");
    } else {
        out.extend_from_slice(b"HTTP/1.1 ");
        push_decimal(out, u64::from(status));
        out.push(b' ');
        out.extend_from_slice(status::reason(status).as_bytes());
        out.extend_from_slice(b"\r\nDate: ");
    }
    clock.push_date(out);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(fields);
    if let Some((identity, record)) = known_as {
        push_fields(out, identity, record);
    }
    // RFC 9110 §8.6: never in 204; 304 may carry the length of the 200, which we leave out.
    if !status::is_bodiless(status) {
        out.extend_from_slice(b"Content-Length: ");
        push_decimal(out, body_bytes);
        out.extend_from_slice(b"\r\n");
    }
    match (meta.keep_alive, meta.version) {
        (false, _) => out.extend_from_slice(b"Connection: close\r\n\r\n"),
        (true, Version::Http10) => out.extend_from_slice(b"Connection: keep-alive\r\n\r\n"),
        (true, Version::Http11) => out.extend_from_slice(b"\r\n"),
    }
}

/// Appends a number in decimal digits.
pub(super) fn push_decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        // A remainder of ten is one digit.
        digits[start] = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_say_what_belongs_to_the_connection() {
        let check = |version, keep_alive, status, body_bytes, expected: &str| {
            let mut out = Vec::new();
            let meta = Meta { version, keep_alive, is_head: false };
            push_head(&mut out, &Clock::default(), &meta, status, b"A: b\r\n", body_bytes, None);
            let text = String::from_utf8(out).unwrap();
            let (before, after) = text.split_once("Date: ").unwrap();
            assert_eq!(format!("{before}{}", &after[31..]), expected);
        };
        check(Version::Http11, true, 200, 0, "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 0\r\n\r\n");
        check(
            Version::Http11,
            false,
            404,
            18_446_744_073_709_551_615,
            "HTTP/1.1 404 Not Found\r\nA: b\r\nContent-Length: 18446744073709551615\r\nConnection: close\r\n\r\n",
        );
        check(
            Version::Http10,
            true,
            304,
            7,
            "HTTP/1.1 304 Not Modified\r\nA: b\r\nConnection: keep-alive\r\n\r\n",
        );
        check(Version::Http11, true, 299, 9, "HTTP/1.1 299 \r\nA: b\r\nContent-Length: 9\r\n\r\n");
    }
}
