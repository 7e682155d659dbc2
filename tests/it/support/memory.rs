//! A byte stream in memory that hands out exactly the segments that a test cut, one a read: TCP
//! would join them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use scalws::connection::wire::Wire;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// See the module. What was written to it is shared with the test.
#[derive(Debug, Default)]
pub struct Segments {
    input: VecDeque<Vec<u8>>,
    written: Rc<RefCell<Vec<u8>>>,
}

impl Segments {
    /// `bytes` cut at `cuts`, then the end of the stream.
    pub fn new(bytes: &[u8], cuts: &[usize]) -> Segments {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| *cut % (bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        cuts.dedup();
        let input = cuts.windows(2).map(|pair| bytes[pair[0]..pair[1]].to_vec()).collect();
        Segments { input, written: Rc::default() }
    }

    /// What was written so far, also after the stream is gone.
    pub fn written(&self) -> Rc<RefCell<Vec<u8>>> {
        Rc::clone(&self.written)
    }
}

impl AsyncRead for Segments {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(mut segment) = self.input.pop_front() {
            let count = segment.len().min(buffer.remaining());
            buffer.put_slice(&segment[..count]);
            if count < segment.len() {
                self.input.push_front(segment.split_off(count));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Segments {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.written.borrow_mut().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Wire for Segments {
    fn poll_write_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn unacknowledged_bytes(&self) -> u64 {
        0
    }

    fn reset_on_close(&self) {}
}
