//! The second half of a request's way: its answer goes into the output, onto the wire, into the log.

use super::engine::{Connection, End, FileBody, KeptBody, Next, Waiting};
use super::flow::Cut;
use super::head::Head;
use super::request::{Objection, entry, understand};
use super::write::{Meta, push_head};
use crate::connection::wire::Wire;
use crate::fs::read::Shared;
use crate::fs::{Step, read};
use crate::handlers::miss;
use crate::limits::FILE_INLINE_BYTES_MAX;
use crate::message::{Answer, Body, Fields, Parts, Reply};
use crate::semantics::head::{Refusal, Version};
use crate::semantics::range::ByteRange;
use crate::sys::clock::monotonic_us;
use crate::telemetry::access::Entry;

impl<W: Wire> Connection<W> {
    /// Asks for the answer to a request whose body is done.
    pub(super) fn answer(&mut self, head: &Head<'_>, bytes: &[u8], body_bytes: u64) -> Next {
        let request = match understand(head, body_bytes) {
            Ok(request) => request,
            Err(Objection::End(refusal)) => return self.refuse_head(refusal, head),
            Err(Objection::Stay(status)) => {
                return self.send(Reply::plain(status), &self.meta(head), head, bytes);
            }
        };
        let meta = self.meta(head);
        match self.context.service.answer(&request) {
            Answer::Ready(reply) => self.send(reply, &meta, head, bytes),
            Answer::Wait(reply) => Next::Wait(Box::new(Waiting { reply, meta, head: bytes.to_vec() })),
        }
    }

    fn meta(&self, head: &Head<'_>) -> Meta {
        Meta {
            version: head.version,
            keep_alive: head.rules.keep_alive && !head.rules.expects_continue && !self.context.is_draining(),
            is_head: head.method == b"HEAD",
            started_us: if self.context.access.is_on() { monotonic_us() } else { 0 },
        }
    }

    /// Puts a reply into the output, or says what has to happen for its body.
    fn send(&mut self, reply: Reply, meta: &Meta, head: &Head<'_>, bytes: &[u8]) -> Next {
        if self.output.capacity() == 0 {
            self.output = self.context.buffers.take_output();
        }
        let (mark, length) = (self.output.len(), reply.body.len());
        self.push_head(&reply, meta, length);
        match reply.body {
            _ if meta.is_head => {}
            Body::Empty => {}
            Body::Static(body) => self.output.extend_from_slice(body),
            Body::Shared(body) => self.output.extend_from_slice(&body),
            Body::Owned(body) => self.output.extend_from_slice(&body),
            Body::Kept(kept) if length > FILE_INLINE_BYTES_MAX => {
                let (status, meta, head) = (reply.status, *meta, bytes.to_vec());
                return Next::Kept(Box::new(KeptBody { bytes: kept, status, meta, head }));
            }
            Body::Kept(kept) => self.output.extend_from_slice(&kept),
            Body::Parts(parts) => {
                let Parts { file, parts, end } = *parts;
                let (status, meta) = (reply.status, *meta);
                return Next::File(Box::new(FileBody {
                    file,
                    parts,
                    end,
                    status,
                    meta,
                    head: bytes.to_vec(),
                }));
            }
            Body::File(file, range) if length > self.inline_bytes_max(&file) => {
                let (status, meta, parts) = (reply.status, *meta, vec![(Vec::new(), range)]);
                let (end, head) = (Vec::new(), bytes.to_vec());
                return Next::File(Box::new(FileBody { file, parts, end, status, meta, head }));
            }
            Body::File(file, range) => {
                match read::part_resident(&file, range.start, length, &mut self.output) {
                    Step::Ready(Ok(())) => {}
                    outcome => {
                        self.output.truncate(mark);
                        return match outcome {
                            Step::Ready(Err(miss)) => self.send(miss::reply(&miss), meta, head, bytes),
                            _ => read_in_pool(file, range, reply.status, reply.fields, *meta, bytes),
                        };
                    }
                }
            }
        }
        let sent = if meta.is_head { 0 } else { length };
        self.finish(reply.status, meta, sent, head, "");
        Next::Go
    }

