//! `scalws explain METHOD URL`: the answer that a request would get and why, without serving. It asks
//! the very handlers that would answer, so it cannot say anything else than they would.

use std::fmt::Write;
use std::sync::Arc;

use tokio::runtime::Builder;
use tokio::task::LocalSet;

use super::start::open_roots;
use crate::config::checked::{self, Config, Handler, PathMatch, Route};
use crate::fs::{Mode, read};
use crate::handlers::compress::Store;
use crate::handlers::{OpenFiles, spa};
use crate::limits::{FILE_CHUNK_BYTES, FILE_INLINE_BYTES_MAX, WINDOWS_MAX};
use crate::message::{Answer, Body, Request, Service, Where};
use crate::offload::Offload;
use crate::route::{Match, Site, Table};
use crate::semantics::head::{Version, is_authority};
use crate::semantics::method::Method;
use crate::semantics::path::{SafePath, Target, has_hidden_segment};
use crate::semantics::range::ByteRange;
use crate::semantics::status;

/// Explains a request for `url`: a path, or an absolute URL.
///
/// # Errors
/// A URL that no request could carry, or a root that cannot be opened.
pub fn request(config: &Config, method: Method, url: &str) -> Result<String, String> {
    let target = Target::parse(url.as_bytes()).map_err(|error| format!("{url}: {}", error.0))?;
    let Target::Path { authority, path, query } = target else {
        return Err("expected a path or an absolute URL".to_owned());
    };
    let authority = authority.unwrap_or_default();
    if !is_authority(authority) {
        return Err(format!("{url}: not a host with an optional port"));
    }
    let path = SafePath::parse(path).map_err(|error| format!("{url}: 400, {}", error.0))?;
    let target = Where::Path(path.clone(), query);
    let request = Request { method, target, authority, version: Version::Http11, fields: &[], body_bytes: 0 };
    let mut text = String::new();
    let _ = writeln!(text, "request   {} {url}", method.as_str());
    let _ = writeln!(text, "path      /{}", path.decoded().escape_ascii());
    describe_route(&mut text, config, &request, &path);
    describe_answer(&mut text, config, &request)?;
    Ok(text)
}

fn describe_route(text: &mut String, config: &Config, request: &Request<'_>, path: &SafePath<'_>) {
    let table = Table::new(config.routes.iter().zip(0..));
    let (route, covered) = match table.find(request.authority, path, request.method) {
        Match::Found(number, covered) => (&config.routes[*number], covered),
        Match::OtherMethods(_) => {
            let _ = writeln!(text, "route     none for this method, but some for the path");
            return describe_error_pages(text, config, None);
        }
        Match::Nothing => {
            let _ = writeln!(text, "route     none matches");
            return describe_error_pages(text, config, None);
        }
    };
    let _ = writeln!(text, "route     {} ({})", route.name, why(route));
    let kind = match &route.handler {
        Handler::Respond(_) => "respond".to_owned(),
        Handler::Redirect(redirect) => format!("redirect to {}", redirect.to),
        Handler::Static(files) => describe_lookup(files, path, covered),
    };
    let _ = writeln!(text, "handler   {kind}");
    if let Handler::Static(files) = &route.handler {
        describe_error_pages(text, config, Some(files));
    }
}

/// What an error would show: pages of the route, then those of the site.
fn describe_error_pages(text: &mut String, config: &Config, files: Option<&checked::Static>) {
    let own = files.map(|files| (&files.root, &files.error_pages));
    let of_site = config.error_pages.as_ref().map(|site| (&site.root, &site.pages));
    let mut shown = Vec::new();
    for (root, pages) in own.into_iter().chain(of_site) {
        for page in pages {
            let (status, class) = (page.first.to_string(), format!("{}xx", page.first / 100));
            let statuses = if page.first == page.last { status } else { class };
            shown.push(format!("{statuses} {}/{}", root.display(), page.path.escape_ascii()));
        }
    }
    if !shown.is_empty() {
        let _ = writeln!(text, "errors    {}", shown.join(", "));
    }
}

fn why(route: &Route) -> String {
    let path = match &route.path {
        PathMatch::Exact(_) => "the whole path is the route's",
        PathMatch::Prefix(prefix) if prefix.is_empty() => "no longer prefix matches",
        PathMatch::Prefix(_) => "longest prefix on segment boundaries",
    };
    let host = if route.hosts.is_empty() { "every host" } else { "its host" };
    let methods = if route.methods.is_some() { "its methods" } else { "every method" };
    format!("{host}, {path}, {methods}")
}

