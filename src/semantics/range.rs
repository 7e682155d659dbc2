//! Byte ranges (RFC 9110 §14): which part of a representation a request asks for.
//!
//! Whoever asks for too much gets the whole once: many or overlapping ranges must never make the
//! server send more than the file (§17.15; case B06).

/// Ranges of one request that are answered as such; more are answered with the whole.
const RANGES_MAX: usize = 16;

/// Bytes from `start` to before `end`; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// Behind the last byte.
    pub end: u64,
}

impl ByteRange {
    /// Bytes in it.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Never, by construction.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

/// What a Range field asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// The whole: no range, another unit, a malformed set, or more than is reasonable.
    Whole,
    /// One part (206).
    One(ByteRange),
    /// Several parts in the order asked for, none overlapping (206, multipart/byteranges).
    Several(Vec<ByteRange>),
    /// Well-formed, and nothing of it is there (416).
    Unsatisfiable,
}

/// Reads the value of a Range field for a representation of `size` bytes.
#[must_use]
pub fn parse(value: &[u8], size: u64) -> Ranges {
    let Some(set) = strip_unit(value) else { return Ranges::Whole };
    let mut ranges = Vec::new();
    let mut specs = 0;
    for spec in set.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|spec| !spec.is_empty()) {
        specs += 1;
        match range(spec, size) {
            None => return Ranges::Whole,
            Some(None) => {}
            Some(Some(range)) if ranges.len() < RANGES_MAX => ranges.push(range),
            Some(Some(_)) => return Ranges::Whole,
        }
    }
    match ranges[..] {
        [] if specs == 0 => Ranges::Whole,
        [] => Ranges::Unsatisfiable,
        [one] => Ranges::One(one),
        _ if overlap(&ranges) => Ranges::Whole,
        _ => Ranges::Several(ranges),
    }
}

/// What follows `bytes=`; units are case-insensitive (§14.1).
fn strip_unit(value: &[u8]) -> Option<&[u8]> {
    let (unit, set) = value.split_at_checked(6)?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(set)
}

/// One range-spec: `None` when malformed, `Some(None)` when nothing of it is there.
fn range(spec: &[u8], size: u64) -> Option<Option<ByteRange>> {
    let dash = memchr::memchr(b'-', spec)?;
    let (first, last) = (&spec[..dash], &spec[dash + 1..]);
    if first.is_empty() {
        // The last so many bytes; all of them when there are fewer.
        let suffix = number(last)?;
        let found = ByteRange { start: size - suffix.min(size), end: size };
        return Some((!found.is_empty()).then_some(found));
    }
    let start = number(first)?;
    let last = if last.is_empty() { u64::MAX } else { number(last)? };
    if last < start {
        return None;
    }
    Some((start < size).then(|| ByteRange { start, end: last.saturating_add(1).min(size) }))
}

/// Digits alone; what does not fit is as large as can be, beyond any file.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let sum = |number: u64, digit: &u8| number.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Some(digits.iter().fold(0, sum))
}

fn overlap(ranges: &[ByteRange]) -> bool {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable_by_key(|range| range.start);
    sorted.windows(2).any(|pair| pair[0].end > pair[1].start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str, size: u64, expected: Ranges) {
        assert_eq!(parse(value.as_bytes(), size), expected, "{value} of {size}");
    }

    fn one(start: u64, end: u64) -> Ranges {
        Ranges::One(ByteRange { start, end })
    }

    #[test]
    fn ranges_are_counted_without_overflow() {
        check("bytes=0-0", 50, one(0, 1));
        check("bytes=0-", 50, one(0, 50));
        check("BYTES=-5", 50, one(45, 50));
        check("bytes=-500", 50, one(0, 50));
        check("bytes=40-999999999999999999999999", 50, one(40, 50));
        check("bytes=49-", 50, one(49, 50));
        check("bytes= 0-1 , ", 50, one(0, 2));
        check("bytes=0-1,90-", 50, one(0, 2));
        check("bytes=18446744073709551614-18446744073709551615", u64::MAX, one(u64::MAX - 1, u64::MAX));
        for unsatisfiable in ["bytes=50-", "bytes=-0", "bytes=18446744073709551615-", "bytes=60-70,80-"] {
            check(unsatisfiable, 50, Ranges::Unsatisfiable);
        }
        check("bytes=0-", 0, Ranges::Unsatisfiable);
        check("bytes=-5", 0, Ranges::Unsatisfiable);
    }

    #[test]
    fn what_is_malformed_or_too_much_is_the_whole() {
        for whole in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=5-2",
            "bytes=a-b",
            "bytes=1",
            "bytes=0-1;2-3",
            "bytes=--1",
            "bytes=+1-2",
            "lines=0-1",
            "bytes 0-1",
            "bytes=0-1,a-b",
            "bytes=0-9,5-14",
            "bytes=0-,0-0",
        ] {
            check(whole, 50, Ranges::Whole);
        }
        let many = |count: u64| {
            format!("bytes={}", (0..count).map(|at| format!("{0}-{0},", at * 2)).collect::<String>())
        };
        assert!(matches!(parse(many(16).as_bytes(), 1000), Ranges::Several(ranges) if ranges.len() == 16));
        check(&many(17), 1000, Ranges::Whole);
        check(
            "bytes=0-0,-1",
            50,
            Ranges::Several(vec![ByteRange { start: 0, end: 1 }, ByteRange { start: 49, end: 50 }]),
        );
    }
}
