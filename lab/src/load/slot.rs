//! One connection of the engine: non-blocking, opened again when it was closed as announced.
//!
//! Where each request has its own connection, the request asks for `Connection: close` and the server closes
//! first; the slot waits for that before it closes too. So the waiting in TIME_WAIT is the server's side's,
//! local ports are free again at once and a run may make any number of connections. SO_LINGER 0 would free them
//! too, but by a reset, which servers log and count as an error.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType};
use rustls::{ClientConfig, ClientConnection};

use super::answer::{Answer, Want};
use super::{no_connection, tls};
use crate::Refusal;

/// What a slot waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing. Whatever comes now is wrong.
    Idle,
    /// Its answer.
    Asked,
    /// The end of a connection whose answer is complete.
    Closing,
}

#[derive(Debug)]
pub(super) struct Slot {
    /// `None`: not connected.
    socket: Option<OwnedFd>,
    tls: Option<Box<ClientConnection>>,
    pub(super) answer: Answer,
    pub(super) phase: Phase,
    /// From when the latency of the current request counts.
    pub(super) from: Instant,
    /// When the current request was sent.
    pub(super) sent: Instant,
    /// Answers on this connection.
    pub(super) answers: u64,
    /// Bytes at the end of the request that the kernel has not taken: not yet connected.
    unsent: usize,
    /// The kernel is asked to say when it takes more.
    waits_for_room: bool,
}

/// What all slots share.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) epoll: OwnedFd,
    pub(super) address: SocketAddr,
    pub(super) request: Box<[u8]>,
    pub(super) want: Want,
    pub(super) tls: Option<Arc<ClientConfig>>,
}

/// Fits the 14,620 bytes of the matrix with their head, and the first level of the cache.
const FIRST_READ_BYTES: usize = 16 << 10;

const READS: EventFlags = EventFlags::IN.union(EventFlags::RDHUP);

impl Slot {
    pub(super) fn new(now: Instant) -> Slot {
        Slot {
            socket: None,
            tls: None,
            answer: Answer::default(),
            phase: Phase::Idle,
            from: now,
            sent: now,
            answers: 0,
            unsent: 0,
            waits_for_room: false,
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.socket.is_some()
    }

    pub(super) fn handshake(&self) -> Option<rustls::HandshakeKind> {
        self.tls.as_ref().and_then(|tls| tls.handshake_kind())
    }

    /// Takes a connection that is open already.
    pub(super) fn adopt(
        &mut self,
        socket: OwnedFd,
        tls: Option<Box<ClientConnection>>,
        common: &Common,
        index: usize,
    ) -> Result<(), Refusal> {
        epoll::add(&common.epoll, &socket, EventData::new_u64(index as u64), READS)
            .map_err(|error| Refusal::new(format!("epoll: {error}")))?;
        (self.socket, self.tls, self.answers, self.waits_for_room) = (Some(socket), tls, 0, false);
        Ok(())
    }

    /// Begins to connect. On loopback the handshake is over when this returns, whatever `connect` says.
    pub(super) fn open(&mut self, common: &Common, index: usize) -> Result<(), Refusal> {
        let refused = |error: Errno| no_connection(common.address, &io::Error::from(error));
        let family = if common.address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None).map_err(refused)?;
        match rustix::net::connect(&socket, &common.address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(refused(error)),
        }
        let tls = common.tls.as_ref().map(tls::connection).transpose()?.map(Box::new);
        self.adopt(socket, tls, common, index)
    }

    /// Sends the request.
    pub(super) fn ask(&mut self, common: &Common, index: usize) -> Result<(), Refusal> {
        self.answer.renew();
        self.phase = Phase::Asked;
        match &mut self.tls {
            Some(tls) => io::Write::write_all(&mut tls.writer(), &common.request)?,
            None => self.unsent = common.request.len(),
        }
        self.flush(common, index)
    }

