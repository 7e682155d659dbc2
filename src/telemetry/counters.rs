//! Counters of one worker and the heartbeat that tells whether it lives. Each worker writes its own
//! cache lines with plain loads and stores; whoever wants a sum reads them all.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::offload::Why;
use crate::telemetry::facts::{Facts, Kept, LookedUp};
use crate::telemetry::handshakes::Handshakes;
use crate::telemetry::histogram::Durations;
use crate::telemetry::kinds::{Class, Doing, Ended, Limited, MethodLabel, Source};

/// Adds to a counter that this thread alone writes.
pub(super) fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Requests of one route, method and class of status.
#[derive(Debug, Default)]
pub struct Series {
    /// How long they took.
    pub durations: Durations,
    body_bytes: AtomicU64,
}

impl Series {
    /// Bytes of bodies that were handed to the kernel.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        read(&self.body_bytes)
    }
}

/// Series of one route; made when the first request of each kind ends.
#[derive(Debug)]
pub struct Route([OnceLock<Box<Series>>; MethodLabel::COUNT * Class::COUNT]);

impl Default for Route {
    fn default() -> Route {
        Route([const { OnceLock::new() }; MethodLabel::COUNT * Class::COUNT])
    }
}

impl Route {
    /// Those that there are, by method and class.
    pub fn series(&self) -> impl Iterator<Item = (usize, Class, &Series)> {
        self.0.iter().enumerate().filter_map(|(place, series)| {
            Some((place / Class::COUNT, Class::ALL[place % Class::COUNT], &**series.get()?))
        })
    }
}

/// What the worker keeps of files, told once a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptFiles {
    /// Open files.
    pub files: u64,
    /// Bytes of them in memory, with what their names take.
    pub bytes: u64,
    /// Names that lead to nothing.
    pub missing: u64,
    /// Entries that made room for others since the start.
    pub evicted: u64,
}

/// One worker's numbers; aligned so that two workers never write to one cache line (128: the pair
/// of lines that x86 prefetches together).
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Worker {
    heartbeat_ms: AtomicU64,
    opened: AtomicU64,
    /// Handshakes that came to their end.
    pub handshakes: Handshakes,
    unrouted: Route,
    /// By the number of the route; made with its first request.
    routes: Box<[OnceLock<Box<Route>>]>,
    /// Of the routes beyond those.
    other_routes: Route,
    request_body_bytes: AtomicU64,
    malformed: AtomicU64,
    doing: [AtomicU64; Doing::COUNT],
    ended: [AtomicU64; Ended::COUNT],
    limited: [AtomicU64; Limited::COUNT],
    sources: [AtomicU64; Source::COUNT],
    kept: [AtomicU64; Kept::ALL.len()],
    looked_up_inline: AtomicU64,
    /// Trips of requests to the pool before their answer began, and while it was sent.
    hops: [AtomicU64; Why::ALL.len()],
    body_hops: [AtomicU64; Why::ALL.len()],
    lookups_in_pool: [AtomicU64; Why::ALL.len()],
    kept_files: [AtomicU64; 4],
}

impl Worker {
    /// Numbers with a place for each of so many routes.
    #[must_use]
    pub fn new(routes: usize) -> Worker {
        Worker { routes: (0..routes).map(|_| OnceLock::new()).collect(), ..Worker::default() }
    }

