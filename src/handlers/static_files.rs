//! Files beneath a root: what the target names, the index of a directory, the redirect to it. What a
//! file answers stands in `representation`, what stands for a file in `sidecars`.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use crate::config::checked;
use crate::fs::{Chosen, Found, Miss, Root, Sought, Step, View};
use crate::handlers::cache_control::CacheControl;
use crate::handlers::compress::{Compress, Store};
use crate::handlers::found::{found, nothing};
use crate::handlers::open_files::{self, Keep, Known, OpenFiles};
use crate::handlers::representation::{Asked, OwnedAsked};
use crate::handlers::sidecars::{Codings, Probe, Sidecars};
use crate::handlers::{Headers, Listing, clean_urls, listing, miss, redirect, spa};
use crate::message::{Answer, Fields, Reply, Request};
use crate::offload::Why;
use crate::semantics::method::Method;
use crate::semantics::path::{SafePath, has_hidden_segment};
use crate::telemetry::facts;

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
    kept: Option<Kept>,
}

/// What was looked up lately.
#[derive(Debug)]
struct Kept {
    files: Rc<OpenFiles>,
    /// Of this handler among those that share `files`.
    number: u32,
    revalidate_ms: u64,
    /// Fields of the route, which what is kept has in it.
    headers: Rc<Headers>,
    /// Room for the key of a request.
    key: RefCell<Vec<u8>>,
}

/// What is needed of a request after its buffer is gone.
struct Ask {
    why: Why,
    /// In the order in which they are tried; the first is that of the request where it is no directory's.
    paths: Vec<Vec<u8>>,
    sidecars: Sidecars,
    place: Place,
    asked: OwnedAsked,
    keep: Option<Keep>,
}

/// Whether the request names a directory by its slash.
enum Place {
    /// It does not, and is redirected there where the path is one.
    Outside(Vec<u8>),
    /// It does; where there is no index the list is the answer, if there is to be one.
    Inside(Option<listing::Page>),
}

