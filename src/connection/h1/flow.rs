//! Bytes in and out of a connection, each wait under a deadline of the wheel.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::io::AsyncReadExt;

use super::engine::Connection;
use crate::connection::wire::Wire;
use crate::limits::FRESH_MS_AT_DRAIN;
use crate::sys::clock::monotonic_coarse_ms;
use crate::telemetry::kinds::{Doing, Limited};

/// Why a connection ends without more being said on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// The client went away or broke the connection.
    Client,
    /// The client took nothing of its answer for `write_timeout`.
    SlowReader,
    /// The file ended before its promised length: nothing may follow on this connection (case A11).
    FileShrank,
    /// A read of the file failed after the head was sent.
    FileFailed,
}

/// What the client is expected to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The first byte of the next request, or nothing.
    Idle,
    /// The rest of a head.
    Head,
    /// The rest of a body.
    Body,
    /// Nothing that matters: the connection is half-closed.
    Linger,
}

/// What came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// Bytes, now in the input.
    Bytes,
    /// The client will send no more.
    End,
    /// The deadline passed.
    Expired,
    /// The worker drains, and nothing that was begun waits for the client.
    Draining,
}

/// How far a wait for a reader has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// The socket took something just now.
    Fresh,
    /// A deadline is set.
    Armed,
    /// It passed once, with so many bytes unacknowledged.
    Left(u64),
}

/// How often is looked whether a client has acknowledged its last bytes: the kernel tells nobody.
const DELIVERY_LOOK: Duration = Duration::from_secs(1);
/// And how often while the process waits for that to end.
const DELIVERY_LOOK_AT_DRAIN: Duration = Duration::from_millis(20);

impl<W: Wire> Connection<W> {
    pub(super) fn deadline(&self, from_now_ms: u64) -> u64 {
        monotonic_coarse_ms().saturating_add(from_now_ms)
    }

    /// When a kept connection has been idle for too long: from the end of its last answer, so that the clock
    /// is not asked once more with every request.
    pub(super) fn idle_deadline(&self) -> u64 {
        let idle_ms_max = self.context.limits.idle_ms_max;
        // Of a request that is over: when it was.
        match self.record.head_us {
            0 => self.deadline(idle_ms_max),
            served_us => (served_us / 1000).saturating_add(idle_ms_max),
        }
    }

