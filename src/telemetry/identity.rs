//! Who a request is to others: its trace, its own id, and the words of trusted peers about both
//! (W3C Trace Context, level 1). From peers that are not trusted nothing is believed.

use std::cell::Cell;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use crate::limits::{REQUEST_ID_BYTES_MAX, TRACE_STATE_BYTES_MAX};

/// What is known of a request beside its record; there is one only where somebody asked for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The trace; 0 for none.
    pub trace_id: u128,
    /// The span of this request; 0 for none.
    pub span_id: u64,
    /// The span that it was made for, of a trusted peer; 0 for none.
    pub parent_id: u64,
    /// The `tracestate` of that peer, passed on as it is.
    pub trace_state: Box<[u8]>,
    /// Chosen at the beginning.
    pub is_sampled: bool,
    /// Printable, without blanks; empty where ids are not asked for.
    pub request_id: Box<[u8]>,
    /// A trusted peer wants to know how long each phase took.
    pub wants_timing: bool,
}

impl Identity {
    /// Whether anybody will look at the times of its phases.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.is_sampled || self.wants_timing
    }
}

/// `traceparent` in its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Not 0.
    pub trace_id: u128,
    /// Not 0.
    pub span_id: u64,
    /// Whether the peer has chosen the trace.
    pub is_sampled: bool,
}

impl Parent {
    /// Of a field value. Later versions may have more behind their flags; the version 255 is none.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Parent> {
        let (head, more) = value.split_at_checked(55)?;
        let [version, trace, span, flags] = [&head[..2], &head[3..35], &head[36..52], &head[53..]];
        let dashes = [head[2], head[35], head[52]];
        let is_long = !more.is_empty() && (version == b"00" || more[0] != b'-');
        if dashes != [b'-'; 3] || is_long || version == b"ff" {
            return None;
        }
        hexadecimal(version)?;
        let trace_id = hexadecimal(trace)?;
        let span_id = u64::try_from(hexadecimal(span)?).ok()?;
        let is_sampled = hexadecimal(flags)? & 1 == 1;
        (trace_id != 0 && span_id != 0).then_some(Parent { trace_id, span_id, is_sampled })
    }
}

/// Lower-case digits alone, as the specification has it.
fn hexadecimal(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0_u128, |number, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(value))
    })
}

/// Appends the digits of a number.
pub fn push_hexadecimal(out: &mut Vec<u8>, number: u128, digits: u32) {
    for place in (0..digits).rev() {
        // Four bits are a digit.
        let digit = (number >> (4 * place) & 0xf) as u8;
        out.push(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 });
    }
}

/// An id that may stand in fields and log lines as it is.
#[must_use]
pub fn is_request_id(value: &[u8]) -> bool {
    (1..=REQUEST_ID_BYTES_MAX).contains(&value.len())
        && value.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/+=@~".contains(byte))
}

/// A `tracestate` that is passed on: its grammar is for those who read it.
#[must_use]
pub fn is_trace_state(value: &[u8]) -> bool {
    value.len() <= TRACE_STATE_BYTES_MAX && value.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~'))
}

/// Random ids of one worker: xoroshiro128+ (Blackman, Vigna), seeded by the system. Nobody is kept out by
/// them, so they may be guessed; they may not come twice.
#[derive(Debug)]
pub struct Ids([Cell<u64>; 2]);

impl Default for Ids {
    fn default() -> Ids {
        // The keys of a hash map are the random numbers that the standard library has.
        Ids([1, 2].map(|_| Cell::new(RandomState::new().build_hasher().finish() | 1)))
    }
}

impl Ids {
    /// A number that is not 0.
    pub fn next(&self) -> u64 {
        loop {
            let (first, mut second) = (self.0[0].get(), self.0[1].get());
            let number = first.wrapping_add(second);
            second ^= first;
            self.0[0].set(first.rotate_left(24) ^ second ^ (second << 16));
            self.0[1].set(second.rotate_left(37));
            if number != 0 {
                return number;
            }
        }
    }

    /// A trace id.
    pub fn trace(&self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }

    /// A request id: 32 digits.
    pub fn request(&self) -> Box<[u8]> {
        let mut text = Vec::with_capacity(32);
        push_hexadecimal(&mut text, self.trace(), 32);
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_what_the_specification_says() {
        let good = Parent {
            trace_id: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736,
            span_id: 0x00f0_67aa_0ba9_02b7,
            is_sampled: true,
        };
        let parse = |text: &str| Parent::parse(text.as_bytes());
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(parse(text), Some(good));
        assert_eq!(parse(&text.replace("-01", "-00")), Some(Parent { is_sampled: false, ..good }));
        assert_eq!(parse(&text.replace("-01", "-03")), Some(good), "other flags are nobody's business");
        assert_eq!(parse(&text.replace("00-4", "cc-4")), Some(good), "a later version");
        assert_eq!(parse(&(text.replace("00-4", "cc-4") + "-what")), Some(good));
        for bad in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01what",
            "0x-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn ids_are_apart_and_may_stand_anywhere() {
        let (one, other) = (Ids::default(), Ids::default());
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..1_000 {
            for ids in [&one, &other] {
                assert!(seen.insert(ids.trace()));
                let id = ids.request();
                assert!(id.len() == 32 && is_request_id(&id), "{}", id.escape_ascii());
            }
        }
        for bad in [&b""[..], b"a b", b"a\"", b"a\r\nb", b"\xe9", &[b'a'; REQUEST_ID_BYTES_MAX + 1]] {
            assert!(!is_request_id(bad), "{}", bad.escape_ascii());
        }
        assert!(is_request_id(b"3f2b-A_z.9:/+=@~"));
        let mut digits = Vec::new();
        push_hexadecimal(&mut digits, 0xabc, 6);
        assert_eq!(digits, b"000abc");
    }
}
