//! Entity tags (RFC 9110 §8.8.3) and the lists of If-Match and If-None-Match (§13.1.1, §13.1.2).
//!
//! A tag is size and modification time with nanoseconds: no inode, so that replicas behind a
//! balancer agree (docs/adr/0004-etag.md). Where that time says nothing it is a hash of the content.

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

/// Whether one value of If-None-Match names `current`, by weak comparison. `*` names any.
/// A list that breaks the grammar ends there: what stood before counts, the rest does not.
#[must_use]
pub fn none_match_names(value: &[u8], current: Option<&str>) -> bool {
    let opaque = current.map(|current| current.strip_prefix("W/").unwrap_or(current));
    is_named(value, |_, tag| opaque.is_some_and(|opaque| opaque.as_bytes() == tag))
}

/// Whether one value of If-Match names `current`, by strong comparison (RFC 9110 §8.8.3.2): a weak tag
/// never does. `*` names any.
#[must_use]
pub fn match_names(value: &[u8], current: Option<&str>) -> bool {
    is_named(value, |is_weak, tag| !is_weak && current.is_some_and(|current| current.as_bytes() == tag))
}

fn is_named(value: &[u8], is_current: impl Fn(bool, &[u8]) -> bool) -> bool {
    let value = value.trim_ascii();
    if value == b"*" {
        return true;
    }
    let mut rest = value;
    loop {
        while let [b' ' | b'\t' | b',', tail @ ..] = rest {
            rest = tail;
        }
        let weak = rest.strip_prefix(b"W/");
        let opaque = weak.unwrap_or(rest);
        let Some(end) = opaque.strip_prefix(b"\"").and_then(|inner| memchr::memchr(b'"', inner)) else {
            return false;
        };
        let (tag, tail) = opaque.split_at(end + 2);
        if is_current(weak.is_some(), tag) {
            return true;
        }
        rest = tail.trim_ascii_start();
        if !rest.starts_with(b",") {
            return false;
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
            ("\"5-6-7", false),
        ] {
            assert_eq!(none_match_names(value.as_bytes(), Some(tag)), matches, "{value}");
        }
        assert!(match_names(b"\"a\", \"5-6-7\"", Some(tag)) && match_names(b"*", None));
        assert!(!match_names(b"W/\"5-6-7\"", Some(tag)) && !match_names(b"5-6-7", Some(tag)));
        assert!(none_match_names(b"*", None));
        assert!(!none_match_names(b"\"a\"", None));
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
        assert!(none_match_names(b"\"a\", W/\"5-gz\"", tag) && none_match_names(b"\"5-gz\"", tag));
        assert!(!none_match_names(b"\"5\"", tag));
        assert!(!match_names(b"W/\"5-gz\"", tag) && !match_names(b"\"5-gz\"", tag) && match_names(b"*", tag));
    }
}
