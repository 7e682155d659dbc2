//! Entity tags and their lists (RFC 9110 §8.8.3, §13.1.1, §13.1.2).

/// How two tags are compared (§8.8.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Strong,
    Weak,
}

/// Whether the field, all of its lines, names the current tag. The lines are one list (§5.3). What breaks its grammar is no list any more: what stood before counts (ADR 0004).
pub fn names(lines: &[&[u8]], current: Option<&str>, comparison: Comparison) -> bool {
    let value = lines.join(&b", "[..]);
    let mut rest = trim(&value);
    // "*" stands alone; a representation exists wherever a condition is looked at.
    if rest == b"*" {
        return true;
    }
    let opaque = current.map(|current| current.trim_start_matches("W/"));
    while let Some((weak, tag, tail)) = element(rest) {
        // "equivalent if both are not weak" and equal; or equal, whatever they are.
        let is_strong = !weak && current == opaque;
        let is_equal = opaque.is_some_and(|opaque| opaque.as_bytes() == tag);
        if is_equal && (is_strong || comparison == Comparison::Weak) {
            return true;
        }
        rest = tail;
    }
    false
}

/// Whether one tag is the current one by strong comparison (If-Range, §13.1.5).
pub fn is_strongly(value: &[u8], current: Option<&str>) -> bool {
    current.is_some_and(|current| current.as_bytes() == value && value.starts_with(b"\""))
}

/// The next element of a list, with empty ones before it (§5.6.1.2): weak or not, the tag with its
/// quotes, and what follows, which is the end or a comma.
fn element(mut rest: &[u8]) -> Option<(bool, &[u8], &[u8])> {
    while let [b' ' | b'\t' | b',', tail @ ..] = rest {
        rest = tail;
    }
    let (weak, opaque) = match rest {
        [b'W', b'/', opaque @ ..] => (true, opaque),
        _ => (false, rest),
    };
    let [b'"', inner @ ..] = opaque else { return None };
    // etagc = %x21 / %x23-7E / obs-text
    let length = inner.iter().take_while(|byte| matches!(byte, 0x21 | 0x23..=0x7e | 0x80..)).count();
    if inner.get(length) != Some(&b'"') {
        return None;
    }
    let (tag, tail) = opaque.split_at(length + 2);
    let tail = trim(tail);
    // Without a comma the list is broken behind this element, which still stood before.
    let tail = if tail.first().is_none_or(|byte| *byte == b',') { tail } else { b"" };
    Some((weak, tag, tail))
}

/// Without OWS (§5.6.3).
pub fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}