    fn push_head(&mut self, reply: &Reply, meta: &Meta, length: u64) {
        let fields = reply.fields.as_bytes();
        push_head(&mut self.output, &self.context.clock, meta, reply.status, fields, length);
    }

    /// Counts and logs a request whose answer is in the output or on the wire.
    fn finish(&mut self, status: u16, meta: &Meta, body_bytes: u64, head: &Head<'_>, error: &'static str) {
        self.has_served = true;
        if !meta.keep_alive && self.end == End::Open {
            self.end = End::Close;
        }
        self.context.counters.request_done();
        if status == 200 {
            self.context.first_ok();
        }
        if self.context.access.is_on() {
            let duration_us = monotonic_us().saturating_sub(meta.started_us);
            self.context
                .access
                .record(self.client, &Entry { status, body_bytes, duration_us, error, ..entry(head) });
        }
    }

    /// Waits for a reply and puts it into the output.
    pub(super) async fn wait(&mut self, waiting: Waiting) -> Result<(), Cut> {
        let Waiting { mut reply, meta, head: bytes } = waiting;
        if let Err(cut) = self.flush().await {
            // Nobody is there for the answer, and the log says so.
            self.with_held_head(&bytes, |connection, head, _| {
                connection.finish(0, &meta, 0, head, error_type(cut));
            });
            return Err(cut);
        }
        self.compact_input();
        let reply = self.within_wait(&mut reply).await.unwrap_or_else(miss::too_slow);
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
        let FileBody { file, parts, end, status, meta, head: bytes } = body;
        self.compact_input();
        let (mut sent, mut result) = (0, Ok(()));
        for (before, range) in parts {
            self.output.extend_from_slice(&before);
            let (of_part, outcome) = self.send_part(&file, range).await;
            sent += of_part;
            result = outcome;
            if result.is_err() {
                break;
            }
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
        let started_us = if self.context.access.is_on() { monotonic_us() } else { 0 };
        let meta = Meta { version: Version::Http11, keep_alive: false, is_head, started_us };
        let length = reply.body.len();
        self.push_head(&reply, &meta, length);
        if let Body::Owned(body) = reply.body
            && !is_head
        {
            self.output.extend_from_slice(&body);
        }
        self.end = End::Linger;
        self.has_served = true;
        self.context.counters.request_done();
        let known = head.map(entry).unwrap_or_default();
        let (status, body_bytes) = (refusal.status, if is_head { 0 } else { length });
        self.context
            .access
            .record(self.client, &Entry { status, body_bytes, error: refusal.reason, ..known });
    }
}

/// How the access log names the end of an answer that did not reach its own.
fn error_type(cut: Cut) -> &'static str {
    match cut {
        Cut::Client => "client_closed",
        Cut::SlowReader => "write_timeout",
        Cut::FileShrank => "file_shrank",
        Cut::FileFailed => "file_failed",
    }
}

/// A small file whose data is not resident: read in the pool, then sent like any bytes.
fn read_in_pool(
    file: Shared,
    range: ByteRange,
    status: u16,
    fields: Fields,
    meta: Meta,
    head: &[u8],
) -> Next {
    let reply: std::pin::Pin<Box<dyn Future<Output = Reply>>> =
        match read::part_in_pool(file, range.start, range.len()) {
            Err(full) => Box::pin(std::future::ready(miss::pool_full(full))),
            Ok(content) => Box::pin(async move {
                match content.await {
                    Ok(content) => Reply { status, fields, body: Body::Owned(content) },
                    Err(miss) => miss::reply(&miss),
                }
            }),
        };
    Next::Wait(Box::new(Waiting { reply, meta, head: head.to_vec() }))
}
