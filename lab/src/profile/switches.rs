//! Time off the CPU: pairs the moment a thread left with the moment it came back, and tells a thread
//! that waited for something from one that had to make room.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::stacks::{Folded, Frame, Record, What};

/// First frame of a stack that waited.
pub const BLOCKED: &str = "blocked";
/// First frame of a stack that could have gone on.
pub const PREEMPTED: &str = "preempted";

/// Sums of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// How often.
    pub times: u64,
    /// How long together.
    pub microseconds: u64,
}

/// What the records gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffCpu {
    /// Microseconds by stack, beneath `blocked` or `preempted` and the thread's name.
    pub folded: Folded,
    /// Waited for something: a socket, a lock, a disk.
    pub blocked: Sum,
    /// Another thread was due.
    pub preempted: Sum,
    /// Left and not seen to come back, or without a stack: not counted.
    pub unpaired: u64,
}

/// Pairs. Of a switch perf writes three records: `sched_switch` with the stack, OUT with the reason, and,
/// when the thread runs again, IN.
#[must_use]
pub fn pair(records: &[Record]) -> OffCpu {
    #[derive(Default)]
    struct Thread<'a> {
        stack: Option<&'a [Frame]>,
        left: Option<(u64, bool, &'a [Frame])>,
    }
    let mut threads: BTreeMap<u32, Thread<'_>> = BTreeMap::new();
    let mut off = OffCpu::default();
    for record in records {
        let thread = threads.entry(record.thread).or_default();
        match &record.what {
            What::Sample(frames) => thread.stack = Some(frames),
            What::Out { is_preempted } => {
                off.unpaired += u64::from(thread.left.is_some());
                thread.left = match thread.stack.take() {
                    Some(frames) => Some((record.at_ns, *is_preempted, frames)),
                    None => {
                        off.unpaired += 1;
                        None
                    }
                };
            }
            What::In => {
                let Some((since, is_preempted, frames)) = thread.left.take() else { continue };
                let microseconds = record.at_ns.saturating_sub(since) / 1_000;
                let (sum, first) =
                    if is_preempted { (&mut off.preempted, PREEMPTED) } else { (&mut off.blocked, BLOCKED) };
                sum.times += 1;
                sum.microseconds += microseconds;
                if microseconds > 0 {
                    off.folded.add(&[first, &record.comm], frames, microseconds);
                }
            }
        }
    }
    off.unpaired += threads.values().filter(|thread| thread.left.is_some()).count() as u64;
    off
}
