//! The numbers of all workers and of everything that the process has once, added up when somebody asks.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::certificates::Status;
use super::shared::Shared;
use crate::handlers::compress::Store;
use crate::limits::METRIC_ROUTES_MAX;
use crate::offload::{BOUNDS_US, Pool, Times, Why};
use crate::sys::clock::monotonic_coarse_ms;
use crate::telemetry::counters::{KeptFiles, Worker};
use crate::telemetry::exposition::{Form, Page};
use crate::telemetry::facts::Kept;
use crate::telemetry::families::{self, Family};
use crate::telemetry::histogram::{REQUEST_BOUNDS_US, Sums};
use crate::telemetry::kinds::{Doing, Ended, Limited, Lost, MethodLabel, Session, Source, TlsVersion};
use crate::telemetry::log;
use crate::telemetry::sink::Sink;
use crate::telemetry::spans::Tally;
use crate::telemetry::start;

/// What the process has once; workers have their own.
pub(super) struct Sources {
    /// Names of the routes that have a label of their own, in the order of the config.
    pub(super) routes: Vec<String>,
    pub(super) pool: Pool,
    pub(super) store: std::sync::Arc<Store>,
    pub(super) access_sink: Option<Sink>,
    pub(super) config_digest: String,
    /// Of the spans, where there are some.
    pub(super) tally: std::sync::Arc<Tally>,
    /// Of TLS, where it is served.
    pub(super) certificates: Vec<std::sync::Arc<Status>>,
}

/// Label of all routes beyond `METRIC_ROUTES_MAX`.
const OTHER_ROUTES: &str = "(other)";

