//! From an accepted socket to a stream, or to the reason why not: every step under one deadline, so that who
//! stalls in a handshake is let go, and costs his place and nobody else's time (case G06).

use std::future::poll_fn;
use std::io;
use std::net::{self, IpAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready};
use std::time::Duration;

use rustls::{HandshakeKind, ProtocolVersion, ServerConfig, ServerConnection};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;

use super::stream::{Inner, Stream};
use crate::connection::Context;
use crate::connection::wheel::Watch;
use crate::limits::{DISMISSAL_MS_MAX, FRESH_MS_AT_DRAIN};
use crate::sys::clock::monotonic_coarse_ms;
use crate::telemetry::counters::Stay;
use crate::telemetry::kinds::{Doing, Ended, Limited, Session, TlsVersion};
use crate::telemetry::log::{Level, Throttle};

const PLAIN_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 53\r\nConnection: close\r\n\r\n400 Bad Request: plain HTTP on a port for https only\n";

static FAILURES: Throttle = Throttle::new();

/// Why there is no stream.
enum Failed {
    /// The client left; before its first byte where that is true.
    Gone { early: bool },
    /// The deadline passed.
    Late,
    /// The process drains, and the client had its second.
    Drained,
    /// The client speaks HTTP.
    Plain(TcpStream),
    /// What it sent is no handshake that we take part in; its alert waits.
    Broken(Box<Inner>, io::Error),
}

/// See the module.
pub(super) struct Handshake<'c> {
    socket: TcpStream,
    config: Arc<ServerConfig>,
    context: &'c Context,
    watch: Watch,
}

impl<'c> Handshake<'c> {
    pub(super) fn new(
        socket: net::TcpStream,
        config: Arc<ServerConfig>,
        context: &'c Context,
        watch: Watch,
    ) -> io::Result<Handshake<'c>> {
        Ok(Handshake { socket: TcpStream::from_std(socket)?, config, context, watch })
    }

    /// To its end. `None` where that is the connection's end too, which is counted.
    pub(super) async fn run(self, client: IpAddr, stay: &mut Stay) -> Option<Stream> {
        let counters = &self.context.counters;
        let ended = match self.shake().await {
            Ok(inner) => {
                let (version, session) = kind_of(&inner.tls);
                counters.handshakes.done(version, session);
                return Some(Stream::from(inner));
            }
            Err(Failed::Gone { early: true }) => Ended::Client,
            Err(Failed::Gone { early: false }) => Ended::Handshake,
            Err(Failed::Drained) => Ended::Drained,
            Err(Failed::Late) => {
                counters.refused(Limited::HandshakeTimeout);
                Ended::HandshakeTimeout
            }
            Err(Failed::Plain(socket)) => {
                counters.malformed();
                stay.now(Doing::Linger);
                dismiss(socket, PLAIN_HTTP).await;
                Ended::Refused
            }
            Err(Failed::Broken(inner, error)) => {
                // A port that is scanned must not fill the log.
                let fields = json!({ "client.address": client.to_string(), "error": error.to_string() });
                FAILURES.event(Level::Info, "handshake failed", fields);
                stay.now(Doing::Linger);
                dismiss(inner.socket, b"").await;
                Ended::Handshake
            }
        };
        stay.end(ended);
        None
    }

    async fn shake(mut self) -> Result<Inner, Failed> {
        let Handshake { socket, context, watch, .. } = &mut self;
        let first = under(watch, context, |task| poll_first(socket, task)).await?;
        match first {
            Ok(None) | Err(_) => return Err(Failed::Gone { early: true }),
            // No record of TLS begins with a letter; a method is one in upper case.
            Ok(Some(b'A'..=b'Z')) => return Err(Failed::Plain(self.socket)),
            Ok(Some(_)) => {}
        }
        let Handshake { socket, config, context, watch } = self;
        let tls = ServerConnection::new(config).map_err(|_| Failed::Gone { early: false })?;
        let mut inner = Inner::new(socket, tls);
        match under(&watch, context, |task| poll_shake(&mut inner, task)).await? {
            Ok(()) => Ok(inner),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(Failed::Broken(Box::new(inner), error))
            }
            Err(_) => Err(Failed::Gone { early: false }),
        }
    }
}

/// Polls `step` until it is ready, unless it is too late before.
async fn under<T>(
    watch: &Watch,
    context: &Context,
    mut step: impl FnMut(&mut Task<'_>) -> Poll<T>,
) -> Result<T, Failed> {
    poll_fn(|task| {
        if let Poll::Ready(value) = step(task) {
            return Poll::Ready(Ok(value));
        }
        let is_draining = context.is_draining();
        if watch.is_expired(task) {
            return Poll::Ready(Err(if is_draining { Failed::Drained } else { Failed::Late }));
        }
        let soon = monotonic_coarse_ms() + FRESH_MS_AT_DRAIN;
        if is_draining && soon < watch.deadline_ms() {
            watch.arm(soon);
        }
        Poll::Pending
    })
    .await
}

/// The first byte, which stays where it is; `None` for the end. Nothing is made for who sends none.
fn poll_first(socket: &mut TcpStream, task: &mut Task<'_>) -> Poll<io::Result<Option<u8>>> {
    let mut byte = [0; 1];
    let count = ready!(socket.poll_peek(task, &mut ReadBuf::new(&mut byte)))?;
    Poll::Ready(Ok((count > 0).then_some(byte[0])))
}

fn poll_shake(inner: &mut Inner, task: &mut Task<'_>) -> Poll<io::Result<()>> {
    while inner.tls.is_handshaking() {
        if ready!(inner.poll_take_in(task))? == 0 {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
    }
    // The last of ours, with the tickets.
    inner.poll_drain(task)
}

fn kind_of(tls: &ServerConnection) -> (TlsVersion, Session) {
    let version = match tls.protocol_version() {
        Some(ProtocolVersion::TLSv1_2) => TlsVersion::Tls12,
        _ => TlsVersion::Tls13,
    };
    let session = match tls.handshake_kind() {
        Some(HandshakeKind::Resumed) => Session::Resumed,
        _ => Session::Full,
    };
    (version, session)
}

/// Ends a connection so that its last bytes arrive: a close with unread input makes the kernel send a reset,
/// which overtakes them. What the client still sends is read and dropped for a moment.
async fn dismiss(mut socket: TcpStream, last: &[u8]) {
    let told = async {
        socket.write_all(last).await?;
        socket.shutdown().await?;
        let mut dropped = [0; 4096];
        while Pin::new(&mut socket).read(&mut dropped).await? > 0 {}
        Ok::<_, io::Error>(())
    };
    let _ = tokio::time::timeout(Duration::from_millis(DISMISSAL_MS_MAX), told).await;
}
