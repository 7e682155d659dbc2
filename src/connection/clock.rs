//! The worker's sight of time: the Date field, formatted once a second and never stale after an idle
//! spell, because it is looked at when it is used (case H09).

use std::cell::{Cell, RefCell};

use crate::semantics::date::{HTTP_DATE_BYTES, http_date};
use crate::sys::clock;

/// The Date of answers, from CLOCK_REALTIME_COARSE.
#[derive(Debug)]
pub struct Clock {
    second: Cell<i64>,
    date: RefCell<[u8; HTTP_DATE_BYTES]>,
}

impl Default for Clock {
    fn default() -> Self {
        Clock { second: Cell::new(i64::MIN), date: RefCell::new([b' '; HTTP_DATE_BYTES]) }
    }
}

impl Clock {
    /// Appends the current IMF-fixdate.
    pub fn push_date(&self, out: &mut Vec<u8>) {
        let now = clock::wall_coarse_s();
        if now != self.second.get() {
            // Outside the years 0–9999 the last good date stays: the machine's clock is broken.
            if let Some(date) = http_date(now)
                && let Ok(date) = date.as_bytes().try_into()
            {
                self.date.replace(date);
            }
            self.second.set(now);
        }
        out.extend_from_slice(&*self.date.borrow());
    }
}
