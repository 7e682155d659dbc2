//! Large files on a plain connection: read by chunks while they are resident, through the pool where
//! they are not. Nothing of them is kept for a client that does not read: what the socket did not take
//! is read again, which costs a copy from the page cache and no buffer a slow reader.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use super::engine::Connection;
use super::flow::{Cut, Patience};
use crate::connection::wire::Wire;
use crate::fs::read::{self, Shared, Warm};
use crate::fs::{Mode, OpenFile, Step};
use crate::limits::{FILE_CHUNK_BYTES, TURN_BYTES_MAX, WARM_BYTES};
use crate::semantics::range::ByteRange;

/// Least that is read at once: a socket that takes a little at a time does not cost a system call a
/// kilobyte.
const READ_BYTES_MIN: usize = 64 * 1024;

/// What one step of a stream did.
enum Sent {
    /// So many bytes of the file went to the kernel.
    Bytes(usize),
    /// The next bytes are not resident.
    Cold,
}

impl<W: Wire> Connection<W> {
    /// Sends the pending output and a part of the file behind it. Returns how many of its bytes were
    /// sent in any case.
    pub(super) async fn send_part(&mut self, file: &Shared, range: ByteRange) -> (u64, Result<(), Cut>) {
        let ByteRange { start, end } = range;
        let (mut offset, mut turn) = (start, 0);
        let (mut window, mut warm) = (FILE_CHUNK_BYTES, Warm::default());
        while offset < end {
            let left = usize::try_from(end - offset).unwrap_or(usize::MAX);
            let count = match self.send_next(file, offset, left, window, &mut warm).await {
                Ok(count) => count,
                Err(cut) => return (offset - start, Err(cut)),
            };
            if count > 0 {
                // What the socket took last time tells what it will take next time.
                window = (count * 2).clamp(READ_BYTES_MIN, FILE_CHUNK_BYTES);
            }
            offset += count as u64;
            turn += count;
            if turn >= TURN_BYTES_MAX {
                // The others of this worker, also when this socket would take more.
                turn = 0;
                tokio::task::yield_now().await;
            }
        }
        (offset - start, self.flush().await)
    }

    /// Sends the pending output and `bytes` behind it, out of the memory that all workers share. Returns
    /// how many of them were sent in any case.
    pub(super) async fn send_kept(&mut self, bytes: &[u8]) -> (u64, Result<(), Cut>) {
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
        offset: u64,
        left: usize,
        window: usize,
        warm: &mut Warm,
    ) -> Result<usize, Cut> {
        if let Sent::Bytes(count) = self.send_resident(file, offset, left.min(window), warm).await? {
            return Ok(count);
        }
        // Not before the socket has room: a hop for a client that does not read would be for nothing.
        self.flush().await?;
        self.writable().await?;
        if file.mode() == Mode::OpenInline {
            let Ok(job) = read::warm_in_pool(file, offset, left.min(WARM_BYTES)) else {
                return Err(Cut::FileFailed);
            };
            *warm = match self.within_wait(job).await {
                Some(Ok(warm)) => warm,
                Some(Err(_)) | None => return Err(Cut::FileFailed),
            };
            return Ok(0);
        }
        let Ok(job) = read::chunk_in_pool(file, offset, left.min(window)) else {
            return Err(Cut::FileFailed);
        };
        match self.within_wait(job).await {
            Some(Ok(chunk)) if chunk.is_empty() => Err(Cut::FileShrank),
            Some(Ok(chunk)) => self.send_some(&chunk).await,
            Some(Err(_)) | None => Err(Cut::FileFailed),
        }
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
                    Step::Wait => return Poll::Ready(Ok(Sent::Cold)),
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
    async fn writable(&mut self) -> Result<(), Cut> {
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
