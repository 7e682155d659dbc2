//! Windows of remote files: what the pool read in one go and a client has not taken yet. A worker has a
//! few, lent to connections; whoever takes nothing loses its window to the next who asks, so that slow
//! readers keep no memory from fast ones, and all of them together never have more than these.

use std::cell::RefCell;
use std::rc::Rc;

use crate::limits::{WINDOW_KEPT_MS, WINDOWS_MAX};

/// The windows of one worker.
#[derive(Debug, Default)]
pub struct Windows {
    slots: RefCell<[Slot; WINDOWS_MAX]>,
}

#[derive(Debug, Default)]
struct Slot {
    /// Number of the loan; its holder has the same one until the slot is lent to another.
    loan: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// With the memory of the last loan: freed and taken anew for each, it would be scattered over the
    /// allocator's arenas (300 slow readers: 23 MB more instead of 5).
    Free(Vec<u8>),
    /// The pool reads into it: memory that cannot be taken back now.
    Reading,
    /// Bytes of a file from `offset` on, of which `sent` were taken, the last ones at `used_ms`.
    Full { offset: u64, bytes: Vec<u8>, sent: usize, used_ms: u64 },
}

impl Default for State {
    fn default() -> State {
        State::Free(Vec::new())
    }
}

/// A window in the hands of one connection; given back when dropped.
#[derive(Debug)]
pub struct Lent {
    windows: Rc<Windows>,
    slot: usize,
    loan: u64,
}

impl Windows {
    /// Lends a window for one read: a free one, or that of the client who has taken nothing for longest
    /// and for longer than [`WINDOW_KEPT_MS`]. Comes with the empty buffer to read into.
    pub fn lend(self: &Rc<Self>, now_ms: u64) -> Option<(Lent, Vec<u8>)> {
        let mut slots = self.slots.borrow_mut();
        let since = |slot: &Slot| match slot.state {
            State::Free(_) => Some(0),
            State::Reading => None,
            State::Full { used_ms, .. } => {
                (now_ms.saturating_sub(used_ms) > WINDOW_KEPT_MS).then_some(used_ms)
            }
        };
        let (number, _) = slots
            .iter()
            .enumerate()
            .filter_map(|(number, slot)| Some((number, since(slot)?)))
            .min_by_key(|(_, used_ms)| *used_ms)?;
        let slot = &mut slots[number];
        slot.loan += 1;
        let buffer = match std::mem::replace(&mut slot.state, State::Reading) {
            State::Free(buffer) | State::Full { bytes: buffer, .. } => buffer,
            State::Reading => Vec::new(),
        };
        Some((Lent { windows: Rc::clone(self), slot: number, loan: slot.loan }, emptied(buffer)))
    }
}

fn emptied(mut buffer: Vec<u8>) -> Vec<u8> {
    buffer.clear();
    buffer
}

impl Lent {
    /// What was read for it, from `offset` of the file on.
    pub fn fill(&self, offset: u64, bytes: Vec<u8>, now_ms: u64) {
        self.with(|state| *state = State::Full { offset, bytes, sent: 0, used_ms: now_ms });
    }

    /// Gives `take` what is left of the bytes at `offset`, and notes how many of them it took. `None`
    /// without a call where the window holds nothing for that place or was lent to another.
    pub fn take<E>(
        &self,
        offset: u64,
        now_ms: u64,
        take: impl FnOnce(&[u8]) -> Result<usize, E>,
    ) -> Option<Result<usize, E>> {
        let taken = self.with(|state| {
            let State::Full { offset: start, bytes, sent, used_ms } = state else { return None };
            let left = bytes.get(*sent..).filter(|left| !left.is_empty())?;
            if *start + *sent as u64 != offset {
                return None;
            }
            Some(take(left).inspect(|count| {
                if *count > 0 {
                    *sent += count;
                    *used_ms = now_ms;
                }
            }))
        });
        taken.flatten()
    }

    /// Whether it was lent to another meanwhile.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.with(|_| ()).is_none()
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> Option<T> {
        let mut slots = self.windows.slots.borrow_mut();
        let slot = &mut slots[self.slot];
        (slot.loan == self.loan).then(|| work(&mut slot.state))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.with(|state| {
            let full = std::mem::take(state);
            if let State::Full { bytes, .. } = full {
                *state = State::Free(bytes);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(lent: &Lent, offset: u64, count: usize, now_ms: u64) -> Option<Vec<u8>> {
        let mut seen = Vec::new();
        let taken = lent.take(offset, now_ms, |left| {
            seen = left.to_vec();
            Ok::<_, ()>(count.min(left.len()))
        });
        taken.map(|_| seen)
    }

    #[test]
    fn a_window_is_taken_from_front_to_end_and_nothing_else_is() {
        let windows = Rc::new(Windows::default());
        let (lent, _) = windows.lend(0).unwrap();
        assert_eq!(take(&lent, 10, 1, 0), None, "nothing was read yet");
        lent.fill(10, b"abcdef".to_vec(), 0);
        assert_eq!(take(&lent, 11, 1, 0), None, "another place");
        assert_eq!(take(&lent, 10, 2, 0).unwrap(), b"abcdef");
        assert_eq!(take(&lent, 12, 9, 0).unwrap(), b"cdef");
        assert_eq!(take(&lent, 16, 1, 0), None, "all is taken");
    }

    #[test]
    fn who_takes_nothing_loses_its_window_and_who_takes_keeps_it() {
        let windows = Rc::new(Windows::default());
        let lent: Vec<Lent> = (0..WINDOWS_MAX).map(|_| windows.lend(0).unwrap().0).collect();
        assert!(windows.lend(WINDOW_KEPT_MS * 9).is_none(), "all of them are being read into");
        for lent in &lent {
            lent.fill(0, vec![0; 9], 0);
        }
        assert!(windows.lend(WINDOW_KEPT_MS).is_none(), "nobody has waited for long enough");
        for lent in &lent[1..] {
            take(lent, 0, 1, WINDOW_KEPT_MS).unwrap();
        }
        let (next, buffer) = windows.lend(WINDOW_KEPT_MS + 1).unwrap();
        assert!(buffer.is_empty() && buffer.capacity() >= 9, "the memory goes along");
        assert!(lent[0].is_lost() && lent[1..].iter().all(|lent| !lent.is_lost()));
        assert_eq!(take(&lent[0], 0, 1, 0), None, "what is another's now");
        next.fill(0, b"next".to_vec(), WINDOW_KEPT_MS + 1);
        drop(lent);
        assert_eq!(take(&next, 0, 1, 0).unwrap(), b"next", "who lost it gives nothing back");
        drop(next);
        assert!((0..WINDOWS_MAX).all(|_| windows.lend(0).is_some_and(|(lent, _)| !lent.is_lost())));
    }
}
