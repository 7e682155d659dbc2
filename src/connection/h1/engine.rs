//! The loop of a connection: understand a request, drop its body, ask for the answer, put it into the
//! output. Everything that one read brought is answered with one write, in order.
//!
//! No borrow of a worker's buffer lives across an await: what must wait copies its head first.

use std::net::IpAddr;
use std::rc::Rc;

use super::body::Decoder;
use super::flow::{Cut, Phase, Read};
use super::head::{Head, Parsed, parse, storage};
use super::write::{Meta, push_head};
use crate::connection::Context;
use crate::connection::wheel::Watch;
use crate::connection::wire::Wire;
use crate::fs::{OpenFile, Step, read};
use crate::handlers::miss;
use crate::limits::{FILE_INLINE_BYTES_MAX, OUTPUT_PENDING_BYTES_MAX};
use crate::message::{Answer, Body, Fields, Reply, Request, Where};
use crate::semantics::head::{Framing, Refusal, Version, is_authority};
use crate::semantics::method::Method;
use crate::semantics::path::{SafePath, Target};
use crate::sys::clock::{monotonic_coarse_ms, monotonic_us};
use crate::telemetry::access::Entry;

/// Empty lines that are passed over before a request.
const EMPTY_LINES_MAX: u8 = 4;

/// Serves a connection to its end.
pub async fn serve(wire: impl Wire, client: IpAddr, context: Rc<Context>) {
    let deadline_ms = monotonic_coarse_ms() + context.limits.head_ms_max;
    let watch = context.wheel.enter(deadline_ms);
    context.counters.connection_opened();
    let mut connection = Connection {
        wire,
        client,
        context,
        watch,
        input: Vec::new(),
        consumed: 0,
        output: Vec::new(),
        held: None,
        head_deadline_ms: Some(deadline_ms),
        empty_lines: 0,
        has_served: false,
        end: End::Open,
    };
    // A cut was logged with the request that it hit; there is nobody left to tell.
    let _ = connection.run().await;
    let Connection { context, input, output, .. } = connection;
    context.buffers.give_input(input);
    context.buffers.give_output(output);
}

/// One connection.
pub(super) struct Connection<W> {
    pub(super) wire: W,
    client: IpAddr,
    pub(super) context: Rc<Context>,
    pub(super) watch: Watch,
    /// Bytes read; those before `consumed` are done with.
    pub(super) input: Vec<u8>,
    pub(super) consumed: usize,
    /// Answers that were not sent yet.
    pub(super) output: Vec<u8>,
    /// A request whose body is being read.
    held: Option<Held>,
    /// When the head that is being read has to be complete; before the first request it counts from
    /// the accept.
    head_deadline_ms: Option<u64>,
    /// Empty lines since the last request.
    empty_lines: u8,
    /// At least one request was answered.
    pub(super) has_served: bool,
    end: End,
}

/// How the connection goes on after what is in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// With the next request.
    Open,
    /// Not at all, and the client knows.
    Close,
    /// Not at all, and the client may still be sending: half-close and drain.
    Linger,
}

/// A request that has to wait for its body.
struct Held {
    head: Vec<u8>,
    decoder: Decoder,
    deadline_ms: u64,
}

/// What has to happen before the next request can be looked at.
enum Next {
    /// Nothing: look at it.
    Go,
    /// Bytes of this phase.
    Read(Phase),
    /// The output has to shrink.
    Flush,
    /// A reply that the pool works on.
    Wait(Box<Waiting>),
    /// The body of an answer whose head is in the output.
    File(Box<FileBody>),
}

/// A request whose reply is being worked on.
struct Waiting {
    reply: std::pin::Pin<Box<dyn Future<Output = Reply>>>,
    meta: Meta,
    head: Vec<u8>,
}

/// A file that is to follow the output.
struct FileBody {
    file: OpenFile,
    status: u16,
    meta: Meta,
    head: Vec<u8>,
}

impl<W: Wire> Connection<W> {
    async fn run(&mut self) -> Result<(), Cut> {
        loop {
            let next = match self.end {
                End::Open => self.step(),
                End::Close | End::Linger => {
                    self.flush().await?;
                    if self.end == End::Linger { self.linger().await } else { self.close().await }
                    return Ok(());
                }
            };
            match next {
                Next::Go => {}
                Next::Flush => self.flush().await?,
                Next::Read(phase) => {
                    self.flush().await?;
                    if !self.read(phase).await {
                        return Ok(());
                    }
                }
                Next::Wait(waiting) => self.wait(*waiting).await?,
                Next::File(body) => self.file(*body).await?,
            }
        }
    }

