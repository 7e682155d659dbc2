//! The wire over TLS. Plaintext counts as sent when the socket has taken all of its ciphertext, so that what the
//! engine knows of a reader is true here as on a plain socket, and at most one piece waits encrypted.

use std::io::{self, BufRead as _, IoSlice, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use rustls::ServerConnection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::connection::wire::{self, Wire};
use crate::limits::TLS_PIECE_BYTES;

/// See the module. Boxed, so that the task of a connection keeps the size that it has without TLS.
pub(super) struct Stream(Box<Inner>);

/// The two ends of it.
pub(super) struct Inner {
    pub(super) socket: TcpStream,
    pub(super) tls: ServerConnection,
    /// Plaintext whose ciphertext was not all taken yet. Whoever wrote it was told to wait and writes the same
    /// bytes again, as a place in the stream has one content; then it is told that they are sent.
    promised: usize,
    /// Their ciphertext that waits, about: what rustls does not tell.
    pending: usize,
    /// The client was told that nothing follows.
    is_closed: bool,
}

impl Inner {
    pub(super) fn new(socket: TcpStream, tls: ServerConnection) -> Inner {
        Inner { socket, tls, promised: 0, pending: 0, is_closed: false }
    }

    /// Hands all ciphertext to the socket.
    pub(super) fn poll_drain(&mut self, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Driven { socket: &mut self.socket, task }) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(count) => self.pending = self.pending.saturating_sub(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.pending = 0;
        Poll::Ready(Ok(()))
    }

    /// Takes ciphertext in, as much as one read brings, and what is in it. `Ok(0)`: the client sends no more.
    pub(super) fn poll_take_in(&mut self, task: &mut Context<'_>) -> Poll<io::Result<usize>> {
        // Answers of TLS itself first: who does not take them gets no more of them made.
        ready!(self.poll_drain(task))?;
        let count = match self.tls.read_tls(&mut Driven { socket: &mut self.socket, task }) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
            result => result?,
        };
        if let Err(error) = self.tls.process_new_packets() {
            // Its alert, if the socket has room: nobody waits for a client that breaks the rules.
            let _ = self.poll_drain(task);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
        Poll::Ready(Ok(count))
    }

    fn poll_read(&mut self, task: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            // An end without the client's word for it is an error here, and never an end.
            match self.tls.reader().fill_buf() {
                Ok(plaintext) => {
                    let count = plaintext.len().min(buffer.remaining());
                    buffer.put_slice(&plaintext[..count]);
                    self.tls.reader().consume(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            ready!(self.poll_take_in(task))?;
        }
    }

    fn poll_write(&mut self, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut sent = 0;
        loop {
            match self.poll_drain(task) {
                Poll::Ready(Ok(())) => {}
                // Told with the next write.
                Poll::Pending | Poll::Ready(Err(_)) if sent > 0 => return Poll::Ready(Ok(sent)),
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            }
            let kept = self.promised.min(bytes.len() - sent);
            (sent, self.promised) = (sent + kept, self.promised - kept);
            let rest = &bytes[sent..];
            if rest.is_empty() {
                return Poll::Ready(Ok(sent));
            }
            self.promised = self.tls.writer().write(&rest[..rest.len().min(TLS_PIECE_BYTES)])?;
            self.pending = self.promised;
        }
    }

    /// Says once that nothing follows.
    fn close(&mut self) {
        if !self.is_closed {
            self.is_closed = true;
            self.tls.send_close_notify();
        }
    }
}

/// The socket as rustls drives it: a call that would wait has the task woken.
struct Driven<'d, 'c> {
    socket: &'d mut TcpStream,
    task: &'d mut Context<'c>,
}

fn unless_pending<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
    match poll {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

impl Read for Driven<'_, '_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(bytes);
        // Not `try_read`: after a short read this one knows that there is no more.
        unless_pending(Pin::new(&mut *self.socket).poll_read(self.task, &mut buffer))?;
        Ok(buffer.filled().len())
    }
}

impl Write for Driven<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        unless_pending(Pin::new(&mut *self.socket).poll_write(self.task, bytes))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        unless_pending(Pin::new(&mut *self.socket).poll_write_vectored(self.task, parts))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl From<Inner> for Stream {
    fn from(mut inner: Inner) -> Stream {
        // The bound is the piece above, also for a head before it.
        inner.tls.set_buffer_limit(None);
        Stream(Box::new(inner))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.poll_read(task, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write(task, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_drain(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.close();
        ready!(self.0.poll_drain(task))?;
        Pin::new(&mut self.0.socket).poll_shutdown(task)
    }
}

impl Wire for Stream {
    fn poll_write_ready(&mut self, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.0.poll_drain(task))?;
        self.0.socket.poll_write_ready(task)
    }

    fn beneath(&mut self) -> Option<&TcpStream> {
        Some(&self.0.socket)
    }

    fn unacknowledged_bytes(&self) -> u64 {
        wire::unacknowledged_bytes(&self.0.socket) + self.0.pending as u64
    }

    fn reset_on_close(&self) {
        wire::reset_on_close(&self.0.socket);
    }

    fn say_end(&mut self) {
        self.0.close();
        // Once: who does not take it has all that was promised, or left before.
        let _ = self.0.poll_drain(&mut Context::from_waker(Waker::noop()));
    }
}
