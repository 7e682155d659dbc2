//! The loop of a connection: understand a request, drop its body, ask for the answer, put it into the
//! output. Everything that one read brought is answered with one write, in order.
//!
//! No borrow of a worker's buffer lives across an await: what must wait copies its head first.

use std::net::IpAddr;
use std::rc::Rc;

use super::account;
use super::body::Decoder;
use super::flow::{Cut, Phase, Read};
use super::head::{Head, Parsed, parse, storage};
use super::next::Next;
use crate::connection::Context;
use crate::connection::wheel::Watch;
use crate::connection::wire::Wire;
use crate::limits::OUTPUT_PENDING_BYTES_MAX;
use crate::semantics::head::{Framing, Refusal};
use crate::sys::clock::monotonic_coarse_ms;
use crate::telemetry::counters::Stay;
use crate::telemetry::identity::Identity;
use crate::telemetry::kinds::{Ended, Limited};
use crate::telemetry::record::Record;

/// Requests that a connection may have answered in a row: a few hundred microseconds of a worker.
const REQUESTS_A_TURN: u32 = 32;
/// Empty lines that are passed over before a request.
const EMPTY_LINES_MAX: u8 = 4;

/// Serves a connection to its end, and then lets go of its `place`.
///
/// Not an `async fn`: what that is given it keeps beside what it makes of it, a hundred bytes for each
/// connection that is idle.
pub fn serve<W: Wire>(
    wire: W,
    client: IpAddr,
    context: Rc<Context>,
    place: impl Sized,
) -> impl Future<Output = ()> {
    let stay = Stay::new(&context.counters);
    serve_entered(wire, client, context, place, stay)
}

/// The same of a connection that was counted before.
pub fn serve_entered<W: Wire>(
    wire: W,
    client: IpAddr,
    context: Rc<Context>,
    place: impl Sized,
    stay: Stay,
) -> impl Future<Output = ()> {
    let deadline_ms = monotonic_coarse_ms() + context.limits.head_ms_max;
    let watch = context.wheel.enter(deadline_ms);
    let observer = context.observer.as_ref();
    let is_trusted = observer.is_some_and(|observer| observer.trusts(client));
    let accepted_us = observer.map_or(0, |_| context.now_us());
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
        line_start: 0,
        turn: 0,
        has_send_buffer: false,
        has_served: false,
        end: End::Open,
        record: Record::NONE,
        identity: None,
        is_trusted,
        accepted_us,
        stay,
    };
    async move {
        // A cut was logged with the request that it hit; there is nobody left to tell.
        let cut = connection.run().await.err();
        let Connection { mut wire, context, input, output, mut stay, .. } = connection;
        match cut {
            Some(cut) => stay.end(account::ended(cut)),
            None => wire.say_end(),
        }
        context.buffers.give_input(input);
        context.buffers.give_output(output);
        // Its descriptor is free before another may have its place.
        drop((stay, wire));
        drop(place);
    }
}

/// One connection.
pub(super) struct Connection<W> {
    pub(super) wire: W,
    pub(super) client: IpAddr,
    pub(super) context: Rc<Context>,
    pub(super) watch: Watch,
    /// Bytes read; those before `consumed` are done with.
    pub(super) input: Vec<u8>,
    pub(super) consumed: usize,
    /// Answers that were not sent yet.
    pub(super) output: Vec<u8>,
    /// A request whose body is being read. Boxed, as few are, and each idle connection has the room.
    pub(super) held: Option<Box<Held>>,
    /// When the head that is being read has to be complete; before the first request it counts from
    /// the accept.
    head_deadline_ms: Option<u64>,
    /// Where the first incomplete line of the head that is being read begins: what stands before it
    /// was looked at.
    line_start: usize,
    /// Requests answered since the connection last waited.
    pub(super) turn: u32,
    /// The send buffer was decided.
    pub(super) has_send_buffer: bool,
    /// Empty lines since the last request.
    empty_lines: u8,
    /// At least one request was answered.
    pub(super) has_served: bool,
    pub(super) end: End,
    /// Of the request that is being answered, or was last.
    pub(super) record: Record,
    /// Who that is, where somebody asks.
    pub(super) identity: Option<Box<Identity>>,
    /// The client's word about traces and ids is believed.
    pub(super) is_trusted: bool,
    /// When the connection was taken over; 0 where nobody asks.
    pub(super) accepted_us: u64,
    /// What it does, for those who count.
    pub(super) stay: Stay,
}

/// How the connection goes on after what is in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With the next request.
    Open,
    /// Not at all, and the client knows.
    Close,
    /// Not at all, and the client may still be sending: half-close and drain.
    Linger,
}

/// A request that has to wait for its body.
pub(super) struct Held {
    head: Vec<u8>,
    decoder: Decoder,
    deadline_ms: u64,
}

