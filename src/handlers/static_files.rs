//! Files beneath a root: what the target names, the index of a directory, the redirect to it, and the
//! fields that describe a file (RFC 9110 §8). Conditions beyond If-None-Match, ranges and codings are
//! a later milestone.

use std::path::Path;
use std::sync::Arc;

use crate::config::checked;
use crate::fs::{Found, Links, Miss, OpenFile, Root, Step, View};
use crate::handlers::{miss, redirect};
use crate::message::{Answer, Body, Fields, Reply, Request};
use crate::offload::Pool;
use crate::semantics::method::Method;
use crate::semantics::path::{SafePath, has_hidden_segment};
use crate::semantics::{date, etag, mime};
use crate::sys::clock;

const ALLOW: (&str, &str) = ("Allow", "GET, HEAD, OPTIONS");

/// One worker's handler for a root.
#[derive(Debug)]
pub struct StaticFiles {
    view: View,
    index: Vec<String>,
}

/// Opens the root of a static route, for all workers.
///
/// # Errors
/// The directory cannot be opened, or the kernel refuses `openat2`.
pub fn open_root(config: &checked::Static, pool: Pool) -> std::io::Result<Arc<Root>> {
    let links = if config.follow_symlinks { Links::Inside } else { Links::Refused };
    Root::open(Path::new(&config.root), links, pool)
}

/// What is needed of a request after its buffer is gone.
struct Ask {
    paths: Vec<Vec<u8>>,
    wants_index: bool,
    none_match: Vec<Vec<u8>>,
    /// Where a directory redirects to.
    location: Vec<u8>,
}

impl StaticFiles {
    /// A handler over `root`.
    #[must_use]
    pub fn new(config: &checked::Static, root: &Arc<Root>) -> StaticFiles {
        StaticFiles { view: View::new(root), index: config.index.clone() }
    }

    /// The root that it serves.
    #[must_use]
    pub fn root(&self) -> &Arc<Root> {
        self.view.root()
    }

    /// Answers a request for `relative`: the path behind the route's prefix, without a leading slash.
    pub fn answer(
        &self,
        request: &Request<'_>,
        path: &SafePath<'_>,
        query: Option<&[u8]>,
        relative: &[u8],
    ) -> Answer {
        match request.method {
            Method::Get | Method::Head => {}
            Method::Options => return Answer::Ready(Reply::bodiless(204, Fields::of(&[ALLOW]))),
            _ => return Answer::Ready(Reply::plain_with(405, &[ALLOW])),
        }
        let at_root = relative.len() == path.decoded().len();
        if has_hidden_segment(relative, at_root) || relative.contains(&0) {
            return Answer::Ready(miss::reply(&Miss::NotFound));
        }
        // `/docs` on the prefix `/docs/` names the directory without its slash.
        let wants_index = path.has_trailing_slash();
        if !wants_index {
            return self.answer_path(request, path, query, relative);
        }
        for (number, name) in self.index.iter().enumerate() {
            let candidate = [relative, name.as_bytes()].concat();
            match self.view.open(&candidate) {
                Step::Ready(Ok(Found::File(file, _))) => {
                    return Answer::Ready(describe(file, None, &candidate, request.values("if-none-match")));
                }
                Step::Ready(Ok(Found::Directory) | Err(Miss::NotFound | Miss::NotRegular)) => {}
                Step::Ready(Err(miss)) => return Answer::Ready(miss::reply(&miss)),
                Step::Wait => {
                    let rest = self.index[number..].iter().map(|name| [relative, name.as_bytes()].concat());
                    return self.wait(ask(request, rest.collect(), true, Vec::new()));
                }
            }
        }
        Answer::Ready(miss::reply(&Miss::NotFound))
    }

