//! The step of a stream on a plain socket: what is resident goes from the file to the socket, behind a
//! head that waits for it (MSG_MORE), and no byte of it comes into the process.

use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd as _;
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::engine::Connection;
use super::flow::{Cut, Patience};
use super::stream::{Course, Sent};
use crate::connection::send_buffer;
use crate::connection::wire::Wire;
use crate::fs::{Mode, OpenFile, Step, send};
use crate::limits::{FILE_INLINE_BYTES_MAX, SENDFILE_BYTES_MIN};
use crate::semantics::range::ByteRange;

impl<W: Wire> Connection<W> {
    /// Largest part of a file that is read behind its head; more is streamed.
    pub(super) fn inline_bytes_max(&self, file: &OpenFile) -> u64 {
        match file.mode() {
            Mode::Inline | Mode::Memory if self.wire.takes_files() => SENDFILE_BYTES_MIN - 1,
            _ => FILE_INLINE_BYTES_MAX,
        }
    }

    /// Decides the send buffer, once, at the first body that is large.
    pub(super) fn decide_send_buffer(&mut self) {
        if !self.has_send_buffer
            && let Some(socket) = self.wire.beneath()
        {
            self.has_send_buffer = true;
            send_buffer::decide(socket, self.context.limits.send_buffer_bytes);
        }
    }

    /// Sends the pending output and then what the socket takes of up to `bytes_max` resident bytes from the
    /// start of `range`.
    pub(super) async fn send_file(
        &mut self,
        file: &OpenFile,
        range: ByteRange,
        bytes_max: usize,
        course: &mut Course,
    ) -> Result<Sent, Cut> {
        let mut patience = Patience::Fresh;
        poll_fn(|task| {
            loop {
                match self.poll_send_file(task, file, range, bytes_max, course, &mut patience) {
                    Poll::Ready(Ok(Some(sent))) => return Poll::Ready(Ok(sent)),
                    Poll::Ready(Ok(None)) => {}
                    Poll::Ready(Err(cut)) => return Poll::Ready(Err(cut)),
                    Poll::Pending => {
                        // The others of this worker have their turn meanwhile.
                        course.turn = 0;
                        return self.wait_for_reader(task, &mut patience);
                    }
                }
            }
        })
        .await
    }

    /// One system call or two of it; `None` when the file did not go on and the socket is to be asked.
    fn poll_send_file(
        &mut self,
        task: &mut Context<'_>,
        file: &OpenFile,
        range: ByteRange,
        bytes_max: usize,
        course: &mut Course,
        patience: &mut Patience,
    ) -> Poll<Result<Option<Sent>, Cut>> {
        let Some(socket) = self.wire.socket() else { return Poll::Ready(Ok(Some(Sent::Uncopied))) };
        if std::task::ready!(socket.poll_write_ready(task)).is_err() {
            return Poll::Ready(Err(Cut::Client));
        }
        // Before the head: one that says MSG_MORE is held back for 200 ms where nothing follows (tcp(7)).
        let ByteRange { start: offset, end } = range;
        let resident = &self.context.resident;
        let bytes = match send::resident_bytes(file, offset, bytes_max, end, &mut course.warm, resident) {
            Step::Ready(Ok(bytes)) => bytes,
            Step::Ready(Err(_)) => return Poll::Ready(Err(Cut::FileFailed)),
            Step::Wait(_) => return Poll::Ready(Ok(Some(Sent::Cold))),
        };
        if !self.output.is_empty() {
            let sent = match when_writable(socket, || send_more(socket, &self.output)) {
                Ok(0) => return Poll::Ready(Err(Cut::Client)),
                Ok(sent) => sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Ready(Ok(None)),
                Err(_) => return Poll::Ready(Err(Cut::Client)),
            };
            *patience = Patience::Fresh;
            self.output.drain(..sent);
            if !self.output.is_empty() {
                return Poll::Ready(Ok(None));
            }
            self.context.buffers.give_output(std::mem::take(&mut self.output));
        }
        Poll::Ready(match when_writable(socket, || send::send(file, offset, bytes, socket.as_fd())) {
            Ok(0) => Err(Cut::FileShrank),
            Ok(count) => Ok(Some(Sent::Bytes(count))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) if send::is_of_client(&error) => Err(Cut::Client),
            Err(error) if send::is_lacking(&error) => Ok(Some(Sent::Uncopied)),
            Err(_) => Err(Cut::FileFailed),
        })
    }
}

/// Tries `send`; a socket that is full is asked for word of when it is not.
fn when_writable(socket: &TcpStream, send: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
    socket.try_io(Interest::WRITABLE, send)
}

/// Sends `bytes` in such a way that what follows may share their last segment (MSG_MORE, send(2)).
fn send_more(socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    SockRef::from(socket).send_with_flags(bytes, libc::MSG_MORE | libc::MSG_NOSIGNAL)
}
