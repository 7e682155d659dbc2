//! Durations and sizes as people write them: `"30s"`, `"250ms"`, `"64KiB"`, `"10KB"`.
//!
//! A number without a unit is no duration: of the servers that guess, one half guesses seconds.

const DURATION_UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Largest first within each family, so that rendering picks the shortest exact form.
const SIZE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1000),
    ("B", 1),
];

/// What a text with a unit turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// Milliseconds or bytes.
    Value(u64),
    /// Digits alone.
    NoUnit,
    /// Something else, or too large for 64 bits.
    Other,
}

/// Milliseconds of a duration.
pub(super) fn duration_ms(text: &str) -> Measure {
    measure(text, &DURATION_UNITS)
}

/// Bytes of a size.
pub(super) fn size_bytes(text: &str) -> Measure {
    measure(text, &SIZE_UNITS)
}

/// The shortest text of a duration.
pub(super) fn show_ms(ms: u64) -> String {
    if ms == 0 { "0s".to_owned() } else { show(ms, &DURATION_UNITS) }
}

/// The shortest text of a size, in powers of 1024.
pub(super) fn show_bytes(bytes: u64) -> String {
    let powers = [&SIZE_UNITS[..4], &SIZE_UNITS[8..]].concat();
    if bytes == 0 { "0B".to_owned() } else { show(bytes, &powers) }
}

fn measure(text: &str, units: &[(&str, u64)]) -> Measure {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let Ok(number) = digits.parse::<u64>() else {
        return Measure::Other;
    };
    if unit.is_empty() {
        return Measure::NoUnit;
    }
    let factor = units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    factor.and_then(|factor| number.checked_mul(factor)).map_or(Measure::Other, Measure::Value)
}

fn show(value: u64, units: &[(&str, u64)]) -> String {
    let exact = units.iter().find(|(_, factor)| value.is_multiple_of(*factor));
    exact.map_or_else(|| value.to_string(), |(name, factor)| format!("{}{name}", value / factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        for (text, expected) in [
            ("30s", Measure::Value(30_000)),
            ("250ms", Measure::Value(250)),
            ("5m", Measure::Value(300_000)),
            ("1h", Measure::Value(3_600_000)),
            ("0s", Measure::Value(0)),
            ("10", Measure::NoUnit),
            ("", Measure::Other),
            ("s", Measure::Other),
            ("-1s", Measure::Other),
            ("1.5s", Measure::Other),
            ("10 s", Measure::Other),
            ("1S", Measure::Other),
            ("99999999999999999999s", Measure::Other),
            ("18446744073709551615h", Measure::Other),
        ] {
            assert_eq!(duration_ms(text), expected, "{text}");
        }
    }

    #[test]
    fn sizes_know_both_families() {
        for (text, expected) in [
            ("64KiB", Measure::Value(65_536)),
            ("1MiB", Measure::Value(1 << 20)),
            ("10KB", Measure::Value(10_000)),
            ("7B", Measure::Value(7)),
            ("1024", Measure::NoUnit),
            ("1kb", Measure::Other),
            ("1K", Measure::Other),
        ] {
            assert_eq!(size_bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn values_are_shown_in_their_shortest_exact_form() {
        assert_eq!(show_ms(0), "0s");
        assert_eq!(show_ms(90_000), "90s");
        assert_eq!(show_ms(3_600_000), "1h");
        assert_eq!(show_ms(1_500), "1500ms");
        assert_eq!(show_bytes(1 << 20), "1MiB");
        assert_eq!(show_bytes(10_000), "10000B");
        assert_eq!(show_bytes(0), "0B");
    }
}
