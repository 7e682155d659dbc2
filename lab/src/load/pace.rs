//! When a request may go: as soon as a connection is free (closed loop), or when it is due (open loop).

use std::time::{Duration, Instant};

use super::{Plan, Until};
use crate::Refusal;

/// A window longer than this is a mistake of units.
const SECONDS_MAX: f64 = 86_400.0;
/// More requests a second than one thread can send: a mistake of units too.
const RATE_MAX: f64 = 10_000_000.0;

#[derive(Debug)]
pub(super) struct Pace {
    start: Instant,
    /// Requests that have not been sent.
    left: u64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Closed {
        deadline: Option<Instant>,
    },
    Open {
        sent: u64,
        rate: f64,
        /// By then all have to be sent: the window once more. A server that is at half the rate wanted makes
        /// for no latency worth printing.
        give_up: Instant,
    },
}

impl Pace {
    pub(super) fn check(plan: &Plan) -> Result<(), Refusal> {
        let seconds = match plan.until {
            Until::Seconds(seconds) => seconds,
            Until::Requests(0) => return Err(Refusal::new("a plan of no requests")),
            Until::Requests(_) => 1.0,
        };
        if !(seconds > 0.0 && seconds <= SECONDS_MAX) {
            return Err(Refusal::new(format!(
                "a window of {seconds} s: more than 0 and at most {SECONDS_MAX}"
            )));
        }
        if plan.rate.is_some_and(|rate| !(rate > 0.0 && rate <= RATE_MAX)) {
            return Err(Refusal::new(format!(
                "a rate of more than 0 and at most {RATE_MAX} requests a second"
            )));
        }
        if plan.connections == 0 {
            return Err(Refusal::new("a plan of no connections"));
        }
        Ok(())
    }

    /// The window begins.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked: small and positive"
    )]
    #[expect(clippy::cast_precision_loss, reason = "2^53 requests are a hundred years of load")]
    pub(super) fn begin(plan: &Plan, start: Instant) -> Pace {
        match (plan.rate, plan.until) {
            (None, Until::Seconds(seconds)) => {
                let deadline = Some(start + Duration::from_secs_f64(seconds));
                Pace { start, left: u64::MAX, kind: Kind::Closed { deadline } }
            }
            (None, Until::Requests(left)) => Pace { start, left, kind: Kind::Closed { deadline: None } },
            (Some(rate), until) => {
                let (left, seconds) = match until {
                    Until::Seconds(seconds) => (((seconds * rate) as u64).max(1), seconds),
                    Until::Requests(left) => (left, (left as f64 / rate).min(SECONDS_MAX)),
                };
                let give_up = start + Duration::from_secs_f64(2.0 * seconds) + super::TICK;
                Pace { start, left, kind: Kind::Open { sent: 0, rate, give_up } }
            }
        }
    }

    pub(super) fn start(&self) -> Instant {
        self.start
    }

    /// A connection is free: the moment from which the latency of a request that may be sent now counts.
    pub(super) fn take(&mut self, now: Instant) -> Option<Instant> {
        if self.is_over(now) {
            return None;
        }
        let from = match &mut self.kind {
            Kind::Closed { .. } => now,
            Kind::Open { sent, rate, .. } => {
                let due = due(self.start, *sent, *rate);
                if due > now {
                    return None;
                }
                *sent += 1;
                due
            }
        };
        self.left -= 1;
        Some(from)
    }

    /// No more requests will be sent.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.left == 0 || matches!(self.kind, Kind::Closed { deadline: Some(deadline) } if now >= deadline)
    }

    /// How long until the next is due; `None` in a closed loop or at the end.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        match self.kind {
            Kind::Open { sent, rate, .. } if self.left > 0 => {
                Some(due(self.start, sent, rate).saturating_duration_since(now))
            }
            _ => None,
        }
    }

    /// Whether the rate is hopeless.
    pub(super) fn look(&self, now: Instant) -> Result<(), Refusal> {
        match self.kind {
            Kind::Open { sent, rate, give_up } if self.left > 0 && now >= give_up => {
                Err(Refusal::new(format!(
                    "{rate} requests a second were not held: {sent} of {} were sent in twice the time",
                    sent + self.left
                )))
            }
            _ => Ok(()),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "2^53 requests are a hundred years of load")]
fn due(start: Instant, index: u64, rate: f64) -> Instant {
    start + Duration::from_secs_f64(index as f64 / rate)
}

#[cfg(test)]
mod tests {
    use super::super::tests::plan;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_closed_loop_sends_at_once_until_its_end() {
        let start = Instant::now();
        let mut pace = Pace::begin(&Plan { until: Until::Requests(2), ..plan() }, start);
        let later = start + SECOND;
        assert_eq!(pace.take(start), Some(start));
        assert_eq!(pace.take(later), Some(later));
        assert_eq!(pace.take(later), None);
        let mut pace = Pace::begin(&Plan { until: Until::Seconds(1.0), ..plan() }, start);
        assert_eq!((pace.take(start), pace.take(later)), (Some(start), None));
    }

    /// The third request could be sent only 10 s late: its latency counts from when it was due.
    #[test]
    fn an_open_loop_counts_from_when_a_request_was_due() {
        let start = Instant::now();
        let plan = Plan { until: Until::Seconds(1.5), rate: Some(2.0), ..plan() };
        let mut pace = Pace::begin(&plan, start);
        assert_eq!((pace.take(start), pace.take(start)), (Some(start), None));
        assert_eq!(pace.wait(start), Some(SECOND / 2));
        assert_eq!(pace.take(start + SECOND), Some(start + SECOND / 2));
        assert!(pace.look(start + SECOND).is_ok());
        let hopeless = pace.look(start + 10 * SECOND).unwrap_err().to_string();
        assert_eq!(hopeless, "2 requests a second were not held: 2 of 3 were sent in twice the time");
        assert_eq!(pace.take(start + 10 * SECOND), Some(start + SECOND));
        assert_eq!(pace.take(start + 10 * SECOND), None);
    }

    #[test]
    fn plans_without_sense_are_refused() {
        let refused = |plan: Plan| Pace::check(&plan).unwrap_err().to_string();
        assert!(refused(Plan { until: Until::Seconds(f64::NAN), ..plan() }).starts_with("a window of NaN s"));
        assert!(refused(Plan { until: Until::Seconds(0.0), ..plan() }).starts_with("a window of 0 s"));
        assert_eq!(refused(Plan { until: Until::Requests(0), ..plan() }), "a plan of no requests");
        assert_eq!(refused(Plan { connections: 0, ..plan() }), "a plan of no connections");
        assert!(refused(Plan { rate: Some(-1.0), ..plan() }).starts_with("a rate of more than 0"));
    }
}
