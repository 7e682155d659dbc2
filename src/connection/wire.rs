//! What an engine needs of a byte stream: asynchronous reads and writes, and word of when a write
//! would be taken, so that file data is not read for a socket that is full.

use std::io;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A byte stream.
pub trait Wire: AsyncRead + AsyncWrite + Unpin {
    /// Ready when a write would be taken, at least in part.
    fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Makes the close that follows a reset: what the client did not take is dropped at once, instead
    /// of megabytes waiting in the kernel for a client that does not read.
    fn reset_on_close(&self);
}

impl Wire for TcpStream {
    fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        TcpStream::poll_write_ready(self, context)
    }

    fn reset_on_close(&self) {
        // SO_LINGER of 0 (socket(7)). Where it fails the kernel's own timeouts do the work.
        let _ = socket2::SockRef::from(self).set_linger(Some(std::time::Duration::ZERO));
    }
}
