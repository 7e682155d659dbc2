//! Entity tags (RFC 9110 §8.8.3) and the lists of If-Match and If-None-Match (§13.1.1, §13.1.2).
//!
//! A tag is size and modification time with nanoseconds: no inode, so that replicas behind a
//! balancer agree (docs/adr/0004-etag.md). Where that time says nothing it is a hash of the content.

use crate::semantics::head::trim;

/// The strong tag of a file; `None` where the mtime says nothing (0 or 1 s: image builders and
/// package stores flatten all times, so two releases would share one tag; case B08).
#[must_use]
pub fn of_file(size: u64, mtime_s: i64, mtime_ns: u32) -> Option<String> {
    (!is_flattened(mtime_s)).then(|| format!("\"{size:x}-{mtime_s:x}-{mtime_ns:x}\""))
}

/// The strong tag of a file by a hash of its content.
#[must_use]
pub fn of_content(hash: &[u8]) -> String {
    let mut tag = String::with_capacity(hash.len() * 2 + 2);
    tag.push('"');
    for byte in hash {
        tag.push_str(&format!("{byte:02x}"));
    }
    tag.push('"');
    tag
}

/// The tag of a coding of the file: `suffix` inside the quotes, so that a cache never takes one coding
/// for another (RFC 9110 §8.8.3.3), also where size and time are the same by chance.
#[must_use]
pub fn of_coding(tag: &str, suffix: &str) -> String {
    format!("{}{suffix}\"", tag.strip_suffix('"').unwrap_or(tag))
}

/// The tag of a coding that is made on the fly: weak, as another version of the encoder makes other
/// bytes of the same file (RFC 9110 §8.8.1).
#[must_use]
pub fn of_made_coding(tag: &str, suffix: &str) -> String {
    format!("W/{}", of_coding(tag, suffix))
}

/// Whether a modification time was flattened by a build tool and carries no information.
#[must_use]
pub fn is_flattened(mtime_s: i64) -> bool {
    matches!(mtime_s, 0 | 1)
}

/// Whether If-None-Match names `current`, by weak comparison. `*` names any. The lines of the field are
/// one list (RFC 9110 §5.3), and where that breaks the grammar it ends: what stood before counts, the
/// rest does not.
#[must_use]
pub fn none_match_names(lines: &[&[u8]], current: Option<&str>) -> bool {
    let opaque = current.map(|current| current.strip_prefix("W/").unwrap_or(current));
    is_named(lines, |_, tag| opaque.is_some_and(|opaque| opaque.as_bytes() == tag))
}

/// Whether If-Match names `current`, by strong comparison (RFC 9110 §8.8.3.2): a weak tag never does.
/// `*` names any.
#[must_use]
pub fn match_names(lines: &[&[u8]], current: Option<&str>) -> bool {
    is_named(lines, |is_weak, tag| !is_weak && current.is_some_and(|current| current.as_bytes() == tag))
}

fn is_named(lines: &[&[u8]], is_current: impl Fn(bool, &[u8]) -> bool) -> bool {
    // A star stands alone.
    if let [line] = lines
        && trim(line) == b"*"
    {
        return true;
    }
    // No tag goes on in the next line: a tag has no space, and a line that ends in one is broken.
    for line in lines {
        match names_in_line(line, &is_current) {
            Some(false) => {}
            outcome => return outcome == Some(true),
        }
    }
    false
}