    /// Stamps the heartbeat with the monotonic clock.
    pub fn beat(&self, now_ms: u64) {
        self.heartbeat_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Last stamp; 0 before the first.
    #[must_use]
    pub fn last_beat_ms(&self) -> u64 {
        read(&self.heartbeat_ms)
    }

    /// Counts a finished request.
    pub fn request_done(
        &self,
        facts: &Facts,
        method: MethodLabel,
        status: u16,
        body_bytes: u64,
        duration_us: u64,
    ) {
        let route = match usize::from(facts.route).checked_sub(1) {
            None => &self.unrouted,
            Some(number) => match self.routes.get(number) {
                Some(route) => &**route.get_or_init(Box::default),
                None => &self.other_routes,
            },
        };
        let place = method.place() * Class::COUNT + Class::of(status) as usize;
        let series = route.0[place].get_or_init(Box::default);
        series.durations.add(duration_us);
        add(&series.body_bytes, body_bytes);
        if !facts.is_plain() {
            self.note(facts);
        }
    }

    /// Counts how a file was come by.
    fn note(&self, facts: &Facts) {
        add(&self.kept[facts.kept as usize], 1);
        match (facts.looked_up, facts.why) {
            (LookedUp::Inline, _) => add(&self.looked_up_inline, 1),
            (LookedUp::Pool, Some(why)) => add(&self.lookups_in_pool[why as usize], 1),
            (LookedUp::Pool, None) | (LookedUp::No, _) => {}
        }
        if facts.hops != 0 {
            for why in facts.reasons() {
                add(&self.hops[why as usize], 1);
            }
        }
    }

    /// Counts where the bytes of an answer came from.
    pub fn sent_from(&self, source: Source) {
        add(&self.sources[source as usize], 1);
    }

    /// Counts a trip to the pool in the middle of an answer.
    pub fn body_hop(&self, why: Why) {
        add(&self.body_hops[why as usize], 1);
    }

    /// Counts a body that was read and dropped.
    pub fn body_received(&self, bytes: u64) {
        add(&self.request_body_bytes, bytes);
    }

    /// Counts a message that has no one reading.
    pub fn malformed(&self) {
        add(&self.malformed, 1);
    }

    /// Counts a refusal.
    pub fn refused(&self, limited: Limited) {
        add(&self.limited[limited as usize], 1);
    }

    /// Counts a connection that this worker took over.
    pub fn connection_opened(&self) {
        add(&self.opened, 1);
    }

    /// Counts its end.
    fn connection_ended(&self, ended: Ended) {
        add(&self.ended[ended as usize], 1);
    }

    /// A connection does something else than before. Idle ones are those that do nothing else.
    pub(super) fn moved(&self, before: Doing, now: Doing) {
        for (doing, change) in [(before, u64::MAX), (now, 1)] {
            if doing != Doing::Idle {
                add(&self.doing[doing as usize], change);
            }
        }
    }

    /// Tells what the worker keeps.
    pub fn keeps(&self, kept: KeptFiles) {
        let values = [kept.files, kept.bytes, kept.missing, kept.evicted];
        for (cell, value) in self.kept_files.iter().zip(values) {
            cell.store(value, Ordering::Relaxed);
        }
    }
}

/// What is read of a worker.
impl Worker {
    /// Requests answered since the start.
    #[must_use]
    pub fn requests(&self) -> u64 {
        let mut sums = super::histogram::Sums::default();
        for (_, route) in self.routes() {
            route.series().for_each(|(_, _, series)| sums.take(&series.durations));
        }
        sums.count()
    }

    /// Its routes by number from 1 on; 0 is none, and one more than the last all others.
    pub fn routes(&self) -> impl Iterator<Item = (usize, &Route)> {
        let known = self.routes.iter().enumerate();
        let known = known.filter_map(|(number, route)| Some((number + 1, &**route.get()?)));
        let others = (self.routes.len() + 1, &self.other_routes);
        std::iter::once((0, &self.unrouted)).chain(known).chain(std::iter::once(others))
    }

    /// Connections taken over since the start.
    #[must_use]
    pub fn connections(&self) -> u64 {
        read(&self.opened)
    }

    /// Connections that ended so.
    #[must_use]
    pub fn ended(&self, ended: Ended) -> u64 {
        read(&self.ended[ended as usize])
    }

    /// Connections that do this now.
    #[must_use]
    pub fn doing(&self, doing: Doing) -> u64 {
        if doing != Doing::Idle {
            return read(&self.doing[doing as usize]);
        }
        // Ends before beginnings, so that a race leaves one too many rather than less than none.
        let gone: u64 = self.ended.iter().map(read).sum();
        let busy: u64 = self.doing.iter().map(read).sum();
        read(&self.opened).saturating_sub(gone + busy)
    }

    /// Refusals at this limit.
    #[must_use]
    pub fn limited(&self, limited: Limited) -> u64 {
        read(&self.limited[limited as usize])
    }

    /// Answers whose bytes came from there.
    #[must_use]
    pub fn sources(&self, source: Source) -> u64 {
        read(&self.sources[source as usize])
    }

    /// What the cache knew, so often.
    #[must_use]
    pub fn kept(&self, kept: Kept) -> u64 {
        read(&self.kept[kept as usize])
    }

