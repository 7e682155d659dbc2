//! What a request must get, and whether an answer is that: status, the exact fields, the bytes.

use std::ops::Range;

use super::codings::{self, CODINGS};
use super::conditions::{self, Fields, Outcome};
use super::dates::{self, Form};
use super::files::File;
use super::ranges::{self, Set};
use super::requests::Request;
use super::tags::trim;
use crate::support::Response;

/// The whole answer but for Date and the boundary of parts.
struct Expected<'a> {
    status: u16,
    /// Names in lower case.
    fields: Vec<(&'static str, String)>,
    body: Body<'a>,
}

enum Body<'a> {
    /// None and no length: 204 and 304 (§8.6).
    None,
    /// Our text for an error: no RFC says which.
    Text,
    Bytes(&'a [u8]),
    /// multipart/byteranges (§14.6)
    Parts(&'a [u8], Vec<Range<u64>>),
}

/// `None` where the answer is right, otherwise what was expected.
pub fn fault(request: &Request, file: &File, response: &Response, now_s: i64) -> Option<String> {
    let expected = expect(request, file, now_s);
    let outcome = check(&expected, request.method == "HEAD", response);
    outcome.err().map(|reason| {
        let fields: String =
            expected.fields.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        format!("{reason}\nexpected {}\n{fields}", expected.status)
    })
}

/// The fields of the literal request, read by the rules of RFC 9112 §5.
fn fields(request: &Request) -> Fields<'_> {
    let lines = request.bytes.split("\r\n").skip(1).take_while(|line| !line.is_empty());
    Fields(
        lines
            .map(|line| line.split_once(':').expect("a field"))
            .map(|(name, value)| (name, trim(value.as_bytes())))
            .collect(),
    )
}

fn expect<'a>(request: &Request, file: &'a File, now_s: i64) -> Expected<'a> {
    // On every answer of a static route (ADR 0018).
    let mut known = vec![("x-content-type-options", "nosniff".to_owned())];
    let plain = |status, mut known: Vec<_>, body| {
        known.push(("content-type", "text/plain; charset=utf-8".to_owned()));
        Expected { status, fields: known, body }
    };
    // §13.2.1: conditions are for what would be 2xx, and not for methods that select nothing.
    match request.method {
        "GET" | "HEAD" => {}
        "OPTIONS" => {
            known.push(("allow", "GET, HEAD, OPTIONS".to_owned()));
            return Expected { status: 204, fields: known, body: Body::None };
        }
        _ => {
            // §15.5.6: MUST generate an Allow.
            known.push(("allow", "GET, HEAD, OPTIONS".to_owned()));
            return plain(405, known, Body::Text);
        }
    }
    let asked = fields(request);
    let (version, coding) = file.selected(&codings::order(&asked.lines("accept-encoding")));
    let validators = version.validators(coding.map_or("", |number| CODINGS[number].2), now_s);
    // §12.5.5 and §15.4.5: on every answer that was chosen by it (ADR 0017).
    known.extend(file.is_negotiated.then(|| ("vary", "Accept-Encoding".to_owned())));
    known.extend(validators.tag.clone().map(|tag| ("etag", tag)));
    let cache_control = file.cache_control.map(|value| ("cache-control", value.to_owned()));
    let range_counts = match conditions::evaluate(&asked, &validators) {
        Outcome::NotModified => {
            // §15.4.5: Cache-Control, ETag, Vary MUST; Last-Modified SHOULD NOT where there is a tag.
            known.extend(cache_control);
            return Expected { status: 304, fields: known, body: Body::None };
        }
        Outcome::Failed => return plain(412, known, Body::Text),
        // §14.2: a range is for GET alone.
        Outcome::Goes { range_counts } => range_counts && request.method == "GET",
    };
    let size = version.content.len() as u64;
    known.extend(validators.modified_s.map(|seconds| ("last-modified", dates::print(seconds, Form::Imf))));
    known.push(("accept-ranges", "bytes".to_owned()));
    let set =
        asked.once("range").filter(|_| range_counts).map_or(Set::Ignored, |value| ranges::read(value, size));
    let set = match set {
        // Content-Encoding would cover the text around the parts (ADR 0017).
        Set::Parts(parts) if parts.len() > 1 && coding.is_some() => Set::Ignored,
        set => set,
    };
    let encoding = coding.map(|number| ("content-encoding", CODINGS[number].0.to_owned()));
    let content_type = ("content-type", file.content_type.to_owned());
    match set {
        Set::Unsatisfiable => {
            // §15.5.17; an error is not for caches to keep (ADR 0018).
            known.push(("content-range", format!("bytes */{size}")));
            plain(416, known, Body::Text)
        }
        Set::Ignored => {
            known.extend(cache_control.into_iter().chain(encoding).chain([content_type]));
            Expected { status: 200, fields: known, body: Body::Bytes(&version.content) }
        }
        // §15.3.7.1: with Content-Range. With If-Range the rest SHOULD NOT be repeated; we do.
        Set::Parts(parts) if parts.len() == 1 => {
            known.extend(cache_control.into_iter().chain(encoding).chain([content_type]));
            known.push(("content-range", content_range(&parts[0], size)));
            Expected { status: 206, fields: known, body: Body::Bytes(cut(&version.content, &parts[0])) }
        }
        // §15.3.7.2: MUST NOT have Content-Range in the head. The type is compared with its boundary.
        Set::Parts(parts) => {
            known.extend(cache_control);
            Expected { status: 206, fields: known, body: Body::Parts(&version.content, parts) }
        }
    }
}

