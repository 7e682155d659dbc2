//! Every key of the config in one table: its table, name, kind, default and meaning.
//!
//! The search for unknown keys, did-you-mean, the names of environment overrides, the JSON Schema and
//! `docs/config.md` all read this table, so that none of them can disagree. The rows of `[limits]`
//! come from `limits::TABLE`.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::units;
use crate::limits::{self, COMPRESSING_BYTES_MAX, Limit, Unit};
use crate::semantics::encoding::Coding;

/// What a value may be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A table, named as in [`Key::table`].
    Table(&'static str),
    /// `[[…]]`.
    Tables(&'static str),
    /// `true` or `false`.
    Boolean,
    /// `true`, `false`, or a table.
    BooleanOrTable(&'static str),
    /// `"1KiB"`, in a range.
    Size(u64, u64),
    /// An integer in a range.
    Integer(u64, u64),
    /// One word, or an integer in a range.
    WordOrInteger(&'static str, u64, u64),
    /// One of these integers.
    Numbers(&'static [u64]),
    /// `"30s"`, at most so many milliseconds.
    Duration(u64),
    /// A row of `limits::TABLE`.
    Limit(&'static Limit),
    /// Any text.
    Text,
    /// An address with a port, or `"off"`.
    AddressOrOff,
    /// A list of texts.
    Texts,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One of these words, or a table.
    WordOrTable(&'static [&'static str], &'static str),
    /// Field names with their values.
    Fields,
    /// Statuses and classes of them with their pages.
    Pages,
    /// A table or a list of any values.
    Json,
}

/// How far this version takes a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// As documented.
    Works,
    /// Nothing may be served as if it were there: an error.
    NotBuilt,
}

/// One row.
#[derive(Clone, Debug)]
pub(super) struct Key {
    /// The table that it stands in, dotted; empty at the top.
    pub(super) table: &'static str,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// As TOML; empty when there is none.
    pub(super) default: Cow<'static, str>,
    pub(super) state: State,
    pub(super) doc: &'static str,
}

/// Words of `log.access`.
pub(super) const ACCESS_WORDS: &[&str] = &["json", "combined", "off"];
/// Words of `telemetry.traces`.
pub(super) const TRACES_WORDS: &[&str] = &["auto", "on", "off"];
/// Longest `telemetry.slow`: an hour, as for all that is waited for.
pub(super) const SLOW_MS_MAX: u64 = 3_600_000;
/// Words of `route.static.symlinks`.
pub(super) const SYMLINK_WORDS: &[&str] = &["inside", "none"];
/// Statuses of `route.redirect.status`: those whose Location a client follows (RFC 9110 §15.4).
pub(super) const REDIRECT_STATUSES: &[u64] = &[301, 302, 303, 307, 308];
/// Words of `route.static.compress.codings`.
pub(super) const CODING_WORDS: &[&str] = &["br", "zstd", "gzip"];
/// Levels of each coding: the range of its encoder and the default, chosen by measurement
/// (docs/adr/0020-compression.md). zstd above 19 needs windows that clients may refuse (RFC 9659).
pub(super) const COMPRESS_LEVELS: [(Coding, &str, (u64, u64, u64)); 3] = [
    (Coding::Br, "br_level", (0, 11, 5)),
    (Coding::Zstd, "zstd_level", (1, 19, 9)),
    (Coding::Gzip, "gzip_level", (1, 9, 6)),
];
/// Largest file that may be compressed on the fly: its content is in memory meanwhile.
pub(super) const COMPRESS_BYTES_MAX: u64 = COMPRESSING_BYTES_MAX;
/// Types that are text, or shrink like text.
pub(super) const COMPRESS_TYPES: &[&str] = &[
    "text/*",
    "application/javascript",
    "application/json",
    "application/ld+json",
    "application/manifest+json",
    "application/xml",
    "application/xhtml+xml",
    "application/rss+xml",
    "application/atom+xml",
    "application/wasm",
    "image/svg+xml",
    "image/bmp",
    "image/x-icon",
    "font/ttf",
    "font/otf",
];
/// Most workers that make sense: the largest machines have fewer cores.
pub(super) const WORKERS_MAX: u64 = 1024;
/// Longest drain delay and timeout: an orchestrator kills long before.
pub(super) const DRAIN_MS_MAX: u64 = 3_600_000;
/// Longest `route.cors.max_age`: Firefox keeps no preflight longer, Chromium none longer than two hours.
pub(super) const CORS_MAX_AGE_MS_MAX: u64 = 86_400_000;
/// Longest `revalidate`: more would be "never", which deserves a word of its own.
pub(super) const REVALIDATE_MS_MAX: u64 = 86_400_000;

fn row(table: &'static str, name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Key {
    Key { table, name, kind, default: Cow::Borrowed(default), state: State::Works, doc }
}

/// [`COMPRESS_TYPES`] as TOML.
static TYPES_SHOWN: LazyLock<String> = LazyLock::new(|| format!("{COMPRESS_TYPES:?}"));

fn not_built(key: Key) -> Key {
    Key { state: State::NotBuilt, ..key }
}

#[rustfmt::skip] // a table: one row a line, however long
fn before_limits() -> Vec<Key> {
    vec![
        row("", "server", Kind::Table("server"), "", "Sockets, workers and the way out."),
        row("", "tls", Kind::Table("tls"), "", "HTTPS, with TLS 1.3 and 1.2, where this table is there. It is HTTP/1.1; HTTP/2 is not built yet."),
        row("", "log", Kind::Table("log"), "", "The access log; everything else goes to stderr."),
        row("", "telemetry", Kind::Table("telemetry"), "", "Spans and request ids. Metrics are on the admin port and need no key."),
        row("", "limits", Kind::Table("limits"), "", "Every bound; see `docs/limits.md`."),
        row("", "error_pages", Kind::Table("error_pages"), "", "Pages for the errors that the server makes itself: no route, no such method, TRACE, and errors of `static` for which the route has no page. Not for `respond`, whose answer is as it is written, nor for what is refused before a request is understood (400, 408, 413, 414, 417, 431, 501, 505), for limits (`connections`, `wait_timeout`: 503) and for a file that fails while it is sent: those keep their short text."),
        row("", "route", Kind::Tables("route"), "", "What answers which requests. Host, then `exact` before the longest `path`, then method; the order in the file does not matter. Without any route the directory given to `serve` (else `/srv`) is served."),
        row("server", "listen", Kind::Texts, r#"["[::]:8080"]"#, "Addresses for plain HTTP. `[::]` falls back to `0.0.0.0` where IPv6 is off. `[]` beside `[tls]`: none."),
        row("server", "admin", Kind::AddressOrOff, r#""127.0.0.1:8081""#, "Where `/livez`, `/readyz` and `/metrics` are served."),
        row("server", "workers", Kind::WordOrInteger("auto", 1, WORKERS_MAX), r#""auto""#, "Worker threads; `auto` is the smaller of the cores we may use and the CPU quota, rounded up."),
        row("server", "drain", Kind::Table("server.drain"), "", "What a signal to stop begins."),
        row("server", "trusted_proxies", Kind::Texts, "[]", "Networks (CIDR) of peers that are believed: their `traceparent` and `tracestate`, their `X-Request-Id`, and their wish for `Server-Timing` (`Want-Server-Timing: 1`). From everybody else these fields are ignored. Fields about the client's address (`Forwarded`, `X-Forwarded-For`) are not read yet."),
        row("server.drain", "delay", Kind::Duration(DRAIN_MS_MAX), r#""0s""#, "Time for load balancers to notice: `/readyz` says 503 while requests are still taken."),
        row("server.drain", "timeout", Kind::Duration(DRAIN_MS_MAX), r#""8s""#, "From the end of the delay; what still runs then is cut."),
        row("tls", "listen", Kind::Texts, r#"["[::]:8443"]"#, "Addresses for HTTPS. `[::]` falls back to `0.0.0.0` where IPv6 is off."),
        row("tls", "certificate", Kind::Text, "", "File with the certificate chain in PEM form, the server's own first, then its issuer. Clients that ask for a name that no certificate has get this one. `\"self-signed\"` makes one for `localhost` at each start, for development. Files are looked at twice a second: a new pair is in force about a second after it is there, without a reload; what is no pair is told and changes nothing. Required."),
        row("tls", "key", Kind::Text, "", "File with its private key in PEM form, without a passphrase. Required unless the certificate is self-signed."),
        row("tls", "certificates", Kind::Tables("tls.certificates"), "[]", "Further certificates, chosen by the name that the client asks for (SNI) from the DNS names that are in them: an exact name before a wildcard, and of two for one name the first."),
        row("tls.certificates", "certificate", Kind::Text, "", "As in `tls`. Required."),
        row("tls.certificates", "key", Kind::Text, "", "As in `tls`. Required."),
        row("log", "access", Kind::WordOrTable(ACCESS_WORDS, "log.access"), r#""json""#, "Form of the access log, which goes to stdout; or a table with `format` and `file`."),
        row("log.access", "format", Kind::Word(ACCESS_WORDS), r#""json""#, "Form of its lines."),
        row("log.access", "file", Kind::Text, "", "File that it is appended to instead of stdout."),
        row("telemetry", "traces", Kind::Word(TRACES_WORDS), r#""auto""#, "Send spans to an OpenTelemetry collector. `auto`: where the environment names one (`OTEL_EXPORTER_OTLP_ENDPOINT`, or `OTEL_TRACES_EXPORTER=otlp`). Where to, how and how many is said by the standard `OTEL_*` variables; see `docs/observability.md`."),
        row("telemetry", "slow", Kind::Duration(SLOW_MS_MAX), "", "Requests that took longer have a span too, whatever the sampler said. Without this key the sampler has the last word."),
        row("telemetry", "errors", Kind::Boolean, "true", "Every answer with 500 to 599 has a span too, but not 501 and 505 for a method or version that nobody knows."),
        row("telemetry", "request_id", Kind::Boolean, "false", "Every request has an id: `X-Request-Id` of a trusted proxy, or else a new one. It is in the answer, in the JSON access log and in the span."),
    ]
}

#[rustfmt::skip]
fn after_limits() -> Vec<Key> {
    vec![
        row("route", "host", Kind::Text, "", "Host without port that the route is for; `*.example.com` is any name below it. Without one: every host."),
        row("route", "hosts", Kind::Texts, "", "Several hosts, instead of `host`."),
        row("route", "exact", Kind::Text, "", "This very path; a trailing slash counts. One of `exact` and `path` is required."),
        row("route", "path", Kind::Text, "", "This path and everything below it, on segment boundaries."),
        row("route", "methods", Kind::Texts, "", "Methods that the route is for. Without them: all."),
        row("route", "headers", Kind::Fields, "{}", "Fields of all answers of the route, errors and 304 included (but for 500 and 503 where a file fails while it is read, and for `wait_timeout`). What lets a cache keep an answer (`Cache-Control` without `no-store`, `Expires`) is left out of the errors of `static`. Not for what tells of a single answer, such as `ETag`."),
        row("route", "security_headers", Kind::Boolean, "", "`true` adds `X-Content-Type-Options: nosniff`, `Referrer-Policy: strict-origin-when-cross-origin`, `X-Frame-Options: DENY` and `Cross-Origin-Opener-Policy: same-origin`; what `headers` names stays as it is there. A Content-Security-Policy is for `headers`, as no one policy fits every page. Without this key `static` adds the first of them alone; `false` adds none."),
        row("route", "cors", Kind::BooleanOrTable("route.cors"), "false", "What scripts of other origins may do with the route (the Fetch standard): `true` lets every origin read it, without cookies; a table says more. The fields are on all answers of the route, errors and 304 included. A preflight (OPTIONS with Origin and one Access-Control-Request-Method) is answered with 204 by the route that the request it asks for would find; one that asks for what is not allowed gets 204 without these fields. Without this key nothing is allowed."),
        row("route", "respond", Kind::Table("route.respond"), "", "A fixed answer. One of `respond`, `redirect` and `static` is required."),
        row("route", "redirect", Kind::Table("route.redirect"), "", "A redirect."),
        row("route", "static", Kind::Table("route.static"), "", "The files of a directory, for GET, HEAD and OPTIONS."),
        not_built(row("route", "proxy", Kind::Table("route.proxy"), "", "Another server.")),
        row("route.cors", "origins", Kind::Texts, "", "Allowed origins as browsers write them, such as `https://app.example` or `http://localhost:3000`; `https://*.example.com` is any name below it; `null` is what sandboxed frames and files send; `*` is every origin. Unless `*` is among them, answers say `Vary: Origin`. Required."),
        row("route.cors", "methods", Kind::Texts, "", "Allowed methods, of those that the route answers. Without this key: its `methods`, else GET and HEAD of `static`, and GET, HEAD, POST, PUT, DELETE and PATCH of the others."),
        row("route.cors", "request_headers", Kind::Texts, "", "Allowed fields of requests beyond those that need no leave. `*` is every one but Authorization, which must be named. Without this key: `[\"*\"]`, and beside `credentials = true`, where browsers take `*` for a name, none."),
        row("route.cors", "expose_headers", Kind::Texts, "[]", "Fields of answers that scripts may read beyond those that need no leave; `*` is every one but Authorization."),
        row("route.cors", "max_age", Kind::Duration(CORS_MAX_AGE_MS_MAX), r#""10m""#, "How long browsers may keep the answer to a preflight, in whole seconds."),
        row("route.cors", "credentials", Kind::Boolean, "false", "Let cookies and the like go along. Not beside the origin `*`."),
        row("route.respond", "status", Kind::Integer(200, 599), "200", "Status of the answer."),
        row("route.respond", "body", Kind::Text, "", "Its body."),
        row("route.respond", "body_file", Kind::Text, "", "File with its body (at most 1 MiB), read once when the config is."),
        row("route.respond", "json", Kind::Json, "", "A JSON document as its body, in the order of the file, that may be put into a `<script>`: `<`, `>`, `&`, U+2028 and U+2029 are escaped. A table `{ env = \"N\", type = \"integer\", default = 3 }` is the value of the variable `N`; `type` is `string`, `integer`, `number` or `boolean`, and without `default` the variable must be set. Dates are written as strings."),
        row("route.respond", "content_type", Kind::Text, r#""text/plain; charset=utf-8""#, "`Content-Type` of the body; of `json` the default is `application/json`."),
        row("route.respond", "headers", Kind::Fields, "{}", "Further fields, such as `{ \"Cache-Control\" = \"no-store\" }`."),
        row("route.redirect", "to", Kind::Text, "", "Where to: a path, or an `http` or `https` URL. `{rest}` in its path is what the request has below `path`. Required."),
        row("route.redirect", "status", Kind::Numbers(REDIRECT_STATUSES), "308", "Status of the answer."),
        row("route.static", "root", Kind::Text, "", "The directory; relative to the working directory unless it begins with `/`. Required."),
        row("route.static", "symlinks", Kind::Word(SYMLINK_WORDS), r#""inside""#, "Follow relative symbolic links that stay inside the root, or none."),
        row("route.static", "index", Kind::Texts, r#"["index.html"]"#, "Names tried for a directory, in order."),
        row("route.static", "listing", Kind::Boolean, "false", "Answer a directory that has no index with a list of what would be served from it, as HTML or, where Accept prefers it, as JSON (`{ path, truncated, entries }`); at most `limits.listing_entries` names. Hidden names, links that lead nowhere or outside, and what may not be read are not in it."),
        row("route.static", "clean_urls", Kind::Boolean, "false", "Send `about.html` for `/about` where there is no file `about`; a directory `about` keeps its index at `/about/`. `/about.html` is still answered, without a redirect."),
        row("route.static", "cache_control", Kind::Tables("route.static.cache_control"), "[]", "`Cache-Control` of files, on 200, 206 and 304: a list of tables with `glob` and `value`. The first glob that matches wins; without one there is no such field."),
        row("route.static", "headers", Kind::Tables("route.static.headers"), "[]", "Further fields of files, on 200, 206 and 304: a list of tables with `glob` and `headers`. All globs that match add their fields; a field that several of them name is that of the last, and it stands instead of the one that the route's `headers` or `security_headers` give. Not for `Cache-Control`, which has a key of its own, nor for `Vary`."),
        row("route.static", "precompressed", Kind::Boolean, "true", "Send `x.js.br`, `x.js.zst` or `x.js.gz` for `x.js` to clients that take that coding. `false` where there are none spares the look for them."),
        row("route.static", "compress", Kind::BooleanOrTable("route.static.compress"), "false", "Compress text files on the fly, once for each version of a file, and keep them in memory (`compressed_size` in `[limits]`). A sidecar that is there goes first; a request for a range gets a part of the file as it is, and so does everything under `no-transform`. `true`, or a table with what differs."),
        row("route.static", "revalidate", Kind::Duration(REVALIDATE_MS_MAX), r#""1s""#, "How long what a path led to, or that it led to nothing, may be believed before it is looked up again. An edit of a file shows at once all the same, but for remote file systems, and of one that has a sidecar within a second. `\"0s\"` keeps nothing. Less than a second is rounded to about 4 ms by the kernel's clock."),
        row("route.static", "spa", Kind::Text, "", "Page beneath the root, such as `/index.html`, that answers navigations to paths without a file. A path whose last segment has a dot is a file, and 404."),
        row("route.static", "spa_exclude", Kind::Texts, "[]", "Prefixes of the request's path, such as `/api/`, that `spa` never answers."),
        row("route.static", "error_pages", Kind::Pages, "{}", "Pages beneath the root for errors of the route, by status (400 to 599) or class (`4xx`, `5xx`), as `{ \"404\" = \"/404.html\" }`; the exact status wins. Status and fields stay those of the error, whatever page it is; where the page cannot be had the short text is sent."),
        row("route.static.compress", "codings", Kind::Texts, r#"["br", "zstd", "gzip"]"#, "Codings to use; which one a client gets is its own choice, and of those that it likes as much the first of this list: br, zstd, gzip."),
        row("route.static.compress", "br_level", Kind::Integer(0, 11), "5", "Level of br; 9 and above take many times as long."),
        row("route.static.compress", "zstd_level", Kind::Integer(1, 19), "9", "Level of zstd."),
        row("route.static.compress", "gzip_level", Kind::Integer(1, 9), "6", "Level of gzip."),
        row("route.static.compress", "min_size", Kind::Size(1, COMPRESS_BYTES_MAX), r#""1KiB""#, "Smaller files are sent as they are: they take one packet either way."),
        row("route.static.compress", "max_size", Kind::Size(1, COMPRESS_BYTES_MAX), r#""8MiB""#, "Larger files are sent as they are: about 0.2 s of a core at these levels."),
        row("route.static.compress", "types", Kind::Texts, &TYPES_SHOWN, "Content types to compress, without parameters; `text/*` is every type of that family. What is compressed by its format never is."),
        row("route.static.cache_control", "glob", Kind::Text, "", "Paths beneath the root, as `assets/**`; without a slash names at any depth, as `*.html`. `*` and `?` stay within a segment, `**` does not; `[a-z]`, `{js,css}`. A directory counts as its index file. Required."),
        row("route.static.cache_control", "value", Kind::Text, "", "Value of the field. Required."),
        row("error_pages", "root", Kind::Text, "", "Directory with the pages; relative to the working directory unless it begins with `/`. Required."),
        row("error_pages", "pages", Kind::Pages, "", "As `error_pages` of `static`, beneath this root. Required."),
        row("route.static.headers", "glob", Kind::Text, "", "Paths beneath the root, as in `cache_control`. Required."),
        row("route.static.headers", "headers", Kind::Fields, "", "Their fields, such as `{ \"Cross-Origin-Resource-Policy\" = \"cross-origin\" }`. Required."),
    ]
}

static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let limits = limits::TABLE.iter().map(|limit| Key {
        table: "limits",
        name: limit.key,
        kind: Kind::Limit(limit),
        default: Cow::Owned(show_limit(limit.unit, limit.default)),
        state: State::Works,
        doc: limit.reason,
    });
    before_limits().into_iter().chain(limits).chain(after_limits()).collect()
});

/// All rows in the order of the documentation.
pub(super) fn all() -> &'static [Key] {
    &KEYS
}

/// The rows of one table.
pub(super) fn of(table: &str) -> impl Iterator<Item = &'static Key> {
    all().iter().filter(move |key| key.table == table)
}

/// The row of `name` in `table`.
pub(super) fn find(table: &str, name: &str) -> Option<&'static Key> {
    of(table).find(|key| key.name == name)
}

/// The tables whose rows a walk may meet, each once, in the order of the documentation.
pub(super) fn tables() -> Vec<&'static str> {
    let mut tables: Vec<&str> = all().iter().map(|key| key.table).collect();
    tables.dedup();
    tables
}

/// The keys without which a table means nothing. (A route needs one of several: see `route`.)
pub(super) fn required(table: &str) -> &'static [&'static str] {
    match table {
        "tls" => &["certificate"],
        "tls.certificates" => &["certificate", "key"],
        "route.cors" => &["origins"],
        "route.redirect" => &["to"],
        "route.static" => &["root"],
        "route.static.cache_control" => &["glob", "value"],
        "error_pages" => &["root", "pages"],
        "route.static.headers" => &["glob", "headers"],
        _ => &[],
    }
}

/// How a table is called in a message: its last word.
pub(super) fn table_title(table: &str) -> &str {
    table.rsplit('.').next().unwrap_or(table)
}

/// The candidate that `word` is a misspelling of.
///
/// Jaro-Winkler forgives a swapped or doubled letter in short words; below 0.84 the suggestions
/// became jokes ("port" for "root").
pub(super) fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase().replace('-', "_");
    candidates
        .map(|candidate| (strsim::jaro_winkler(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(score, _)| *score >= 0.84)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, candidate)| candidate)
}

/// A limit's value as TOML.
pub(super) fn show_limit(unit: Unit, value: u64) -> String {
    match unit {
        Unit::Count => value.to_string(),
        Unit::Bytes => format!("{:?}", units::show_bytes(value)),
        Unit::Milliseconds => format!("{:?}", units::show_ms(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_that_a_row_names_has_rows_and_every_key_is_there_once() {
        for key in all() {
            assert_eq!(of(key.table).filter(|other| other.name == key.name).count(), 1, "{}", key.name);
            if let Kind::Table(table)
            | Kind::Tables(table)
            | Kind::WordOrTable(_, table)
            | Kind::BooleanOrTable(table) = key.kind
            {
                assert!(of(table).count() > 0 || key.state == State::NotBuilt, "{table}");
            }
        }
    }

    #[test]
    fn misspelt_words_find_their_key_and_other_words_do_not() {
        let near = |word| nearest(word, ["root", "symlinks", "index", "revalidate"].into_iter());
        assert_eq!(near("rooot"), Some("root"));
        assert_eq!(near("symlink"), Some("symlinks"));
        assert_eq!(near("Index"), Some("index"));
        assert_eq!(near("port"), None);
        assert_eq!(near("directory"), None);
    }
}