/// Whether one line names it; `None` where it breaks the grammar before it does.
fn names_in_line(line: &[u8], is_current: impl Fn(bool, &[u8]) -> bool) -> Option<bool> {
    let mut rest = line;
    loop {
        while let [b' ' | b'\t' | b',', tail @ ..] = rest {
            rest = tail;
        }
        if rest.is_empty() {
            return Some(false);
        }
        let weak = rest.strip_prefix(b"W/");
        let opaque = weak.unwrap_or(rest);
        let inner = opaque.strip_prefix(b"\"")?;
        // etagc: visible, and no quote; a space ends no tag of today (RFC 2616 had them).
        let length = inner.iter().position(|byte| !matches!(byte, 0x21 | 0x23..=0x7e | 0x80..))?;
        if inner[length] != b'"' {
            return None;
        }
        let (tag, tail) = opaque.split_at(length + 2);
        if is_current(weak.is_some(), tag) {
            return Some(true);
        }
        rest = trim(tail);
        if !rest.is_empty() && !rest.starts_with(b",") {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn if_none_match_is_a_list_with_weak_comparison() {
        let tag = "\"5-6-7\"";
        for (value, matches) in [
            ("\"5-6-7\"", true),
            ("W/\"5-6-7\"", true),
            ("\"a,b\", \"5-6-7\"", true),
            ("*", true),
            ("\"5-6-7\" , \"z\"", true),
            ("\"a\",,\"5-6-7\"", true),
            ("\"nope\"", false),
            ("nope", false),
            ("", false),
            ("5-6-7", false),
            ("w/\"5-6-7\"", false),
            ("\"x 5-6-7\"", false),
            ("\"a\" \"5-6-7\"", false),
            ("\"a b\", \"5-6-7\"", false),
            ("\"5-6-7", false),
        ] {
            assert_eq!(none_match_names(&[value.as_bytes()], Some(tag)), matches, "{value}");
        }
        let strong = |value: &str, tag| match_names(&[value.as_bytes()], tag);
        assert!(strong("\"a\", \"5-6-7\"", Some(tag)) && strong("*", None));
        assert!(!strong("W/\"5-6-7\"", Some(tag)) && !strong("5-6-7", Some(tag)));
        assert!(none_match_names(&[b"*"], None));
        assert!(!none_match_names(&[b"\"a\""], None));
    }

    /// A proxy may join the lines of a field (RFC 9110 §5.3): that must not change what they mean. Each
    /// line on its own took a `*` beside tags, and went on behind a line that was broken.
    #[test]
    fn the_lines_of_a_list_mean_what_they_mean_joined() {
        for (lines, matches) in [
            (&["\"a\"", "\"5-6-7\""] as &[&str], true),
            (&["", "\"5-6-7\""], true),
            (&["\"5-6-7\"", "broken"], true),
            (&["broken", "\"5-6-7\""], false),
            (&["\"a\" \"b\"", "\"5-6-7\""], false),
            (&["\"a", "b\", \"5-6-7\""], false),
            (&["*", "\"a\""], false),
            (&["\"a\"", "*"], false),
        ] {
            let separate: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
            let joined = lines.join(", ");
            assert_eq!(none_match_names(&separate, Some("\"5-6-7\"")), matches, "{lines:?}");
            assert_eq!(none_match_names(&[joined.as_bytes()], Some("\"5-6-7\"")), matches, "{joined}");
        }
    }

    #[test]
    fn flattened_times_have_no_tag() {
        assert_eq!(of_file(10, 0, 0), None);
        assert_eq!(of_file(10, 1, 0), None);
        assert_eq!(of_content(&[0, 0xab]), "\"00ab\"");
        assert_eq!(of_file(10, 2, 3).as_deref(), Some("\"a-2-3\""));
        assert_eq!(of_file(10, -2, 3).as_deref(), Some("\"a-fffffffffffffffe-3\""));
    }

    #[test]
    fn a_coding_has_a_tag_of_its_own() {
        assert_eq!(of_coding("\"a-2-3\"", "-br"), "\"a-2-3-br\"");
        assert_eq!(of_made_coding("\"a-2-3\"", "-br"), "W/\"a-2-3-br\"");
    }

    #[test]
    fn a_weak_tag_is_named_by_if_none_match_alone() {
        let tag = Some("W/\"5-gz\"");
        assert!(
            none_match_names(&[b"\"a\", W/\"5-gz\"" as &[u8]], tag)
                && none_match_names(&[b"\"5-gz\"" as &[u8]], tag)
        );
        assert!(!none_match_names(&[b"\"5\"" as &[u8]], tag));
        assert!(
            !match_names(&[b"W/\"5-gz\"" as &[u8]], tag)
                && !match_names(&[b"\"5-gz\"" as &[u8]], tag)
                && match_names(&[b"*" as &[u8]], tag)
        );
    }
}
