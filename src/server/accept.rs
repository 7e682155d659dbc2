//! Accepting connections: the limit of the process, no descriptors, and the last ones before a drain.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::shared::{Phase, Shared};
use crate::connection::{Context, h1};
use crate::telemetry::log::{self, Level};

/// Pause after an accept that found no descriptor or no memory: the next one would fail as well.
const BACKOFF: Duration = Duration::from_millis(100);
/// How long a refused connection may take to read its 503.
const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// Refused connections that are told so at the same time; beyond that they are just closed.
const REFUSALS_MAX: usize = 64;
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Retry-After: 1\r\nContent-Length: 24\r\nConnection: close\r\n\r\n503 Service Unavailable\n";

/// Accepts on one listener of one worker until the process drains.
pub(super) async fn accept(listener: TcpListener, context: Rc<Context>, shared: Arc<Shared>) {
    let mut phase = shared.phase.subscribe();
    let door = Door { context, shared, refusals: Rc::new(()) };
    let mut failures = Failures::default();
    loop {
        tokio::select! {
            biased;
            () = drained(&mut phase) => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    failures.last = None;
                    door.enter(stream, peer.ip());
                }
                Err(error) => failures.pause(&error).await,
            },
        }
    }
    door.empty(listener);
    door.shared.listeners_open.fetch_sub(1, Ordering::Release);
}

async fn drained(phase: &mut watch::Receiver<Phase>) {
    // The sender lives as long as the process.
    let _ = phase.wait_for(|phase| *phase >= Phase::Draining).await;
}

struct Door {
    context: Rc<Context>,
    shared: Arc<Shared>,
    /// Its count is the number of refusals being told.
    refusals: Rc<()>,
}

impl Door {
    /// Takes in what the kernel has queued, which would be reset with the listener. The kernel itself is
    /// asked: the runtime does not know yet what came since it last looked, and takes a spent budget of
    /// the task for an empty queue.
    fn empty(&self, listener: TcpListener) {
        // Out of the reactor; where that fails the listener is closed with it.
        let Ok(listener) = listener.into_std() else { return };
        loop {
            match listener.accept() {
                Ok((stream, peer)) => {
                    let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
                    if let Ok(stream) = stream {
                        self.enter(stream, peer.ip());
                    }
                }
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
        match self.shared.enter() {
            Some(place) => {
                let context = Rc::clone(&self.context);
                tokio::task::spawn_local(async move {
                    h1::serve(stream, client, context).await;
                    drop(place);
                });
            }
            None if Rc::strong_count(&self.refusals) <= REFUSALS_MAX => {
                let telling = Rc::clone(&self.refusals);
                tokio::task::spawn_local(async move {
                    let _ = tokio::time::timeout(REFUSAL_TIME, refuse(stream)).await;
                    drop(telling);
                });
            }
            None => {}
        }
    }
}

/// Says 503 so that it arrives: half-close, and read until the client has closed as well.
async fn refuse(mut stream: TcpStream) -> std::io::Result<()> {
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
    async fn pause(&mut self, error: &std::io::Error) {
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
