//! Request targets (RFC 9112 §3.2) and paths that are safe to resolve (RFC 3986 §3.3, §5.2.4, §6.2.2).
//!
//! A path is split at its literal slashes first and decoded exactly once afterwards, so a decoded
//! byte can never become a separator; router and file lookup see the same result.
//! This module knows neither routes nor files.

use std::borrow::Cow;

/// A request target, taken apart but not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// `/path?query`, or `http://authority/path?query` (RFC 9112 §3.2.1, §3.2.2).
    Path {
        /// Host and port of the absolute form; it replaces the Host field.
        authority: Option<&'a [u8]>,
        /// Begins with `/`.
        path: &'a [u8],
        /// What follows the first `?`.
        query: Option<&'a [u8]>,
    },
    /// `*` (RFC 9112 §3.2.4).
    Asterisk,
}

/// Why a target or a path is answered 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadTarget(
    /// What is wrong, for the log.
    pub &'static str,
);

impl<'a> Target<'a> {
    /// Takes a request target apart.
    ///
    /// # Errors
    /// Bytes outside visible ASCII, a `#` (a fragment is no part of a target, RFC 9112 §3.2),
    /// user information (RFC 9110 §4.2.4), or a form that is none of the above.
    pub fn parse(target: &'a [u8]) -> Result<Target<'a>, BadTarget> {
        if target.iter().any(|byte| !matches!(byte, 0x21..=0x7e) || *byte == b'#') {
            return Err(BadTarget("byte in the request target that no URI may contain"));
        }
        if target == b"*" {
            return Ok(Target::Asterisk);
        }
        if target.first() == Some(&b'/') {
            let (path, query) = split_query(target);
            return Ok(Target::Path { authority: None, path, query });
        }
        let rest =
            strip_scheme(target).ok_or(BadTarget("request target is neither a path nor an absolute URI"))?;
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        if authority.is_empty() || authority.contains(&b'@') {
            return Err(BadTarget("absolute URI without a plain host"));
        }
        let (path, query) = split_query(rest);
        // RFC 3986 §6.2.3: an http URI with an empty path is the same as one with `/`.
        Ok(Target::Path {
            authority: Some(authority),
            path: if path.is_empty() { b"/" } else { path },
            query,
        })
    }
}

fn split_query(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'?', target) {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    }
}

fn strip_scheme(target: &[u8]) -> Option<&[u8]> {
    let strip = |scheme: &[u8]| {
        let head = target.get(..scheme.len())?;
        head.eq_ignore_ascii_case(scheme).then(|| &target[scheme.len()..])
    };
    strip(b"http://").or_else(|| strip(b"https://"))
}

/// A normalised path: no empty segment, no dot segment, decoded once.
///
/// Runs of slashes count as one, as nginx and most file servers have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SafePath<'a> {
    decoded: Cow<'a, [u8]>,
    escaped: Cow<'a, [u8]>,
}

