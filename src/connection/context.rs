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
use crate::sys::clock::monotonic_coarse_ms;
use crate::telemetry::access::AccessLog;
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
    draining: Cell<bool>,
    /// The first 200 of this worker is behind it.
    has_said_ok: Cell<bool>,
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
            draining,
            has_said_ok,
        }
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

    /// Whether the worker drains.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }
}
