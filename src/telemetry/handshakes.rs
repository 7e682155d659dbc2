//! Handshakes of one worker that came to their end, by version and kind. (How others ended is a connection's end.)

use std::sync::atomic::{AtomicU64, Ordering};

use crate::telemetry::counters::add;
use crate::telemetry::kinds::{Session, TlsVersion};

/// See the module.
#[derive(Debug, Default)]
pub struct Handshakes([[AtomicU64; Session::COUNT]; TlsVersion::COUNT]);

impl Handshakes {
    /// Counts one.
    pub fn done(&self, version: TlsVersion, session: Session) {
        add(&self.0[version as usize][session as usize], 1);
    }

    /// How many there were of a kind.
    #[must_use]
    pub fn count(&self, version: TlsVersion, session: Session) -> u64 {
        self.0[version as usize][session as usize].load(Ordering::Relaxed)
    }
}
