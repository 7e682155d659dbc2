//! What an engine needs of a byte stream: asynchronous reads and writes, and word of when a write
//! would be taken, so that file data is not read for a socket that is full.

use std::io;
use std::os::fd::AsFd;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::sys;

/// A byte stream.
pub trait Wire: AsyncRead + AsyncWrite + Unpin {
    /// Ready when a write would be taken, at least in part.
    fn poll_write_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Whether bytes go out as they stand in a file. Not where they are made in the process (TLS): there the
    /// engine reads and writes.
    fn takes_files(&self) -> bool {
        false
    }

    /// The socket itself, known to the reactor, where files are taken.
    fn socket(&mut self) -> Option<&TcpStream> {
        None
    }

    /// The socket beneath, whatever is on it: for its options.
    fn beneath(&mut self) -> Option<&TcpStream> {
        self.socket()
    }

    /// Whether it is known without a look that the last read left nothing behind.
    fn is_drained(&self) -> bool {
        false
    }

    /// Says that time has passed since the last read: what it left behind says nothing any more.
    fn forget_drained(&mut self) {}

    /// Bytes that the client has not acknowledged: what is lost when the process ends now and takes the
    /// network of its container along.
    fn unacknowledged_bytes(&self) -> u64;

    /// Makes the close that follows a reset: what the client did not take is dropped at once, instead
    /// of megabytes waiting in the kernel for a client that does not read.
    fn reset_on_close(&self);

    /// Before a close that cuts nothing short: says so where a stream says it itself, without waiting (TLS).
    fn say_end(&mut self) {}
}

impl Wire for TcpStream {
    fn poll_write_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        TcpStream::poll_write_ready(self, context)
    }

    fn takes_files(&self) -> bool {
        true
    }

    fn socket(&mut self) -> Option<&TcpStream> {
        Some(self)
    }

    fn unacknowledged_bytes(&self) -> u64 {
        unacknowledged_bytes(self)
    }

    fn reset_on_close(&self) {
        reset_on_close(self);
    }
}

/// The same of any socket.
pub(super) fn unacknowledged_bytes(socket: &impl AsFd) -> u64 {
    // A socket that cannot say has nothing more to wait for.
    match sys::socket::unacknowledged_bytes(socket.as_fd()).unwrap_or(0) {
        0 => 0,
        // A reset leaves the count as it was, and nobody who could lower it (getpeername(2): ENOTCONN).
        _ if socket2::SockRef::from(socket).peer_addr().is_err() => 0,
        left => left,
    }
}

/// The same of any socket.
pub(super) fn reset_on_close(socket: &impl AsFd) {
    // SO_LINGER of 0 (socket(7)). Where it fails the kernel's own timeouts do the work.
    let _ = socket2::SockRef::from(socket).set_linger(Some(std::time::Duration::ZERO));
}
