//! The site of one worker: the single door through which every engine gets its answers.

use std::rc::Rc;
use std::sync::Arc;

use crate::config::checked;
use crate::fs::Root;
use crate::handlers::compress::{Store, forbids_transform};
use crate::handlers::{
    Cors, ErrorPages, Headers, Listing, OpenFiles, Preflight, Redirect, Respond, StaticFiles,
};
use crate::limits::Limits;
use crate::message::{Answer, Fields, Reply, Request, Service, Where};
use crate::route::table::{Match, Table};
use crate::semantics::method::Method;
use crate::semantics::path::SafePath;
use crate::telemetry::facts;

/// Methods that an answer about the whole server names.
const EVERY_METHOD: &str = "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS";

/// Routes and their handlers.
#[derive(Debug)]
pub struct Site {
    table: Table<Rc<Entry>>,
    /// For errors without a route.
    error_pages: ErrorPages,
    /// Whether any route has CORS.
    has_cors: bool,
}

/// What a route leads to.
#[derive(Debug)]
struct Entry {
    /// Of the route, from 1 on, for those who count.
    number: u16,
    handler: Handler,
    headers: Headers,
    /// None for what the operator wrote as it is: `respond` and `redirect`.
    error_pages: ErrorPages,
    cors: Option<Cors>,
}

#[derive(Debug)]
enum Handler {
    Respond(Respond),
    Redirect(Redirect),
    Static(StaticFiles),
}

impl Site {
    /// The site of `routes`; `roots` holds the open root of each static route, in their order, and then
    /// that of the pages for errors, where there are some; `store` what is compressed of their files; `open_files` what this worker keeps of them.
    #[must_use]
    pub fn new(
        routes: &[checked::Route],
        error_pages: Option<&checked::ErrorPages>,
        roots: &[Arc<Root>],
        store: &Arc<Store>,
        open_files: &Rc<OpenFiles>,
        limits: &Limits,
    ) -> Site {
        let of_site = error_pages.map_or_else(ErrorPages::default, |config| {
            ErrorPages::of_site(config, roots.last().expect("an open root for the pages of the site"))
        });
        let mut roots = roots.iter();
        let handlers = routes.iter().zip(1_usize..).map(|(route, number)| {
            let mut error_pages = ErrorPages::default();
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
                    let forbids = |(name, value): &(String, String)| {
                        name.eq_ignore_ascii_case("cache-control") && forbids_transform(value.as_bytes())
                    };
                    let files = match route.headers.iter().any(forbids) {
                        true => &checked::Static { compress: None, ..files.clone() },
                        false => files,
                    };
                    let listing = Listing::new(files, limits, &route.headers);
                    let headers = Headers::with_errors(&route.headers, &files.headers);
                    let handler = StaticFiles::new(files, root, store, open_files, &headers, listing);
                    error_pages = of_site.behind(&files.error_pages, handler.view());
                    (Handler::Static(handler), headers)
                }
            };
            let cors = route.cors.as_ref().map(|cors| Cors::new(cors, route));
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            (route, Rc::new(Entry { number, handler, headers, error_pages, cors }))
        });
        let table = Table::new(handlers);
        Site { table, error_pages: of_site, has_cors: routes.iter().any(|route| route.cors.is_some()) }
    }

    /// Keeps a file that did not come through the resolver: for benches under valgrind, which has no openat2.
    #[cfg(feature = "bench")]
    pub fn adopt(&self, request: &Request<'_>, file: crate::fs::OpenFile) {
        if let Where::Path(path, _) = &request.target
            && let Match::Found(entry, covered) = self.table.find(request.authority, path, request.method)
            && let Handler::Static(files) = &entry.handler
        {
            files.adopt(request, rest(path.decoded(), covered), file);
        }
    }

    /// The answer to a preflight where a route with CORS has a say. It asks for leave to send another
    /// request: the route of that one decides, and not one that takes OPTIONS there by chance, or a
    /// browser would be let send what the first never allowed. A route of its own for OPTIONS wins
    /// where it is as specific.
    fn preflight(
        &self,
        request: &Request<'_>,
        path: &SafePath<'_>,
        preflight: &Preflight<'_>,
    ) -> Option<Answer> {
        let find = |method| match self.table.find(request.authority, path, method) {
            Match::Found(entry, _) => Some(entry),
            _ => None,
        };
        if let Some(method) = preflight.method
            && let Some(asked) = find(method)
            && let Some(cors) = &asked.cors
            && let Some(taker) = self.table.find_either(request.authority, path, [Method::Options, method])
            && Rc::ptr_eq(asked, taker)
        {
            facts::route(asked.number);
            return Some(cors.preflight(preflight));
        }
        // An OPTIONS as any other, but for what would look like leave.
        let cors = match self.table.find(request.authority, path, Method::Options) {
            Match::Found(entry, _) => entry.cors.as_ref(),
            Match::OtherMethods(others) => {
                others.into_iter().filter_map(find).find_map(|entry| entry.cors.as_ref())
            }
            Match::Nothing => None,
        };
        cors.map(Cors::refusal)
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
            let allow = allow_without_trace(self, request, path);
            return self.error_pages.on(Answer::Ready(Reply::plain_with(405, &[("Allow", allow)])));
        }
        if self.has_cors
            && let Some(preflight) = Preflight::of(request)
            && let Some(answer) = self.preflight(request, path, &preflight)
        {
            return answer;
        }
        match self.table.find(request.authority, path, request.method) {
            Match::Found(entry, covered) => {
                facts::route(entry.number);
                let answer = entry.headers.on(entry.error_pages.on(match &entry.handler {
                    Handler::Respond(respond) => Answer::Ready(respond.answer()),
                    Handler::Redirect(redirect) => {
                        Answer::Ready(redirect.answer(escaped_rest(path, covered), query))
                    }
                    Handler::Static(files) => {
                        files.answer(request, path, query, rest(path.decoded(), covered))
                    }
                }));
                // Outermost, so that what a page cannot read is not an error page either.
                match &entry.cors {
                    None => answer,
                    Some(cors) => cors.on(answer, request),
                }
            }
            Match::OtherMethods(methods) => {
                let allow = methods.iter().map(|method| method.as_str()).collect::<Vec<_>>().join(", ");
                self.error_pages.on(Answer::Ready(Reply::plain_with(405, &[("Allow", &allow)])))
            }
            Match::Nothing => self.error_pages.on(Answer::Ready(Reply::plain(404))),
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
