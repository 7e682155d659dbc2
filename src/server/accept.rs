//! Accepting connections: the limit of the process, no descriptors, and the last ones before a drain.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustls::ServerConfig;
use serde_json::json;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;

use super::shared::{Phase, Shared};
use crate::connection::socket::Socket;
use crate::connection::{Context, h1, tls};
use crate::handlers::OpenFiles;
use crate::sys::{self, accept::has_queued};
use crate::telemetry::kinds::Limited;
use crate::telemetry::log::{self, Level};

/// Pause after an accept that found no descriptor or no memory: the next one would fail as well.
const BACKOFF: Duration = Duration::from_millis(100);
/// How long a refused connection may take to read its 503.
const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// Refused connections that are told so at the same time; beyond that they are just closed.
const REFUSALS_MAX: usize = 64;
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Retry-After: 1\r\nContent-Length: 24\r\nConnection: close\r\n\r\n503 Service Unavailable\n";

/// Connections that are accepted before those that are open have their turn: each costs its worker about
/// as much as a request.
const ACCEPTS_A_TURN: usize = 32;

/// Accepts on one listener of one worker until the process drains. With `tls` its connections begin with a
/// handshake. `open_files` give way where descriptors are short.
pub(super) async fn accept(
    listener: AsyncFd<TcpListener>,
    tls: Option<Arc<ServerConfig>>,
    context: Rc<Context>,
    open_files: Option<Rc<OpenFiles>>,
    shared: Arc<Shared>,
) {
    let mut phase = shared.phase.subscribe();
    let mut drained = pin!(drained(&mut phase));
    let door = Door { tls, context, shared, refusals: Rc::new(()), is_behind: Cell::new(false) };
    let mut failures = Failures::default();
    loop {
        tokio::select! {
            biased;
            () = &mut drained => break,
            taken = door.take_in(&listener) => match taken {
                Ok(()) => failures.last = None,
                Err(error)
                    if is_for_descriptors(&error) && open_files.as_ref().is_some_and(|kept| kept.shrink()) => {}
                Err(error) => failures.pause(&error).await,
            },
        }
    }
    door.empty(&listener.into_inner());
    door.shared.listeners_open.fetch_sub(1, Ordering::Release);
}

/// No descriptor is left to the process or the system (accept(2)).
fn is_for_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

async fn drained(phase: &mut watch::Receiver<Phase>) {
    // The sender lives as long as the process.
    let _ = phase.wait_for(|phase| *phase >= Phase::Draining).await;
}

struct Door {
    tls: Option<Arc<ServerConfig>>,
    context: Rc<Context>,
    shared: Arc<Shared>,
    /// Its count is the number of refusals being told.
    refusals: Rc<()>,
    /// The reactor has told of connections, and the queue was not seen empty since.
    is_behind: Cell<bool>,
}

impl Door {
    /// Waits for connections and accepts those that are queued, a turn's worth of them.
    ///
    /// The kernel tells of each arrival once (EPOLLET). What it told is taken as read before the queue
    /// is looked at, so that whatever comes later is told again. And it is asked whether somebody is
    /// there rather than accept(2) called until it fails: before it fails it makes a socket and drops
    /// it, at ten times the price (docs/adr/0032-new-connections.md).
    async fn take_in(&self, listener: &AsyncFd<TcpListener>) -> io::Result<()> {
        if self.is_behind.get() {
            tokio::task::yield_now().await;
        } else {
            listener.readable().await?.clear_ready();
            self.is_behind.set(true);
        }
        for _ in 0..ACCEPTS_A_TURN {
            if !has_queued(listener.get_ref())? {
                self.is_behind.set(false);
                break;
            }
            self.accept(listener.get_ref())?;
        }
        Ok(())
    }

    fn accept(&self, listener: &TcpListener) -> io::Result<()> {
        let (stream, peer) = sys::accept::accept(listener)?;
        self.enter(stream, peer.ip());
        Ok(())
    }

    /// Takes in what the kernel has queued, which would be reset with the listener.
    fn empty(&self, listener: &TcpListener) {
        loop {
            match self.accept(listener) {
                Ok(()) => {}
                // Gone before it was accepted (accept(2)).
                Err(error)
                    if matches!(
                        error.raw_os_error(),
                        Some(libc::ECONNABORTED | libc::EPROTO | libc::EINTR)
                    ) => {}
                Err(_) => return,
            }
        }
    }

    fn enter(&self, stream: TcpStream, client: IpAddr) {
        match (self.shared.enter(), &self.tls) {
            (Some(place), None) => {
                let (socket, context) = (Socket::new(stream), Rc::clone(&self.context));
                tokio::task::spawn_local(h1::serve(socket, client, context, place));
            }
            (Some(place), Some(config)) => {
                let (config, context) = (Arc::clone(config), Rc::clone(&self.context));
                tokio::task::spawn_local(tls::enter(stream, client, config, context, place));
            }
            // A word about it would take a handshake.
            (None, Some(_)) => self.context.counters.refused(Limited::Connections),
            (None, None) if Rc::strong_count(&self.refusals) <= REFUSALS_MAX => {
                self.context.counters.refused(Limited::Connections);
                let telling = Rc::clone(&self.refusals);
                tokio::task::spawn_local(async move {
                    let _ = tokio::time::timeout(REFUSAL_TIME, refuse(Socket::new(stream))).await;
                    drop(telling);
                });
            }
            (None, None) => self.context.counters.refused(Limited::Connections),
        }
    }
}

/// Says 503 so that it arrives: half-close, and read until the client has closed as well.
async fn refuse(mut stream: Socket) -> io::Result<()> {
    stream.write_all(REFUSAL).await?;
    stream.shutdown().await?;
    let mut dropped = [0; 4096];
    while stream.read(&mut dropped).await? > 0 {}
    Ok(())
}

/// Says once that accepting fails, until it works again.
#[derive(Default)]
struct Failures {
    last: Option<i32>,
}

impl Failures {
    async fn pause(&mut self, error: &io::Error) {
        match error.raw_os_error() {
            // The client was gone before it was accepted (accept(2)): nothing to say.
            Some(libc::ECONNABORTED | libc::EPROTO | libc::EINTR) => return,
            errno if self.last != errno => {
                self.last = errno;
                let hint = "raise the descriptor limit (ulimit -n) or lower limits.connections";
                log::event(
                    Level::Error,
                    "accept failed",
                    &json!({ "error": error.to_string(), "hint": hint }),
                );
            }
            _ => {}
        }
        tokio::time::sleep(BACKOFF).await;
    }
}
