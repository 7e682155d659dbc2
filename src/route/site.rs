//! The site of one worker: the single door through which every engine gets its answers.

use std::rc::Rc;
use std::sync::Arc;

use crate::config::checked;
use crate::fs::Root;
use crate::handlers::{Headers, Listing, Redirect, Respond, StaticFiles};
use crate::limits::Limits;
use crate::message::{Answer, Fields, Reply, Request, Service, Where};
use crate::route::table::{Match, Table};
use crate::semantics::method::Method;
use crate::semantics::path::SafePath;

/// Methods that an answer about the whole server names.
const EVERY_METHOD: &str = "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS";

/// Routes and their handlers.
#[derive(Debug)]
pub struct Site {
    table: Table<Rc<Entry>>,
}

/// What a route leads to.
#[derive(Debug)]
struct Entry {
    handler: Handler,
    headers: Headers,
}

#[derive(Debug)]
enum Handler {
    Respond(Respond),
    Redirect(Redirect),
    Static(StaticFiles),
}

impl Site {
    /// The site of `routes`; `roots` holds the open root of each static route, in their order.
    #[must_use]
    pub fn new(routes: &[checked::Route], roots: &[Arc<Root>], limits: &Limits) -> Site {
        let mut roots = roots.iter();
        let handlers = routes.iter().map(|route| {
            let (handler, headers) = match &route.handler {
                // Nothing of it differs from answer to answer, so it is put together at once.
                checked::Handler::Respond(respond) => {
                    (Handler::Respond(Respond::new(respond, &route.headers)), Headers::new(&[]))
                }
                checked::Handler::Redirect(redirect) => {
                    (Handler::Redirect(Redirect::new(redirect)), Headers::new(&route.headers))
                }
                checked::Handler::Static(files) => {
                    let root = roots.next().expect("one open root for each static route");
                    let listing = Listing::new(files, limits, &route.headers);
                    let files = StaticFiles::new(files, root, listing);
                    (Handler::Static(files), Headers::with_errors(&route.headers))
                }
            };
            (route, Rc::new(Entry { handler, headers }))
        });
        Site { table: Table::new(handlers) }
    }
}

impl Service for Site {
    fn answer(&self, request: &Request<'_>) -> Answer {
        let (path, query) = match &request.target {
            Where::Server => {
                return Answer::Ready(Reply::bodiless(204, Fields::of(&[("Allow", EVERY_METHOD)])));
            }
            Where::Path(path, query) => (path, *query),
        };
        if request.method == Method::Trace {
            // RFC 9110 §9.3.8 would send the request back, cookies included.
            return Answer::Ready(Reply::plain_with(
                405,
                &[("Allow", allow_without_trace(self, request, path))],
            ));
        }
        match self.table.find(request.authority, path, request.method) {
            Match::Found(entry, covered) => entry.headers.on(match &entry.handler {
                Handler::Respond(respond) => Answer::Ready(respond.answer()),
                Handler::Redirect(redirect) => {
                    Answer::Ready(redirect.answer(escaped_rest(path, covered), query))
                }
                Handler::Static(files) => files.answer(request, path, query, rest(path.decoded(), covered)),
            }),
            Match::OtherMethods(methods) => {
                let allow = methods.iter().map(|method| method.as_str()).collect::<Vec<_>>().join(", ");
                Answer::Ready(Reply::plain_with(405, &[("Allow", &allow)]))
            }
            Match::Nothing => Answer::Ready(Reply::plain(404)),
        }
    }
}

/// What a TRACE may be replaced with: the methods of a file, or every method.
fn allow_without_trace(site: &Site, request: &Request<'_>, path: &SafePath<'_>) -> &'static str {
    match site.table.find(request.authority, path, Method::Get) {
        Match::Found(entry, _) if matches!(entry.handler, Handler::Static(_)) => "GET, HEAD, OPTIONS",
        _ => EVERY_METHOD,
    }
}

/// What follows a prefix of `covered` bytes, without the slash between them.
fn rest(decoded: &[u8], covered: usize) -> &[u8] {
    let rest = &decoded[covered..];
    rest.strip_prefix(b"/").unwrap_or(rest)
}

/// The same in escaped form. A prefix is whole segments, so their number finds its end.
fn escaped_rest<'a>(path: &'a SafePath<'_>, covered: usize) -> &'a [u8] {
    let escaped = &path.escaped()[1..];
    if covered == 0 {
        return escaped;
    }
    let segments = memchr::memchr_iter(b'/', &path.decoded()[..covered]).count() + 1;
    match memchr::memchr_iter(b'/', escaped).nth(segments - 1) {
        Some(end) => &escaped[end + 1..],
        None => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_path_is_found_in_both_forms() {
        let check = |path: &str, covered: usize, decoded: &str, escaped: &str| {
            let path = SafePath::parse(path.as_bytes()).unwrap();
            assert_eq!(rest(path.decoded(), covered), decoded.as_bytes());
            assert_eq!(escaped_rest(&path, covered), escaped.as_bytes());
        };
        check("/old/a%20b", 3, "a b", "a%20b");
        check("/o%6cd/a", 3, "a", "a");
        check("/old", 3, "", "");
        check("/old/", 3, "", "");
        check("/a/b%2fc/d", 0, "a/b\x00Fc/d", "a/b%2fc/d");
        check("/%6f/p/x/", 3, "x/", "x/");
    }
}
