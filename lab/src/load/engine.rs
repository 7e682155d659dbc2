//! Drives all connections from one epoll: HTTP/1.1, kept or fresh, plain or over TLS.
//!
//! A kept connection costs `recv` and `send` for each answer, and a share of one `epoll_wait`. Nothing is
//! allocated for a request; one buffer serves all reads.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventFlags};

use super::answer::Want;
use super::pace::Pace;
use super::slot::{Common, Phase, Slot};
use super::tally::Tally;
use super::{Bounds, Outcome, Plan, TICK, answer_to, fetch, tls};
use crate::Refusal;
use crate::scenario::Protocol;

/// One read takes as much as a socket's buffer holds of a large body.
const BUFFER_BYTES: usize = 1 << 20;
/// Events taken at once.
const EVENTS: usize = 256;
/// Files stay open for each connection; a sweep goes to 500.
const CONNECTIONS_MAX: u32 = 10_000;

#[derive(Debug)]
pub(super) struct Engine {
    plan: Plan,
    bounds: Bounds,
    common: Common,
    slots: Vec<Slot>,
    /// Slots that wait for a request, those that wait longest first.
    idle: VecDeque<usize>,
    tally: Tally,
    pace: Pace,
    buffer: Vec<u8>,
}

impl Engine {
    pub(super) fn open(plan: &Plan, bounds: Bounds) -> Result<Engine, Refusal> {
        if plan.connections > CONNECTIONS_MAX {
            return Err(Refusal::new(format!("{} connections: at most {CONNECTIONS_MAX}", plan.connections)));
        }
        let epoll = epoll::create(CreateFlags::CLOEXEC)
            .map_err(|error| Refusal::new(format!("epoll_create: {error}")))?;
        let now = Instant::now();
        let common = Common {
            epoll,
            address: plan.address,
            request: plan.request.as_bytes().into(),
            want: Want { status: plan.expect.status, length: Some(plan.expect.length) },
            tls: tls::config(plan.protocol)?,
        };
        let mut engine = Engine {
            slots: (0..plan.connections).map(|_| Slot::new(now)).collect(),
            idle: (0..plan.connections as usize).collect(),
            tally: Tally::new(),
            pace: Pace::begin(plan, now),
            buffer: vec![0; BUFFER_BYTES],
            plan: plan.clone(),
            bounds,
            common,
        };
        engine.prepare()?;
        Ok(engine)
    }

    /// What is nobody's request: the first connections where they are kept, the first tickets.
    fn prepare(&mut self) -> Result<(), Refusal> {
        let Engine { slots, common, bounds, tally, plan, .. } = self;
        for (index, slot) in slots.iter_mut().enumerate() {
            match plan.protocol {
                Protocol::Http1 | Protocol::Tls => {
                    let (socket, tls) = fetch::connect(plan.address, common.tls.as_ref(), bounds.stall)?;
                    socket.set_nonblocking(true)?;
                    slot.adopt(socket.into(), tls.map(Box::new), common, index)?;
                }
                Protocol::TlsResumed => {
                    let tls = common.tls.as_ref();
                    fetch::over(plan.address, tls, &plan.request, common.want, bounds.stall)?;
                }
                Protocol::Http1Fresh | Protocol::TlsFull | Protocol::H2(..) => continue,
            }
            tally.connects += 1;
        }
        Ok(())
    }