    /// Waits for bytes until `deadline_ms` and appends them to the input.
    pub(super) async fn fill(&mut self, phase: Phase, deadline_ms: u64) -> Read {
        self.compact_input();
        self.stay.now(match phase {
            Phase::Idle => Doing::Idle,
            Phase::Head => Doing::Head,
            Phase::Body => Doing::Body,
            Phase::Linger => Doing::Linger,
        });
        // A deadline that passed is not armed again: bytes that keep coming must not carry it along.
        if phase != Phase::Idle && monotonic_coarse_ms() >= deadline_ms {
            return Read::Expired;
        }
        self.watch.arm(deadline_ms);
        poll_fn(|task| {
            let mut buffer = self.context.buffers.take_input();
            match pin!(self.wire.read_buf(&mut buffer)).poll(task) {
                Poll::Ready(Ok(0) | Err(_)) => {
                    self.context.buffers.give_input(buffer);
                    return Poll::Ready(Read::End);
                }
                Poll::Ready(Ok(_)) => {
                    if self.input.is_empty() {
                        self.input = buffer;
                    } else {
                        self.input.extend_from_slice(&buffer);
                        self.context.buffers.give_input(buffer);
                    }
                    return Poll::Ready(Read::Bytes);
                }
                Poll::Pending => self.context.buffers.give_input(buffer),
            }
            self.turn = 0;
            if self.watch.is_expired(task) {
                return Poll::Ready(Read::Expired);
            }
            if phase != Phase::Body && self.context.is_draining() {
                if phase == Phase::Linger || (phase == Phase::Idle && self.has_served) {
                    return Poll::Ready(Read::Draining);
                }
                let soon = self.deadline(FRESH_MS_AT_DRAIN);
                if soon < self.watch.deadline_ms() {
                    self.watch.arm(soon);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Keeps what was not consumed in a buffer of its own size and gives the large one back, so that
    /// a thousand half-sent heads cost their own bytes and no more.
    pub(super) fn compact_input(&mut self) {
        if self.input.capacity() == 0 {
            return;
        }
        let rest = self.input[self.consumed..].to_vec();
        self.context.buffers.give_input(std::mem::replace(&mut self.input, rest));
        self.consumed = 0;
    }

    /// Sends the whole output.
    pub(super) async fn flush(&mut self) -> Result<(), Cut> {
        if self.output.is_empty() {
            return Ok(());
        }
        let output = std::mem::take(&mut self.output);
        let result = self.send_counting(&output, &mut 0).await;
        self.context.buffers.give_output(output);
        result
    }

    /// Sends `bytes`, as long as the client takes some of them within each `write_timeout`; `sent` says how many
    /// were sent, also when the client is cut.
    ///
    /// Not an `async fn`, as every idle connection has the room for this one: what that is given it keeps twice.
    pub(super) fn send_counting(
        &mut self,
        bytes: &[u8],
        sent: &mut usize,
    ) -> impl Future<Output = Result<(), Cut>> {
        let mut patience = Patience::Fresh;
        poll_fn(move |task| {
            while *sent < bytes.len() {
                match Pin::new(&mut self.wire).poll_write(task, &bytes[*sent..]) {
                    Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Err(Cut::Client)),
                    Poll::Ready(Ok(count)) => {
                        *sent += count;
                        patience = Patience::Fresh;
                    }
                    Poll::Pending => {
                        if self.stay.is_idle() {
                            self.stay.now(Doing::Send);
                            if self.held.is_none() {
                                // What was served is not taken yet.
                                self.record.head_us = 0;
                            }
                        }
                        // A client that does not read keeps no large buffer.
                        self.compact_input();
                        return self.wait_for_reader(task, &mut patience);
                    }
                }
            }
            Poll::Ready(Ok(()))
        })
    }

    /// Pending until the socket takes more, or the client has taken nothing for too long.
    ///
    /// That the socket takes nothing is no proof: it becomes writable when a third of a send buffer of
    /// megabytes has drained, which a slow client may need minutes for. So what it has acknowledged is
    /// looked at when the deadline passes, and only a second one without a byte cuts: after one
    /// `write_timeout` at least, two at most.
    pub(super) fn wait_for_reader<T>(
        &self,
        task: &std::task::Context<'_>,
        patience: &mut Patience,
    ) -> Poll<Result<T, Cut>> {
        *patience = match *patience {
            Patience::Fresh => Patience::Armed,
            Patience::Armed | Patience::Left(_) if !self.watch.is_expired(task) => return Poll::Pending,
            Patience::Armed => Patience::Left(self.wire.unacknowledged_bytes()),
            Patience::Left(before) => match self.wire.unacknowledged_bytes() {
                left if left < before => Patience::Left(left),
                _ => {
                    self.context.counters.refused(Limited::WriteTimeout);
                    self.wire.reset_on_close();
                    return Poll::Ready(Err(Cut::SlowReader));
                }
            },
        };
        self.watch.arm(self.deadline(self.context.limits.write_ms_max));
        // Armed anew: remembers the task.
        let _ = self.watch.is_expired(task);
        Poll::Pending
    }

    /// Awaits `work`, which runs elsewhere, for at most `wait_timeout`. `None` when it took longer.
    pub(super) async fn within_wait<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        self.watch.arm(self.deadline(self.context.limits.wait_ms_max));
        poll_fn(|task| match work.as_mut().poll(task) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending if self.watch.is_expired(task) => {
                self.context.counters.refused(Limited::WaitTimeout);
                Poll::Ready(None)
            }
            Poll::Pending => Poll::Pending,
        })
        .await
    }

    /// Ends the connection so that its last answer arrives: half-close, then read and drop what the
    /// client still sends, within bounds (RFC 9112 §9.6; cases D06, D10). A plain close with unread
    /// input makes the kernel send a reset that overtakes the answer.
    pub(super) async fn linger(&mut self) {
        if self.shut_down().await.is_err() {
            return;
        }
        let deadline_ms = self.deadline(self.context.limits.linger_ms_max);
        let mut left = self.context.limits.linger_bytes_max;
        while left > 0 {
            self.input.clear();
            self.consumed = 0;
            match self.fill(Phase::Linger, deadline_ms).await {
                Read::Bytes => left = left.saturating_sub(self.input.len() as u64),
                Read::Draining | Read::End | Read::Expired => break,
            }
        }
        self.delivered().await;
    }

    /// Waits until the client has acknowledged everything, as long as it acknowledges something within
    /// each `write_timeout`. The connection keeps its place under the limit meanwhile: megabytes may
    /// be in the kernel, for a client that reads slowly or not at all. And the network of a container
    /// ends with its process: what the kernel still has to send at the end of a drain is lost (case H01).
    async fn delivered(&mut self) {
        let mut before = self.wire.unacknowledged_bytes();
        let mut give_up_ms = self.deadline(self.context.limits.write_ms_max);
        while before > 0 {
            let look = if self.context.is_draining() { DELIVERY_LOOK_AT_DRAIN } else { DELIVERY_LOOK };
            tokio::time::sleep(look).await;
            let left = self.wire.unacknowledged_bytes();
            if left < before {
                give_up_ms = self.deadline(self.context.limits.write_ms_max);
            } else if monotonic_coarse_ms() >= give_up_ms {
                self.context.counters.refused(Limited::WriteTimeout);
                self.wire.reset_on_close();
                return;
            }
            before = left;
        }
    }

    /// After an answer that the client knew to be the last: whether close(2) would lose something. That is so
    /// where something unread is there (a look at it costs no system call when the last read was short), or
    /// something of the answer is still in the kernel.
    pub(super) async fn has_more(&mut self) -> bool {
        let has_unread = self.consumed < self.input.len() || self.poll_unread().await;
        has_unread || self.wire.unacknowledged_bytes() > 0
    }

    async fn poll_unread(&mut self) -> bool {
        if self.wire.is_drained() {
            return false;
        }
        // Unconstrained: a spent budget of the task would look like nothing to read.
        tokio::task::unconstrained(poll_fn(|task| {
            let mut byte = [0; 1];
            let poll = pin!(self.wire.read(&mut byte)).poll(task);
            Poll::Ready(matches!(poll, Poll::Ready(Ok(count)) if count > 0))
        }))
        .await
    }

    /// Half-closes. Where the stream has an end of its own, a client that reads nothing may have no room for it.
    async fn shut_down(&mut self) -> Result<(), Cut> {
        let mut patience = Patience::Fresh;
        poll_fn(|task| match Pin::new(&mut self.wire).poll_shutdown(task) {
            Poll::Pending => self.wait_for_reader(task, &mut patience),
            Poll::Ready(outcome) => Poll::Ready(outcome.map_err(|_| Cut::Client)),
        })
        .await
    }
}