impl<'a> SafePath<'a> {
    /// Normalises a path.
    ///
    /// # Errors
    /// No slash at its beginning, a broken escape, `%00`, or dot segments that climb above the root.
    pub fn parse(path: &'a [u8]) -> Result<SafePath<'a>, BadTarget> {
        if path.first() != Some(&b'/') {
            return Err(BadTarget("path without a slash at its beginning"));
        }
        if is_plain(path) {
            return Ok(SafePath { decoded: Cow::Borrowed(&path[1..]), escaped: Cow::Borrowed(path) });
        }
        Self::normalise(path)
    }

    /// Without the leading slash; a trailing slash stays (`docs/`), the root is empty. A NUL with a
    /// letter stands for an encoded slash or backslash: no file name contains one, so such a path is
    /// a miss.
    #[must_use]
    pub fn decoded(&self) -> &[u8] {
        &self.decoded
    }

    /// `decoded` without its trailing slash.
    #[must_use]
    pub fn segments(&self) -> &[u8] {
        self.decoded.strip_suffix(b"/").unwrap_or(&self.decoded)
    }

    /// The same path in escaped form: exactly one leading slash, only bytes that RFC 3986 allows in
    /// a path; fit for a `Location`.
    #[must_use]
    pub fn escaped(&self) -> &[u8] {
        &self.escaped
    }

    /// Whether the path names a directory: it ends with a slash.
    #[must_use]
    pub fn has_trailing_slash(&self) -> bool {
        self.decoded.is_empty() || self.decoded.ends_with(b"/")
    }

    fn normalise(path: &[u8]) -> Result<SafePath<'a>, BadTarget> {
        let mut decoded = Vec::with_capacity(path.len());
        let mut escaped = Vec::with_capacity(path.len() + 8);
        // Where each kept segment starts in both, so that `..` can take it back.
        let mut starts = Vec::new();
        let mut ends_open = true;
        for segment in path[1..].split(|byte| *byte == b'/') {
            let (decoded_start, escaped_start) = (decoded.len(), escaped.len());
            escaped.push(b'/');
            decode_segment(segment, &mut decoded, &mut escaped)?;
            let plain = &decoded[decoded_start..];
            let is_parent = plain == b"..";
            ends_open = plain.is_empty() || plain == b"." || is_parent;
            if !ends_open {
                starts.push((decoded_start, escaped_start));
                decoded.push(b'/');
                continue;
            }
            decoded.truncate(decoded_start);
            escaped.truncate(escaped_start);
            if is_parent {
                let (decoded_start, escaped_start) =
                    starts.pop().ok_or(BadTarget("dot segments climb above the root"))?;
                decoded.truncate(decoded_start);
                escaped.truncate(escaped_start);
            }
        }
        if ends_open {
            escaped.push(b'/');
        } else {
            decoded.pop();
        }
        Ok(SafePath { decoded: Cow::Owned(decoded), escaped: Cow::Owned(escaped) })
    }
}

/// Whether the path is its own normal form: nothing to decode, escape, merge or remove.
fn is_plain(path: &[u8]) -> bool {
    let mut previous = 0;
    for byte in path {
        if !is_pchar_or_slash(*byte) || (previous == b'/' && matches!(byte, b'/' | b'.')) {
            return false;
        }
        previous = *byte;
    }
    true
}

/// `pchar` of RFC 3986 §3.3 without escapes, or a slash.
fn is_pchar_or_slash(byte: u8) -> bool {
    const TABLE: [bool; 256] = {
        let mut table = [false; 256];
        let allowed = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:@/";
        let mut at = 0;
        while at < allowed.len() {
            table[allowed[at] as usize] = true;
            at += 1;
        }
        table
    };
    TABLE[usize::from(byte)]
}

/// What stands for `%2F` and `%5C` in a decoded path: different from each other and from every name.
const ENCODED_SLASH: &[u8] = b"\x00F";
const ENCODED_BACKSLASH: &[u8] = b"\x00C";

/// Decodes one segment and writes its escaped form beside it.
fn decode_segment(segment: &[u8], decoded: &mut Vec<u8>, escaped: &mut Vec<u8>) -> Result<(), BadTarget> {
    let mut at = 0;
    while at < segment.len() {
        let byte = segment[at];
        if byte != b'%' {
            decoded.push(byte);
            push_escaped(byte, escaped);
            at += 1;
            continue;
        }
        let value =
            segment.get(at + 1..at + 3).and_then(hex_byte).ok_or(BadTarget("broken percent-escape"))?;
        match value {
            0 => return Err(BadTarget("encoded NUL in the path")),
            b'/' => decoded.extend_from_slice(ENCODED_SLASH),
            b'\\' => decoded.extend_from_slice(ENCODED_BACKSLASH),
            value => decoded.push(value),
        }
        escaped.extend_from_slice(&segment[at..at + 3]);
        at += 3;
    }
    Ok(())
}

/// Appends `byte` as it may stand in a path: itself, or its percent-escape.
pub fn push_escaped(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    if is_pchar_or_slash(byte) {
        out.push(byte);
    } else {
        out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
}

fn hex_byte(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16);
    let value = digit(digits[0])? * 16 + digit(digits[1])?;
    u8::try_from(value).ok()
}

