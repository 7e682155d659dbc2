//! Files beneath a root: what the target names, the index of a directory, the redirect to it. What a
//! file answers stands in `representation`, what stands for a file in `sidecars`.

use std::rc::Rc;
use std::sync::Arc;

use crate::config::checked;
use crate::fs::{Chosen, Found, Miss, Root, Sought, Step, View};
use crate::handlers::cache_control::CacheControl;
use crate::handlers::compress::{Compress, Store};
use crate::handlers::representation::{self, Asked, OwnedAsked};
use crate::handlers::sidecars::{Codings, Probe, Sidecars};
use crate::handlers::{Listing, clean_urls, listing, miss, redirect, spa};
use crate::message::{Answer, Fields, Reply, Request};
use crate::semantics::method::Method;
use crate::semantics::path::{SafePath, has_hidden_segment};

const ALLOW: (&str, &str) = ("Allow", "GET, HEAD, OPTIONS");

/// One worker's handler for a root.
#[derive(Debug)]
pub struct StaticFiles {
    view: Rc<View>,
    index: Vec<String>,
    codings: Codings,
    cache_control: Rc<CacheControl>,
    spa: Option<Rc<checked::Spa>>,
    listing: Option<Rc<Listing>>,
    clean_urls: bool,
}

/// What is needed of a request after its buffer is gone.
struct Ask {
    /// In the order in which they are tried; the first is that of the request where it is no directory's.
    paths: Vec<Vec<u8>>,
    sidecars: Sidecars,
    place: Place,
    asked: OwnedAsked,
}

/// Whether the request names a directory by its slash.
enum Place {
    /// It does not, and is redirected there where the path is one.
    Outside(Vec<u8>),
    /// It does; where there is no index the list is the answer, if there is to be one.
    Inside(Option<listing::Page>),
}

impl StaticFiles {
    /// A handler over `root`. What it compresses is kept in `store`.
    #[must_use]
    pub fn new(
        config: &checked::Static,
        root: &Arc<Root>,
        store: &Arc<Store>,
        listing: Option<Rc<Listing>>,
    ) -> StaticFiles {
        let compress = config.compress.clone().map(|compress| Rc::new(Compress::new(compress, store)));
        let codings = Codings { precompressed: config.precompressed, compress };
        let index = config.index.clone();
        let cache_control = Rc::new(CacheControl::new(&config.cache_control, &config.headers));
        let spa = config.spa.clone().map(Rc::new);
        let (view, clean_urls) = (Rc::new(View::new(root)), config.clean_urls);
        StaticFiles { view, index, codings, cache_control, spa, listing, clean_urls }
    }

    /// Its sight of the root, for what else is served from there.
    #[must_use]
    pub fn view(&self) -> &Rc<View> {
        &self.view
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
        let answer = self.answer_files(request, path, query, relative);
        let Some(spa) = &self.spa else { return answer };
        // Found: nobody has to know whether it was a navigation.
        let is_found = matches!(&answer, Answer::Ready(reply) if reply.status != 404);
        if is_found || !spa::may_apply(spa, request, path, relative) {
            return answer;
        }
        if !spa::is_navigation(request) {
            // A cache that keeps it must not give it to a visitor, who would get the page.
            return answer.map(|reply| if reply.status == 404 { spa::varied(reply) } else { reply });
        }
        let sidecars = Sidecars::of(request, &self.codings);
        spa::or_page(answer, &self.view, spa, sidecars, &self.cache_control, request)
    }

    fn answer_files(
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
        let sidecars = Sidecars::of(request, &self.codings);
        let page = || self.listing.as_ref().map(|listing| listing.page(request, path, relative));
        for (number, name) in self.index.iter().enumerate() {
            let candidate = [relative, name.as_bytes()].concat();
            let probe = sidecars.of_name(&candidate);
            match self.view.open(&candidate, probe.endings()) {
                Step::Ready(Ok(Chosen { found: Found::Directory, .. })) => {}
                Step::Ready(Ok(chosen)) => {
                    let none = || miss::reply(&Miss::NotFound);
                    return self.found(chosen, &probe, &candidate, &Asked::of(request), none);
                }
                Step::Ready(Err(Miss::NotFound | Miss::NotRegular)) => {}
                Step::Ready(Err(miss)) => return Answer::Ready(miss::reply(&miss)),
                Step::Wait => {
                    let rest = self.index[number..].iter().map(|name| [relative, name.as_bytes()].concat());
                    return self.wait(ask(request, rest.collect(), sidecars, Place::Inside(page())));
                }
            }
        }
        match page() {
            None => Answer::Ready(miss::reply(&Miss::NotFound)),
            page => self.wait(ask(request, Vec::new(), sidecars, Place::Inside(page))),
        }
    }

