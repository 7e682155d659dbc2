//! Large files on a plain connection: read by chunks while they are resident, through the pool where
//! they are not, and nothing of them kept for a client that does not read.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use super::engine::Connection;
use super::flow::Cut;
use crate::connection::wire::Wire;
use crate::fs::{Mode, OpenFile, Step, read};
use crate::limits::{FILE_CHUNK_BYTES, TURN_BYTES_MAX};

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
    /// Sends the pending output and the whole file behind it. Returns how many of its bytes were
    /// sent in any case.
    pub(super) async fn send_file(&mut self, file: OpenFile) -> (u64, Result<(), Cut>) {
        let file = Arc::new(file);
        let end = file.stat().size;
        let (mut offset, mut turn) = (0, 0);
        let mut window = FILE_CHUNK_BYTES;
        while offset < end {
            let left = usize::try_from(end - offset).unwrap_or(usize::MAX);
            let count = match self.send_resident(&file, offset, left.min(window)).await {
                Ok(Sent::Bytes(count)) => {
                    // What the socket took last time tells what it will take next time.
                    window = (count * 2).clamp(READ_BYTES_MIN, FILE_CHUNK_BYTES);
                    count
                }
                Ok(Sent::Cold) => match self.send_cold(&file, offset, left.min(FILE_CHUNK_BYTES)).await {
                    Ok(count) => count,
                    Err(cut) => return (offset, Err(cut)),
                },
                Err(cut) => return (offset, Err(cut)),
            };
            offset += count as u64;
            turn += count;
            if turn >= TURN_BYTES_MAX {
                // The others of this worker, also when this socket would take more.
                turn = 0;
                tokio::task::yield_now().await;
            }
        }
        (offset, self.flush().await)
    }

    /// Reads up to `bytes_max` resident bytes and sends what the socket takes of them, together with
    /// the pending output before them. The rest is read again: it costs a copy from the page cache,
    /// and a thousand slow readers cost no buffer.
    async fn send_resident(&mut self, file: &OpenFile, offset: u64, bytes_max: usize) -> Result<Sent, Cut> {
        let mut is_armed = false;
        let context = std::rc::Rc::clone(&self.context);
        poll_fn(|task| {
            match self.wire.poll_write_ready(task) {
                Poll::Pending => return self.wait_for_reader(task, &mut is_armed),
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Cut::Client)),
                Poll::Ready(Ok(())) => {}
            }
            context.buffers.with_chunk(|chunk| {
                chunk.extend_from_slice(&self.output);
                match read::resident(file, offset, bytes_max, chunk) {
                    Step::Wait => return Poll::Ready(Ok(Sent::Cold)),
                    Step::Ready(Ok(0)) => return Poll::Ready(Err(Cut::FileShrank)),
                    Step::Ready(Ok(_)) => {}
                    Step::Ready(Err(_)) => return Poll::Ready(Err(Cut::FileFailed)),
                }
                match Pin::new(&mut self.wire).poll_write(task, chunk) {
                    Poll::Pending => self.wait_for_reader(task, &mut is_armed),
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

    /// Has a chunk read in the pool and sends it, or as much of it as the socket takes at once where
    /// the rest can be read again without waiting.
    async fn send_cold(&mut self, file: &Arc<OpenFile>, offset: u64, bytes_max: usize) -> Result<usize, Cut> {
        self.flush().await?;
        let Ok(job) = read::chunk_in_pool(file, offset, bytes_max) else { return Err(Cut::FileFailed) };
        let chunk = match self.within_wait(job).await {
            Some(Ok(chunk)) if chunk.is_empty() => return Err(Cut::FileShrank),
            Some(Ok(chunk)) => chunk,
            Some(Err(_)) | None => return Err(Cut::FileFailed),
        };
        if file.mode() == Mode::Inline {
            return self.send_some(&chunk).await;
        }
        self.send_all(&chunk).await?;
        Ok(chunk.len())
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