impl Sources {
    /// Names of routes as labels.
    pub(super) fn route_labels<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
        names.take(METRIC_ROUTES_MAX).map(str::to_owned).collect()
    }

    /// The page of metrics.
    pub(super) fn page(&self, shared: &Shared, form: Form) -> String {
        let mut page = Page::new(form);
        let workers = &shared.workers;
        let sum = |of: &dyn Fn(&Worker) -> u64| workers.iter().map(|worker| of(worker)).sum::<u64>();
        self.requests(&mut page, workers);
        connections(&mut page, &sum, self.pool.refused());
        handshakes(&mut page, &sum);
        self.certificates(&mut page);
        files(&mut page, &sum);
        self.kept(&mut page, &sum, workers);
        self.pool(&mut page);
        self.process(&mut page, workers);
        page.finish()
    }

    fn requests(&self, page: &mut Page, workers: &[std::sync::Arc<Worker>]) {
        let route = |number: usize| match number.checked_sub(1) {
            None => "",
            Some(place) => self.routes.get(place).map_or(OTHER_ROUTES, String::as_str),
        };
        // By names: two routes for different methods may have the same.
        let mut sums: BTreeMap<(&str, usize, &str), (Sums, u64)> = BTreeMap::new();
        for worker in workers {
            for (number, of_route) in worker.routes() {
                for (method, class, series) in of_route.series() {
                    let (sums, bytes) = sums.entry((route(number), method, class.name())).or_default();
                    sums.take(&series.durations);
                    *bytes += series.body_bytes();
                }
            }
        }
        let mut durations = page.family(&families::REQUEST_DURATION);
        for ((route, method, class), (sums, _)) in &sums {
            let labels = [route, MethodLabel::word(*method), class];
            durations.histogram(&labels, &REQUEST_BOUNDS_US, &sums.buckets, sums.sum_us);
        }
        let active = [Doing::Body, Doing::Answer];
        let active = workers.iter().map(|worker| active.map(|doing| worker.doing(doing)).iter().sum::<u64>());
        page.family(&families::ACTIVE_REQUESTS).sample(&[], active.sum::<u64>());
        let mut bodies = page.family(&families::RESPONSE_BODY_BYTES);
        for ((route, method, class), (_, bytes)) in &sums {
            bodies.sample(&[route, MethodLabel::word(*method), class], bytes);
        }
    }

    fn certificates(&self, page: &mut Page) {
        let mut ends = page.family(&families::CERTIFICATE_EXPIRY);
        for status in &self.certificates {
            ends.sample(&[&status.name], status.expires_s.load(Ordering::Relaxed));
        }
        let mut changes = page.family(&families::CERTIFICATE_CHANGES);
        for status in &self.certificates {
            changes.sample(&[&status.name, "taken"], status.taken.load(Ordering::Relaxed));
            changes.sample(&[&status.name, "refused"], status.refused.load(Ordering::Relaxed));
        }
    }

    fn kept(&self, page: &mut Page, sum: &Sum<'_>, workers: &[std::sync::Arc<Worker>]) {
        let mut lookups = page.family(&families::OPEN_FILE_LOOKUPS);
        for (kept, word) in Kept::ALL.into_iter().filter(|(_, word)| !word.is_empty()) {
            lookups.sample(&[word], sum(&|worker| worker.kept(kept)));
        }
        let kept = |of: fn(KeptFiles) -> u64| workers.iter().map(|worker| of(worker.kept_files())).sum();
        let (bytes, files) = self.store.kept();
        let values: [(&'static Family, u64); 6] = [
            (&families::OPEN_FILES, kept(|kept| kept.files)),
            (&families::OPEN_FILES_BYTES, kept(|kept| kept.bytes)),
            (&families::MISSING_FILES, kept(|kept| kept.missing)),
            (&families::OPEN_FILES_EVICTED, kept(|kept| kept.evicted)),
            (&families::COMPRESSED_BYTES, bytes),
            (&families::COMPRESSED_FILES, files),
        ];
        for (family, value) in values {
            page.family(family).sample(&[], value);
        }
    }

    fn pool(&self, page: &mut Page) {
        page.family(&families::OFFLOAD_JOBS).sample(&[], self.pool.jobs());
        page.family(&families::OFFLOAD_TAKEN).sample(&[], self.pool.taken());
        let (waited, ran) = self.pool.times();
        let mut times = |family, times: &Times| {
            let (buckets, sum_us) = times.read();
            page.family(family).histogram(&[], &BOUNDS_US, &buckets, sum_us);
        };
        times(&families::OFFLOAD_WAIT, waited);
        times(&families::OFFLOAD_RUN, ran);
    }

    fn process(&self, page: &mut Page, workers: &[std::sync::Arc<Worker>]) {
        page.family(&families::SPANS_MADE).sample(&[], self.tally.made());
        page.family(&families::SPANS_EXPORTED).sample(&[], self.tally.exported());
        let mut lost_spans = page.family(&families::SPANS_DROPPED);
        for lost in Lost::ALL {
            lost_spans.sample(&[lost.name()], self.tally.lost(*lost));
        }
        let mut dropped = page.family(&families::LOG_LINES_DROPPED);
        dropped.sample(&["access"], self.access_sink.as_ref().map_or(0, Sink::lost_lines));
        dropped.sample(&["events"], log::lost_lines());
        let now_ms = monotonic_coarse_ms();
        let mut ages = page.family(&families::HEARTBEAT_AGE);
        for (number, worker) in workers.iter().enumerate() {
            let age_ms = now_ms.saturating_sub(worker.last_beat_ms());
            ages.sample(&[&number.to_string()], format_args!("{}.{:03}", age_ms / 1000, age_ms % 1000));
        }
        page.family(&families::BUILD_INFO).sample(&[env!("CARGO_PKG_VERSION")], 1);
        page.family(&families::CONFIG_INFO).sample(&[&self.config_digest], 1);
        let (seconds, milliseconds) = start::wall();
        page.family(&families::START_TIME).sample(&[], format_args!("{seconds}.{milliseconds:03}"));
    }
}

/// Adds up one number of all workers.
type Sum<'a> = dyn Fn(&dyn Fn(&Worker) -> u64) -> u64 + 'a;

