//! Every bound of the server in one place: its key in `[limits]`, unit, default, range and reason.
//!
//! One table feeds the struct, the config reader, the schema and the table in `docs/limits.md`, so
//! that none of them can disagree. Bounds are per process, never per worker.

/// How a limit is written in the config and what its number means in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A plain integer.
    Count,
    /// Bytes; written as `"64KiB"` or as an integer.
    Bytes,
    /// Milliseconds; written as `"30s"` or `"250ms"`.
    Milliseconds,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// The key under `[limits]`.
    pub key: &'static str,
    /// Unit of `default`, `min` and `max`.
    pub unit: Unit,
    /// The value without any configuration.
    pub default: u64,
    /// Smallest accepted value.
    pub min: u64,
    /// Largest accepted value.
    pub max: u64,
    /// What happens at the bound, and why the default is what it is.
    pub reason: &'static str,
}

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;
const SECOND: u64 = 1000;
const HOUR: u64 = 3600 * SECOND;

macro_rules! limits {
    ($($field:ident = $key:literal $unit:ident $default:expr, $min:expr => $max:expr, $reason:literal;)*) => {
        /// The bounds in force, one field a row of [`TABLE`].
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Limits { $(#[doc = $reason] pub $field: u64,)* }

        /// Every limit, in the order of the documentation.
        pub const TABLE: &[Limit] = &[
            $(Limit { key: $key, unit: Unit::$unit, default: $default, min: $min, max: $max, reason: $reason },)*
        ];

        impl Default for Limits {
            fn default() -> Self { Self { $($field: $default,)* } }
        }

        impl Limits {
            /// The slot of the limit whose config key is `key`.
            pub fn slot(&mut self, key: &str) -> Option<&mut u64> {
                match key { $($key => Some(&mut self.$field),)* _ => None }
            }

            /// The value of the limit whose config key is `key`.
            #[must_use]
            pub fn value(&self, key: &str) -> Option<u64> {
                match key { $($key => Some(self.$field),)* _ => None }
            }
        }
    };
}

limits! {
    connections_max = "connections" Count 10_000, 1 => 1_000_000,
        "Open client connections of the whole process; the next one gets 503 and is closed. Lowered at start to what the descriptor limit allows.";
    head_bytes_max = "head_size" Bytes 32 * KIB, KIB => 56 * KIB,
        "Request line and fields together; more is 431 (RFC 6585 §5). Browsers stay below 8 KiB, single-sign-on cookies below 32.";
    target_bytes_max = "target_size" Bytes 8 * KIB, 64 => 48 * KIB,
        "Request target; more is 414 (RFC 9110 §15.5.15). RFC 9112 §3 recommends to take at least 8,000 octets.";
    fields_max = "fields" Count 100, 8 => 256,
        "Fields of one request; more is 431. Browsers send about 20.";
    body_bytes_max = "body_size" Bytes MIB, 0 => 1 << 40,
        "Request body after decoding; more is 413. No handler of this version keeps a body: it is read and dropped so that the connection can go on.";
    chunk_extension_bytes_max = "chunk_extension_size" Bytes 16 * KIB, 0 => MIB,
        "Chunk extensions of one request together (RFC 9112 §7.1.1 asks for a bound); more is 400.";
    head_ms_max = "head_timeout" Milliseconds 30 * SECOND, SECOND => HOUR,
        "From the first byte of a head to its end, however slowly it drips; then 408. A new connection has as long to send its first byte.";
    handshake_ms_max = "handshake_timeout" Milliseconds 10 * SECOND, SECOND => HOUR,
        "From a connection to `tls.listen` to the end of its handshake, whoever is slow; then it is closed. It is one of `connections` meanwhile.";
    idle_ms_max = "idle_timeout" Milliseconds 60 * SECOND, SECOND => HOUR,
        "Between two requests of a kept connection; then it is closed.";
    body_ms_max = "body_timeout" Milliseconds 60 * SECOND, SECOND => HOUR,
        "From the end of a head to the end of its body; then 408 and close.";
    write_ms_max = "write_timeout" Milliseconds 30 * SECOND, SECOND => HOUR,
        "Without the client acknowledging a single byte of a pending answer; then the connection is reset. Noticed after one such time at the earliest and two at the latest; holds for what is still in the kernel after the last answer too.";
    send_buffer_bytes = "send_buffer" Bytes 256 * KIB, 0 => GIB,
        "Send buffer of a connection with a large body, where the client is less than a quarter of a millisecond away; 0 leaves it to the kernel, as it is for everybody further away. A larger one costs CPU for each byte.";
    wait_ms_max = "wait_timeout" Milliseconds 30 * SECOND, SECOND => HOUR,
        "A request may wait this long for the offload pool (a file system that hangs); then 503.";
    linger_ms_max = "linger_timeout" Milliseconds 10 * SECOND, 0 => HOUR,
        "After an early final answer the rest of the request is read and dropped this long, so that a reset does not overtake the answer (RFC 9112 §9.6).";
    linger_bytes_max = "linger_size" Bytes 32 * MIB, 0 => 1 << 40,
        "And at most this many bytes of it.";
    offload_threads_max = "offload_threads" Count 0, 0 => 1024,
        "Threads that may block, for the whole process; 0 means four a worker.";
    offload_queue_max = "offload_queue" Count 4096, 1 => 1_000_000,
        "Jobs running or waiting in the offload pool; the next request that has to wait gets 503 with Retry-After.";
    compressed_bytes_max = "compressed_size" Bytes 64 * MIB, MIB => 1 << 40,
        "Files compressed on the fly that are kept in memory, for the whole process. What was not asked for in the last minute makes room; where none is to be had, files are sent as they are.";
    open_files_max = "open_files" Count 4096, 0 => 1_000_000,
        "Files that are kept open for the next request, for the whole process; 0 keeps none. Lowered at start to a quarter of what the descriptor limit allows. What nobody asked for in ten seconds is closed.";
    open_file_bytes_max = "open_files_size" Bytes 64 * MIB, 0 => 1 << 40,
        "Small files that are kept in memory beside their descriptors, for the whole process.";
    missing_files_max = "missing_files" Count 4096, 0 => 1_000_000,
        "Names of the last second that lead to nothing, kept so that they need not be looked up again, for the whole process. They have a bound of their own so that a scan does not close files.";
    listing_entries_max = "listing_entries" Count 1_000, 1 => 100_000,
        "Entries of one directory listing; more are left out and the answer says so. A page of a thousand, about 130 KiB, is kept for each client until it has taken it, as is the largest file that is read into an answer (128 KiB). Higher values cost memory for each slow client.";
    log_queue_bytes_max = "log_queue_size" Bytes 4 * MIB, 64 * KIB => 1 << 30,
        "Access-log lines waiting for a reader that is slower than the server; more are dropped and counted.";
}

/// Output of one connection at which no further request is parsed: pipelined answers may not pile up.
pub const OUTPUT_PENDING_BYTES_MAX: usize = 128 * 1024;
/// Files up to this size are read in the lookup step; larger ones are streamed.
pub const FILE_INLINE_BYTES_MAX: u64 = 128 * 1024;
/// Files up to this size are kept in memory when they are asked for again; larger ones by their descriptor
/// alone, but for those that a worker may not read, which are kept up to `FILE_INLINE_BYTES_MAX`.
pub const OPEN_FILE_BODY_BYTES_MAX: u64 = 64 * 1024;
/// An open file that nobody asked for is closed after this long: opening it again costs microseconds, and
/// the space of a file that was deleted is not free before.
pub const OPEN_FILE_IDLE_MS: u64 = 10_000;
/// What is sent of a sidecar is believed for this long at most, however long `revalidate` is: an edit of its
/// original shows by a lookup alone.
pub const SIDECAR_BELIEVED_MS_MAX: u64 = 1_000;
/// A longer name is looked up each time: kept names are memory that strangers choose.
pub const OPEN_FILE_NAME_BYTES_MAX: usize = 512;
/// A file that was changed within this time is not kept in memory: a change that follows within the same
/// tick of the kernel's clock would not show in its times. Git waits as long.
pub const OPEN_FILE_YOUNG_MS: i64 = 2_000;
/// Local files from this size on are streamed already, where sendfile can take them: from here on it costs
/// less than a read and one send for head and body (docs/adr/0030 has the curve).
pub const SENDFILE_BYTES_MIN: u64 = 64 * 1024;
/// One positional read of a streamed file: the size the kernel reads ahead by default, twice.
pub const FILE_CHUNK_BYTES: usize = 256 * 1024;
/// Window of a file that the pool reads through where a worker cannot ask whether data is resident
/// (overlayfs), or reads into a window where a worker may not read at all (FUSE, NFS): at most one trip
/// to the pool a MiB.
pub const WARM_BYTES: usize = 1024 * 1024;
/// And how long such a window counts as resident afterwards: long enough to send it, too short for the
/// kernel to reclaim what was just used.
pub const WARM_MS_MAX: u64 = 1_000;
/// Windows of `WARM_BYTES` that a worker lends to readers of remote files: as many as the pool has
/// threads for each worker. Further readers get `FILE_CHUNK_BYTES` a trip at most.
pub const WINDOWS_MAX: usize = 4;
/// Chunks of `FILE_CHUNK_BYTES` that the pool has read and no socket has taken, for each root: 300 readers
/// that come at once to a remote file system had 100 MB in memory for a moment.
pub const LANE_RESULTS_MAX: usize = 16;
/// A client that took nothing of its window for this long loses it to the next who asks: longer than
/// most round trips, so that a fast client far away keeps its own.
pub const WINDOW_KEPT_MS: u64 = 250;
/// Bytes that one connection may send before the others of its worker get their turn.
pub const TURN_BYTES_MAX: usize = 512 * 1024;
/// Windows of `FILE_CHUNK_BYTES` that were found resident count as such for this long, on their worker: so
/// that a file which many download is asked for 20 times a second and not with each of them. Short, as the
/// kernel may drop what it needs room for: after 50 ms only one that turns over all its cache in this time.
/// 10 ms were tried in the lab's row `cold`, whose file is dropped 20 times a second: blocked in sendfile for 15 of
/// 3,000 ms in place of 17. What is left is readahead on its way in the middle of a window.
pub const RESIDENT_MS: u64 = 50;
/// For so many files of a worker, 1 KiB of memory.
pub const RESIDENT_FILES: usize = 16;
/// And their first 2 MiB; what lies beyond costs one question in 100 KiB.
pub const RESIDENT_WINDOWS: usize = 8;
/// Clients with a shorter round trip have `send_buffer`: 256 KiB in a quarter of a millisecond are
/// 8 Gbit/s.
pub const SEND_BUFFER_ROUND_TRIP_US_MAX: u32 = 250;
/// Read buffer of a worker: holds any head within `head_size`, with room for pipelined ones.
pub const READ_BUFFER_BYTES: usize = 64 * 1024;
/// One chunk-size line with its extensions; the total over a request is `chunk_extension_size`.
pub const CHUNK_LINE_BYTES_MAX: usize = 4 * 1024;
/// Pending connections of a listener; the kernel caps it by net.core.somaxconn (listen(2)).
pub const LISTEN_BACKLOG: i32 = 4096;
/// Tries of one `openat2` in the pool that answers EAGAIN (a rename while `..` is walked, a lease).
pub const RESOLVE_TRIES_MAX: u32 = 16;
/// Those of them that are made without a pause and whatever the time: with five writers that rename all
/// the time on two cores one try of 25 meets a rename.
pub const RESOLVE_TRIES_AT_ONCE: u32 = 8;
/// The time of the others, from the first try.
pub const RESOLVE_MS_MAX: u64 = 50;
/// Time for the names of one directory. A slow file system, or a directory of millions of hidden names,
/// holds a thread of the pool no longer, and the listing says that it is not complete.
pub const LISTING_MS_MAX: u64 = 500;
/// A worker that has not stamped its heartbeat for this long fails `/livez`.
pub const HEARTBEAT_MS_MAX: u64 = 10_000;
/// How often roots are looked up again and workers stamp their heartbeat and their wheel.
pub const TICK_MS: u64 = 1_000;
/// Requests whose spans wait for the collector, unless OTEL_BSP_MAX_QUEUE_SIZE says otherwise: the default of
/// OpenTelemetry, about a megabyte.
pub const SPAN_QUEUE_MAX: usize = 2_048;
/// Spans that are sent together, unless OTEL_BSP_MAX_EXPORT_BATCH_SIZE says otherwise: its default too.
pub const SPAN_BATCH_MAX: usize = 512;
/// Most that OTEL_BSP_MAX_QUEUE_SIZE may say. A request that waits has four values of at most a KiB each, so
/// that a queue which is full of the longest holds 256 MiB of them, and not whatever somebody wrote.
pub const SPAN_QUEUE_LIMIT: usize = 65_536;
/// Most that OTEL_BSP_MAX_EXPORT_BATCH_SIZE may say: collectors take 4 MiB in a message unless told otherwise.
pub const SPAN_BATCH_LIMIT: usize = 4_096;
/// How long spans wait for others, unless OTEL_BSP_SCHEDULE_DELAY says otherwise: a fifth of its default, so
/// that somebody who looks for a request finds it.
pub const SPAN_DELAY_MS: u64 = SECOND;
/// How long the collector may take, unless OTEL_EXPORTER_OTLP_TIMEOUT says otherwise: its default.
pub const SPAN_TIMEOUT_MS: u64 = 10 * SECOND;
/// And at the end of the process, for all that is left: an orchestrator waits for the rest of it.
pub const SPAN_FLUSH_MS_MAX: u64 = SECOND;
/// Longest tracestate that is passed on (W3C Trace Context asks for 512 characters at least).
pub const TRACE_STATE_BYTES_MAX: usize = 512;
/// Longest X-Request-Id that is believed: a longer one is replaced.
pub const REQUEST_ID_BYTES_MAX: usize = 128;
/// Longest target, host or user agent in a span; the rest is cut.
pub const SPAN_VALUE_BYTES_MAX: usize = 1_024;
/// Routes that have metrics of their own, in the order of the config; all others share one label. A route
/// that is asked by two methods with three classes of status takes about 10 KiB of a scrape.
pub const METRIC_ROUTES_MAX: usize = 500;
/// Body of a `respond` route, in the config or from a file.
pub const RESPOND_BODY_BYTES_MAX: u64 = MIB;
/// How long an error waits for its page in the pool: longer than a disk takes, and less than the
/// shortest `wait_timeout`, which would answer 503 in its place.
pub const ERROR_PAGE_WAIT_MS_MAX: u64 = 500;
/// And how long a worker then gives the short text at once: each try leaves a job behind in the pool.
pub const ERROR_PAGE_REST_MS: u64 = 10_000;
/// Globs of one route. Every worker builds its automata when it starts: a thousand take seconds.
pub const CACHE_RULES_MAX: usize = 200;
/// The same for `headers` of files, whose globs are a set of their own.
pub const HEADER_RULES_MAX: usize = CACHE_RULES_MAX;
/// Origins of one `cors`: they are compared one by one. More are a matter for `*.example.com`, or for a
/// program.
pub const CORS_ORIGINS_MAX: usize = 200;
/// Names in one list of `cors`: they stand in one line of each answer.
pub const CORS_NAMES_MAX: usize = 100;
/// Fields that one preflight may ask for: as many as a request may have (the highest `fields`).
pub const CORS_ASKED_MAX: usize = 256;
/// Length of one glob: far more than any path that a person writes down.
pub const GLOB_BYTES_MAX: usize = 512;
/// Largest file whose ETag is a hash of its content, where its modification time says nothing: about
/// 20 ms of a pool thread once for each version. Larger ones have no ETag.
pub const CONTENT_TAG_BYTES_MAX: u64 = 8 * MIB;
/// Hashes that the process remembers: 1.6 MiB of them.
pub const CONTENT_TAGS_MAX: usize = 16 * 1024;
/// `serve --dev` looks at the files of its roots this often: a reload that is felt to come at once.
pub const WATCH_MS: u64 = 250;
/// And rests this many times as long as a look took, so that it has a tenth of one CPU at most.
pub const WATCH_IDLE_PARTS: u32 = 9;
/// Files that were written meanwhile are looked at again after this time, until they rest.
pub const WATCH_SETTLE_MS: u64 = 50;
/// And at most this often: a file that never rests, such as a log, is a change about once a second.
pub const WATCH_SETTLE_LOOKS_MAX: u32 = 20;
/// Names that it looks at beneath one root: about 20 ms a look on a local file system.
pub const WATCH_ENTRIES_MAX: u32 = 10_000;
/// Directories that it goes down.
pub const WATCH_DEPTH_MAX: u32 = 32;
/// A page that waits for a change is answered after this time at the latest, and half of `wait_timeout`;
/// then it asks again. A client that is gone keeps its connection no longer.
pub const EVENTS_MS_MAX: u64 = 15 * SECOND;
/// Age of a change from which on another one moves a file's times for certain: the kernel takes them
/// from a clock that ticks every 1 to 10 ms.
pub const SETTLE_MS: i64 = 20;
/// Content of files that is being compressed or waits for it, all together: what comes on top is sent
/// as it is.
pub const COMPRESSING_BYTES_MAX: u64 = 32 * MIB;
/// And their number: each is a job of the pool, which nobody refuses, and holds a descriptor until it is
/// read. Few beside `offload_queue`, and half of `DESCRIPTORS_RESERVED`.
pub const COMPRESSING_FILES_MAX: u64 = 128;
/// A request waits this long for a compressed file, or half of `wait_timeout`, and then gets it as it is:
/// about what it takes to send a megabyte to a telephone.
pub const COMPRESS_WAIT_MS_MAX: u64 = 1_000;
/// A compressed file that was asked for within this time makes no room for others.
pub const COMPRESSED_KEPT_MS: u64 = 60_000;
/// And where there is no room, nothing is compressed for this long.
pub const COMPRESSED_FULL_MS: u64 = 10_000;
/// What a kept compressed file costs beside its bytes, rounded up.
pub const COMPRESSED_ENTRY_BYTES: u64 = 256;
/// A certificate chain or a key; more is a mistake. A chain of ten certificates takes 20 KiB.
pub const TLS_FILE_BYTES_MAX: u64 = MIB;
/// Certificates of the process: each is two files that are looked at again and again.
pub const TLS_CERTIFICATES_MAX: usize = 200;
/// How often they are looked at. What changed is taken when two looks in a row found the same, so that nothing
/// half-written is: after a second.
pub const TLS_LOOK_MS: u64 = 500;
/// A certificate is said to expire soon from so many seconds before its end, or when a fifth of its life is
/// left, whichever is later: two weeks of 90 days, a day of 6.
pub const TLS_SOON_S: i64 = 14 * 86_400;
/// Plaintext that is encrypted at once: three records (RFC 8446 §5.1). Together with what they add it is less
/// than 64 KiB that one connection may have waiting for its socket, and nothing is encrypted before that is gone.
pub const TLS_PIECE_BYTES: usize = 48 * 1024;
/// A client that is turned away before its first request has this long to read why.
pub const DISMISSAL_MS_MAX: u64 = SECOND;
/// A fresh connection may still come to its first request, and a begun head to its end, for this long after a
/// drain began: closing at once would race with a request on its way.
pub const FRESH_MS_AT_DRAIN: u64 = SECOND;
/// A config file larger than this is a mistake, not a config.
pub const CONFIG_BYTES_MAX: u64 = 16 * MIB;
/// Descriptors kept back from the connection limit for files, logs, listeners and the pool.
pub const DESCRIPTORS_RESERVED: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_lies_in_its_range_and_has_a_slot() {
        let mut limits = Limits::default();
        for limit in TABLE {
            assert!(limit.min <= limit.default || limit.default == 0, "{}", limit.key);
            assert!(limit.default <= limit.max, "{}", limit.key);
            assert_eq!(limits.value(limit.key), Some(limit.default));
            assert!(limits.slot(limit.key).is_some());
        }
        assert!(READ_BUFFER_BYTES as u64 > TABLE[1].max, "a whole head must fit into one read buffer");
    }
}
