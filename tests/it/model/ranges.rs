//! The Range field (RFC 9110 §14.1, §14.2) for bytes.

use std::ops::Range;

use super::tags::trim;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Set {
    /// As if there were no Range.
    Ignored,
    /// 416
    Unsatisfiable,
    /// 206; never empty.
    Parts(Vec<Range<u64>>),
}

/// What `value` asks of a representation of `size` bytes.
pub fn read(value: &[u8], size: u64) -> Set {
    // ranges-specifier = range-unit "=" range-set. Another unit MUST be ignored; units do not mind case.
    let Some(equals) = value.iter().position(|byte| *byte == b'=') else { return Set::Ignored };
    if !value[..equals].eq_ignore_ascii_case(b"bytes") {
        return Set::Ignored;
    }
    let specs: Vec<&[u8]> = value[equals + 1..].split(|byte| *byte == b',').map(trim).collect();
    let specs: Vec<&[u8]> = specs.into_iter().filter(|spec| !spec.is_empty()).collect();
    let Some(ranges) = specs.iter().map(|spec| range(spec, size)).collect::<Option<Vec<_>>>() else {
        // §14.2 lets a server ignore or refuse an invalid set: ADR 0016 ignores it.
        return Set::Ignored;
    };
    let there: Vec<Range<u64>> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
    // 1#range-spec: one at least.
    if specs.is_empty() {
        return Set::Ignored;
    }
    // §14.1.2 calls a suffix of an empty representation satisfiable, but no Content-Range can say it:
    // 416 (ADR 0016).
    if there.is_empty() {
        return Set::Unsatisfiable;
    }
    // §14.2: "MAY ignore": more than 16, or two that overlap (ADR 0016).
    let overlap = |a: &Range<u64>, b: &Range<u64>| a.start < b.end && b.start < a.end;
    let clash = (0..there.len()).any(|one| there[..one].iter().any(|other| overlap(&there[one], other)));
    if there.len() > 16 || clash { Set::Ignored } else { Set::Parts(there) }
}

/// One range-spec, empty where nothing of it is there; `None` when it is none.
fn range(spec: &[u8], size: u64) -> Option<Range<u64>> {
    let text = std::str::from_utf8(spec).ok()?;
    let (first, last) = text.split_once('-')?;
    match (first, last) {
        ("", suffix) => Some(size.saturating_sub(number(suffix)?)..size),
        (first, "") => Some(number(first)?.min(size)..size),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            // "An int-range is invalid if the last-pos value is present and less than first-pos."
            (last >= first).then(|| first.min(size)..last.saturating_add(1).min(size))
        }
    }
}

/// 1*DIGIT. Numbers saturate (ADR 0016): two beyond 64 bits are one number.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}
