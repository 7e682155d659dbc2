//! What is counted and logged of a request: once, when it has ended.

use super::engine::{Connection, End};
use super::flow::Cut;
use super::head::Head;
use super::identify::identify;
use super::request::entry;
use super::write::Meta;
use crate::connection::wire::Wire;
use crate::offload::Why;
use crate::semantics::head::Refusal;
use crate::telemetry::access::Entry;
use crate::telemetry::kinds::{Doing, Ended, Limited, MethodLabel, Source};
use crate::telemetry::record::Record;
use crate::telemetry::spans::Finished;

impl<W: Wire> Connection<W> {
    /// The head of a request is complete, or could not be read.
    pub(super) fn begin(&mut self, head: Option<&Head<'_>>) {
        self.record = Record::begun(self.context.now_us());
        if let Some(observer) = &self.context.observer {
            self.identity = match head {
                Some(head) => identify(observer, self.is_trusted, head),
                None => observer.identify_unread(),
            };
        }
    }

    /// Counts and logs a request whose answer is in the output or on the wire.
    pub(super) fn finish(
        &mut self,
        status: u16,
        meta: &Meta,
        body_bytes: u64,
        head: &Head<'_>,
        error: &'static str,
    ) {
        let is_first = !std::mem::replace(&mut self.has_served, true);
        if !meta.keep_alive && self.end == End::Open {
            self.end = End::Close;
            let is_draining = self.context.is_draining();
            self.stay.end(if is_draining { Ended::Drained } else { Ended::Answered });
        }
        if status == 200 {
            self.context.first_ok();
        }
        let duration_us = self.count(status, body_bytes);
        if self.context.access.is_on() || self.context.observer.is_some() {
            self.tell(Entry { status, body_bytes, duration_us, error, ..entry(head) }, is_first);
        }
        // From here on it is when the last answer was complete: a connection is idle since then.
        self.record.head_us += duration_us;
    }

    /// Counts and logs a message that was refused.
    pub(super) fn finish_refused(&mut self, refusal: Refusal, body_bytes: u64, head: Option<&Head<'_>>) {
        let is_first = !std::mem::replace(&mut self.has_served, true);
        match limit_of(refusal) {
            Some(limited) => self.context.counters.refused(limited),
            // What ran out of time was counted where it was known of what; what is not built is no limit.
            None if refusal.status == 400 => self.context.counters.malformed(),
            None => {}
        }
        if let Some(head) = head {
            self.record.method = MethodLabel::of_token(head.method);
        }
        let status = refusal.status;
        let duration_us = self.count(status, body_bytes);
        let known = head.map(entry).unwrap_or_default();
        self.tell(Entry { status, body_bytes, duration_us, error: refusal.reason, ..known }, is_first);
    }

    /// Tells the log, and whoever makes a span of it.
    fn tell(&mut self, entry: Entry<'_>, is_first: bool) {
        let mut identity = self.identity.take();
        let Entry { status, duration_us, .. } = entry;
        let observer = self.context.observer.as_ref();
        let has_route = self.record.facts.route != 0;
        let observer =
            observer.filter(|observer| observer.chooses(&mut identity, has_route, status, duration_us));
        if self.context.access.is_on() {
            let known_as = identity.as_deref();
            self.context.access.record(self.client, &Entry { known_as, ..entry });
        }
        if let (Some(observer), Some(identity)) = (observer, identity) {
            let mut finished = Finished::new(self.record, *identity, self.client, &entry);
            finished.accepted_us = if is_first { self.accepted_us } else { 0 };
            observer.send(finished);
        }
    }

    /// Feeds the counters; how long the request took.
    fn count(&mut self, status: u16, body_bytes: u64) -> u64 {
        let Record { facts, method, source, head_us, .. } = &self.record;
        let now_us = self.context.now_us();
        let duration_us = now_us.saturating_sub(*head_us);
        let counters = &self.context.counters;
        counters.sent_from(*source);
        counters.request_done(facts, *method, status, body_bytes, duration_us);
        // Over: what its client has not taken yet is no request any more.
        self.stay.now(Doing::Idle);
        duration_us
    }

    /// Bytes of the body went to the kernel, and came from there.
    pub(super) fn sent_from(&mut self, source: Source) {
        if self.record.source == Source::None {
            self.record.source = source;
            self.record.first_byte_us = self.record.since_head(self.context.now_us());
        }
    }

    /// Awaits `work` of the pool in the middle of an answer, as [`Connection::within_wait`] does.
    pub(super) async fn hop<T>(&mut self, why: Why, work: impl Future<Output = T>) -> Option<T> {
        let start = self.record.since_head(self.context.now_us());
        self.context.counters.body_hop(why);
        self.record.body_hops = self.record.body_hops.saturating_add(1);
        if self.record.body_why.is_none() {
            self.record.body_why = Some(why);
            self.record.body_hop_us = start;
        }
        let value = self.within_wait(work).await;
        let took = self.record.since_head(self.context.now_us()).saturating_sub(start);
        self.record.body_hops_took_us = self.record.body_hops_took_us.saturating_add(took);
        value
    }
}

/// How the access log names the end of an answer that did not reach its own.
pub(super) fn error_type(cut: Cut) -> &'static str {
    match cut {
        Cut::Client => "client_closed",
        Cut::SlowReader => "write_timeout",
        Cut::FileShrank => "file_shrank",
        Cut::FileFailed => "file_failed",
    }
}

/// How a connection ended that was cut.
pub(super) fn ended(cut: Cut) -> Ended {
    match cut {
        Cut::Client => Ended::ClientEarly,
        Cut::SlowReader => Ended::SlowReader,
        Cut::FileShrank | Cut::FileFailed => Ended::File,
    }
}

/// The limit that a refusal is for.
fn limit_of(refusal: Refusal) -> Option<Limited> {
    match (refusal.status, refusal.reason) {
        (413, _) => Some(Limited::BodySize),
        (414, _) => Some(Limited::TargetSize),
        (431, super::head::TOO_MANY_FIELDS) => Some(Limited::Fields),
        (431, _) => Some(Limited::HeadSize),
        (400, super::body::TOO_MANY_EXTENSIONS) => Some(Limited::ChunkExtensionSize),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_of_their_limits() {
        let of = |status, reason| limit_of(Refusal { status, reason }).map(Limited::name);
        assert_eq!(of(431, crate::connection::h1::head::TOO_MANY_FIELDS), Some("fields"));
        assert_eq!(of(431, "request head too large"), Some("head_size"));
        assert_eq!(of(400, crate::connection::h1::body::TOO_MANY_EXTENSIONS), Some("chunk_extension_size"));
        assert_eq!(of(400, "anything else"), None);
        assert_eq!((of(413, ""), of(414, ""), of(501, "")), (Some("body_size"), Some("target_size"), None));
    }
}
