//! Every family of metrics: name, kind, labels and what it counts. The exposition writes no other, and
//! `docs/observability.md` is made from this table.

/// What a family is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows. Its samples end in `_total`.
    Counter,
    /// A value of this moment.
    Gauge,
    /// Durations by buckets.
    Histogram,
}

impl Kind {
    /// As in `# TYPE`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// One family.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Without the `_total` of counters.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// What it counts, in one line.
    pub help: &'static str,
}

impl Family {
    /// Name of its samples, but for the parts of a histogram.
    #[must_use]
    pub fn sample_name(&self) -> String {
        let ending = if self.kind == Kind::Counter { "_total" } else { "" };
        format!("{}{ending}", self.name)
    }
}

macro_rules! families {
    ($($name:ident = $text:literal $kind:ident [$($label:literal),*] $help:literal;)*) => {
        $(#[doc = $help] pub static $name: Family =
            Family { name: $text, kind: Kind::$kind, labels: &[$($label),*], help: $help };)*
        /// All of them, in the order of the page.
        pub static ALL: &[&Family] = &[$(&$name,)*];
    };
}

families! {
    REQUEST_DURATION = "http_server_request_duration_seconds" Histogram ["http_route", "http_request_method", "status_class"]
        "From the complete head of a request to the end of its answer. http_route is the route's name in the config, empty where none answered.";
    ACTIVE_REQUESTS = "http_server_active_requests" Gauge []
        "Requests whose body is awaited or whose answer waits for the pool or the client. Those that are answered at once are never seen here.";
    RESPONSE_BODY_BYTES = "scalws_response_body_bytes" Counter ["http_route", "http_request_method", "status_class"]
        "Bytes of bodies that were handed to the kernel.";
    REQUEST_BODY_BYTES = "scalws_request_body_bytes" Counter []
        "Bytes of request bodies after decoding; they are read and dropped.";
    MALFORMED = "scalws_malformed_requests" Counter []
        "Messages that have no one reading: answered 400 and closed.";
    REFUSALS = "scalws_refusals" Counter ["limit"]
        "What was refused at a limit, by its key among the limits.";
    CONNECTIONS = "scalws_connections" Gauge ["state"]
        "Open connections by what they do.";
    CONNECTIONS_OPENED = "scalws_connections_opened" Counter []
        "Connections that were taken over.";
    CONNECTIONS_ENDED = "scalws_connections_ended" Counter ["how"]
        "Connections by how they ended.";
    HANDSHAKES = "scalws_tls_handshakes" Counter ["version", "session"]
        "Handshakes of TLS that came to their end: full, or resumed by a ticket. The others are among the connections by how they ended.";
    CERTIFICATE_EXPIRY = "scalws_certificate_expiry_timestamp_seconds" Gauge ["certificate"]
        "When each certificate in force expires, in seconds since 1970, by its file.";
    CERTIFICATE_CHANGES = "scalws_certificate_changes" Counter ["certificate", "result"]
        "Changes of its files that were taken, and those that were refused because they are no pair.";
    LOOKUPS = "scalws_lookups" Counter ["lane", "cause"]
        "Requests whose path was looked up: inline on the worker, or in the pool with the cause.";
    REQUEST_HOPS = "scalws_request_hops" Counter ["during", "cause"]
        "Trips of requests to the pool, before the answer began (lookup) or while it was sent (body). Before it each cause counts once a request.";
    ANSWERS = "scalws_answers" Counter ["source"]
        "Answers by where the first bytes of their bodies came from.";
    OPEN_FILE_LOOKUPS = "scalws_open_file_lookups" Counter ["result"]
        "What the cache of open files knew of a path: hit, hit_missing (known to lead to nothing), changed, miss.";
    OPEN_FILES = "scalws_open_files" Gauge []
        "Files that are kept open. This and the next three are told by each worker once a second.";
    OPEN_FILES_BYTES = "scalws_open_files_bytes" Gauge []
        "Bytes of them that are in memory.";
    MISSING_FILES = "scalws_missing_files" Gauge []
        "Names that are known to lead to nothing.";
    OPEN_FILES_EVICTED = "scalws_open_files_evicted" Counter []
        "Kept files and names that made room for others. What was not asked for in a while and left is not counted.";
    COMPRESSED_BYTES = "scalws_compressed_bytes" Gauge []
        "Bytes of compressed files in memory.";
    COMPRESSED_FILES = "scalws_compressed_files" Gauge []
        "Their number.";
    OFFLOAD_JOBS = "scalws_offload_jobs" Gauge []
        "Jobs of the pool that wait or run.";
    OFFLOAD_TAKEN = "scalws_offload_jobs_taken" Counter []
        "Jobs that the pool took.";
    OFFLOAD_WAIT = "scalws_offload_wait_seconds" Histogram []
        "How long jobs waited for a thread of the pool.";
    OFFLOAD_RUN = "scalws_offload_run_seconds" Histogram []
        "How long they ran.";
    SPANS_MADE = "scalws_spans_made" Counter []
        "Spans of requests that were chosen. The sum of the next two and of those that wait.";
    SPANS_EXPORTED = "scalws_spans_exported" Counter []
        "Spans that the collector took.";
    SPANS_DROPPED = "scalws_spans_dropped" Counter ["cause"]
        "Spans that it did not get.";
    LOG_LINES_DROPPED = "scalws_log_lines_dropped" Counter ["log"]
        "Lines of the access log (access) and of stderr (events) that nobody took in time.";
    HEARTBEAT_AGE = "scalws_worker_heartbeat_age_seconds" Gauge ["worker"]
        "Since the last sign of life of a worker, which gives one a second.";
    BUILD_INFO = "scalws_build_info" Gauge ["version"]
        "1; which version runs.";
    CONFIG_INFO = "scalws_config_info" Gauge ["digest"]
        "1; the digest of the config in force, as in the start-up log.";
    START_TIME = "process_start_time_seconds" Gauge []
        "When the process started, in seconds since 1970.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_well_formed_and_apart() {
        for family in ALL {
            let is_name = |name: &str| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            assert!(is_name(family.name) && family.labels.iter().all(|label| is_name(label)), "{family:?}");
            assert!(!family.name.ends_with("_total") && !family.help.contains('\n'), "{family:?}");
            assert_eq!(ALL.iter().filter(|other| other.name == family.name).count(), 1);
            let is_time = family.kind == Kind::Histogram;
            assert!(!is_time || family.name.ends_with("_seconds"), "{family:?}");
        }
    }
}
