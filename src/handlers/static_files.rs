//! Files beneath a root: what the target names, the index of a directory, the redirect to it. What a
//! file answers stands in `representation`.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use crate::config::checked;
use crate::fs::{Found, Links, Miss, Root, Step, View};
use crate::handlers::representation::{self, Asked, OwnedAsked};
use crate::handlers::{miss, redirect, spa};
use crate::message::{Answer, Fields, Reply, Request};
use crate::offload::Pool;
use crate::semantics::method::Method;
use crate::semantics::path::{SafePath, has_hidden_segment};

const ALLOW: (&str, &str) = ("Allow", "GET, HEAD, OPTIONS");

/// One worker's handler for a root.
#[derive(Debug)]
pub struct StaticFiles {
    view: Rc<View>,
    index: Vec<String>,
    spa: Option<Rc<checked::Spa>>,
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
    asked: OwnedAsked,
    /// Where a directory redirects to.
    location: Vec<u8>,
}

impl StaticFiles {
    /// A handler over `root`.
    #[must_use]
    pub fn new(config: &checked::Static, root: &Arc<Root>) -> StaticFiles {
        let spa = config.spa.clone().map(Rc::new);
        StaticFiles { view: Rc::new(View::new(root)), index: config.index.clone(), spa }
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
        match self.spa.as_ref().filter(|spa| spa::applies(spa, request, path, relative)) {
            None => answer,
            Some(spa) => spa::or_page(answer, &self.view, spa, request),
        }
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
        for (number, name) in self.index.iter().enumerate() {
            let candidate = [relative, name.as_bytes()].concat();
            match self.view.open(&candidate) {
                Step::Ready(Ok(Found::File(file, _))) => {
                    return Answer::Ready(representation::reply(file, None, &candidate, &Asked::of(request)));
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
                Answer::Ready(representation::reply(file, None, relative, &Asked::of(request)))
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
                        representation::reply(file, content, &ask.paths[number], &ask.asked.borrowed())
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
    Ask { paths, wants_index, asked: OwnedAsked::of(request), location }
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