impl<W: Wire> Connection<W> {
    async fn run(&mut self) -> Result<(), Cut> {
        loop {
            let next = match self.end {
                End::Open => self.step(),
                End::Close | End::Linger => {
                    self.flush().await?;
                    if self.end == End::Linger || self.has_more().await {
                        // Boxed: as below.
                        Box::pin(self.linger()).await;
                    }
                    return Ok(());
                }
            };
            match next {
                Next::Go => {
                    self.turn += 1;
                    if self.turn >= REQUESTS_A_TURN {
                        // The others of this worker, before a client that pipelines without end.
                        self.turn = 0;
                        tokio::task::yield_now().await;
                    }
                }
                Next::Flush => self.flush().await?,
                Next::Read(phase) => {
                    self.flush().await?;
                    if !self.read(phase).await {
                        return Ok(());
                    }
                }
                // Boxed: an idle connection has no room for what it may never do.
                Next::Wait(waiting) => Box::pin(self.wait(*waiting)).await?,
                Next::File(body) => Box::pin(self.file(*body)).await?,
                Next::Kept(body) => Box::pin(self.kept(*body)).await?,
            }
        }
    }

    /// Reads for a phase. `false` when the connection is over without a further word.
    async fn read(&mut self, phase: Phase) -> bool {
        let limits = &self.context.limits;
        let deadline_ms = match phase {
            Phase::Body | Phase::Linger => self.held.as_ref().map_or(0, |held| held.deadline_ms),
            Phase::Idle if self.has_served => self.idle_deadline(),
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
            Read::Draining => {
                self.end = End::Close;
                self.stay.end(Ended::Drained);
                true
            }
            Read::End => {
                self.stay.end(if phase == Phase::Idle { Ended::Client } else { Ended::ClientEarly });
                false
            }
            Read::Expired if phase == Phase::Idle => {
                self.stay.end(Ended::Idle);
                false
            }
            Read::Expired => {
                let is_body = phase == Phase::Body;
                let limited = if is_body { Limited::BodyTimeout } else { Limited::HeadTimeout };
                self.context.counters.refused(limited);
                let refusal = Refusal { status: 408, reason: "request not complete in time" };
                match self.held.take() {
                    Some(held) => {
                        self.with_held_head(&held.head, |connection, head, _| {
                            connection.refuse_head(refusal, head);
                        });
                    }
                    None => self.refuse(refusal, None),
                }
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
        match parse(rest, &mut self.line_start, &self.context.limits, &mut storage) {
            Parsed::Partial => Next::Read(Phase::Head),
            Parsed::Refused(refusal) => {
                self.refuse(refusal, None);
                Next::Go
            }
            Parsed::Complete(head) => {
                self.head_deadline_ms = None;
                self.empty_lines = 0;
                self.line_start = 0;
                self.consumed += head.bytes;
                self.with_head(&head, &rest[..head.bytes], &rest[head.bytes..])
            }
        }
    }

    /// Finds the end of the body; answers when it is here, holds the request when it is not.
    fn with_head(&mut self, head: &Head<'_>, bytes: &[u8], rest: &[u8]) -> Next {
        self.begin(Some(head));
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
            if self.end == End::Open {
                // An answer that is still to come finds the end decided.
                self.stay.end(Ended::Answered);
            }
            self.end = End::Linger;
            return next;
        }
        match decoder.feed(rest, limits) {
            Err(refusal) => self.refuse_head(refusal, head),
            Ok(progress) => {
                self.consumed += progress.consumed;
                if progress.is_done {
                    self.context.counters.body_received(decoder.decoded());
                    return self.answer(head, bytes, decoder.decoded());
                }
                let deadline_ms = self.deadline(limits.body_ms_max);
                self.held = Some(Box::new(Held { head: bytes.to_vec(), decoder, deadline_ms }));
                Next::Read(Phase::Body)
            }
        }
    }

    fn step_body(&mut self, mut held: Box<Held>, input: &[u8]) -> Next {
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
                self.context.counters.body_received(body_bytes);
                self.with_held_head(&held.head, |connection, head, bytes| {
                    connection.answer(head, bytes, body_bytes)
                })
            }
        }
    }

    /// Parses a head that was copied when it was complete.
    pub(super) fn with_held_head<T>(
        &mut self,
        bytes: &[u8],
        work: impl FnOnce(&mut Self, &Head<'_>, &[u8]) -> T,
    ) -> T {
        let mut storage = storage();
        match parse(bytes, &mut 0, &self.context.limits, &mut storage) {
            Parsed::Complete(head) => work(self, &head, bytes),
            Parsed::Partial | Parsed::Refused(_) => {
                unreachable!("the same bytes were a complete head before")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::socket::Socket;
    use std::sync::Arc;

    fn size_of_task<F: Future>(_: impl FnOnce(Socket, IpAddr, Rc<Context>) -> F) -> usize {
        size_of::<F>()
    }

    /// A task has room for the largest thing that it may ever do. An idle connection is a task, and
    /// there may be thousands of them.
    #[test]
    fn a_connection_is_small() {
        let bytes = size_of_task(|socket, client, context| serve(socket, client, context, Arc::new(())));
        println!("{bytes} bytes");
        // 80 of them are the record of a request and what else is counted (docs/adr/0035).
        assert!(bytes <= 432, "{bytes} bytes for each connection");
    }
}