fn content_range(part: &Range<u64>, size: u64) -> String {
    format!("bytes {}-{}/{size}", part.start, part.end - 1)
}

fn cut<'a>(content: &'a [u8], part: &Range<u64>) -> &'a [u8] {
    &content[usize::try_from(part.start).unwrap()..usize::try_from(part.end).unwrap()]
}

fn check(expected: &Expected<'_>, is_head: bool, response: &Response) -> Result<(), String> {
    if response.status != expected.status {
        return Err("another status".to_owned());
    }
    let mut wanted = expected.fields.clone();
    let mut found: Vec<(String, String)> = Vec::new();
    let mut parts_type = None;
    for (name, value) in &response.fields {
        match name.to_ascii_lowercase().as_str() {
            // §6.6.1, and the one form that may be generated (§5.6.7).
            "date" => {
                let again = dates::read(value.as_bytes(), 0).map(|seconds| dates::print(seconds, Form::Imf));
                if again.as_ref() != Some(value) {
                    return Err(format!("Date is {value}"));
                }
            }
            "content-type" if matches!(expected.body, Body::Parts(..)) => parts_type = Some(value.as_str()),
            name => found.push((name.to_owned(), value.clone())),
        }
    }
    let length = match &expected.body {
        Body::None => None,
        Body::Bytes(bytes) => Some(bytes.len()),
        Body::Text => Some(text(response).len()),
        Body::Parts(content, ranges) => {
            let boundary = parts_type.and_then(|value| value.strip_prefix("multipart/byteranges; boundary="));
            check_parts(
                &response.body,
                boundary.ok_or("no type of several parts")?,
                content,
                ranges,
                expected,
            )?;
            Some(response.body.len())
        }
    };
    wanted.extend(length.map(|length| ("content-length", length.to_string())));
    let mut wanted: Vec<(String, String)> =
        wanted.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    wanted.sort();
    found.sort();
    if found != wanted {
        let missing: Vec<_> = wanted.iter().filter(|field| !found.contains(field)).collect();
        let other: Vec<_> = found.iter().filter(|field| !wanted.contains(field)).collect();
        return Err(format!("other fields: {missing:?} missing, {other:?} there"));
    }
    let body: &[u8] = match &expected.body {
        _ if is_head => b"",
        Body::None => b"",
        Body::Bytes(bytes) => bytes,
        Body::Text => &text(response),
        Body::Parts(..) => return Ok(()),
    };
    let differs = response.body.iter().zip(body).position(|(a, b)| a != b);
    if response.body != body {
        return Err(format!("{} bytes for {}, another one at {differs:?}", response.body.len(), body.len()));
    }
    Ok(())
}

/// What our errors say: their status line without the version.
fn text(response: &Response) -> Vec<u8> {
    let line = response.head.split("\r\n").next().unwrap_or_default();
    format!("{}\n", line.strip_prefix("HTTP/1.1 ").unwrap_or_default()).into_bytes()
}

/// A body of several parts (RFC 2046 §5.1.1), from its first byte to its last.
fn check_parts(
    body: &[u8],
    boundary: &str,
    content: &[u8],
    ranges: &[Range<u64>],
    expected: &Expected<'_>,
) -> Result<(), String> {
    let is_bchars = boundary.len() <= 70
        && boundary.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"'()+_-./".contains(&byte));
    if boundary.is_empty() || !is_bchars {
        return Err(format!("boundary {boundary:?}"));
    }
    let mut rest = body;
    for (number, range) in ranges.iter().enumerate() {
        let opening = format!("{}--{boundary}\r\n", if number == 0 { "" } else { "\r\n" });
        let Some(part) = rest.strip_prefix(opening.as_bytes()) else {
            return Err(format!("no part {number}"));
        };
        let end = part.windows(4).position(|window| window == b"\r\n\r\n").ok_or("a part without a head")?;
        let head = String::from_utf8_lossy(&part[..end]).to_ascii_lowercase();
        let mut lines: Vec<&str> = head.split("\r\n").collect();
        lines.sort_unstable();
        let range_line = format!("content-range: {}", content_range(range, content.len() as u64));
        let is_typed = lines.len() == 2 && lines[1].starts_with("content-type: ");
        if !is_typed || lines[0] != range_line {
            return Err(format!("part {number} has {lines:?}, expected {range_line}"));
        }
        let bytes = cut(content, range);
        rest = part[end + 4..].strip_prefix(bytes).ok_or(format!("other bytes in part {number}"))?;
    }
    if rest != format!("\r\n--{boundary}--\r\n").as_bytes() {
        return Err(format!("no end behind the last part of {}", expected.status));
    }
    Ok(())
}
