//! The service around the site: two answers of its own, and the site's made fit for development.

use std::sync::Arc;
use std::time::Duration;

use super::changes::Changes;
use super::page::{Shape, may_be_page, plain_fields};
use crate::limits::EVENTS_MS_MAX;
use crate::message::{Answer, Body, Fields, Reply, Request, Service, Where};
use crate::semantics::method::Method;

// Hidden names are never served, so no file can be meant.
/// Where a page waits for changes.
const EVENTS_PATH: &str = ".scalws/events";
/// Where its script is.
pub(super) const SCRIPT_PATH: &str = ".scalws/reload.js";
const SCRIPT: &str = include_str!("reload.js");

/// See the module.
#[derive(Debug)]
pub struct Dev<S> {
    site: S,
    changes: Arc<Changes>,
    wait: Duration,
}

impl<S: Service> Dev<S> {
    /// Around `site`, whose requests may wait for `wait_ms_max`.
    #[must_use]
    pub fn new(site: S, changes: &Arc<Changes>, wait_ms_max: u64) -> Dev<S> {
        let wait = Duration::from_millis(EVENTS_MS_MAX.min(wait_ms_max / 2));
        Dev { site, changes: Arc::clone(changes), wait }
    }

    /// Waits for what the page does not know. Browsers send the last id that they saw when they
    /// connect again; the address holds the one of the page.
    fn events(&self, request: &Request<'_>, query: Option<&[u8]>) -> Answer {
        let of_page = || {
            let mut pairs = query?.split(|byte| *byte == b'&');
            pairs.find_map(|pair| pair.strip_prefix(b"since="))
        };
        let known = request.values("last-event-id").next().or_else(of_page);
        let reply = |events: Vec<u8>| Reply {
            status: 200,
            fields: Fields::of(&[("Content-Type", "text/event-stream"), ("Cache-Control", "no-store")]),
            body: Body::Owned(events),
        };
        // The length of what is not there yet is nobody's to know.
        let wait = if request.method == Method::Head { Duration::ZERO } else { self.wait };
        let news = self.changes.news(known, wait);
        Answer::Wait(Box::pin(async move { reply(news.await) }))
    }

    fn shaped(&self, request: &Request<'_>) -> Answer {
        // Before the file is looked for: a change in between is told once too often, not lost.
        let shape = Shape::of(request, self.changes.id());
        match self.site.answer(request) {
            Answer::Ready(reply) => Answer::Ready(shape.on(reply)),
            Answer::Wait(reply) => Answer::Wait(Box::pin(async move { shape.on(reply.await) })),
        }
    }
}

impl<S: Service> Service for Dev<S> {
    fn answer(&self, request: &Request<'_>) -> Answer {
        let Where::Path(path, query) = &request.target else { return self.site.answer(request) };
        let is_read = matches!(request.method, Method::Get | Method::Head);
        let is_own = [EVENTS_PATH, SCRIPT_PATH].iter().any(|own| path.decoded() == own.as_bytes());
        match (is_own, is_read) {
            (true, false) => Answer::Ready(Reply::plain_with(405, &[("Allow", "GET, HEAD")])),
            (true, true) if path.decoded() == EVENTS_PATH.as_bytes() => self.events(request, *query),
            (true, true) => Answer::Ready(script()),
            (false, true) if may_be_page(path) => {
                let fields = plain_fields(request);
                self.shaped(&Request { fields: &fields, ..request.clone() })
            }
            (false, true) => self.shaped(request),
            (false, false) => self.site.answer(request),
        }
    }
}

fn script() -> Reply {
    let fields = [("Content-Type", "text/javascript; charset=utf-8"), ("Cache-Control", "no-cache")];
    Reply { status: 200, fields: Fields::of(&fields), body: Body::Owned(SCRIPT.into()) }
}
