//! Pages of the operator's own in place of the short text of an error (docs/adr/0021-error-pages.md).
//!
//! Only body and type change: status and fields stay those of the error, and nothing of a request but
//! its error chooses the page. A page that cannot be had leaves the error as it was: there is no error of
//! an error.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::config::checked::{self, ErrorPage};
use crate::fs::{Chosen, Found, Miss, OpenFile, Root, Sought, Step, View, read};
use crate::limits::{ERROR_PAGE_REST_MS, ERROR_PAGE_WAIT_MS_MAX, FILE_INLINE_BYTES_MAX};
use crate::message::{Answer, Body, Reply};
use crate::offload::Why;
use crate::semantics::mime;
use crate::semantics::range::ByteRange;
use crate::sys::clock;
use crate::telemetry::facts;
use crate::telemetry::log::{Level, Throttle};

// A page that is gone is missed with every error.
static NOT_SERVED: Throttle = Throttle::new();

/// What a page gives, or why it cannot be had.
type Content = Result<Body, &'static str>;

/// One worker's pages for the errors of a route: its own before those of the site.
#[derive(Clone, Debug, Default)]
pub struct ErrorPages {
    own: Option<Rc<Pages>>,
    site: Option<Rc<Pages>>,
}

/// Pages beneath one root.
#[derive(Debug)]
struct Pages {
    view: Rc<View>,
    list: Vec<ErrorPage>,
    /// Until then the pool is not asked, as it did not answer in time.
    rests_until_ms: Cell<u64>,
}

impl Pages {
    fn new(view: Rc<View>, list: &[ErrorPage]) -> Rc<Pages> {
        Rc::new(Pages { view, list: list.to_vec(), rests_until_ms: Cell::new(0) })
    }
}

impl ErrorPages {
    /// The pages of the whole site, beneath `root`.
    #[must_use]
    pub fn of_site(config: &checked::ErrorPages, root: &Arc<Root>) -> ErrorPages {
        let pages = Pages::new(Rc::new(View::new(root)), &config.pages);
        ErrorPages { own: None, site: Some(pages) }
    }

    /// The same behind the pages of a route, which stand beneath its own root.
    #[must_use]
    pub fn behind(&self, own: &[ErrorPage], view: &Rc<View>) -> ErrorPages {
        let own = (!own.is_empty()).then(|| Pages::new(Rc::clone(view), own));
        ErrorPages { own, site: self.site.clone() }
    }

    /// The answer, with a page where it is an error that has one.
    #[must_use]
    pub fn on(&self, answer: Answer) -> Answer {
        match answer {
            _ if self.own.is_none() && self.site.is_none() => answer,
            Answer::Ready(reply) => self.on_reply(reply),
            Answer::Wait(reply) => {
                let pages = self.clone();
                Answer::Wait(Box::pin(async move {
                    // The page is often warm where the request's path was not: one hop, not two.
                    match pages.on_reply(reply.await) {
                        Answer::Ready(reply) => reply,
                        Answer::Wait(reply) => reply.await,
                    }
                }))
            }
        }
    }

    fn on_reply(&self, reply: Reply) -> Answer {
        let Some(page) = self.page_of(reply.status) else { return Answer::Ready(reply) };
        // The server is short of something, often of room in the pool: it is not asked for more.
        let may_wait = reply.status != 503;
        match page.at_once(may_wait) {
            Step::Ready(content) => Answer::Ready(page.on(reply, content)),
            Step::Wait(_) if !may_wait => Answer::Ready(reply),
            Step::Wait(why) => Answer::Wait(Box::pin(async move {
                let content = page.waited_for(why).await;
                page.on(reply, content)
            })),
        }
    }

    fn page_of(&self, status: u16) -> Option<Page> {
        [&self.own, &self.site].into_iter().flatten().find_map(|pages| {
            let number = pages.list.iter().position(|page| (page.first..=page.last).contains(&status))?;
            Some(Page { pages: Rc::clone(pages), number })
        })
    }
}

/// One of [`Pages`].
struct Page {
    pages: Rc<Pages>,
    number: usize,
}

impl Page {
    fn path(&self) -> &[u8] {
        &self.pages.list[self.number].path
    }

    /// The page without waiting. A small one is read here and not by the engine, which would have to
    /// answer a read that fails with another error. What is to be streamed may have to wait later.
    fn at_once(&self, may_wait: bool) -> Step<Content> {
        let file = match self.pages.view.open(self.path(), &[]) {
            Step::Ready(Ok(Chosen { found: Found::File(file, _), .. })) => file,
            Step::Ready(Ok(_)) => return Step::Ready(Err(reason(&Miss::NotRegular))),
            Step::Ready(Err(miss)) => return Step::Ready(Err(reason(&miss))),
            Step::Wait(why) => return Step::Wait(why),
        };
        let size = file.stat().size;
        if size > FILE_INLINE_BYTES_MAX {
            return if may_wait { Step::Ready(Ok(whole(file))) } else { Step::Wait(Why::ColdData) };
        }
        let mut content = Vec::new();
        match read::part_resident(&file, 0, size, &mut content) {
            Step::Ready(Ok(())) => Step::Ready(Ok(Body::Owned(content))),
            Step::Ready(Err(miss)) => Step::Ready(Err(reason(&miss))),
            Step::Wait(why) => Step::Wait(why),
        }
    }

