//! Large files: sent from the page cache by sendfile where the wire is a plain socket, read by chunks and
//! written where it is not, through the pool where they are not resident. Nothing of them is kept for a
//! client that does not read: what the socket did not take is read again, which costs no buffer a slow
//! reader. Remote files, where that would be a trip to the pool, have a few windows a worker
//! (`connection::windows`).

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use super::engine::Connection;
use super::fetch::Lack;
use super::flow::{Cut, Patience};
use crate::connection::windows::Lent;
use crate::connection::wire::Wire;
use crate::fs::read::{self, Shared, Warm};
use crate::fs::{OpenFile, Step};
use crate::limits::{FILE_CHUNK_BYTES, TURN_BYTES_MAX};
use crate::semantics::range::ByteRange;
use crate::sys::clock::monotonic_coarse_ms;
use crate::telemetry::kinds::Source;

/// Least that is read at once: a socket that takes a little at a time does not cost a system call a
/// kilobyte.
const READ_BYTES_MIN: usize = 64 * 1024;

/// What one step of a stream did.
pub(super) enum Sent {
    /// So many bytes of the file went to the kernel.
    Bytes(usize),
    /// The next bytes are not resident.
    Cold,
    /// Nothing: they cannot go without a copy.
    Uncopied,
}

/// What one step of a stream leaves to the next.
pub(super) struct Course {
    /// Bytes that were sent since the others of this worker had their turn.
    pub(super) turn: usize,
    /// Bytes that are read at once where they are copied.
    chunk: usize,
    /// What is known to be resident.
    pub(super) warm: Warm,
    /// Where the pool last read a window through that a worker may ask about.
    pub(super) read_at: Option<u64>,
    /// The wire is no plain socket, or sendfile does not know this file system.
    is_copied: bool,
    /// What the pool read of a remote file.
    pub(super) lent: Option<Lent>,
    /// The client has not lost a window, or has taken a whole chunk since.
    pub(super) is_fast: bool,
}

impl Course {
    /// The start of a stream that is copied or not.
    pub(super) fn new(is_copied: bool) -> Course {
        Course {
            turn: 0,
            chunk: FILE_CHUNK_BYTES,
            warm: Warm::default(),
            read_at: None,
            is_copied,
            lent: None,
            is_fast: true,
        }
    }

    /// Whether the pool may read through what is to be sent from `offset` on: not twice, and in the middle only
    /// for a stream that is not copied.
    pub(super) fn may_warm(&self, offset: u64) -> bool {
        self.read_at.is_none() || (!self.is_copied && self.read_at != Some(offset))
    }
}

impl<W: Wire> Connection<W> {
    /// Sends the pending output and a part of the file behind it. Returns how many of its bytes were
    /// sent in any case.
    pub(super) async fn send_part(
        &mut self,
        file: &Shared,
        range: ByteRange,
        mut course: Course,
    ) -> (u64, Result<(), Cut>) {
        let ByteRange { start, end } = range;
        let mut offset = start;
        self.decide_send_buffer();
        while offset < end {
            let rest = ByteRange { start: offset, end };
            let count = match self.send_next(file, rest, &mut course).await {
                Ok(count) => count,
                Err(cut) => return (offset - start, Err(cut)),
            };
            if count > 0 {
                // What the socket took last time tells what it will take next time.
                course.chunk = (count * 2).clamp(READ_BYTES_MIN, FILE_CHUNK_BYTES);
            }
            offset += count as u64;
            course.turn += count;
            if course.turn >= TURN_BYTES_MAX {
                // The others of this worker, also when this socket would take more.
                course.turn = 0;
                tokio::task::yield_now().await;
            }
        }
        (offset - start, self.flush().await)
    }

    /// Sends the pending output and `bytes` behind it, out of the memory that all workers share. Returns
    /// how many of them were sent in any case.
    pub(super) async fn send_kept(&mut self, bytes: &[u8]) -> (u64, Result<(), Cut>) {
        self.decide_send_buffer();
        let mut sent = 0;
        let mut result = self.flush().await;
        for turn in bytes.chunks(TURN_BYTES_MAX) {
            if result.is_err() {
                break;
            }
            if sent > 0 {
                tokio::task::yield_now().await;
            }
            let mut of_turn = 0;
            result = self.send_counting(turn, &mut of_turn).await;
            sent += of_turn as u64;
        }
        (sent, result)
    }