    /// Reads for a phase. `false` when the connection is over without a further word.
    async fn read(&mut self, phase: Phase) -> bool {
        let limits = &self.context.limits;
        let deadline_ms = match phase {
            Phase::Body => self.held.as_ref().map_or(0, |held| held.deadline_ms),
            Phase::Idle if self.has_served => self.deadline(limits.idle_ms_max),
            Phase::Idle | Phase::Head => {
                let fresh = self.deadline(limits.head_ms_max);
                // Counted over the whole head: a byte now and then does not move it.
                *self.head_deadline_ms.get_or_insert(fresh)
            }
        };
        match self.fill(phase, deadline_ms).await {
            Read::Bytes => {
                if phase == Phase::Idle {
                    self.head_deadline_ms = None;
                }
                true
            }
            Read::End | Read::Draining => false,
            Read::Expired if phase == Phase::Idle => false,
            Read::Expired => {
                self.refuse(Refusal { status: 408, reason: "request not complete in time" }, None);
                true
            }
        }
    }

    /// Takes the next request from the input, if it is there.
    fn step(&mut self) -> Next {
        if self.output.len() >= OUTPUT_PENDING_BYTES_MAX {
            return Next::Flush;
        }
        // Out of `self`, so that the head may borrow from it while answers are appended.
        let input = std::mem::take(&mut self.input);
        let next = match self.held.take() {
            Some(held) => self.step_body(held, &input),
            None => self.step_head(&input),
        };
        self.input = input;
        next
    }

    fn step_head(&mut self, input: &[u8]) -> Next {
        // RFC 9112 §2.2: an empty line before a request line is passed over, as old clients send one
        // after a body.
        while input[self.consumed..].starts_with(b"\r\n") {
            self.consumed += 2;
            self.empty_lines += 1;
            if self.empty_lines > EMPTY_LINES_MAX {
                self.refuse(Refusal::bad("empty lines instead of a request"), None);
                return Next::Go;
            }
        }
        let rest = &input[self.consumed..];
        if rest.is_empty() {
            return Next::Read(Phase::Idle);
        }
        if rest == b"\r" {
            return Next::Read(Phase::Head);
        }
        let mut storage = storage();
        match parse(rest, &self.context.limits, &mut storage) {
            Parsed::Partial => Next::Read(Phase::Head),
            Parsed::Refused(refusal) => {
                self.refuse(refusal, None);
                Next::Go
            }
            Parsed::Complete(head) => {
                self.head_deadline_ms = None;
                self.empty_lines = 0;
                self.consumed += head.bytes;
                self.with_head(&head, &rest[..head.bytes], &rest[head.bytes..])
            }
        }
    }

    /// Finds the end of the body; answers when it is here, holds the request when it is not.
    fn with_head(&mut self, head: &Head<'_>, bytes: &[u8], rest: &[u8]) -> Next {
        if head.rules.framing == Framing::None {
            return self.answer(head, bytes, 0);
        }
        let limits = &self.context.limits;
        let mut decoder = match Decoder::new(head.rules.framing, limits) {
            Ok(decoder) => decoder,
            Err(refusal) => return self.refuse_head(refusal, head),
        };
        if head.rules.expects_continue {
            // RFC 9110 §10.1.1: the final answer, and no 100, because nobody wants the body. The
            // client may send it all the same, so the connection ends (§10.1.1, case D10).
            let next = self.answer(head, bytes, 0);
            self.end = End::Linger;
            return next;
        }
        match decoder.feed(rest, limits) {
            Err(refusal) => self.refuse_head(refusal, head),
            Ok(progress) => {
                self.consumed += progress.consumed;
                if progress.is_done {
                    return self.answer(head, bytes, decoder.decoded());
                }
                let deadline_ms = self.deadline(limits.body_ms_max);
                self.held = Some(Held { head: bytes.to_vec(), decoder, deadline_ms });
                Next::Read(Phase::Body)
            }
        }
    }

    fn step_body(&mut self, mut held: Held, input: &[u8]) -> Next {
        match held.decoder.feed(&input[self.consumed..], &self.context.limits) {
            Err(refusal) => {
                self.with_held_head(&held.head, |connection, head, _| connection.refuse_head(refusal, head))
            }
            Ok(progress) => {
                self.consumed += progress.consumed;
                if !progress.is_done {
                    self.held = Some(held);
                    return Next::Read(Phase::Body);
                }
                let body_bytes = held.decoder.decoded();
                self.with_held_head(&held.head, |connection, head, bytes| connection.answer(head, bytes, body_bytes))
            }
        }
    }