    fn answer_path(
        &self,
        request: &Request<'_>,
        path: &SafePath<'_>,
        query: Option<&[u8]>,
        relative: &[u8],
    ) -> Answer {
        let sidecars = Sidecars::of(request, &self.codings);
        let probe = sidecars.of_name(relative);
        let mut first = self.view.open(relative, probe.endings());
        let page = self.page_beside(&first, path, relative);
        if let (Step::Ready(_), Some(page)) = (&first, &page) {
            let probe = sidecars.of_name(page);
            match self.view.open(page, probe.endings()) {
                Step::Ready(Ok(chosen @ Chosen { found: Found::File(..), .. })) => {
                    let none = || miss::reply(&Miss::NotFound);
                    return self.found(chosen, &probe, page, &Asked::of(request), none);
                }
                Step::Ready(Ok(_) | Err(Miss::NotFound | Miss::NotRegular)) => {}
                Step::Ready(Err(miss)) => return Answer::Ready(miss::reply(&miss)),
                Step::Wait => first = Step::Wait,
            }
        }
        match first {
            Step::Ready(Ok(chosen)) => {
                let directory = || to_directory(relative, &with_slash(path, query));
                self.found(chosen, &probe, relative, &Asked::of(request), directory)
            }
            Step::Ready(Err(miss)) => Answer::Ready(miss::reply(&miss)),
            Step::Wait => {
                let paths = std::iter::once(relative.to_vec()).chain(page).collect();
                self.wait(ask(request, paths, sidecars, Place::Outside(with_slash(path, query))))
            }
        }
    }

    /// The page that stands for `relative`, unless what was found there is the answer already.
    fn page_beside(
        &self,
        first: &Step<Result<Chosen, Miss>>,
        path: &SafePath<'_>,
        relative: &[u8],
    ) -> Option<Vec<u8>> {
        let is_open = match first {
            Step::Ready(Ok(chosen)) => matches!(chosen.found, Found::Directory),
            Step::Ready(Err(miss)) => matches!(miss, Miss::NotFound | Miss::NotRegular),
            Step::Wait => true,
        };
        let page = || clean_urls::page_of(relative, relative.len() == path.decoded().len());
        (self.clean_urls && is_open).then(page).flatten()
    }

    fn found(
        &self,
        chosen: Chosen,
        probe: &Probe,
        name: &[u8],
        asked: &Asked<'_>,
        directory: impl FnOnce() -> Reply,
    ) -> Answer {
        found(chosen, probe, name, asked, &self.cache_control, directory)
    }

    /// Has the whole resolution done in the pool, sidecars and originals in one job.
    fn wait(&self, ask: Ask) -> Answer {
        let Ask { paths, sidecars, place, asked } = ask;
        let sought = paths.iter().map(|path| {
            let endings = sidecars.of_name(path).endings().to_vec();
            Sought { path: path.clone(), endings }
        });
        let sought = sought.collect();
        let cache_control = Rc::clone(&self.cache_control);
        let (location, page) = match place {
            Place::Outside(location) => (Some(location), None),
            Place::Inside(page) => (None, page),
        };
        let describe = move |number: usize, chosen, asked: &OwnedAsked| {
            let path = &paths[number];
            let directory = || match &location {
                Some(location) if number == 0 => to_directory(path, location),
                // One with the name of an index or of a page stands for nothing.
                _ => miss::reply(&Miss::NotFound),
            };
            found(chosen, &sidecars.of_name(path), path, &asked.borrowed(), &cache_control, directory)
        };
        if let Some(page) = page {
            return listing::answer(&self.view, sought, page, asked, describe);
        }
        match self.view.open_in_pool(sought) {
            Err(full) => Answer::Ready(miss::pool_full(full)),
            Ok(job) => Answer::Wait(Box::pin(async move {
                match job.await {
                    Ok((number, chosen)) => describe(number, chosen, &asked).settled().await,
                    Err(miss) => miss::reply(&miss),
                }
            })),
        }
    }
}

fn ask(request: &Request<'_>, paths: Vec<Vec<u8>>, sidecars: Sidecars, place: Place) -> Ask {
    Ask { paths, sidecars, place, asked: OwnedAsked::of(request) }
}

/// The answer to what was found for `name`, at once or in the pool.
pub(super) fn found(
    chosen: Chosen,
    probe: &Probe,
    name: &[u8],
    asked: &Asked<'_>,
    cache_control: &Rc<CacheControl>,
    directory: impl FnOnce() -> Reply,
) -> Answer {
    let form = probe.form(&chosen, name);
    let (file, content) = match chosen.found {
        Found::File(file, content) => (file, content),
        Found::Directory => return Answer::Ready(directory()),
    };
    if chosen.sidecar.is_none()
        && let Some(making) = probe.making(&file, asked)
        && !cache_control.forbids_transform(name)
    {
        let (cache_control, name) = (Rc::clone(cache_control), name.to_vec());
        let answer = making.answer(file, content, probe.content_type().clone(), asked);
        return answer.map(move |reply| cache_control.on(reply, &name));
    }
    Answer::Ready(cache_control.on(representation::reply(file, content, form, asked), name))
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
