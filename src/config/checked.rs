//! The config as it is meant: every value checked, defaults filled in, types that cannot be wrong.
//!
//! Each room takes its own slice of this (`Server`, `Log`, `Limits`, `Route`), never the whole.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use globset::Glob;
use ipnet::IpNet;

use crate::limits::Limits;
use crate::semantics::encoding::Coding;
use crate::semantics::method::Method;
use crate::semantics::origin::Pattern;
use crate::tls::Files;

/// A whole, valid configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Sockets, workers, drain.
    pub server: Server,
    /// HTTPS, where it is served.
    pub tls: Option<Tls>,
    /// Access log.
    pub log: Log,
    /// Spans and request ids.
    pub telemetry: Telemetry,
    /// Bounds in force.
    pub limits: Limits,
    /// Routes in the order of the file; matching does not depend on it.
    pub routes: Vec<Route>,
    /// Pages for errors that no route has a page for.
    pub error_pages: Option<ErrorPages>,
}

/// `[error_pages]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorPages {
    /// Directory with the pages.
    pub root: PathBuf,
    /// As [`Static::error_pages`], beneath it.
    pub pages: Vec<ErrorPage>,
}

/// One of `error_pages`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorPage {
    /// First and last of the statuses that it stands for, within 400–599.
    pub first: u16,
    /// The same as `first`, but for a class.
    pub last: u16,
    /// The page beneath the root, as [`PathMatch::Prefix`] spells paths; no hidden name.
    pub path: Vec<u8>,
}

/// `[server]`
#[derive(Clone, Debug)]
pub struct Server {
    /// Addresses for plain HTTP. `[::]` falls back to `0.0.0.0` where IPv6 is off.
    pub listen: Vec<SocketAddr>,
    /// Where `/livez` and `/readyz` are served; `None` when it is `"off"`.
    pub admin: Option<SocketAddr>,
    /// Worker threads; `None` is `"auto"`: min(affinity, ceil(CPU quota)).
    pub workers: Option<usize>,
    /// From the first signal: this long ready says 503 while requests are still taken.
    pub drain_delay: Duration,
    /// From the end of the delay: what still runs is cut.
    pub drain_timeout: Duration,
    /// Development mode; of the command line alone.
    pub is_dev: bool,
    /// Peers whose fields about traces and request ids are believed.
    pub trusted_proxies: Vec<IpNet>,
}

/// `[tls]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Addresses for HTTPS; none of them is another of the server.
    pub listen: Vec<SocketAddr>,
    /// The default first, then those that are chosen by their names.
    pub certificates: Vec<Certificate>,
}

/// Where a certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// Made at the start, for development.
    SelfSigned,
    /// Read, and looked at again and again.
    Files(Files),
}

/// `[telemetry]`, with the standard variables of OpenTelemetry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Telemetry {
    /// Where spans go; `None`: nowhere, and none is made.
    pub traces: Option<Traces>,
    /// Whether every request has an id.
    pub request_id: bool,
}

/// Which spans are made, and how a collector gets them.
#[derive(Clone, Debug, PartialEq)]
pub struct Traces {
    /// How they are sent.
    pub protocol: Protocol,
    /// An `http` URL: for gRPC an authority, for HTTP with the whole path.
    pub endpoint: String,
    /// Requests to the collector are compressed by gzip.
    pub is_compressed: bool,
    /// Further fields of each request to the collector, with lower-case names. May hold secrets.
    pub headers: Vec<(String, String)>,
    /// How long one request to the collector may take.
    pub timeout: Duration,
    /// Which requests are chosen at their beginning.
    pub sampler: Sampler,
    /// Which are chosen at their end, because they took longer.
    pub slow: Option<Duration>,
    /// Or because they failed with 5xx.
    pub errors: bool,
    /// `service.name`; `None`: that of the resource, else `scalws`.
    pub service: Option<String>,
    /// Further attributes of the resource.
    pub resource: Vec<(String, String)>,
    /// Requests whose spans wait; more are dropped and counted.
    pub queue_max: usize,
    /// Spans that are sent together.
    pub batch_max: usize,
    /// How long spans wait for others that are sent with them.
    pub delay: Duration,
}

/// `OTEL_EXPORTER_OTLP_PROTOCOL`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `grpc`
    Grpc,
    /// `http/protobuf`
    Http,
}

/// `OTEL_TRACES_SAMPLER` and its argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    /// Where a trusted peer has decided, that stands.
    pub is_parent_based: bool,
    /// From 0 to 1.
    pub ratio: f64,
}

/// `[log]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Form of the access log.
    pub access: AccessFormat,
    /// File that it is appended to; `None` is stdout.
    pub access_file: Option<PathBuf>,
}

/// Form of an access-log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessFormat {
    /// One JSON object a line.
    Json,
    /// The combined log format of Apache and nginx.
    Combined,
    /// No access log.
    Off,
}

