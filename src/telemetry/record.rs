//! The record of a request: a fixed number of bytes on its connection, filled while the request runs, read
//! once when it has ended. Nothing of it is allocated, locked or formatted on the way
//! (docs/adr/0035-the-record-of-a-request.md).

use crate::offload::Why;
use crate::telemetry::facts::Facts;
use crate::telemetry::kinds::{MethodLabel, Source};

/// See the module. Times are microseconds of the monotonic clock; those that are counted from the head are
/// 0 where nobody looked at the clock.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// What the handlers noted.
    pub facts: Facts,
    /// Label of the method.
    pub method: MethodLabel,
    /// Where the bytes of the answer came from.
    pub source: Source,
    /// Trips to the pool in the middle of the answer, and the reason of the first.
    pub body_hops: u16,
    /// See `body_hops`.
    pub body_why: Option<Why>,
    /// The head was complete.
    pub head_us: u64,
    /// From there until the route was found.
    pub routed_us: u32,
    /// Until it was known that the request has to wait.
    pub waited_us: u32,
    /// Until the reply was there.
    pub resolved_us: u32,
    /// Until the first of its bytes went to the kernel, where that was not with the last.
    pub first_byte_us: u32,
    /// Until the first trip to the pool in the middle of the answer.
    pub body_hop_us: u32,
    /// What such trips took together.
    pub body_hops_took_us: u32,
}

impl Record {
    /// Of a request whose head is complete now.
    #[must_use]
    pub fn begun(now_us: u64) -> Record {
        Record { head_us: now_us, ..Record::NONE }
    }

    /// Of no request.
    pub const NONE: Record = Record {
        facts: Facts::NONE,
        method: MethodLabel::OTHER,
        source: Source::None,
        body_hops: 0,
        body_why: None,
        head_us: 0,
        routed_us: 0,
        waited_us: 0,
        resolved_us: 0,
        first_byte_us: 0,
        body_hop_us: 0,
        body_hops_took_us: 0,
    };

    /// Microseconds from the head to `now_us`, 1 at least: 0 is for what nobody looked at.
    #[must_use]
    pub fn since_head(&self, now_us: u64) -> u32 {
        u32::try_from(now_us.saturating_sub(self.head_us)).unwrap_or(u32::MAX).max(1)
    }

    /// The first bytes of the body came from there.
    pub fn from(&mut self, source: Source) {
        if self.source == Source::None {
            self.source = source;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_as_small_as_it_is_said_to_be() {
        assert_eq!(size_of::<Record>(), 48);
        let record = Record::begun(100);
        assert_eq!((record.since_head(100), record.since_head(103), record.since_head(1)), (1, 3, 1));
        assert_eq!(record.since_head(u64::MAX), u32::MAX);
    }
}