fn connections(page: &mut Page, sum: &Sum<'_>, pool_refused: u64) {
    page.family(&families::REQUEST_BODY_BYTES).sample(&[], sum(&|worker| worker.received().0));
    page.family(&families::MALFORMED).sample(&[], sum(&|worker| worker.received().1));
    let mut refusals = page.family(&families::REFUSALS);
    for limited in Limited::ALL {
        refusals.sample(&[limited.name()], sum(&|worker| worker.limited(*limited)));
    }
    refusals.sample(&["offload_queue"], pool_refused);
    let mut states = page.family(&families::CONNECTIONS);
    for doing in Doing::ALL {
        states.sample(&[doing.name()], sum(&|worker| worker.doing(*doing)));
    }
    page.family(&families::CONNECTIONS_OPENED).sample(&[], sum(&Worker::connections));
    let mut ends = page.family(&families::CONNECTIONS_ENDED);
    for ended in Ended::ALL {
        ends.sample(&[ended.name()], sum(&|worker| worker.ended(*ended)));
    }
}

fn handshakes(page: &mut Page, sum: &Sum<'_>) {
    let mut handshakes = page.family(&families::HANDSHAKES);
    for version in TlsVersion::ALL {
        for session in Session::ALL {
            let count = sum(&|worker| worker.handshakes.count(*version, *session));
            handshakes.sample(&[version.name(), session.name()], count);
        }
    }
}

fn files(page: &mut Page, sum: &Sum<'_>) {
    let mut lookups = page.family(&families::LOOKUPS);
    lookups.sample(&["inline", ""], sum(&|worker| worker.lookups(None)));
    for why in Why::ALL {
        lookups.sample(&["pool", why.name()], sum(&|worker| worker.lookups(Some(why))));
    }
    let mut hops = page.family(&families::REQUEST_HOPS);
    for why in Why::ALL {
        hops.sample(&["lookup", why.name()], sum(&|worker| worker.hops(why).0));
        hops.sample(&["body", why.name()], sum(&|worker| worker.hops(why).1));
    }
    let mut answers = page.family(&families::ANSWERS);
    for source in Source::ALL {
        answers.sample(&[source.name()], sum(&|worker| worker.sources(*source)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::offload::Offload;
    use crate::telemetry::facts::Facts;

    /// Two routes of one name, or more of them than have a label, must not be two series of one name.
    #[test]
    fn no_series_is_there_twice_and_every_family_is() {
        let pool = Offload::start(1, 10).unwrap();
        let names: Vec<String> = (0..METRIC_ROUTES_MAX + 2).map(|number| format!("/{number}\"")).collect();
        let shared = Shared::new(2, 10, METRIC_ROUTES_MAX);
        for (route, worker) in [(0, 0), (1, 0), (1, 1), (501, 1), (502, 0), (503, 0)] {
            let facts = Facts { route, ..Facts::NONE };
            shared.workers[worker].request_done(&facts, MethodLabel::OTHER, 200, 1, 1);
        }
        let sources = Sources {
            routes: Sources::route_labels(names.iter().map(String::as_str)),
            pool,
            store: Store::new(&Limits::default(), pool),
            access_sink: None,
            config_digest: "d".to_owned(),
            tally: std::sync::Arc::default(),
            certificates: Vec::new(),
        };
        let page = sources.page(&shared, Form::Prometheus);
        let mut seen = std::collections::BTreeSet::new();
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            assert!(seen.insert(line.rsplit_once(' ').unwrap().0), "twice: {line}");
        }
        for family in families::ALL {
            assert!(page.contains(&format!("# TYPE {} ", family.sample_name())), "{}", family.name);
        }
        let count = |route: &str| {
            let name = "http_server_request_duration_seconds_count";
            let start = format!("{name}{{http_route=\"{route}\",");
            page.lines().find_map(|line| line.strip_prefix(&start)?.rsplit_once(' ')?.1.parse::<u64>().ok())
        };
        assert_eq!((count(""), count("/0\\\""), count("(other)")), (Some(1), Some(2), Some(3)));
    }
}
