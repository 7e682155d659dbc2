//! Request targets and paths: whatever a client writes, what is looked up lies beneath the root.

use scalws::semantics::path::{SafePath, Target as Uri, has_hidden_segment};

use super::engine::{self, Target, ensure};
use super::input::Random;

fn make(random: &mut Random) -> Vec<u8> {
    const PIECES: [&str; 22] = [
        "a",
        "..",
        ".",
        "%2e",
        "%2E%2e",
        ".%2e",
        "%2f",
        "%5c",
        "\\",
        "%00",
        "%",
        "%zz",
        "%c3%a9",
        "%252e",
        ".git",
        ".well-known",
        "b.txt",
        "",
        " ",
        "~",
        "%41",
        "...",
    ];
    let segment = |random: &mut Random| random.several(3, "", |random| random.of(&PIECES).to_owned());
    let origin = random.of(&["", "", "", "http://a", "https://a:1", "HTTP://[::1]"]);
    let query = random.of(&["", "", "?", "?a=%zz", "?/../x", "#f"]);
    format!("{origin}/{}{query}", random.several(6, "/", segment)).into_bytes()
}

/// What RFC 3986 §5.2.4 leaves of segments that are decoded already; `None` above the root.
fn without_dots<'a>(segments: impl Iterator<Item = &'a [u8]>) -> Option<Vec<Vec<u8>>> {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for segment in segments {
        match decode(segment)?.as_slice() {
            b"" | b"." => {}
            b".." => drop(kept.pop()?),
            other => kept.push(other.to_vec()),
        }
    }
    Some(kept)
}

/// Decoded once; what was a separator only when encoded is NUL and a letter, as `SafePath` says.
fn decode(segment: &[u8]) -> Option<Vec<u8>> {
    let mut parts = segment.split(|byte| *byte == b'%');
    let mut decoded = parts.next()?.to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        match u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()? {
            0 => return None,
            b'/' => decoded.extend(b"\0F"),
            b'\\' => decoded.extend(b"\0C"),
            byte => decoded.push(byte),
        }
        decoded.extend(rest);
    }
    Some(decoded)
}

fn check(input: &[u8]) -> Result<String, String> {
    // A config has paths of its own, which no target went before.
    ensure!(input.starts_with(b"/") || SafePath::parse(input).is_err(), "a path without a slash is taken");
    let (path, kind) = match Uri::parse(input) {
        Err(error) => return Ok(error.0.to_owned()),
        Ok(Uri::Asterisk) => return Ok("asterisk".to_owned()),
        Ok(Uri::Path { authority, path, query }) => {
            ensure!(path.starts_with(b"/"), "a path without a slash");
            ensure!(!path.contains(&b'?'), "a path with its query");
            (path, format!("{} {}", authority.is_some(), query.is_some()))
        }
    };
    let expected = without_dots(path[1..].split(|byte| *byte == b'/'));
    let safe = match (SafePath::parse(path), &expected) {
        (Err(error), None) => return Ok(error.0.to_owned()),
        (Err(error), Some(kept)) => return Err(format!("refused ({}), expected {kept:?}", error.0)),
        (Ok(_), None) => return Err("taken, though it climbs or is broken".to_owned()),
        (Ok(safe), Some(_)) => safe,
    };
    let kept = expected.unwrap_or_default();
    ensure!(
        safe.segments() == kept.join(&b'/'),
        "{:?} instead of {kept:?}",
        safe.segments().escape_ascii().to_string()
    );
    for segment in safe.segments().split(|byte| *byte == b'/').filter(|_| !kept.is_empty()) {
        ensure!(!matches!(segment, b"" | b"." | b".."), "a segment that is none");
    }
    ensure!(!safe.decoded().starts_with(b"/"), "beneath nothing: absolute");
    ensure!(safe.decoded().len() <= path.len(), "longer than what was sent");
    // Ends as it was sent: with a slash or a segment that names a directory.
    let last = path.rsplit(|byte| *byte == b'/').next().and_then(decode).unwrap_or_default();
    let names_directory = matches!(last.as_slice(), b"" | b"." | b"..");
    ensure!(safe.has_trailing_slash() == names_directory, "another kind of end");

    // Written and read again it is itself: a redirect leads to what it names.
    let escaped = safe.escaped();
    ensure!(escaped.starts_with(b"/") && !escaped.starts_with(b"//"), "no path-absolute: it leaves the site");
    let is_pchar = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/%".contains(byte);
    ensure!(escaped.iter().all(is_pchar), "a byte that no path may have");
    let again = SafePath::parse(escaped).map_err(|error| format!("its own form is refused: {}", error.0))?;
    // But for a name with a backslash, which only stands unescaped for itself: nothing leads there.
    let is_same = again.decoded() == safe.decoded() || safe.decoded().contains(&b'\\');
    ensure!(is_same && again.escaped() == escaped, "its own form means something else");
    // The short way for plain paths and the long one agree.
    let long = [b"/.", path].concat();
    let long =
        SafePath::parse(&long).map_err(|error| format!("refused with a dot before it: {}", error.0))?;
    ensure!(long == safe, "with a dot before it something else");

    let hidden = kept
        .iter()
        .enumerate()
        .any(|(number, segment)| segment.starts_with(b".") && !(number == 0 && segment == b".well-known"));
    ensure!(has_hidden_segment(safe.decoded(), true) == hidden, "hidden: not {hidden}");
    Ok(format!("{kind} {} {hidden} {}", kept.len().min(9), safe.has_trailing_slash()))
}

#[test]
fn paths() {
    let seeds = [
        "/",
        "*",
        "/a/b.txt?x",
        "http://a/b",
        "/..%2f../etc/passwd",
        "/.well-known/x",
        "//evil.example",
        "a:443",
    ];
    let target = Target {
        name: "paths",
        inputs: 40_000,
        seeds: seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect(),
        words: &[
            "/",
            "//",
            "..",
            "../",
            "/./",
            "%2e",
            "%2f",
            "%5C",
            "\\",
            "%00",
            "%25",
            "?",
            "http://",
            "@",
            "\u{e9}",
            ".well-known",
        ],
        make,
        kinds_min: 30,
    };
    engine::run(&target, &check);
}