/// `[[route]]`
#[derive(Clone, Debug)]
pub struct Route {
    /// Short name for logs and `explain`: its pattern, such as `www.example.com /docs/`.
    pub name: String,
    /// Lower-case hosts without port; `*.example.com` matches one or more labels. Empty: every host.
    pub hosts: Vec<String>,
    /// Path pattern.
    pub path: PathMatch,
    /// Methods that match; `None`: all (Gateway API HTTPRouteMatch.method).
    pub methods: Option<Vec<Method>>,
    /// Fields of all answers, checked like those of [`Respond`], and with no name that they have.
    pub headers: Vec<(String, String)>,
    /// What pages of other origins may do; `None`: what they may without anybody's leave.
    pub cors: Option<Cors>,
    /// What answers.
    pub handler: Handler,
}

/// A path pattern in its decoded form, as `semantics::path::SafePath::decoded` spells a request's:
/// no leading slash, no empty or dot segment, NUL for an encoded slash.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PathMatch {
    /// The whole path; a trailing slash counts.
    Exact(Vec<u8>),
    /// The path itself and everything below it, on segment boundaries; no trailing slash here
    /// (`/old/` and `/old` are the same prefix, Gateway API PathPrefix). Empty: everything.
    Prefix(Vec<u8>),
}

/// `cors = true`, or `cors = { … }`. Never with every origin and credentials, nor with `*` among names
/// beside credentials, where it means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    /// Allowed origins; `None` for every one.
    pub origins: Option<Vec<Pattern>>,
    /// Allowed methods, of those that the route answers.
    pub methods: Vec<Method>,
    /// Allowed request fields in lower case; `*` is every one but Authorization.
    pub request_headers: Vec<String>,
    /// Fields of an answer that a page may read.
    pub expose_headers: Vec<String>,
    /// How long a browser may keep the answer to a preflight.
    pub max_age_s: u64,
    /// Whether cookies and the like may go along.
    pub credentials: bool,
}

/// What answers a route.
#[derive(Clone, Debug)]
pub enum Handler {
    /// A fixed answer.
    Respond(Respond),
    /// A redirect.
    Redirect(Redirect),
    /// Files beneath a directory.
    Static(Static),
}

/// `respond = { … }`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Respond {
    /// Final status, 200–599.
    pub status: u16,
    /// Body; empty for 204 and 304.
    pub body: Vec<u8>,
    /// `Content-Type`; `None` leaves it out (no body).
    pub content_type: Option<String>,
    /// Further fields, checked: no framing or connection field, no CR, LF or NUL.
    pub headers: Vec<(String, String)>,
}

/// `redirect = { … }`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// Target with at most one `{rest}`, which stands after the start of a path: either the target
    /// begins with one `/`, or it has a scheme, an authority and a `/` before `{rest}`.
    pub to: String,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// `static = { … }`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Static {
    /// Directory whose content appears beneath the route's prefix; absolute or relative to the
    /// working directory.
    pub root: PathBuf,
    /// Whether symbolic links that stay beneath the root are followed.
    pub follow_symlinks: bool,
    /// Names tried for a directory, in order; may be empty.
    pub index: Vec<String>,
    /// Whether a directory without one of them is listed.
    pub listing: bool,
    /// Whether `about.html` is sent for `/about`.
    pub clean_urls: bool,
    /// How long what a path led to is believed; 0: nothing is kept.
    pub revalidate_ms: u64,
    /// Cache-Control of files; the first glob that matches wins. They can be built into one set.
    pub cache_control: Vec<CacheRule>,
    /// Further fields of files, of all globs that match. They can be built into one set too.
    pub headers: Vec<HeaderRule>,
    /// The page that answers navigations to paths without a file.
    pub spa: Option<Spa>,
    /// Pages for errors of the route; the first that has the status is the one.
    pub error_pages: Vec<ErrorPage>,
    /// Whether `x.js.br`, `x.js.zst` and `x.js.gz` are sent for `x.js`.
    pub precompressed: bool,
    /// What is compressed on the fly.
    pub compress: Option<Compress>,
}

/// `compress` of `static = { … }`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compress {
    /// Codings with the levels of their encoders; at least one.
    pub levels: Vec<(Coding, u8)>,
    /// Smallest file.
    pub min_bytes: u64,
    /// Largest file.
    pub max_bytes: u64,
    /// Types in lower case without parameters; `text/*` for all of a family.
    pub types: Vec<String>,
}

/// One of `static.cache_control`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheRule {
    /// Matches paths beneath the root.
    pub glob: Glob,
    /// Value of the field, checked like those of [`Respond`].
    pub value: String,
}

/// One of `static.headers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderRule {
    /// Matches paths beneath the root.
    pub glob: Glob,
    /// Fields, checked like those of a route.
    pub headers: Vec<(String, String)>,
}

/// `spa` and `spa_exclude` of `static = { … }`; paths as [`PathMatch::Prefix`] spells them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spa {
    /// The page, beneath the root.
    pub page: Vec<u8>,
    /// Prefixes of the request's path, on segment boundaries, that are never answered with it.
    pub exclude: Vec<Vec<u8>>,
}