    /// Lookups on the worker, and in the pool for this reason.
    #[must_use]
    pub fn lookups(&self, why: Option<Why>) -> u64 {
        why.map_or_else(|| read(&self.looked_up_inline), |why| read(&self.lookups_in_pool[why as usize]))
    }

    /// Trips to the pool for this reason, before an answer began and in the middle of one.
    #[must_use]
    pub fn hops(&self, why: Why) -> (u64, u64) {
        (read(&self.hops[why as usize]), read(&self.body_hops[why as usize]))
    }

    /// Bytes of request bodies, and messages that had no one reading.
    #[must_use]
    pub fn received(&self) -> (u64, u64) {
        (read(&self.request_body_bytes), read(&self.malformed))
    }

    /// What the worker said last that it keeps.
    #[must_use]
    pub fn kept_files(&self) -> KeptFiles {
        let [files, bytes, missing, evicted] = &self.kept_files;
        KeptFiles { files: read(files), bytes: read(bytes), missing: read(missing), evicted: read(evicted) }
    }
}

/// What one connection does, as long as it lives.
#[derive(Debug)]
pub struct Stay {
    worker: std::sync::Arc<Worker>,
    doing: Doing,
    /// How it ended; counted when this is dropped, also with a task that fails.
    ended: Ended,
}

impl Stay {
    /// A connection that this worker took over; idle.
    #[must_use]
    pub fn new(worker: &std::sync::Arc<Worker>) -> Stay {
        worker.connection_opened();
        Stay { worker: std::sync::Arc::clone(worker), doing: Doing::Idle, ended: Ended::Lost }
    }

    /// What it does now.
    pub fn now(&mut self, doing: Doing) {
        if self.doing != doing {
            self.worker.moved(self.doing, doing);
            self.doing = doing;
        }
    }

    /// How it ended.
    pub fn end(&mut self, ended: Ended) {
        self.ended = ended;
    }

    /// Whether it does nothing.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.doing == Doing::Idle
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.now(Doing::Idle);
        self.worker.connection_ended(self.ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::histogram::Sums;

    #[test]
    fn requests_are_told_apart_by_route_method_and_class() {
        let worker = Worker::new(1);
        let done = |route, status| {
            let facts = Facts { route, ..Facts::NONE };
            worker.request_done(&facts, MethodLabel::OTHER, status, 10, 7);
        };
        for (route, status) in [(0, 400), (1, 200), (1, 204), (1, 503), (2, 200), (3, 0)] {
            done(route, status);
        }
        let mut found = Vec::new();
        for (number, route) in worker.routes() {
            for (method, class, series) in route.series() {
                let mut sums = Sums::default();
                sums.take(&series.durations);
                assert_eq!(method, MethodLabel::OTHER.place());
                assert_eq!(series.body_bytes(), 10 * sums.count());
                found.push((number, class.name(), sums.count()));
            }
        }
        assert_eq!(
            found,
            [(0, "4xx", 1), (1, "2xx", 2), (1, "5xx", 1), (2, "none", 1), (2, "2xx", 1)],
            "two routes without a place of their own share one"
        );
        assert_eq!(worker.requests(), 6);
    }

    #[test]
    fn a_connection_is_in_one_state_and_leaves_it() {
        let worker = std::sync::Arc::new(Worker::default());
        let mut stay = Stay::new(&worker);
        assert_eq!(worker.doing(Doing::Idle), 1);
        for doing in [Doing::Head, Doing::Answer, Doing::Answer, Doing::Send] {
            stay.now(doing);
            assert_eq!((worker.doing(doing), worker.doing(Doing::Idle)), (1, 0));
        }
        stay.end(Ended::Client);
        drop(stay);
        assert_eq!((worker.connections(), worker.ended(Ended::Client)), (1, 1));
        let failed = std::panic::AssertUnwindSafe(Stay::new(&worker));
        let _ = std::panic::catch_unwind(move || {
            let mut failed = failed;
            failed.now(Doing::Answer);
            panic!("a connection that fails")
        });
        assert_eq!((worker.connections(), worker.ended(Ended::Lost)), (2, 1));
        assert!(Doing::ALL.iter().all(|doing| worker.doing(*doing) == 0));
    }
}
