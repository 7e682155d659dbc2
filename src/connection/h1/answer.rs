//! The second half of a request's way: its answer goes into the output, onto the wire, into the log.

use std::cell::Cell;

use super::account::error_type;
use super::engine::{Connection, End};
use super::flow::Cut;
use super::head::Head;
use super::next::{FileBody, KeptBody, Next, Waiting};
use super::request::{Objection, understand};
use super::stream::Course;
use super::write::{Meta, push_head};
use crate::connection::wire::Wire;
use crate::fs::{Step, read};
use crate::handlers::miss;
use crate::limits::FILE_INLINE_BYTES_MAX;
use crate::message::{Answer, Body, Parts, Reply};
use crate::semantics::head::{Refusal, Version};
use crate::telemetry::facts;
use crate::telemetry::kinds::{Doing, Ended, MethodLabel, Source};

impl<W: Wire> Connection<W> {
    /// Asks for the answer to a request whose body is done.
    pub(super) fn answer(&mut self, head: &Head<'_>, bytes: &[u8], body_bytes: u64) -> Next {
        let request = match understand(head, body_bytes) {
            Ok(request) => request,
            Err(Objection::End(refusal)) => return self.refuse_head(refusal, head),
            Err(Objection::Stay(status)) => {
                self.record.method = MethodLabel::of_token(head.method);
                return self.send(Reply::plain(status), &self.meta(head), head, bytes);
            }
        };
        let meta = self.meta(head);
        self.record.method = request.method.into();
        let is_timed = self.identity.as_ref().is_some_and(|identity| identity.is_timed());
        facts::begin(is_timed);
        let answer = self.context.service.answer(&request);
        self.record.facts = facts::taken();
        if is_timed {
            self.record.routed_us =
                facts::routed_us().map_or(0, |routed_us| self.record.since_head(routed_us));
            self.record.resolved_us = self.record.since_head(self.context.now_us());
        }
        match answer {
            Answer::Ready(reply) => self.send(reply, &meta, head, bytes),
            Answer::Wait(reply) => {
                self.record.waited_us = self.record.since_head(self.context.now_us());
                Next::Wait(Box::new(Waiting { reply, meta, head: bytes.to_vec() }))
            }
        }
    }

    fn meta(&self, head: &Head<'_>) -> Meta {
        Meta {
            version: head.version,
            keep_alive: head.rules.keep_alive && !head.rules.expects_continue && !self.context.is_draining(),
            is_head: head.method == b"HEAD",
        }
    }

    /// Puts a reply into the output, or says what has to happen for its body.
    fn send(&mut self, reply: Reply, meta: &Meta, head: &Head<'_>, bytes: &[u8]) -> Next {
        if self.output.capacity() == 0 {
            self.output = self.context.buffers.take_output();
        }
        let (mark, length) = (self.output.len(), reply.body.len());
        self.push_head(&reply, meta, length);
        let head_bytes = self.output.len() - mark;
        match reply.body {
            _ if meta.is_head => {}
            Body::Empty => {}
            Body::Static(body) => self.push_body(body, Source::Memory),
            Body::Shared(body) => self.push_body(&body, Source::Memory),
            Body::Owned(body) => {
                let is_of_pool = self.record.facts.hops != 0;
                self.push_body(&body, if is_of_pool { Source::Pool } else { Source::Memory });
            }
            Body::Kept(kept) if length > FILE_INLINE_BYTES_MAX => {
                let (status, meta, head) = (reply.status, *meta, bytes.to_vec());
                return Next::Kept(Box::new(KeptBody { bytes: kept, status, meta, head }));
            }
            Body::Kept(kept) => self.push_body(&kept, Source::Memory),
            Body::Parts(parts) => {
                let Parts { file, parts, end } = *parts;
                let (status, meta) = (reply.status, *meta);
                let head = bytes.to_vec();
                return Next::File(Box::new(FileBody { file, parts, end, status, meta, head, head_bytes }));
            }
            Body::File(file, range) if length > self.inline_bytes_max(&file) => {
                let (status, meta, parts) = (reply.status, *meta, vec![(Vec::new(), range)]);
                let (end, head) = (Vec::new(), bytes.to_vec());
                return Next::File(Box::new(FileBody { file, parts, end, status, meta, head, head_bytes }));
            }
            Body::File(file, range) => {
                match read::part_resident(&file, range.start, length, &mut self.output) {
                    Step::Ready(Ok(())) => self.record.from(Source::Pread),
                    Step::Ready(Err(miss)) => {
                        self.output.truncate(mark);
                        return self.send(miss::reply(&miss), meta, head, bytes);
                    }
                    Step::Wait(why) => {
                        self.output.truncate(mark);
                        let content = match read::part_in_pool(file, range.start, length) {
                            Ok(content) => content,
                            Err(full) => return self.send(miss::pool_full(full), meta, head, bytes),
                        };
                        self.record.facts.add_hop(why);
                        if self.record.waited_us == 0 {
                            self.record.waited_us = self.record.since_head(self.context.now_us());
                        }
                        let (status, fields) = (reply.status, reply.fields);
                        let reply = Box::pin(async move {
                            match content.await {
                                Ok(content) => Reply { status, fields, body: Body::Owned(content) },
                                Err(miss) => miss::reply(&miss),
                            }
                        });
                        return Next::Wait(Box::new(Waiting { reply, meta: *meta, head: bytes.to_vec() }));
                    }
                }
            }
        }
        let sent = if meta.is_head { 0 } else { length };
        self.finish(reply.status, meta, sent, head, "");
        Next::Go
    }

