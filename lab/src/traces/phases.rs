//! Where the time of requests went: their phases, the slowest of them, a histogram for each phase.

use serde::{Deserialize, Serialize};

use super::request::Request;

/// A stretch of a request. The first four follow one another and are all of it; the last two are trips to the pool,
/// which lie within them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// From the complete head until the route was found.
    Route,
    /// Until the answer was known.
    Resolve,
    /// Until the first bytes of a streamed body went to the kernel.
    FirstByte,
    /// Until the last of them did.
    Send,
    /// In the pool, before the answer was known.
    PoolBefore,
    /// In the pool, in the middle of the answer.
    PoolDuring,
}

impl Phase {
    /// In the order of the tables.
    pub const ALL: [Phase; 6] =
        [Phase::Route, Phase::Resolve, Phase::FirstByte, Phase::Send, Phase::PoolBefore, Phase::PoolDuring];

    /// In tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Phase::Route => "route",
            Phase::Resolve => "resolve",
            Phase::FirstByte => "first byte",
            Phase::Send => "send",
            Phase::PoolBefore => "pool, before the answer",
            Phase::PoolDuring => "pool, within the answer",
        }
    }

    /// Whether it lies within others.
    #[must_use]
    pub fn is_hop(self) -> bool {
        matches!(self, Phase::PoolBefore | Phase::PoolDuring)
    }
}

/// A phase of one request: from when on, how long, in microseconds.
pub type Stretch = (Phase, u64, u64);

/// The phases of a request, those of the pool last. What its span does not tell of is within the next one that it
/// does tell of.
#[must_use]
pub fn of(request: &Request) -> Vec<Stretch> {
    let marks = [
        (Phase::Route, request.routed_us),
        (Phase::Resolve, request.resolved_us),
        (Phase::FirstByte, request.first_byte_us),
        (Phase::Send, Some(request.us)),
    ];
    let (mut stretches, mut from) = (Vec::new(), 0);
    for (phase, until) in marks {
        if let Some(until) = until {
            // The server reads the clock once a mark: none lies behind the end.
            let until = until.clamp(from, request.us.max(from));
            stretches.push((phase, from, until - from));
            from = until;
        }
    }
    stretches.extend(request.hops.iter().map(|hop| {
        let phase = if hop.name.starts_with("body ") { Phase::PoolDuring } else { Phase::PoolBefore };
        (phase, hop.start_us, hop.us)
    }));
    stretches
}

/// The slowest, the slowest first; of equals the earlier.
#[must_use]
pub fn slowest(requests: &[Request], most: usize) -> Vec<&Request> {
    let mut sorted: Vec<&Request> = requests.iter().collect();
    sorted.sort_by(|a, b| b.us.cmp(&a.us).then_with(|| a.start_ns.cmp(&b.start_ns)));
    sorted.truncate(most);
    sorted
}

/// How many requests spent how long in a phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// Which; `None`: the whole request.
    pub phase: Option<Phase>,
    /// Requests with it.
    pub requests: u64,
    /// Microseconds of all of them.
    pub sum_us: u64,
    /// The longest.
    pub max_us: u64,
    /// By powers of two: place 0 is below 1 µs, place n from 2^(n-1) µs to below 2^n.
    pub buckets: Vec<u64>,
}

impl Histogram {
    fn new(phase: Option<Phase>) -> Histogram {
        Histogram { phase, requests: 0, sum_us: 0, max_us: 0, buckets: Vec::new() }
    }

    fn add(&mut self, us: u64) {
        let place = (u64::BITS - us.leading_zeros()) as usize;
        if self.buckets.len() <= place {
            self.buckets.resize(place + 1, 0);
        }
        self.buckets[place] += 1;
        self.requests += 1;
        self.sum_us = self.sum_us.saturating_add(us);
        self.max_us = self.max_us.max(us);
    }
}

/// Of whole requests first, then of each phase that any of them has.
#[must_use]
pub fn histograms(requests: &[Request]) -> Vec<Histogram> {
    let mut whole = Histogram::new(None);
    let mut phases = Phase::ALL.map(|phase| Histogram::new(Some(phase)));
    for request in requests {
        whole.add(request.us);
        for (phase, _, us) in of(request) {
            phases[phase as usize].add(us);
        }
    }
    let found = std::iter::once(whole).chain(phases);
    found.filter(|histogram| histogram.requests > 0).collect()
}
