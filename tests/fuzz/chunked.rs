//! Chunked bodies, against a second decoder that reads them line by line.

use scalws::limits::CHUNK_LINE_BYTES_MAX;

use super::engine::{self, Target, ensure};
use super::http1::{check_segments, limits, serve};
use super::input::Random;

/// What the strict reading of RFC 9112 §7.1 (ADR 0012) says of a chunked body.
#[derive(Debug, PartialEq, Eq)]
enum Chunked {
    /// Ends within the bytes; so many after decoding.
    Whole(u64),
    /// Could go on.
    Half,
    Refused,
}

/// A second decoder, line by line over all bytes at once.
fn decode(bytes: &[u8]) -> Chunked {
    let limits = limits();
    let (mut rest, mut decoded, mut extensions) = (bytes, 0_u64, 0);
    loop {
        let line = match line(rest) {
            Ok(Some(line)) => line,
            Ok(None) => return half(rest, CHUNK_LINE_BYTES_MAX),
            Err(()) => return Chunked::Refused,
        };
        let text = String::from_utf8_lossy(line).into_owned();
        let (size, extension) = text.split_at(text.find(';').unwrap_or(text.len()));
        let is_size = (1..=15).contains(&size.len()) && size.bytes().all(|byte| byte.is_ascii_hexdigit());
        let extension_bytes = &line[size.len().min(line.len())..];
        extensions += extension_bytes.len() as u64;
        if !is_size || !are_extensions(extension_bytes) || extensions > limits.chunk_extension_bytes_max {
            return Chunked::Refused;
        }
        debug_assert!(extension.is_empty() || extension.starts_with(';'));
        rest = &rest[line.len() + 2..];
        let size = u64::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return trailers(rest, decoded);
        }
        decoded += size;
        if decoded > limits.body_bytes_max {
            return Chunked::Refused;
        }
        let Some((_, after)) = rest.split_at_checked(usize::try_from(size).unwrap()) else {
            return Chunked::Half;
        };
        rest = match after {
            [b'\r', b'\n', after @ ..] => after,
            [] | [b'\r'] => return Chunked::Half,
            _ => return Chunked::Refused,
        };
    }
}

fn trailers(mut rest: &[u8], decoded: u64) -> Chunked {
    let (mut bytes, mut lines) = (0, 0);
    loop {
        let line = match line(rest) {
            Ok(Some(line)) => line,
            Ok(None) => return half(rest, usize::try_from(limits().head_bytes_max).unwrap() - bytes),
            Err(()) => return Chunked::Refused,
        };
        // The bound is on lines with their ends; a line may reach it but for its own end.
        bytes += line.len() + 2;
        if line.is_empty() {
            return Chunked::Whole(decoded);
        }
        lines += 1;
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return Chunked::Refused };
        let is_value = |byte: &u8| matches!(byte, b'\t' | 0x20..=0x7e | 0x80..);
        let is_field = token(&line[..colon]) == Some(colon) && line[colon + 1..].iter().all(is_value);
        if !is_field
            || lines > limits().fields_max
            || bytes > usize::try_from(limits().head_bytes_max).unwrap()
        {
            return Chunked::Refused;
        }
        rest = &rest[line.len() + 2..];
    }
}

/// A line that is not there yet; one that is too long already is refused, and what is sure to be wrong
/// may be.
fn half(rest: &[u8], bytes_max: usize) -> Chunked {
    if rest.len() > bytes_max { Chunked::Refused } else { Chunked::Half }
}

/// The first line without its CRLF; neither byte stands alone.
fn line(rest: &[u8]) -> Result<Option<&[u8]>, ()> {
    let Some(end) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else { return Ok(None) };
    match rest[end..] {
        [b'\r', b'\n', ..] => Ok(Some(&rest[..end])),
        [b'\r'] => Ok(None),
        _ => Err(()),
    }
}

/// Length of the token at the start; `None` where there is none.
fn token(bytes: &[u8]) -> Option<usize> {
    let is_tchar = |byte: &&u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    Some(bytes.iter().take_while(is_tchar).count()).filter(|length| *length > 0)
}

/// *( ";" token [ "=" ( token / quoted-string ) ] ) without any space around.
fn are_extensions(mut rest: &[u8]) -> bool {
    while let [b';', after @ ..] = rest {
        let Some(length) = token(after) else { return false };
        rest = &after[length..];
        let [b'=', value @ ..] = rest else { continue };
        let length = match value {
            [b'"', quoted @ ..] => quoted_length(quoted).map(|length| length + 1),
            _ => token(value),
        };
        let Some(length) = length else { return false };
        rest = &value[length..];
    }
    rest.is_empty()
}

/// Bytes up to and with the closing quote.
fn quoted_length(quoted: &[u8]) -> Option<usize> {
    let (mut at, is_text) = (0, |byte: u8| matches!(byte, b'\t' | 0x20..=0x7e | 0x80..));
    loop {
        match *quoted.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' if is_text(*quoted.get(at + 1)?) => at += 2,
            b'\\' => return None,
            byte if is_text(byte) => at += 1,
            _ => return None,
        }
    }
}

fn check_body(input: &[u8]) -> Result<String, String> {
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let message = [head, input].concat();
    let whole = serve(&message, &[])?;
    let expected = decode(input);
    let first = (whole.bodies.first(), whole.statuses.first());
    let is_right = match (&expected, first) {
        (Chunked::Whole(decoded), (Some(found), Some(204))) => found == decoded,
        (Chunked::Refused, (None, Some(400 | 413))) => true,
        (Chunked::Half, (None, None)) => true,
        // What is half may be wrong already: refused early.
        (Chunked::Half, (None, Some(400 | 413))) => true,
        _ => false,
    };
    ensure!(is_right, "{expected:?}, and the engine: {whole:?}");
    check_segments(&message, &whole)?;
    Ok(match expected {
        Chunked::Whole(decoded) => format!("whole {}", decoded.min(20)),
        other => format!("{other:?} {:?}", whole.statuses.first()),
    })
}

#[test]
fn chunked_bodies() {
    let seeds = [
        "0\r\n\r\n",
        "5\r\nhello\r\n0\r\n\r\n",
        "5;a=\"b;\\\"\"\r\nhello\r\n0\r\nExpires: never\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",
    ];
    let target = Target {
        name: "chunked-bodies",
        inputs: 8_000,
        seeds: seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect(),
        words: &[
            "\r\n",
            "\n",
            "\r",
            "0\r\n",
            "0\r\n\r\n",
            ";",
            "=",
            "\"",
            "\\",
            " ",
            "\t",
            "5\r\nhello\r\n",
            "A: b\r\n",
            ":",
            "f",
            "ffffffffffffffff",
        ],
        make: |random| {
            let chunk = |random: &mut Random| {
                let length = random.below(20);
                let extension =
                    random.of(&["", "", "", ";a", ";a=b", ";a=\"b\\\"\"", " ", ";", ";a=", ";a= b"]);
                let end = random.of(&["\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\n", ""]);
                format!("{length:x}{extension}\r\n{}{end}", "x".repeat(length))
            };
            let trailer = |random: &mut Random| {
                random
                    .of(&["A: b\r\n", "A:\r\n", "A\r\n", ": b\r\n", "A: \u{e9}\r\n", " A: b\r\n"])
                    .to_owned()
            };
            let last = random.of(&["0\r\n", "0\r\n", "000\r\n", "0;a\r\n", ""]);
            format!("{}{last}{}\r\n", random.several(5, "", chunk), random.several(2, "", trailer))
                .into_bytes()
        },
        kinds_min: 15,
    };
    engine::run(&target, &check_body);
}