    fn push_body(&mut self, body: &[u8], source: Source) {
        if !body.is_empty() {
            self.record.from(source);
            self.output.extend_from_slice(body);
        }
    }

    fn push_head(&mut self, reply: &Reply, meta: &Meta, length: u64) {
        let fields = reply.fields.as_bytes();
        let known_as = self.identity.as_deref().map(|identity| (identity, &self.record));
        push_head(&mut self.output, &self.context.clock, meta, reply.status, fields, length, known_as);
    }

    /// Waits for a reply and puts it into the output.
    pub(super) async fn wait(&mut self, waiting: Waiting) -> Result<(), Cut> {
        let Waiting { mut reply, meta, head: bytes } = waiting;
        self.stay.now(Doing::Answer);
        if let Err(cut) = self.flush().await {
            // Nobody is there for the answer, and the log says so.
            self.with_held_head(&bytes, |connection, head, _| {
                connection.finish(0, &meta, 0, head, error_type(cut));
            });
            return Err(cut);
        }
        self.compact_input();
        let page = Cell::new(self.record.facts);
        let reply = self.within_wait(facts::within(&page, &mut reply)).await.unwrap_or_else(miss::too_slow);
        self.record.facts = page.get();
        self.record.resolved_us = self.record.since_head(self.context.now_us());
        // The next request may have come meanwhile, and a drain may have begun.
        self.wire.forget_drained();
        let meta = Meta { keep_alive: meta.keep_alive && !self.context.is_draining(), ..meta };
        let next =
            self.with_held_head(&bytes, |connection, head, bytes| connection.send(reply, &meta, head, bytes));
        match next {
            Next::File(body) => self.file(*body).await,
            Next::Kept(body) => self.kept(*body).await,
            // The pool gave a small file without its content only if a second look may read it.
            Next::Wait(waiting) => Box::pin(self.wait(*waiting)).await,
            Next::Go | Next::Flush | Next::Read(_) => Ok(()),
        }
    }

    /// Sends parts of a file behind its head, and the text around them.
    pub(super) async fn file(&mut self, body: FileBody) -> Result<(), Cut> {
        let FileBody { file, parts, end, status, meta, head: bytes, head_bytes } = body;
        self.stay.now(Doing::Answer);
        self.compact_input();
        let is_copied = !self.wire.takes_files();
        let mut course = Course::new(is_copied);
        let (mut sent, mut result) = (0, Ok(()));
        if let Some((_, first)) = parts.first() {
            match self.fetch_first(&file, *first, head_bytes, &mut course).await {
                Ok(None) => {}
                Ok(Some(instead)) => {
                    self.output.clear();
                    self.with_held_head(&bytes, |connection, head, bytes| {
                        connection.send(instead, &meta, head, bytes)
                    });
                    return Ok(());
                }
                Err(cut) => result = Err(cut),
            }
        }
        for (before, range) in parts {
            if result.is_err() {
                break;
            }
            self.output.extend_from_slice(&before);
            let course = std::mem::replace(&mut course, Course::new(is_copied));
            let (of_part, outcome) = self.send_part(&file, range, course).await;
            sent += of_part;
            result = outcome;
        }
        if result.is_ok() {
            self.output.extend_from_slice(&end);
            result = self.flush().await;
        }
        let error = result.map_or_else(error_type, |()| "");
        self.with_held_head(&bytes, |connection, head, _| {
            connection.finish(status, &meta, sent, head, error)
        });
        result
    }

    /// Sends bytes of memory behind their head.
    pub(super) async fn kept(&mut self, body: KeptBody) -> Result<(), Cut> {
        let KeptBody { bytes, status, meta, head } = body;
        self.stay.now(Doing::Answer);
        self.record.from(Source::Memory);
        self.compact_input();
        let (sent, result) = self.send_kept(&bytes).await;
        let error = result.map_or_else(error_type, |()| "");
        self.with_held_head(&head, |connection, head, _| connection.finish(status, &meta, sent, head, error));
        result
    }

    pub(super) fn refuse_head(&mut self, refusal: Refusal, head: &Head<'_>) -> Next {
        self.refuse(refusal, Some(head));
        Next::Go
    }

    /// Answers a message that cannot be trusted, and ends the connection so that the answer arrives.
    pub(super) fn refuse(&mut self, refusal: Refusal, head: Option<&Head<'_>>) {
        let mut reply = Reply::plain_with(refusal.status, &[]);
        if refusal.status == 400 {
            reply.body = Body::Owned(format!("400 Bad Request: {}\n", refusal.reason).into_bytes());
        }
        let is_head = head.is_some_and(|head| head.method == b"HEAD");
        let meta = Meta { version: Version::Http11, keep_alive: false, is_head };
        if head.is_none() {
            // What could not be read has no beginning.
            self.begin(None);
        }
        let length = reply.body.len();
        self.push_head(&reply, &meta, length);
        if let Body::Owned(body) = reply.body
            && !is_head
        {
            self.output.extend_from_slice(&body);
        }
        self.end = End::Linger;
        self.stay.end(Ended::Refused);
        self.finish_refused(refusal, if is_head { 0 } else { length }, head);
    }
}
