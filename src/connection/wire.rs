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
}

impl Wire for TcpStream {
    fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        TcpStream::poll_write_ready(self, context)
    }
}