    /// One step of a stream: how many bytes of the file went to the kernel, 0 where the pool was asked
    /// for them and the socket had no room for what came.
    async fn send_next(
        &mut self,
        file: &Shared,
        range: ByteRange,
        course: &mut Course,
    ) -> Result<usize, Cut> {
        let (offset, left) = (range.start, usize::try_from(range.len()).unwrap_or(usize::MAX));
        if course.lent.is_some() {
            // It came before the head went out.
            self.flush().await?;
        }
        if let Some(count) = self.send_lent(offset, course).await? {
            self.sent_from(Source::Pool);
            return Ok(count);
        }
        if !course.is_copied {
            let bytes = left.min(TURN_BYTES_MAX - course.turn);
            match self.send_file(file, range, bytes, course).await? {
                Sent::Bytes(count) => {
                    self.sent_from(Source::Sendfile);
                    return Ok(count);
                }
                Sent::Cold => {}
                Sent::Uncopied => course.is_copied = true,
            }
        }
        let bytes = left.min(course.chunk);
        if course.is_copied
            && let Sent::Bytes(count) = self.send_resident(file, offset, bytes, &course.warm).await?
        {
            self.sent_from(Source::Copy);
            return Ok(count);
        }
        // Not before the socket has room: a hop for a client that does not read would be for nothing.
        self.flush().await?;
        self.writable().await?;
        if self.fetch(file, offset, left, course).await.map_err(Lack::cut)? {
            return Ok(0);
        }
        let place = self.within_wait(file.lane().place()).await.flatten();
        let _place = place.ok_or(Cut::FileFailed)?;
        let chunk = self.read_in_pool(file, offset, bytes, Vec::new()).await.map_err(Lack::cut)?;
        let count = self.send_some(&chunk).await?;
        self.sent_from(Source::Pool);
        course.is_fast |= count == FILE_CHUNK_BYTES;
        Ok(count)
    }

    /// Sends what the socket takes of a window. `None` where there is none for this place, or not any
    /// more: it went to another while this client took nothing, and what was not sent is read again.
    async fn send_lent(&mut self, offset: u64, course: &mut Course) -> Result<Option<usize>, Cut> {
        let Some(lent) = &course.lent else { return Ok(None) };
        let mut patience = Patience::Fresh;
        let sent = poll_fn(|task| {
            let taken = lent.take(offset, monotonic_coarse_ms(), |left| {
                let turn = &left[..left.len().min(TURN_BYTES_MAX)];
                match Pin::new(&mut self.wire).poll_write(task, turn) {
                    Poll::Ready(Ok(0) | Err(_)) => Err(Cut::Client),
                    Poll::Ready(Ok(count)) => Ok(count),
                    Poll::Pending => Ok(0),
                }
            });
            match taken.transpose() {
                Ok(Some(0)) => self.wait_for_reader(task, &mut patience),
                outcome => Poll::Ready(outcome),
            }
        })
        .await?;
        if sent.is_none() {
            course.is_fast = !lent.is_lost();
            course.lent = None;
            if !course.is_fast {
                course.chunk = READ_BYTES_MIN;
            }
        }
        Ok(sent)
    }

    /// Reads up to `bytes_max` resident bytes and sends what the socket takes of them, together with
    /// the pending output before them.
    async fn send_resident(
        &mut self,
        file: &OpenFile,
        offset: u64,
        bytes_max: usize,
        warm: &Warm,
    ) -> Result<Sent, Cut> {
        let mut patience = Patience::Fresh;
        let context = std::rc::Rc::clone(&self.context);
        poll_fn(|task| {
            match self.wire.poll_write_ready(task) {
                Poll::Pending => return self.wait_for_reader(task, &mut patience),
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Cut::Client)),
                Poll::Ready(Ok(())) => {}
            }
            context.buffers.with_chunk(|chunk| {
                chunk.extend_from_slice(&self.output);
                match read::resident(file, offset, bytes_max, warm, chunk) {
                    Step::Wait(_) => return Poll::Ready(Ok(Sent::Cold)),
                    Step::Ready(Ok(0)) => return Poll::Ready(Err(Cut::FileShrank)),
                    Step::Ready(Ok(_)) => {}
                    Step::Ready(Err(_)) => return Poll::Ready(Err(Cut::FileFailed)),
                }
                match Pin::new(&mut self.wire).poll_write(task, chunk) {
                    Poll::Pending => self.wait_for_reader(task, &mut patience),
                    Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(Err(Cut::Client)),
                    Poll::Ready(Ok(count)) => {
                        let of_output = count.min(self.output.len());
                        self.output.drain(..of_output);
                        Poll::Ready(Ok(Sent::Bytes(count - of_output)))
                    }
                }
            })
        })
        .await
    }

    /// Waits until the socket takes something.
    pub(super) async fn writable(&mut self) -> Result<(), Cut> {
        let mut patience = Patience::Fresh;
        poll_fn(|task| match self.wire.poll_write_ready(task) {
            Poll::Pending => self.wait_for_reader(task, &mut patience),
            Poll::Ready(outcome) => Poll::Ready(outcome.map_err(|_| Cut::Client)),
        })
        .await
    }

    /// Sends what the socket takes of `bytes` now; 0 when it is full.
    async fn send_some(&mut self, bytes: &[u8]) -> Result<usize, Cut> {
        poll_fn(|task| {
            Poll::Ready(match Pin::new(&mut self.wire).poll_write(task, bytes) {
                Poll::Ready(Ok(0) | Err(_)) => Err(Cut::Client),
                Poll::Ready(Ok(count)) => Ok(count),
                Poll::Pending => Ok(0),
            })
        })
        .await
    }
}