    /// Parses a head that was copied when it was complete.
    fn with_held_head<T>(&mut self, bytes: &[u8], work: impl FnOnce(&mut Self, &Head<'_>, &[u8]) -> T) -> T {
        let mut storage = storage();
        match parse(bytes, &self.context.limits, &mut storage) {
            Parsed::Complete(head) => work(self, &head, bytes),
            Parsed::Partial | Parsed::Refused(_) => unreachable!("the same bytes were a complete head before"),
        }
    }

    /// Asks for the answer to a request whose body is done.
    fn answer(&mut self, head: &Head<'_>, bytes: &[u8], body_bytes: u64) -> Next {
        let request = match understand(head, body_bytes) {
            Ok(request) => request,
            Err(Objection::End(refusal)) => return self.refuse_head(refusal, head),
            Err(Objection::Stay(status)) => return self.send(Reply::plain(status), &self.meta(head), head, bytes),
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
            Body::Shared(body) => self.output.extend_from_slice(&body),
            Body::Owned(body) => self.output.extend_from_slice(&body),
            Body::File(file) if length > FILE_INLINE_BYTES_MAX => {
                let (status, meta) = (reply.status, *meta);
                return Next::File(Box::new(FileBody { file, status, meta, head: bytes.to_vec() }));
            }
            Body::File(file) => match read::whole_resident(&file, &mut self.output) {
                Step::Ready(Ok(())) => {}
                outcome => {
                    self.output.truncate(mark);
                    return match outcome {
                        Step::Ready(Err(miss)) => self.send(miss::reply(&miss), meta, head, bytes),
                        _ => read_in_pool(file, reply.status, reply.fields, *meta, bytes),
                    };
                }
            },
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
            self.context.access.record(self.client, &Entry { status, body_bytes, duration_us, error, ..entry(head) });
        }
    }

    /// Waits for a reply and puts it into the output.
    async fn wait(&mut self, waiting: Waiting) -> Result<(), Cut> {
        let Waiting { mut reply, meta, head: bytes } = waiting;
        self.flush().await?;
        self.compact_input();
        let reply = self.within_wait(&mut reply).await.unwrap_or_else(miss::too_slow);
        let next = self.with_held_head(&bytes, |connection, head, bytes| connection.send(reply, &meta, head, bytes));
        match next {
            Next::File(body) => self.file(*body).await,
            // The pool gave a small file without its content only if a second look may read it.
            Next::Wait(waiting) => Box::pin(self.wait(*waiting)).await,
            Next::Go | Next::Flush | Next::Read(_) => Ok(()),
        }
    }

    /// Sends a large file behind its head.
    async fn file(&mut self, body: FileBody) -> Result<(), Cut> {
        let FileBody { file, status, meta, head: bytes } = body;
        self.compact_input();
        let (sent, result) = self.send_file(file).await;
        let error = match result {
            Ok(()) => "",
            Err(Cut::Client) => "client_closed",
            Err(Cut::SlowReader) => "write_timeout",
            Err(Cut::FileShrank) => "file_shrank",
            Err(Cut::FileFailed) => "file_failed",
        };
        self.with_held_head(&bytes, |connection, head, _| connection.finish(status, &meta, sent, head, error));
        result
    }

    fn refuse_head(&mut self, refusal: Refusal, head: &Head<'_>) -> Next {
        self.refuse(refusal, Some(head));
        Next::Go
    }

    /// Answers a message that cannot be trusted, and ends the connection so that the answer arrives.
    fn refuse(&mut self, refusal: Refusal, head: Option<&Head<'_>>) {
        let mut reply = Reply::plain(refusal.status);
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
        self.context.access.record(self.client, &Entry { status, body_bytes, error: refusal.reason, ..known });
    }
}

/// A small file whose data is not resident: read in the pool, then sent like any bytes.
fn read_in_pool(file: OpenFile, status: u16, fields: Fields, meta: Meta, head: &[u8]) -> Next {
    let reply: std::pin::Pin<Box<dyn Future<Output = Reply>>> = match read::whole_in_pool(file) {
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

/// Why a well-framed request gets no handler.
enum Objection {
    /// With this status, and the connection goes on.
    Stay(u16),
    /// The connection ends.
    End(Refusal),
}

/// Makes a request of a head (RFC 9112 §3).
fn understand<'a>(head: &Head<'a>, body_bytes: u64) -> Result<Request<'a>, Objection> {
    // Well-formed but unknown: RFC 9110 §9.1, and the framing is known, so the connection stays.
    let method = Method::parse(head.method).ok_or(Objection::Stay(501))?;
    if method == Method::Connect {
        return Err(Objection::End(Refusal { status: 501, reason: "CONNECT is for proxies" }));
    }
    let bad = |reason| Objection::End(Refusal::bad(reason));
    let (target, authority) = match Target::parse(head.target).map_err(|error| bad(error.0))? {
        Target::Asterisk if method == Method::Options => (Where::Server, head.rules.host),
        Target::Asterisk => return Err(bad("asterisk target with a method other than OPTIONS")),
        Target::Path { authority, path, query } => {
            // RFC 9112 §3.2.2: the target's authority replaces the Host field.
            let authority = authority.unwrap_or(head.rules.host);
            if !is_authority(authority) {
                return Err(bad("authority of the target is not a host with an optional port"));
            }
            let path = SafePath::parse(path).map_err(|_| Objection::Stay(400))?;
            (Where::Path(path, query), authority)
        }
    };
    Ok(Request { method, target, authority, version: head.version, fields: head.fields, body_bytes })
}

/// What the access log says of a head.
fn entry<'a>(head: &Head<'a>) -> Entry<'a> {
    let value = |name: &str| {
        head.fields.iter().find(|field| field.name.eq_ignore_ascii_case(name)).map_or(&[] as &[u8], |field| field.value)
    };
    Entry {
        method: head.method,
        target: head.target,
        version: if head.version == Version::Http11 { "1.1" } else { "1.0" },
        host: head.rules.host,
        referer: value("referer"),
        user_agent: value("user-agent"),
        ..Entry::default()
    }
}