/// Whether a segment of the relative path begins with a dot. `.well-known` (RFC 8615) at the start
/// of a request's path is the one exception; the caller says whether `relative` starts there.
#[must_use]
pub fn has_hidden_segment(relative: &[u8], at_root: bool) -> bool {
    let open = at_root && (relative == b".well-known" || relative.starts_with(b".well-known/"));
    let (first_may_be_hidden, rest) = (open, relative);
    if !first_may_be_hidden && rest.first() == Some(&b'.') {
        return true;
    }
    // Not by memmem: to make its searcher costs more than to look at the bytes of most paths.
    rest.windows(2).any(|pair| pair == b"/.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: Result<(&str, &str), &str>) {
        let found = SafePath::parse(path.as_bytes());
        let found = found.as_ref().map(|path| (path.decoded(), path.escaped())).map_err(|error| error.0);
        let expected = expected.map(|(decoded, escaped)| (decoded.as_bytes(), escaped.as_bytes()));
        assert_eq!(found, expected, "{path}");
    }

    #[test]
    fn paths_are_normalised_and_decoded_once() {
        check("/", Ok(("", "/")));
        check("/a/b.txt", Ok(("a/b.txt", "/a/b.txt")));
        check("/a/", Ok(("a/", "/a/")));
        check("//a///b", Ok(("a/b", "/a/b")));
        check("/a/./b/.", Ok(("a/b/", "/a/b/")));
        check("/a/../x.txt", Ok(("x.txt", "/x.txt")));
        check("/a/b/..", Ok(("a/", "/a/")));
        check("/a/%2e%2E/x", Ok(("x", "/x")));
        check("/%252e%252e/x", Ok(("%2e%2e/x", "/%252e%252e/x")));
        check("/sub%2ff", Ok(("sub\x00Ff", "/sub%2ff")));
        check("/sub%5Cf", Ok(("sub\x00Cf", "/sub%5Cf")));
        check("/\\evil.example", Ok(("\\evil.example", "/%5Cevil.example")));
        check("/a%20b", Ok(("a b", "/a%20b")));
        check("/a\"b|c", Ok(("a\"b|c", "/a%22b%7Cc")));
        check("/..x/x..", Ok(("..x/x..", "/..x/x..")));
        check("/%0d%0aX:1", Ok(("\r\nX:1", "/%0d%0aX:1")));
    }

    #[test]
    fn paths_that_climb_or_are_broken_are_refused() {
        let climb = "dot segments climb above the root";
        for path in ["/..", "/../x", "/%2e%2e/x", "/.%2e/x", "/x.txt/../../secret", "//../x", "/a/../../x"] {
            check(path, Err(climb));
        }
        for path in ["/%", "/%2", "/%zz", "/x%+1", "/%-1"] {
            check(path, Err("broken percent-escape"));
        }
        check("/x%00.png", Err("encoded NUL in the path"));
        for path in ["", "a", "..", "%2f"] {
            check(path, Err("path without a slash at its beginning"));
        }
    }

    #[test]
    fn targets_have_the_forms_of_rfc_9112() {
        let path = |authority, path, query| Ok(Target::Path { authority, path, query });
        let parse = |target: &'static str| Target::parse(target.as_bytes());
        assert_eq!(parse("/a?b=%zz?c"), path(None, b"/a" as &[u8], Some(b"b=%zz?c" as &[u8])));
        assert_eq!(parse("*"), Ok(Target::Asterisk));
        assert_eq!(parse("HTTP://a:1?x"), path(Some(b"a:1" as &[u8]), b"/" as &[u8], Some(b"x" as &[u8])));
        assert_eq!(parse("https://a/b"), path(Some(b"a" as &[u8]), b"/b" as &[u8], None));
        for bad in ["a:443", "**", "", "/a#b", "/\u{e9}", "http://", "http://u@h/", "ftp://a/"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn hidden_names_are_found_by_the_request() {
        for (relative, at_root, hidden) in [
            ("a/b", true, false),
            (".git/config", true, true),
            ("a/.env", true, true),
            (".well-known/security.txt", true, false),
            (".well-known/.x", true, true),
            (".well-known/x", false, true),
            (".well-knownx", true, true),
            ("x..", true, false),
        ] {
            assert_eq!(has_hidden_segment(relative.as_bytes(), at_root), hidden, "{relative}");
        }
    }
}
