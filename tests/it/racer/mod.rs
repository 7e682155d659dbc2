//! Writers beneath and around the root race against the resolver: links flip between inside and outside,
//! directories are renamed and moved out, roots are swapped, sidecars come and go. No byte from
//! outside, no 5xx, no answer that was never there, ever.
//!
//! A check of the path before the open, however careful, is true for the moment of the check: a link
//! that is flipped in between leads the open outside (the bug class of every canonicalize-then-open
//! server). Here the kernel resolves beneath the root in one call, so there is no between.
//!
//! The short form is a test of this binary; `scripts/racer.sh` and `scripts/long.sh racer` run the same
//! race for longer, as a binary of its own (`tests/racer`).

mod ground;
mod visitors;
mod writers;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ground::Ground;
use visitors::{Fault, Seen, visit};
use writers::Writers;

use crate::support::Server;

const VISITORS: u64 = 8;

/// When a race is over.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    #[allow(dead_code, reason = "the test of this binary counts requests; `tests/racer` has both")]
    Time(Duration),
    Requests(u64),
}

/// What a race has to reach to say anything.
#[derive(Clone, Copy, Debug)]
pub struct Floors {
    pub requests: u64,
    pub swaps: u64,
    /// Of all requests, for each of inside and missing.
    pub percent: u64,
}

/// What came of a race.
pub struct Result {
    seen: Seen,
    swaps: u64,
}

impl Result {
    /// All that is wrong with it.
    pub fn objections(&self, floors: Floors) -> Vec<String> {
        let Result { seen, swaps } = self;
        let mut objections = Vec::new();
        let mut at_least = |what: &str, found: u64, floor: u64| {
            if found < floor {
                objections.push(format!("{found} {what}, at least {floor} are needed"));
            }
        };
        at_least("requests", seen.requests, floors.requests);
        at_least("swaps", *swaps, floors.swaps);
        let floor = (seen.requests * floors.percent).div_ceil(100).max(1);
        at_least("answers from inside", seen.inside, floor);
        at_least("misses", seen.misses, floor);
        objections.extend(seen.one_sided());
        for (what, count) in [
            ("answers from outside", seen.escapes),
            ("answers 5xx", seen.server_errors),
            ("answers that were never there", seen.wrong),
        ] {
            objections.extend((count > 0).then(|| format!("{count} {what}")));
        }
        objections.extend(seen.stories.iter().cloned());
        objections
    }
}

impl Result {
    /// Two races as one.
    #[must_use]
    pub fn and(mut self, other: Result) -> Result {
        self.seen.add(other.seen);
        self.swaps += other.swaps;
        self
    }
}

/// The one line that scripts read.
impl fmt::Display for Result {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen { requests, inside, misses, escapes, server_errors, .. } = self.seen;
        let percent = |part: u64| {
            let tenths = part * 1000 / requests.max(1);
            format!("{}.{}%", tenths / 10, tenths % 10)
        };
        write!(
            formatter,
            "requests={requests} swaps={} inside={} miss={} escapes={escapes} 5xx={server_errors}",
            self.swaps,
            percent(inside),
            percent(misses),
        )
    }
}

/// How long what a path led to is believed in a race: not at all, so that each request is resolved; and so
/// short that what is kept is looked up again all the time.
pub const REVALIDATE: [&str; 2] = ["0s", "5ms"];

/// Runs a race. Without writers nothing is swapped.
pub fn race(until: Until, revalidate: &str, with_writers: bool) -> Result {
    let ground = Ground::new();
    let server = Server::with(&ground.site, "workers = 2", &ground.tables(revalidate));
    let writers = if with_writers { Writers::start(&ground) } else { Writers::none() };
    let (start, asked) = (Instant::now(), AtomicU64::new(0));
    let go_on = |more: u64| {
        let asked = asked.fetch_add(more, Ordering::Relaxed) + more;
        match until {
            Until::Time(time) => start.elapsed() < time,
            Until::Requests(requests) => asked < requests,
        }
    };
    let mut seen = Seen::default();
    std::thread::scope(|scope| {
        let visit = |seed| visit(&ground, seed, || server.client(), go_on);
        let visitors: Vec<_> = (0..VISITORS).map(|seed| scope.spawn(move || visit(seed))).collect();
        for visitor in visitors {
            match visitor.join() {
                Ok(one) => seen.add(one),
                // Its own words stand above.
                Err(_) => seen.fault(Fault::Wrong("a visitor could not read its answer".into())),
            }
        }
    });
    Result { seen, swaps: writers.finish() }
}

#[test]
fn no_race_leads_out_of_the_root() {
    let [looked_up, kept] = REVALIDATE.map(|revalidate| race(Until::Requests(10_000), revalidate, true));
    let result = looked_up.and(kept);
    let objections = result.objections(Floors { requests: 20_000, swaps: 1_000, percent: 1 });
    assert!(objections.is_empty(), "{result}\n{}", objections.join("\n"));
}

/// A race in which nothing moves would find no hole in any server.
#[test]
fn a_race_without_swaps_is_refused() {
    let result = race(Until::Requests(1_000), "0s", false);
    let objections = result.objections(Floors { requests: 10_000, swaps: 500, percent: 1 }).join("\n");
    for objection in ["requests, at least 10000", "0 swaps, at least 500", "/hop:"] {
        assert!(objections.contains(objection), "{objection}: {objections}");
    }
}
