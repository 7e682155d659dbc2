//! What all connections of one worker share: plain cells, because nobody else touches them.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use crate::connection::buffers::Buffers;
use crate::connection::clock::Clock;
use crate::connection::wheel::Wheel;
use crate::connection::windows::Windows;
use crate::fs::send::Resident;
use crate::limits::Limits;
use crate::message::Service;
use crate::sys::clock::{monotonic_coarse_ms, monotonic_coarse_us, monotonic_us};
use crate::telemetry::access::AccessLog;
use crate::telemetry::observer::Observer;
use crate::telemetry::{self, counters};

/// See the module.
pub struct Context {
    /// Bounds in force.
    pub limits: Limits,
    /// The Date of answers.
    pub clock: Clock,
    /// Deadlines of the worker's connections.
    pub wheel: Rc<Wheel>,
    /// Buffers to lend.
    pub buffers: Buffers,
    /// Windows of remote files to lend.
    pub windows: Rc<Windows>,
    /// What of the files is resident.
    pub resident: Resident,
    /// The worker's end of the access log.
    pub access: AccessLog,
    /// The worker's own counters.
    pub counters: Arc<counters::Worker>,
    /// What answers.
    pub service: Box<dyn Service>,
    /// For those who want to know more of a request.
    pub observer: Option<Observer>,
    draining: Cell<bool>,
    /// The first 200 of this worker is behind it.
    has_said_ok: Cell<bool>,
    /// Somebody wants to know how long requests take, to the microsecond.
    is_fine: bool,
}

impl Context {
    /// A context whose connections are answered by `service`.
    #[must_use]
    pub fn new(
        limits: Limits,
        access: AccessLog,
        counters: Arc<counters::Worker>,
        service: Box<dyn Service>,
    ) -> Self {
        let wheel = Rc::new(Wheel::new(monotonic_coarse_ms()));
        let (clock, buffers, windows) = (Clock::default(), Buffers::default(), Rc::default());
        let resident = Resident::default();
        let (draining, has_said_ok) = (Cell::new(false), Cell::new(false));
        let is_fine = access.is_on();
        Context {
            limits,
            clock,
            wheel,
            buffers,
            windows,
            resident,
            access,
            counters,
            service,
            observer: None,
            draining,
            has_said_ok,
            is_fine,
        }
    }

    /// The same context, with somebody who wants to know more of its requests.
    #[must_use]
    pub fn observed(self, observer: Option<Observer>) -> Self {
        Context { is_fine: self.is_fine || observer.is_some(), observer, ..self }
    }

    /// No connection is kept after its current request; idle ones are woken to find that out.
    pub fn drain(&self) {
        self.draining.set(true);
        self.wheel.wake_all();
    }

    /// Notes a 200: the first of the process goes to the log with the time since exec.
    pub fn first_ok(&self) {
        if !self.has_said_ok.replace(true) {
            telemetry::start::first_ok();
        }
    }

    /// For a port whose answers are not the site's.
    pub fn keep_first_ok_quiet(&self) {
        self.has_said_ok.set(true);
    }

    /// Microseconds of the monotonic clock: of the fine one where somebody asked for durations, else of the
    /// coarse one, which moves every 1 to 10 ms, is right on average and costs a fraction.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        if self.is_fine { monotonic_us() } else { monotonic_coarse_us() }
    }

    /// Whether the worker drains.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }
}