fn describe_lookup(files: &checked::Static, path: &SafePath<'_>, covered: usize) -> String {
    let relative = &path.decoded()[covered..];
    let relative = relative.strip_prefix(b"/").unwrap_or(relative);
    let root = files.root.display();
    let at_root = relative.len() == path.decoded().len();
    if has_hidden_segment(relative, at_root) {
        return format!("static, a hidden name beneath {root}: always 404");
    }
    if relative.contains(&0) {
        return format!("static, an encoded slash or backslash beneath {root}: no file has such a name");
    }
    let shown = relative.escape_ascii();
    // The request here is no navigation, so its answer does not tell.
    let or_app = match &files.spa {
        Some(spa) if spa::may_be_answered(spa, path, relative) => {
            format!("; {root}/{} for a navigation that finds nothing", spa.page.escape_ascii())
        }
        _ => String::new(),
    };
    if path.has_trailing_slash() {
        let or_list = if files.listing { ", or a list" } else { "" };
        return format!("static, {root} + {shown} + the first of {:?}{or_list}{or_app}", files.index);
    }
    let or_page = if files.clean_urls { ", or that with .html" } else { "" };
    format!("static, {root} + {shown}{or_page}{or_app}")
}

fn describe_answer(text: &mut String, config: &Config, request: &Request<'_>) -> Result<(), String> {
    let pool = Offload::start(1, config.limits.offload_queue_max).map_err(|error| error.to_string())?;
    let roots = open_roots(&config.routes, config.error_pages.as_ref(), pool)?;
    let store = Store::new(&config.limits, pool);
    let site = Site::new(
        &config.routes,
        config.error_pages.as_ref(),
        &roots,
        &store,
        &OpenFiles::new(&config.limits, 1, &Arc::default()),
        &config.limits,
    );
    let runtime = Builder::new_current_thread().enable_time().build().map_err(|error| error.to_string())?;
    let (reply, lane) = match site.answer(request) {
        Answer::Ready(reply) => (reply, "at once, on the worker"),
        Answer::Wait(reply) => (
            LocalSet::new().block_on(&runtime, reply),
            "through the offload pool: not in the kernel's cache, or a file system that may wait",
        ),
    };
    for root in &roots {
        let (mode, file_system) = root.mode();
        let _ = writeln!(text, "root      {}: {file_system}, {}", root.path().display(), mode.describe());
    }
    let _ = writeln!(text, "resolved  {lane}");
    let _ = writeln!(text, "answer    {} {}", reply.status, status::reason(reply.status));
    for line in reply.fields.as_bytes().split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let _ = writeln!(text, "          {}", String::from_utf8_lossy(line.trim_ascii_end()));
    }
    if !status::is_bodiless(reply.status) {
        let _ = writeln!(text, "          Content-Length: {}", reply.body.len());
    }
    let _ = writeln!(text, "body      {}", describe_body(&reply.body, request.method));
    Ok(())
}

/// How the body comes to the socket, and how many trips to the pool that takes.
fn describe_body(body: &Body, method: Method) -> String {
    let (file, ranges) = match body {
        _ if method == Method::Head => return "none for HEAD".to_owned(),
        Body::Empty => return "none".to_owned(),
        Body::Static(_) | Body::Shared(_) | Body::Owned(_) | Body::Kept(_) => {
            return "in memory with the answer: no hop to the pool of its own".to_owned();
        }
        Body::File(file, range) => (file, vec![*range]),
        Body::Parts(parts) => (&parts.file, parts.parts.iter().map(|(_, range)| *range).collect()),
    };
    let mode = read::mode_found(file, ranges.first().map_or(0, |range| range.start));
    let bytes: u64 = ranges.iter().map(ByteRange::len).sum();
    let small = bytes <= FILE_INLINE_BYTES_MAX;
    let hops: u64 = match small {
        true => u64::from(mode != Mode::Memory),
        false => ranges.iter().map(|range| read::hops_max(mode, range.len())).sum(),
    };
    let of = format!("{hops} hop{} for {bytes} bytes", if hops == 1 { "" } else { "s" });
    let slow = "more for a client that takes little at a time, as nothing is kept for it";
    match mode {
        Mode::Memory => "read on the worker, always in memory: no hop to the pool".to_owned(),
        Mode::Inline if small => {
            format!("read on the worker, no hop to the pool while it is in the kernel's cache; else {of}")
        }
        Mode::Inline => format!(
            "read on the worker, no hop to the pool while it is in the kernel's cache; what is not takes at most 1 per {} KiB: {of}; {slow}",
            FILE_CHUNK_BYTES / 1024
        ),
        Mode::OpenInline | Mode::Remote if small => format!("read through the pool at once: {of}"),
        Mode::OpenInline => {
            format!("read through the pool, then sent by the worker, at most 1 hop per MiB: {of}; {slow}")
        }
        Mode::Remote => format!(
            "read in the pool, at most 1 hop per MiB: {of}; {slow}, and for a fast one while {WINDOWS_MAX} others of its worker are read for"
        ),
    }
}