    pub(super) fn run(mut self) -> Result<Outcome, Refusal> {
        // The kernel may be 50 µs late with a timeout by default (prctl(2), PR_SET_TIMERSLACK): for an open loop
        // that would be latency of the server's.
        if self.plan.rate.is_some() {
            rustix::thread::set_current_timer_slack(NonZeroU64::new(1))
                .map_err(|error| Refusal::new(format!("prctl PR_SET_TIMERSLACK: {error}")))?;
        }
        let mut now = Instant::now();
        let mut looked = now;
        self.pace = Pace::begin(&self.plan, now);
        self.issue(now)?;
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        while self.idle.len() < self.slots.len() || !self.pace.is_over(now) {
            let timeout = self.timeout(now);
            match epoll::wait(&self.common.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout))
            {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Refusal::new(format!("epoll_wait: {error}"))),
            }
            for event in events.drain(..) {
                let index = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
                self.ready(index, event.flags)?;
            }
            now = Instant::now();
            self.issue(now)?;
            if now.saturating_duration_since(looked) >= TICK {
                looked = now;
                self.look(now)?;
            }
        }
        Ok(self.tally.outcome(self.pace.start(), now))
    }

    fn timeout(&self, now: Instant) -> Timespec {
        let due = self.pace.wait(now).filter(|_| !self.idle.is_empty());
        let wait = due.unwrap_or(TICK).min(TICK).max(Duration::ZERO);
        Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(0),
            tv_nsec: i64::from(wait.subsec_nanos()),
        }
    }

    /// Sends what may be sent on the connections that are free.
    fn issue(&mut self, now: Instant) -> Result<(), Refusal> {
        while let Some(index) = self.idle.front().copied() {
            let Some(from) = self.pace.take(now) else { break };
            self.idle.pop_front();
            let slot = &mut self.slots[index];
            (slot.from, slot.sent) = (from, now);
            if !slot.is_connected() {
                slot.open(&self.common, index)?;
                self.tally.connects += 1;
            }
            slot.ask(&self.common, index)?;
        }
        Ok(())
    }

    /// Something happened on a connection.
    fn ready(&mut self, index: usize, flags: EventFlags) -> Result<(), Refusal> {
        let Some(slot) = self.slots.get_mut(index) else { return Ok(()) };
        if flags.contains(EventFlags::OUT) {
            slot.flush(&self.common, index)?;
        }
        if !flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
            return Ok(());
        }
        let hangup = flags.contains(EventFlags::RDHUP);
        let is_over = match slot.pull(&self.common, &mut self.buffer, hangup) {
            Ok(is_over) => is_over,
            Err(what) => return Err(self.fault(&what)),
        };
        if slot.wants_flush() {
            slot.flush(&self.common, index)?;
        }
        if is_over { self.ended(index) } else { self.progressed(index) }
    }

    /// More of an answer is there, perhaps all of it.
    fn progressed(&mut self, index: usize) -> Result<(), Refusal> {
        let slot = &self.slots[index];
        if slot.phase != Phase::Asked || !slot.answer.is_done() {
            return Ok(());
        }
        let now = self.count(index)?;
        let is_fresh = self.is_fresh();
        let slot = &mut self.slots[index];
        if slot.answer.closes() || is_fresh {
            slot.phase = Phase::Closing;
            return Ok(());
        }
        slot.phase = Phase::Idle;
        self.free(index, now)
    }

    /// A connection is at its end.
    fn ended(&mut self, index: usize) -> Result<(), Refusal> {
        let slot = &mut self.slots[index];
        let now = match slot.phase {
            Phase::Idle => return Err(self.dropped(index)),
            Phase::Asked if slot.answer.is_untouched() && slot.answers > 0 => return Err(self.dropped(index)),
            Phase::Asked => {
                if let Err(what) = slot.answer.close(self.common.want, "the server closed the connection") {
                    return Err(self.fault(&what));
                }
                if !slot.answer.closes() && !self.is_fresh() {
                    self.slots[index].answers += 1;
                    return Err(self.dropped(index));
                }
                self.count(index)?
            }
            Phase::Closing => Instant::now(),
        };
        let slot = &mut self.slots[index];
        slot.close();
        slot.phase = Phase::Idle;
        self.free(index, now)
    }

    /// An answer is complete and right.
    fn count(&mut self, index: usize) -> Result<Instant, Refusal> {
        let slot = &mut self.slots[index];
        let now = Instant::now();
        if self.common.tls.is_some()
            && let Err(what) = tls::judge(self.plan.protocol, slot.handshake())
        {
            return Err(self.fault(&what));
        }
        slot.answers += 1;
        self.tally.count(now.saturating_duration_since(slot.from), slot.answer.body_bytes());
        Ok(now)
    }

    /// A slot has nothing to do: in a closed loop it asks again at once.
    fn free(&mut self, index: usize, now: Instant) -> Result<(), Refusal> {
        self.idle.push_back(index);
        self.issue(now)
    }

    fn is_fresh(&self) -> bool {
        matches!(self.plan.protocol, Protocol::Http1Fresh | Protocol::TlsFull | Protocol::TlsResumed)
    }

    /// What is looked at ten times a second.
    fn look(&self, now: Instant) -> Result<(), Refusal> {
        if (self.bounds.stop)() {
            return Err(Refusal::new("stopped while load was running"));
        }
        self.pace.look(now)?;
        let stall = self.bounds.stall;
        for slot in &self.slots {
            if slot.phase == Phase::Idle || now.saturating_duration_since(slot.sent) < stall {
                continue;
            }
            return Err(self.fault(&match slot.phase {
                Phase::Asked => {
                    format!("{}: nothing more within {} s", slot.answer.so_far("stops"), stall.as_secs_f64())
                }
                _ => format!("is not followed by the end of its connection within {} s", stall.as_secs_f64()),
            }));
        }
        Ok(())
    }

    fn fault(&self, what: &str) -> Refusal {
        Refusal::new(format!("{} {what}", answer_to(&self.plan.request)))
    }

    fn dropped(&self, index: usize) -> Refusal {
        Refusal::new(format!(
            "the server closed a kept connection without saying so: {} answers came on it, the last of them to {}",
            self.slots[index].answers,
            answer_to(&self.plan.request).trim_start_matches("the answer to ")
        ))
    }
}
