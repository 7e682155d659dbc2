//! Every key of the config in one table: its table, name, kind, default and meaning.
//!
//! The search for unknown keys, did-you-mean, the names of environment overrides, the JSON Schema and
//! `docs/config.md` all read this table, so that none of them can disagree. The rows of `[limits]`
//! come from `limits::TABLE`.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::units;
use crate::limits::{self, Limit, Unit};

/// What a value may be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A table, named as in [`Key::table`].
    Table(&'static str),
    /// `[[…]]`.
    Tables(&'static str),
    /// `true` or `false`.
    Boolean,
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
    /// A table or a list of any values.
    Json,
}

/// How far this version takes a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// As documented.
    Works,
    /// Checked and accepted, but nothing reads it yet: a warning.
    NoEffect,
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
/// Words of `route.static.symlinks`.
pub(super) const SYMLINK_WORDS: &[&str] = &["inside", "none"];
/// Statuses of `route.redirect.status`: those whose Location a client follows (RFC 9110 §15.4).
pub(super) const REDIRECT_STATUSES: &[u64] = &[301, 302, 303, 307, 308];
/// Most workers that make sense: the largest machines have fewer cores.
pub(super) const WORKERS_MAX: u64 = 1024;
/// Longest drain delay and timeout: an orchestrator kills long before.
pub(super) const DRAIN_MS_MAX: u64 = 3_600_000;
/// Longest `revalidate`: more would be "never", which deserves a word of its own.
pub(super) const REVALIDATE_MS_MAX: u64 = 86_400_000;

fn row(table: &'static str, name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Key {
    Key { table, name, kind, default: Cow::Borrowed(default), state: State::Works, doc }
}

fn no_effect(key: Key) -> Key {
    Key { state: State::NoEffect, ..key }
}

fn not_built(key: Key) -> Key {
    Key { state: State::NotBuilt, ..key }
}

#[rustfmt::skip] // a table: one row a line, however long
fn before_limits() -> Vec<Key> {
    vec![
        row("", "server", Kind::Table("server"), "", "Sockets, workers and the way out."),
        not_built(row("", "tls", Kind::Table("tls"), "", "HTTPS.")),
        row("", "log", Kind::Table("log"), "", "The access log; everything else goes to stderr."),
        row("", "limits", Kind::Table("limits"), "", "Every bound; see `docs/limits.md`."),
        row("", "route", Kind::Tables("route"), "", "What answers which requests. Host, then `exact` before the longest `path`, then method; the order in the file does not matter. Without any route the directory given to `serve` (else `/srv`) is served."),
        row("server", "listen", Kind::Texts, r#"["[::]:8080"]"#, "Addresses for plain HTTP. `[::]` falls back to `0.0.0.0` where IPv6 is off."),
        row("server", "admin", Kind::AddressOrOff, r#""127.0.0.1:8081""#, "Where `/livez` and `/readyz` are served."),
        row("server", "workers", Kind::WordOrInteger("auto", 1, WORKERS_MAX), r#""auto""#, "Worker threads; `auto` is the smaller of the cores we may use and the CPU quota, rounded up."),
        row("server", "drain", Kind::Table("server.drain"), "", "What a signal to stop begins."),
        no_effect(row("server", "trusted_proxies", Kind::Texts, "[]", "Networks (CIDR) whose forwarding fields are believed.")),
        row("server.drain", "delay", Kind::Duration(DRAIN_MS_MAX), r#""0s""#, "Time for load balancers to notice: `/readyz` says 503 while requests are still taken."),
        row("server.drain", "timeout", Kind::Duration(DRAIN_MS_MAX), r#""8s""#, "From the end of the delay; what still runs then is cut."),
        not_built(row("tls", "listen", Kind::Texts, r#"["[::]:8443"]"#, "Addresses for HTTPS.")),
        not_built(row("tls", "certificate", Kind::Text, "", "File with the certificate chain.")),
        not_built(row("tls", "key", Kind::Text, "", "File with the private key.")),
        row("log", "access", Kind::WordOrTable(ACCESS_WORDS, "log.access"), r#""json""#, "Form of the access log, which goes to stdout; or a table with `format` and `file`."),
        row("log.access", "format", Kind::Word(ACCESS_WORDS), r#""json""#, "Form of its lines."),
        row("log.access", "file", Kind::Text, "", "File that it is appended to instead of stdout."),
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
        row("route", "headers", Kind::Fields, "{}", "Fields of all answers of the route, errors and 304 included. What lets a cache keep an answer (`Cache-Control` without `no-store`, `Expires`) is left out of the errors of `static`. Not for what tells of a single answer, such as `ETag`."),
        row("route", "security_headers", Kind::Boolean, "", "`true` adds `X-Content-Type-Options: nosniff`, `Referrer-Policy: strict-origin-when-cross-origin`, `X-Frame-Options: DENY` and `Cross-Origin-Opener-Policy: same-origin`; what `headers` names stays as it is there. A Content-Security-Policy is for `headers`, as no one policy fits every page. Without this key `static` adds the first of them alone; `false` adds none."),
        row("route", "respond", Kind::Table("route.respond"), "", "A fixed answer. One of `respond`, `redirect` and `static` is required."),
        row("route", "redirect", Kind::Table("route.redirect"), "", "A redirect."),
        row("route", "static", Kind::Table("route.static"), "", "The files of a directory, for GET, HEAD and OPTIONS."),
        not_built(row("route", "proxy", Kind::Table("route.proxy"), "", "Another server.")),
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
        row("route.static", "precompressed", Kind::Boolean, "true", "Send `x.js.br`, `x.js.zst` or `x.js.gz` for `x.js` to clients that take that coding. `false` where there are none spares the look for them."),
        no_effect(row("route.static", "compress", Kind::Boolean, "false", "Compress on the fly.")),
        no_effect(row("route.static", "revalidate", Kind::Duration(REVALIDATE_MS_MAX), r#""1s""#, "How old a cached look at a path may be.")),
        row("route.static", "spa", Kind::Text, "", "Page beneath the root, such as `/index.html`, that answers navigations to paths without a file. A path whose last segment has a dot is a file, and 404."),
        row("route.static", "spa_exclude", Kind::Texts, "[]", "Prefixes of the request's path, such as `/api/`, that `spa` never answers."),
        row("route.static.cache_control", "glob", Kind::Text, "", "Paths beneath the root, as `assets/**`; without a slash names at any depth, as `*.html`. `*` and `?` stay within a segment, `**` does not; `[a-z]`, `{js,css}`. A directory counts as its index file. Required."),
        row("route.static.cache_control", "value", Kind::Text, "", "Value of the field. Required."),
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
        "route.redirect" => &["to"],
        "route.static" => &["root"],
        "route.static.cache_control" => &["glob", "value"],
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
            if let Kind::Table(table) | Kind::Tables(table) | Kind::WordOrTable(_, table) = key.kind {
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