    /// Sends what there is to send, as far as the kernel takes it.
    pub(super) fn flush(&mut self, common: &Common, index: usize) -> Result<(), Refusal> {
        let Some(socket) = &self.socket else { return Ok(()) };
        let is_all_sent = loop {
            let sent = match &mut self.tls {
                Some(tls) if tls.wants_write() => tls.write_tls(&mut Sender(socket)).map(|_| ()),
                None if self.unsent > 0 => {
                    let rest = &common.request[common.request.len() - self.unsent..];
                    io::Write::write(&mut Sender(socket), rest).map(|sent| self.unsent -= sent)
                }
                _ => break true,
            };
            match sent {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break false,
                // A server that closed just before: what it sent, its end included, is read and judged there.
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) =>
                {
                    break true;
                }
                Err(error) => return Err(no_connection(common.address, &error)),
            }
        };
        if self.waits_for_room == is_all_sent {
            self.waits_for_room = !is_all_sent;
            let flags = if is_all_sent { READS } else { READS | EventFlags::OUT };
            epoll::modify(&common.epoll, socket, EventData::new_u64(index as u64), flags)
                .map_err(|error| Refusal::new(format!("epoll: {error}")))?;
        }
        Ok(())
    }

    /// Reads what came and checks it; true: the connection ended. `hangup`: its end was there before the
    /// first read, so what a read leaves of the buffer is all that the end would leave. The error is a
    /// predicate, as `Answer::feed` has it.
    pub(super) fn pull(&mut self, common: &Common, buffer: &mut [u8], hangup: bool) -> Result<bool, String> {
        loop {
            let Some(socket) = &self.socket else { return Ok(false) };
            // Of a body nothing but its length is looked at: the kernel drops it instead of copying it (tcp(7)).
            let skippable = if self.tls.is_some() { 0 } else { self.answer.skippable() };
            let asked = match usize::try_from(skippable) {
                // A head, and with it the whole of a small answer; of a large one no more than needed is copied.
                Ok(0) if self.answer.is_untouched() && self.tls.is_none() => FIRST_READ_BYTES,
                Ok(0) | Err(_) => buffer.len(),
                Ok(skippable) => skippable.min(buffer.len()),
            };
            let flags = if skippable > 0 { RecvFlags::TRUNC } else { RecvFlags::empty() };
            let read = match rustix::net::recv(socket, &mut buffer[..asked], flags) {
                Ok((_, read)) => read,
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => continue,
                // Closed before it read this request: the engine says so, as for a plain end.
                Err(_) if self.answer.is_untouched() && self.answers > 0 => return Ok(true),
                Err(error) => {
                    let error = io::Error::from(error);
                    self.answer.close(common.want, &format!("the connection broke ({error})"))?;
                    return Ok(true);
                }
            };
            if read == 0 {
                return Ok(true);
            }
            if skippable > 0 {
                self.answer.skip(read as u64);
            } else if self.tls.is_some() {
                self.feed_tls(common.want, &buffer[..read])?;
            } else {
                self.feed(common.want, &buffer[..read])?;
            }
            if read < asked || (self.answer.is_done() && !hangup) {
                return Ok(hangup);
            }
        }
    }

    fn feed(&mut self, want: Want, bytes: &[u8]) -> Result<(), String> {
        let extra = match self.phase {
            Phase::Asked => self.answer.feed(bytes, want, &mut |_| {})?,
            Phase::Idle | Phase::Closing => bytes.len(),
        };
        if extra > 0 { Err(format!("is followed by {extra} bytes more than it has")) } else { Ok(()) }
    }

    fn feed_tls(&mut self, want: Want, mut bytes: &[u8]) -> Result<(), String> {
        let Some(mut tls) = self.tls.take() else { return Ok(()) };
        let broken = |error: &dyn std::fmt::Display| format!("is no sound TLS: {error}");
        while !bytes.is_empty() {
            tls.read_tls(&mut bytes).map_err(|error| broken(&error))?;
            let mut left =
                tls.process_new_packets().map_err(|error| broken(&error))?.plaintext_bytes_to_read();
            while left > 0 {
                let mut reader = tls.reader();
                let plain = io::BufRead::fill_buf(&mut reader).map_err(|error| broken(&error))?;
                self.feed(want, plain)?;
                let used = plain.len();
                io::BufRead::consume(&mut reader, used);
                left = left.saturating_sub(used.max(1));
            }
        }
        self.tls = Some(tls);
        Ok(())
    }

    /// The handshake has something to say.
    pub(super) fn wants_flush(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// The connection is over.
    pub(super) fn close(&mut self) {
        (self.socket, self.tls, self.unsent) = (None, None, 0);
    }
}

/// `send` without the signal that a broken connection would raise.
struct Sender<'a>(&'a OwnedFd);

impl io::Write for Sender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    /// TLS has the end of its handshake and the request in pieces: they go out in one segment.
    fn write_vectored(&mut self, pieces: &[io::IoSlice<'_>]) -> io::Result<usize> {
        let mut nothing = SendAncillaryBuffer::default();
        Ok(rustix::net::sendmsg(self.0, pieces, &mut nothing, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