impl StaticFiles {
    /// A handler over `root`. What it compresses is kept in `store`, what it opens in `open_files`.
    #[must_use]
    pub fn new(
        config: &checked::Static,
        root: &Arc<Root>,
        store: &Arc<Store>,
        open_files: &Rc<OpenFiles>,
        headers: &Headers,
        listing: Option<Rc<Listing>>,
    ) -> StaticFiles {
        let compress = config.compress.clone().map(|compress| Rc::new(Compress::new(compress, store)));
        let codings = Codings { precompressed: config.precompressed, compress };
        let cache_control = Rc::new(CacheControl::new(&config.cache_control, &config.headers));
        let (index, spa) = (config.index.clone(), config.spa.clone().map(Rc::new));
        let (view, clean_urls) = (Rc::new(View::new(root)), config.clean_urls);
        let kept = (config.revalidate_ms > 0).then(|| Kept {
            files: Rc::clone(open_files),
            number: open_files.number(),
            revalidate_ms: config.revalidate_ms,
            headers: Rc::new(headers.clone()),
            key: RefCell::default(),
        });
        StaticFiles { view, index, codings, cache_control, spa, listing, clean_urls, kept }
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

    /// Keeps a file that did not come through the resolver: for benches under valgrind, which has no openat2.
    #[cfg(feature = "bench")]
    pub fn adopt(&self, request: &Request<'_>, relative: &[u8], file: crate::fs::OpenFile) {
        let sidecars = Sidecars::of(request, &self.codings);
        let asked = Asked::of(request);
        let Err(keep) = self.known(relative, false, &sidecars, &asked) else { return };
        let chosen = Chosen { found: Found::File(file, None), sidecar: None, passed_over: None };
        let probe = sidecars.of_name(relative);
        let _ = self.found(chosen, &probe, relative, &asked, keep, || Reply::plain(404));
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
        let place = (&self.view, self.open_files());
        spa::or_page(answer, place, spa, sidecars, &self.cache_control, request)
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
        let sidecars = Sidecars::of(request, &self.codings);
        let asked = Asked::of(request);
        let keep = match self.known(relative, wants_index, &sidecars, &asked) {
            Ok(answer) => return answer,
            Err(keep) => keep,
        };
        if wants_index {
            self.answer_index(request, path, relative, sidecars, &asked, keep)
        } else {
            self.answer_path(path, query, relative, sidecars, &asked, keep)
        }
    }

    /// The answer by what is known of the path; else where to put what will be known of it.
    fn known(
        &self,
        relative: &[u8],
        wants_index: bool,
        sidecars: &Sidecars,
        asked: &Asked<'_>,
    ) -> Result<Answer, Option<Keep>> {
        let Some(Kept { files, number, revalidate_ms, headers, key: room }) = &self.kept else {
            return Err(None);
        };
        let mut key = std::mem::take(&mut *room.borrow_mut());
        key.clear();
        key.extend_from_slice(&number.to_ne_bytes());
        key.extend_from_slice(&[sidecars.code(), u8::from(wants_index)]);
        key.extend_from_slice(relative);
        let answer = match files.find(&key, &self.view) {
            Some(Known::Nothing) => {
                facts::kept(facts::Kept::Nothing);
                Ok(Answer::Ready(miss::reply(&Miss::NotFound)))
            }
            Some(Known::File(entry)) if entry.is_unchanged() => {
                facts::kept(facts::Kept::File);
                facts::file_system(entry.file_system());
                if files.takes(entry.size())
                    && let Some(bytes) = entry.fill()
                {
                    files.grew(&key, bytes);
                }
                Ok(open_files::serve(entry, files, &key, None, asked, sidecars.making()))
            }
            known => {
                facts::kept(if known.is_some() { facts::Kept::Changed } else { facts::Kept::Unknown });
                Err(Keep::new(files, &key, &self.view, *revalidate_ms, headers))
            }
        };
        *room.borrow_mut() = key;
        answer
    }

    /// Opens a file.
    fn open(&self, path: &[u8], endings: &[&'static str]) -> Step<Result<Chosen, Miss>> {
        let opened = open_files::open(&self.view, self.open_files(), path, endings);
        if let Step::Ready(_) = &opened {
            facts::looked_up();
        }
        opened
    }

    fn open_files(&self) -> Option<&Rc<OpenFiles>> {
        self.kept.as_ref().map(|kept| &kept.files)
    }

    /// The index of a directory, or its list.
    fn answer_index(
        &self,
        request: &Request<'_>,
        path: &SafePath<'_>,
        relative: &[u8],
        sidecars: Sidecars,
        asked: &Asked<'_>,
        keep: Option<Keep>,
    ) -> Answer {
        let page = || self.listing.as_ref().map(|listing| listing.page(request, path, relative));
        for (number, name) in self.index.iter().enumerate() {
            let candidate = [relative, name.as_bytes()].concat();
            let probe = sidecars.of_name(&candidate);
            match self.open(&candidate, probe.endings()) {
                Step::Ready(Ok(Chosen { found: Found::Directory, .. })) => {}
                Step::Ready(Ok(chosen)) => {
                    let none = || miss::reply(&Miss::NotFound);
                    return self.found(chosen, &probe, &candidate, asked, keep, none);
                }
                Step::Ready(Err(Miss::NotFound | Miss::NotRegular)) => {}
                Step::Ready(Err(miss)) => return nothing(&miss, keep.as_ref()),
                Step::Wait(why) => {
                    let rest = self.index[number..].iter().map(|name| [relative, name.as_bytes()].concat());
                    return self.wait(Ask {
                        why,
                        paths: rest.collect(),
                        sidecars,
                        place: Place::Inside(page()),
                        asked: asked.to_owned(),
                        keep,
                    });
                }
            }
        }
        match page() {
            None => nothing(&Miss::NotFound, keep.as_ref()),
            page => {
                // An index that is gone is not held open by those who ask for the list.
                if let Some(keep) = &keep {
                    keep.forget();
                }
                let (paths, place, asked) = (Vec::new(), Place::Inside(page), asked.to_owned());
                self.wait(Ask { why: Why::Listing, paths, sidecars, place, asked, keep })
            }
        }
    }

    fn answer_path(
        &self,
        path: &SafePath<'_>,
        query: Option<&[u8]>,
        relative: &[u8],
        sidecars: Sidecars,
        asked: &Asked<'_>,
        keep: Option<Keep>,
    ) -> Answer {
        let probe = sidecars.of_name(relative);
        let mut first = self.open(relative, probe.endings());
        let page = self.page_beside(&first, path, relative);
        if let (Step::Ready(_), Some(page)) = (&first, &page) {
            let probe = sidecars.of_name(page);
            match self.open(page, probe.endings()) {
                Step::Ready(Ok(chosen @ Chosen { found: Found::File(..), .. })) => {
                    let none = || miss::reply(&Miss::NotFound);
                    return self.found(chosen, &probe, page, asked, keep, none);
                }
                Step::Ready(Ok(_) | Err(Miss::NotFound | Miss::NotRegular)) => {}
                Step::Ready(Err(miss)) => return nothing(&miss, keep.as_ref()),
                Step::Wait(why) => first = Step::Wait(why),
            }
        }
        match first {
            Step::Ready(Ok(chosen)) => {
                let directory = || redirect::to_directory(relative, &redirect::with_slash(path, query));
                self.found(chosen, &probe, relative, asked, keep, directory)
            }
            Step::Ready(Err(miss)) => nothing(&miss, keep.as_ref()),
            Step::Wait(why) => {
                let paths = std::iter::once(relative.to_vec()).chain(page).collect();
                let (place, asked) = (Place::Outside(redirect::with_slash(path, query)), asked.to_owned());
                self.wait(Ask { why, paths, sidecars, place, asked, keep })
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
            Step::Wait(_) => true,
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
        keep: Option<Keep>,
        directory: impl FnOnce() -> Reply,
    ) -> Answer {
        found(chosen, probe, name, asked, &self.cache_control, keep.as_ref(), directory)
    }

    /// Has the whole resolution done in the pool, sidecars and originals in one job.
    fn wait(&self, ask: Ask) -> Answer {
        let Ask { why, paths, sidecars, place, asked, keep } = ask;
        let sought = paths
            .iter()
            .map(|path| Sought { path: path.clone(), endings: sidecars.of_name(path).endings().to_vec() })
            .collect();
        let (cache_control, kept) = (Rc::clone(&self.cache_control), keep.clone());
        let (location, page) = match place {
            Place::Outside(location) => (Some(location), None),
            Place::Inside(page) => (None, page),
        };
        let describe = move |number: usize, chosen, asked: &OwnedAsked| {
            let path = &paths[number];
            let directory = || match &location {
                Some(location) if number == 0 => redirect::to_directory(path, location),
                // One with the name of an index or of a page stands for nothing.
                _ => miss::reply(&Miss::NotFound),
            };
            let (probe, keep) = (sidecars.of_name(path), keep.as_ref());
            found(chosen, &probe, path, &asked.borrowed(), &cache_control, keep, directory)
        };
        let answer = match page {
            Some(page) => listing::answer(&self.view, sought, page, asked, describe),
            None => match open_files::open_in_pool(&self.view, self.open_files(), sought) {
                Err(full) => Answer::Ready(miss::pool_full(full)),
                Ok(job) => Answer::Wait(Box::pin(async move {
                    match job.await {
                        Ok((number, chosen)) => describe(number, chosen, &asked).settled().await,
                        Err(miss) => nothing(&miss, kept.as_ref()).settled().await,
                    }
                })),
            },
        };
        if let Answer::Wait(_) = &answer {
            facts::sent_to_pool(why);
        }
        answer
    }
}
