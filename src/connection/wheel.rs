//! Deadlines without timers: every connection keeps one stamp, every worker turns one wheel once a
//! second. A request that is answered at once costs a store; a timer per request costs 3–4 %.
//!
//! A stamp may move later at no cost: its slot finds out when its turn comes. Moving earlier moves
//! the entry. A deadline is noticed within two seconds after it: one for its slot, one for the tick.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

use crate::limits::TICK_MS;

/// Slots of the wheel: deadlines further ahead than this many ticks wait in the last slot and are
/// looked at again there.
const SLOTS: u64 = 128;

/// One connection's entry.
#[derive(Debug)]
struct Entry {
    deadline_ms: Cell<u64>,
    /// Tick of the slot that it stands in, and its place there.
    tick: Cell<u64>,
    place: Cell<usize>,
    expired: Cell<bool>,
    /// Of the task that last waited with this entry.
    waker: RefCell<Option<Waker>>,
}

/// The wheel of one worker.
#[derive(Debug)]
pub struct Wheel {
    slots: RefCell<Vec<Vec<Rc<Entry>>>>,
    /// The next tick to be looked at, in [`TICK_MS`] since the clock's start.
    next: Cell<u64>,
}

impl Wheel {
    /// A wheel that starts at `now_ms`.
    #[must_use]
    pub fn new(now_ms: u64) -> Wheel {
        let slots = (0..SLOTS).map(|_| Vec::new()).collect();
        Wheel { slots: RefCell::new(slots), next: Cell::new(now_ms / TICK_MS) }
    }

    /// Enters a connection; its entry leaves with the returned value.
    #[must_use]
    pub fn enter(self: &Rc<Self>, deadline_ms: u64) -> Watch {
        let entry = Rc::new(Entry {
            deadline_ms: Cell::new(deadline_ms),
            tick: Cell::new(0),
            place: Cell::new(0),
            expired: Cell::new(false),
            waker: RefCell::new(None),
        });
        self.insert(&entry);
        Watch { wheel: Rc::clone(self), entry }
    }

    /// Looks at every slot up to `now_ms`: what is due is woken, what moved later moves on.
    pub fn turn(&self, now_ms: u64) {
        let now = now_ms / TICK_MS;
        // After a long pause (suspend) one round is enough: it visits every slot.
        let first = self.next.get().max(now.saturating_sub(SLOTS - 1));
        for tick in first..=now {
            let slot = std::mem::take(&mut self.slots.borrow_mut()[index(tick)]);
            self.next.set(tick + 1);
            for entry in slot {
                if entry.deadline_ms.get() <= now_ms {
                    entry.expired.set(true);
                    // Out of the slots, until it is armed again.
                    entry.tick.set(u64::MAX);
                    wake(&entry);
                } else {
                    self.insert(&entry);
                }
            }
        }
    }

    /// Wakes every connection: the worker begins to drain.
    pub fn wake_all(&self) {
        let entries: Vec<_> = self.slots.borrow().iter().flatten().cloned().collect();
        entries.iter().for_each(|entry| wake(entry));
    }

    fn insert(&self, entry: &Rc<Entry>) {
        // Rounded up: a slot is looked at when its second has passed.
        let due = entry.deadline_ms.get() / TICK_MS + 1;
        let tick = due.clamp(self.next.get(), self.next.get() + SLOTS - 1);
        let slot = &mut self.slots.borrow_mut()[index(tick)];
        entry.tick.set(tick);
        entry.place.set(slot.len());
        slot.push(Rc::clone(entry));
    }

    fn remove(&self, entry: &Entry) {
        if entry.tick.get() == u64::MAX {
            return;
        }
        let slot = &mut self.slots.borrow_mut()[index(entry.tick.get())];
        slot.swap_remove(entry.place.get());
        if let Some(moved) = slot.get(entry.place.get()) {
            moved.place.set(entry.place.get());
        }
    }
}

fn index(tick: u64) -> usize {
    usize::try_from(tick % SLOTS).unwrap_or(0)
}

fn wake(entry: &Entry) {
    if let Some(waker) = entry.waker.borrow().as_ref() {
        waker.wake_by_ref();
    }
}

/// A connection's place on the wheel.
#[derive(Debug)]
pub struct Watch {
    wheel: Rc<Wheel>,
    entry: Rc<Entry>,
}

impl Watch {
    /// Sets the deadline.
    pub fn arm(&self, deadline_ms: u64) {
        let entry = &self.entry;
        let is_out = entry.tick.get() == u64::MAX;
        entry.deadline_ms.set(deadline_ms);
        if is_out || deadline_ms / TICK_MS + 1 < entry.tick.get() {
            self.wheel.remove(entry);
            self.wheel.insert(entry);
        }
        entry.expired.set(false);
    }

    /// The deadline in force.
    #[must_use]
    pub fn deadline_ms(&self) -> u64 {
        self.entry.deadline_ms.get()
    }

    /// Whether the deadline passed. Remembers the task, so that it is woken when it does; called
    /// from every poll that may return pending.
    pub fn is_expired(&self, context: &std::task::Context<'_>) -> bool {
        let mut waker = self.entry.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
        self.entry.expired.get()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.wheel.remove(&self.entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1000;

    fn expired(watch: &Watch) -> bool {
        watch.is_expired(&std::task::Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_deadline_is_noticed_within_a_second_and_not_before() {
        let wheel = Rc::new(Wheel::new(500 * S));
        let near = wheel.enter(500 * S + 1);
        let far = wheel.enter(1000 * S);
        let moved_later = wheel.enter(502 * S);
        let moved_earlier = wheel.enter(600 * S);
        moved_later.arm(510 * S);
        moved_earlier.arm(503 * S);
        wheel.turn(500 * S);
        assert!(!expired(&near));
        wheel.turn(501 * S);
        assert!(expired(&near) && !expired(&moved_later));
        wheel.turn(504 * S);
        assert!(expired(&moved_earlier) && !expired(&moved_later));
        for second in 505..=510 {
            wheel.turn(second * S);
        }
        wheel.turn(511 * S);
        assert!(expired(&moved_later) && !expired(&far));
        near.arm(600 * S);
        assert!(!expired(&near));
        drop(moved_later);
        wheel.turn(5000 * S);
        assert!(expired(&near) && expired(&far));
    }

    #[test]
    fn entries_leave_from_any_place() {
        let wheel = Rc::new(Wheel::new(0));
        let mut watches: Vec<_> = (0..100).map(|n| wheel.enter((n % 7) * S)).collect();
        while watches.len() > 1 {
            drop(watches.swap_remove(watches.len() * 3 / 7));
        }
        let left: usize = wheel.slots.borrow().iter().map(Vec::len).sum();
        assert_eq!(left, 1);
        wheel.turn(60 * S);
        assert!(expired(&watches[0]));
    }
}
