//! Bytes of a large file that the pool brings. Before the head has gone out, what cannot be had is an error of
//! its own (503 or 500); behind it there is only the end of the connection (RFC 9112 §8, case A11).

use std::io;

use super::engine::Connection;
use super::flow::Cut;
use super::stream::Course;
use crate::connection::wire::Wire;
use crate::fs::read::{self, Shared};
use crate::fs::{Miss, Mode, Step, send};
use crate::handlers::miss;
use crate::limits::{TURN_BYTES_MAX, WARM_BYTES};
use crate::message::Reply;
use crate::offload::{Full, Why};
use crate::semantics::range::ByteRange;
use crate::sys::clock::monotonic_coarse_ms;

/// Why bytes could not be had.
pub(super) enum Lack {
    /// The pool takes no more.
    Full(Full),
    /// Not within `wait_timeout`.
    Slow,
    /// The file ends before them.
    Shrank,
    /// They cannot be read.
    Failed(io::Error),
}

impl Lack {
    /// The answer where no byte of another has gone out.
    fn reply(self) -> Reply {
        match self {
            Lack::Full(full) => miss::pool_full(full),
            Lack::Slow => miss::too_slow(),
            Lack::Shrank => miss::reply(&Miss::Busy(read::shrunk())),
            Lack::Failed(error) => miss::reply(&error.into()),
        }
    }

    /// The end of the answer where some has.
    pub(super) fn cut(self) -> Cut {
        match self {
            Lack::Shrank => Cut::FileShrank,
            Lack::Full(_) | Lack::Slow | Lack::Failed(_) => Cut::FileFailed,
        }
    }
}

impl<W: Wire> Connection<W> {
    /// Has the first bytes of `range` brought before the head goes out, which is the last `head_bytes` of the
    /// output. The answer instead where they cannot be had.
    pub(super) async fn fetch_first(
        &mut self,
        file: &Shared,
        range: ByteRange,
        head_bytes: usize,
        course: &mut Course,
    ) -> Result<Option<Reply>, Cut> {
        let left = usize::try_from(range.len()).unwrap_or(usize::MAX);
        if file.mode() == Mode::Memory || left == 0 {
            return Ok(None);
        }
        let (resident, bytes_max) = (&self.context.resident, left.min(TURN_BYTES_MAX));
        // Where it is resident, the stream has this answer from `warm` and does not ask again.
        let looked =
            send::resident_bytes(file, range.start, bytes_max, range.end, &mut course.warm, resident);
        if let Step::Ready(_) = looked {
            return Ok(None);
        }
        // Answers before this one do not wait for it.
        let output = std::mem::take(&mut self.output);
        let before = &output[..output.len() - head_bytes];
        let flushed = self.send_counting(before, &mut 0).await;
        self.output = output;
        self.output.drain(..self.output.len() - head_bytes);
        flushed?;
        self.writable().await?;
        Ok(self.fetch(file, range.start, left, course).await.err().map(Lack::reply))
    }

    /// Has the pool bring bytes from `offset` of the `left` ones. `false` where nothing was asked, and a copy of
    /// them is the way.
    pub(super) async fn fetch(
        &mut self,
        file: &Shared,
        offset: u64,
        left: usize,
        course: &mut Course,
    ) -> Result<bool, Lack> {
        match file.mode() {
            Mode::OpenInline => {
                let job = read::warm_in_pool(file, offset, left.min(WARM_BYTES)).map_err(Lack::Full)?;
                let warm = self.hop(Why::NoNowait, job).await.ok_or(Lack::Slow)?;
                course.warm = warm.map_err(Lack::Failed)?;
            }
            Mode::Remote if course.is_fast => {
                let Some((lent, buffer)) = self.context.windows.lend(monotonic_coarse_ms()) else {
                    return Ok(false);
                };
                let window = self.read_in_pool(file, offset, left.min(WARM_BYTES), buffer).await?;
                lent.fill(offset, window, monotonic_coarse_ms());
                course.lent = Some(lent);
            }
            // Once: what the kernel drops again before it is sent comes as a copy.
            Mode::Inline if course.may_warm(offset) => {
                let window = send::window_to_read(offset, left);
                let job = read::warm_in_pool(file, offset, window).map_err(Lack::Full)?;
                self.hop(Why::ColdData, job).await.ok_or(Lack::Slow)?.map_err(Lack::Failed)?;
                course.read_at = Some(offset);
            }
            Mode::Remote | Mode::Inline | Mode::Memory => return Ok(false),
        }
        Ok(true)
    }

    /// Up to `bytes` from `offset` of the file, which is not at its end there.
    pub(super) async fn read_in_pool(
        &mut self,
        file: &Shared,
        offset: u64,
        bytes: usize,
        buffer: Vec<u8>,
    ) -> Result<Vec<u8>, Lack> {
        let job = read::chunk_in_pool(file, offset, bytes, buffer).map_err(Lack::Full)?;
        let chunk = self.hop(read::why_not(file.mode()), job).await.ok_or(Lack::Slow)?;
        chunk
            .map_err(Lack::Failed)
            .and_then(|chunk| if chunk.is_empty() { Err(Lack::Shrank) } else { Ok(chunk) })
    }
}
