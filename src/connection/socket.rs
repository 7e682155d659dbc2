//! An accepted socket, which the reactor gets to know when it first has to wait.
//!
//! A connection whose request came with it and that ends with its answer never waits: two calls of
//! epoll_ctl(2) and the reactor's entry are saved (docs/adr/0032-new-connections.md). What is entered
//! late misses nothing: epoll(7) tells at once what is ready when a socket is added.

use std::io::{self, Write as _};
use std::net;
use std::os::fd::AsFd;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::coop::consume_budget;

use super::wire::{self, Wire};
use crate::sys;

/// See the module.
#[derive(Debug)]
pub struct Socket(State);

#[derive(Debug)]
enum State {
    /// Not with the reactor. `is_drained`: the last read left nothing behind, so the next one waits.
    Fresh { socket: net::TcpStream, is_drained: bool },
    /// With the reactor.
    Watched(TcpStream),
    /// The reactor did not take it; the task that was told so lets go of it.
    Lost,
}

impl Socket {
    /// Takes over a socket that is non-blocking.
    #[must_use]
    pub fn new(socket: net::TcpStream) -> Socket {
        Socket(State::Fresh { socket, is_drained: false })
    }

    /// The socket as the reactor knows it; enters it where it does not yet.
    fn watched(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        if let State::Fresh { .. } = self.0
            && let State::Fresh { socket, .. } = std::mem::replace(&mut self.0, State::Lost)
        {
            self.0 = State::Watched(TcpStream::from_std(socket)?);
        }
        match &mut self.0 {
            State::Watched(socket) => Ok(Pin::new(socket)),
            State::Fresh { .. } | State::Lost => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

/// `None`: it would wait.
fn unless_waiting<T>(result: io::Result<T>) -> Option<io::Result<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        result => Some(result),
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let State::Fresh { socket, is_drained } = &mut self.0
            && !*is_drained
        {
            // As the reactor counts its own: a client that sends on and on is no reason to starve others.
            ready!(pin!(consume_budget()).poll(task));
            let room = buffer.remaining();
            if let Some(result) = unless_waiting(sys::socket::receive(socket.as_fd(), buffer)) {
                // Less than there was room for: there is no more (epoll(7), question 9).
                *is_drained = result.as_ref().is_ok_and(|count| (1..room).contains(count));
                return Poll::Ready(result.map(|_| ()));
            }
        }
        self.watched()?.poll_read(task, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let State::Fresh { socket, .. } = &mut self.0 {
            ready!(pin!(consume_budget()).poll(task));
            if let Some(result) = unless_waiting(socket.write(bytes)) {
                if result.as_ref().is_ok_and(|count| *count < bytes.len()) {
                    // It is full, and no file may be read for it before the reactor says that it is not.
                    self.watched()?;
                }
                return Poll::Ready(result);
            }
        }
        self.watched()?.poll_write(task, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Nothing is kept here.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            State::Fresh { socket, .. } => Poll::Ready(socket.shutdown(net::Shutdown::Write)),
            State::Watched(socket) => Pin::new(socket).poll_shutdown(task),
            State::Lost => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl Wire for Socket {
    fn poll_write_ready(&mut self, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.0 {
            // Until a write says otherwise.
            State::Fresh { .. } => Poll::Ready(Ok(())),
            State::Watched(socket) => TcpStream::poll_write_ready(socket, task),
            State::Lost => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn takes_files(&self) -> bool {
        true
    }

    fn socket(&mut self) -> Option<&TcpStream> {
        // Where the reactor does not take it, the next write says so.
        self.watched().ok().map(|socket| &*socket.get_mut())
    }

    fn is_drained(&self) -> bool {
        matches!(self.0, State::Fresh { is_drained: true, .. })
    }

    fn forget_drained(&mut self) {
        if let State::Fresh { is_drained, .. } = &mut self.0 {
            *is_drained = false;
        }
    }

    fn unacknowledged_bytes(&self) -> u64 {
        match &self.0 {
            State::Fresh { socket, .. } => wire::unacknowledged_bytes(socket),
            State::Watched(socket) => wire::unacknowledged_bytes(socket),
            State::Lost => 0,
        }
    }

    fn reset_on_close(&self) {
        match &self.0 {
            State::Fresh { socket, .. } => wire::reset_on_close(socket),
            State::Watched(socket) => wire::reset_on_close(socket),
            State::Lost => {}
        }
    }
}
