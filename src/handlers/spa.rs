//! Single-page apps: a navigation to a path without a file is answered with the app's one page, which
//! draws what belongs there. Everything else stays 404: a missing script answered with HTML breaks
//! apps in ways that are hard to see.

use std::rc::Rc;

use crate::config::checked::Spa;
use crate::fs::{Chosen, Miss, Sought, Step, View};
use crate::handlers::cache_control::CacheControl;
use crate::handlers::found::found;
use crate::handlers::miss;
use crate::handlers::open_files::{self, OpenFiles};
use crate::handlers::representation::{Asked, OwnedAsked};
use crate::handlers::sidecars::{Probe, Sidecars};
use crate::message::{Answer, Reply, Request};
use crate::offload::Why;
use crate::semantics::method::Method;
use crate::semantics::navigation::{self, Asking};
use crate::semantics::path::{SafePath, has_hidden_segment};
use crate::telemetry::facts;

/// Whether a miss for this request is answered with the page where a visitor goes there.
pub(super) fn may_apply(spa: &Spa, request: &Request<'_>, path: &SafePath<'_>, relative: &[u8]) -> bool {
    matches!(request.method, Method::Get | Method::Head) && may_be_answered(spa, path, relative)
}

/// Whether the page may stand for this path.
#[must_use]
pub fn may_be_answered(spa: &Spa, path: &SafePath<'_>, relative: &[u8]) -> bool {
    navigation::may_be_page(relative)
        // A name that is always a miss stays one.
        && !has_hidden_segment(path.decoded(), true)
        && !path.decoded().contains(&0)
        && !spa.exclude.iter().any(|prefix| is_below(path.segments(), prefix))
}

/// Whether a visitor goes there.
pub(super) fn is_navigation(request: &Request<'_>) -> bool {
    let accept: Vec<_> = request.values("accept").collect();
    let asking = Asking { sec_fetch_mode: request.values("sec-fetch-mode").next(), accept: &accept };
    navigation::is_navigation(&asking)
}

fn is_below(path: &[u8], prefix: &[u8]) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// The page in place of `answer`, which is a miss or may still become one. Looked up in a view; what the worker
/// keeps open gives way to it.
pub(super) fn or_page(
    answer: Answer,
    (view, files): (&Rc<View>, Option<&Rc<OpenFiles>>),
    spa: &Rc<Spa>,
    sidecars: Sidecars,
    cache_control: &Rc<CacheControl>,
    request: &Request<'_>,
) -> Answer {
    let page = Page {
        view: Rc::clone(view),
        files: files.cloned(),
        spa: Rc::clone(spa),
        sidecars,
        cache_control: Rc::clone(cache_control),
    };
    match answer {
        Answer::Ready(miss) => match page.at_once(&Asked::of(request)) {
            Step::Ready(page) => page.unwrap_or(Answer::Ready(miss)),
            Step::Wait(why) => {
                let asked = OwnedAsked::of(request);
                Answer::Wait(Box::pin(async move { page.waited_for(why, &asked).await }))
            }
        },
        Answer::Wait(reply) => {
            let asked = OwnedAsked::of(request);
            Answer::Wait(Box::pin(async move {
                let reply = reply.await;
                if reply.status != 404 {
                    return reply;
                }
                // The page is warm where the path was not: one hop, not two.
                match page.at_once(&asked.borrowed()) {
                    Step::Ready(Some(page)) => page.settled().await,
                    Step::Ready(None) => reply,
                    Step::Wait(why) => page.waited_for(why, &asked).await,
                }
            }))
        }
    }
}

/// What finds the page and describes it.
struct Page {
    view: Rc<View>,
    files: Option<Rc<OpenFiles>>,
    spa: Rc<Spa>,
    sidecars: Sidecars,
    cache_control: Rc<CacheControl>,
}

impl Page {
    /// The page, or `None` where it is not there.
    fn at_once(&self, asked: &Asked<'_>) -> Step<Option<Answer>> {
        let probe = self.sidecars.of_name(&self.spa.page);
        match open_files::open(&self.view, self.files.as_ref(), &self.spa.page, probe.endings()) {
            Step::Ready(Ok(chosen)) => Step::Ready(Some(self.describe(chosen, &probe, asked))),
            Step::Ready(Err(Miss::NotFound | Miss::NotRegular)) => Step::Ready(None),
            Step::Ready(Err(miss)) => Step::Ready(Some(Answer::Ready(miss::reply(&miss)))),
            Step::Wait(why) => Step::Wait(why),
        }
    }

    async fn waited_for(&self, why: Why, asked: &OwnedAsked) -> Reply {
        let probe = self.sidecars.of_name(&self.spa.page);
        let sought = Sought { path: self.spa.page.clone(), endings: probe.endings().to_vec() };
        match open_files::open_in_pool(&self.view, self.files.as_ref(), vec![sought]) {
            Err(full) => miss::pool_full(full),
            Ok(found) => {
                facts::hop(why);
                match found.await {
                    Ok((_, chosen)) => self.describe(chosen, &probe, &asked.borrowed()).settled().await,
                    Err(miss) => miss::reply(&miss),
                }
            }
        }
    }

    fn describe(&self, chosen: Chosen, probe: &Probe, asked: &Asked<'_>) -> Answer {
        let none = || miss::reply(&Miss::NotFound);
        found(chosen, probe, &self.spa.page, asked, &self.cache_control, None, none).map(varied)
    }
}

/// The same URL answers a visitor with the page and a program with 404: caches have to know what told the
/// two apart, whichever of them came first.
pub(super) fn varied(mut reply: Reply) -> Reply {
    reply.fields.vary("Accept, Sec-Fetch-Mode");
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excluded_prefixes_end_at_segments() {
        for (path, expected) in [("api", true), ("api/x", true), ("apix", false), ("x/api", false)] {
            assert_eq!(is_below(path.as_bytes(), b"api"), expected, "{path}");
        }
    }
}
