//! Single-page apps: a navigation to a path without a file is answered with the app's one page, which
//! draws what belongs there. Everything else stays 404: a missing script answered with HTML breaks
//! apps in ways that are hard to see.

use std::rc::Rc;

use crate::config::checked::Spa;
use crate::fs::{Found, Step, View};
use crate::handlers::miss;
use crate::handlers::representation::{self, Asked, OwnedAsked};
use crate::message::{Answer, Reply, Request};
use crate::semantics::method::Method;
use crate::semantics::navigation::{self, Asking};
use crate::semantics::path::{SafePath, has_hidden_segment};

/// Whether a miss for this request would be answered with the page.
pub(super) fn applies(spa: &Spa, request: &Request<'_>, path: &SafePath<'_>, relative: &[u8]) -> bool {
    let accept: Vec<_> = request.values("accept").collect();
    let asking = Asking { sec_fetch_mode: request.values("sec-fetch-mode").next(), accept: &accept };
    matches!(request.method, Method::Get | Method::Head)
        && navigation::may_be_page(relative)
        // A name that is always a miss stays one.
        && !has_hidden_segment(path.decoded(), true)
        && !path.decoded().contains(&0)
        && !spa.exclude.iter().any(|prefix| is_below(path.segments(), prefix))
        && navigation::is_navigation(&asking)
}

fn is_below(path: &[u8], prefix: &[u8]) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// `answer`, or the page where it is a miss.
pub(super) fn or_page(answer: Answer, view: &Rc<View>, spa: &Rc<Spa>, request: &Request<'_>) -> Answer {
    match answer {
        Answer::Ready(reply) if reply.status != 404 => Answer::Ready(reply),
        Answer::Ready(_) => match view.open(&spa.page) {
            Step::Ready(Ok(Found::File(file, _))) => {
                Answer::Ready(page(representation::reply(file, None, &spa.page, &Asked::of(request))))
            }
            Step::Ready(Ok(Found::Directory)) => Answer::Ready(Reply::plain(404)),
            Step::Ready(Err(miss)) => Answer::Ready(miss::reply(&miss)),
            Step::Wait => {
                Answer::Wait(Box::pin(from_pool(Rc::clone(view), Rc::clone(spa), OwnedAsked::of(request))))
            }
        },
        Answer::Wait(reply) => {
            let from_pool = from_pool(Rc::clone(view), Rc::clone(spa), OwnedAsked::of(request));
            Answer::Wait(Box::pin(async move {
                let reply = reply.await;
                if reply.status == 404 { from_pool.await } else { reply }
            }))
        }
    }
}

async fn from_pool(view: Rc<View>, spa: Rc<Spa>, asked: OwnedAsked) -> Reply {
    // The page is warm where the path was not: one hop, not two.
    if let Step::Ready(Ok(Found::File(file, _))) = view.open(&spa.page) {
        return page(representation::reply(file, None, &spa.page, &asked.borrowed()));
    }
    match view.open_in_pool(vec![spa.page.clone()]) {
        Err(full) => miss::pool_full(full),
        Ok(found) => match found.await {
            Ok((_, Found::File(file, content))) => {
                page(representation::reply(file, content, &spa.page, &asked.borrowed()))
            }
            Ok((_, Found::Directory)) => Reply::plain(404),
            Err(miss) => miss::reply(&miss),
        },
    }
}

/// The same URL answers a program with 404: caches have to know what told the two apart.
fn page(mut reply: Reply) -> Reply {
    reply.fields.push("Vary", "Accept, Sec-Fetch-Mode");
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