    /// The page through the pool, in one hop with its first read, and within a bound: an error that is
    /// known must not become another because its page lies on a file system that hangs.
    async fn waited_for(&self, why: Why) -> Content {
        if clock::monotonic_coarse_ms() < self.pages.rests_until_ms.get() {
            return Err("too slow a moment ago");
        }
        let sought = Sought { path: self.path().to_vec(), endings: Vec::new() };
        let Ok(job) = self.pages.view.open_in_pool(vec![sought]) else { return Err("offload pool full") };
        facts::hop(why);
        match tokio::time::timeout(Duration::from_millis(ERROR_PAGE_WAIT_MS_MAX), job).await {
            Ok(Ok((_, Chosen { found: Found::File(_, Some(content)), .. }))) => Ok(Body::Owned(content)),
            Ok(Ok((_, Chosen { found: Found::File(file, None), .. }))) => Ok(whole(file)),
            Ok(Ok(_)) => Err(reason(&Miss::NotRegular)),
            Ok(Err(miss)) => Err(reason(&miss)),
            Err(_) => {
                self.pages.rests_until_ms.set(clock::monotonic_coarse_ms() + ERROR_PAGE_REST_MS);
                Err("too slow")
            }
        }
    }

    /// The error with its page, or as it was.
    fn on(&self, mut reply: Reply, content: Content) -> Reply {
        match content {
            Ok(body) => {
                reply.body = body;
                reply.fields.replace("Content-Type", &mime::of_name(self.path()));
            }
            Err(reason) => {
                let page = format!("/{}", self.path().escape_ascii());
                let fields = json!({ "page": page, "status": reply.status, "reason": reason });
                NOT_SERVED.event(Level::Warn, "error page not served", fields);
            }
        }
        reply
    }
}

fn whole(file: OpenFile) -> Body {
    let end = file.stat().size;
    Body::File(Arc::new(file), ByteRange { start: 0, end })
}

/// For the log.
fn reason(miss: &Miss) -> &'static str {
    match miss {
        Miss::NotFound => "not there",
        Miss::Forbidden => "may not be read",
        Miss::NotRegular => "no regular file",
        Miss::Busy(_) => "busy",
        Miss::Io(_) => "file failed",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::SystemTime;

    use super::*;
    use crate::fs::Links;
    use crate::offload::{Offload, Pool};

    /// A page for every error in a directory of that name. Its time says nothing, so that the first look
    /// at it has to read it for its tag: it goes to the pool wherever the directory lies.
    fn cold(name: &str, pool: Pool) -> ErrorPages {
        let directory = std::env::temp_dir().join(format!("scalws-error-page-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("page.html"), name).unwrap();
        let page = std::fs::File::options().write(true).open(directory.join("page.html")).unwrap();
        page.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let root = Root::open(&directory, Links::Inside, pool).unwrap();
        let page = |first, last| ErrorPage { first, last, path: b"page.html".to_vec() };
        let pages = vec![page(400, 499), page(500, 599)];
        ErrorPages::of_site(&checked::ErrorPages { root: directory, pages }, &root)
    }

    fn answer(pages: &ErrorPages, status: u16) -> (u16, String) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let reply = match pages.on(Answer::Ready(Reply::plain(status))) {
            Answer::Ready(reply) => reply,
            Answer::Wait(reply) => runtime.block_on(reply),
        };
        let body = match reply.body {
            Body::Owned(body) => body,
            Body::Static(body) => body.to_vec(),
            other => panic!("{other:?}"),
        };
        (reply.status, String::from_utf8(body).unwrap())
    }

    #[test]
    fn a_cold_page_is_one_hop_and_a_busy_server_makes_none() {
        let pool = Offload::start(1, 10).unwrap();
        let pages = cold("hop", pool);
        assert_eq!(answer(&pages, 503), (503, "503 Service Unavailable\n".to_owned()));
        assert_eq!(pool.taken(), 0, "503 is no reason to ask the pool");
        assert_eq!(answer(&pages, 404), (404, "hop".to_owned()));
        assert_eq!(pool.taken(), 1);
        assert_eq!(facts::taken().why, Some(Why::ContentTag));
        assert_eq!(answer(&pages, 304).0, 304);
        assert_eq!(pool.taken(), 1);
        // Warm or not: read here, so that the engine has nothing to fail at.
        assert_eq!(answer(&pages, 500), (500, "hop".to_owned()));
    }

    /// The pool is stuck: the error is told as it is, and the next ones do not add to the queue.
    #[test]
    fn a_page_that_does_not_come_leaves_the_error_as_it_was() {
        let pool = Offload::start(1, 2).unwrap();
        let pages = cold("stuck", pool);
        let (release, parked) = mpsc::channel::<()>();
        let stuck = pool.lane().run(move || parked.recv()).unwrap();
        let plain = (404, "404 Not Found\n".to_owned());
        assert_eq!(answer(&pages, 404), plain);
        assert_eq!((pool.taken(), pool.jobs()), (2, 2));
        assert_eq!(answer(&pages, 404), plain);
        assert_eq!((pool.taken(), pool.refused()), (2, 0), "it rests");
        // Full is the same, and neither is a trip to the pool.
        facts::begin(false);
        assert_eq!(answer(&pages, 404), plain);
        assert_eq!(answer(&cold("full", pool), 404), plain);
        assert_eq!((pool.refused(), facts::taken().hops), (1, 0));
        release.send(()).unwrap();
        drop(stuck);
    }
}