    fn answer_path(
        &self,
        request: &Request<'_>,
        path: &SafePath<'_>,
        query: Option<&[u8]>,
        relative: &[u8],
    ) -> Answer {
        match self.view.open(relative) {
            Step::Ready(Ok(Found::File(file, _))) => {
                Answer::Ready(describe(file, None, relative, request.values("if-none-match")))
            }
            Step::Ready(Ok(Found::Directory)) => {
                Answer::Ready(to_directory(relative, &with_slash(path, query)))
            }
            Step::Ready(Err(miss)) => Answer::Ready(miss::reply(&miss)),
            Step::Wait => self.wait(ask(request, vec![relative.to_vec()], false, with_slash(path, query))),
        }
    }

    /// Has the whole resolution done in the pool.
    fn wait(&self, ask: Ask) -> Answer {
        match self.view.open_in_pool(ask.paths.clone()) {
            Err(full) => Answer::Ready(miss::pool_full(full)),
            Ok(found) => Answer::Wait(Box::pin(async move {
                match found.await {
                    Ok((number, Found::File(file, content))) => {
                        let none_match = ask.none_match.iter().map(Vec::as_slice);
                        describe(file, content, &ask.paths[number], none_match)
                    }
                    Ok((_, Found::Directory)) if ask.wants_index => miss::reply(&Miss::NotFound),
                    Ok((_, Found::Directory)) => to_directory(&ask.paths[0], &ask.location),
                    Err(miss) => miss::reply(&miss),
                }
            })),
        }
    }
}

fn ask(request: &Request<'_>, paths: Vec<Vec<u8>>, wants_index: bool, location: Vec<u8>) -> Ask {
    let none_match = request.values("if-none-match").map(<[u8]>::to_vec).collect();
    Ask { paths, wants_index, none_match, location }
}

/// The redirect to a directory's own path. Not where its name holds a backslash: escaped it would be
/// another path (`%5C` is none of a name's bytes), and as it is browsers take it for a slash.
fn to_directory(relative: &[u8], location: &[u8]) -> Reply {
    if relative.contains(&b'\\') {
        return miss::reply(&Miss::NotFound);
    }
    redirect::to(308, location)
}

/// The path with its slash and the query as it was: path-absolute with one leading slash, so that it
/// stays on this site whatever the names are (case A04).
fn with_slash(path: &SafePath<'_>, query: Option<&[u8]>) -> Vec<u8> {
    let mut location = path.escaped().to_vec();
    location.push(b'/');
    if let Some(query) = query {
        location.push(b'?');
        location.extend_from_slice(query);
    }
    location
}

/// The answer that a file gives: 200 with its content, or 304.
fn describe<'a>(
    file: OpenFile,
    content: Option<Vec<u8>>,
    name: &[u8],
    none_match: impl Iterator<Item = &'a [u8]>,
) -> Reply {
    let stat = *file.stat();
    let tag = etag::of_file(stat.size, stat.mtime_s, stat.mtime_ns);
    let mut none_match = none_match.peekable();
    if none_match.peek().is_some() && none_match.any(|value| etag::none_match_names(value, tag.as_deref())) {
        let fields = tag.map_or(Fields::Empty, |tag| Fields::of(&[("ETag", &tag)]));
        return Reply::bodiless(304, fields);
    }
    let content_type = mime::of_name(name);
    // RFC 9110 §8.8.2.1: never later than Date; a flattened time says nothing (case B08).
    let is_honest = !etag::is_flattened(stat.mtime_s) && stat.mtime_s <= clock::wall_coarse().0;
    let modified = is_honest.then(|| date::http_date(stat.mtime_s)).flatten();
    let mut pairs = vec![("Content-Type", &*content_type)];
    pairs.extend(modified.as_deref().map(|date| ("Last-Modified", date)));
    pairs.extend(tag.as_deref().map(|tag| ("ETag", tag)));
    let body = content.map_or_else(|| Body::File(file), Body::Owned);
    Reply { status: 200, fields: Fields::of(&pairs), body }
}
