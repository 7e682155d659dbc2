//! The life of the process: start everything or say in one line why not, then wait for signals, and
//! leave politely (RFC 9112 §9.6; case H01).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::shared::{Phase, Shared};
use super::start::{Running, launch, prepare};
use crate::config::checked::{self, Config};
use crate::limits::TICK_MS;
use crate::sys;
use crate::telemetry::log::{self, Level};
use crate::telemetry::start;

/// How often a drain looks whether it is done.
const DRAIN_LOOK: Duration = Duration::from_millis(5);
/// How long the workers may take to hand over their last log lines.
const ENDING_TIME: Duration = Duration::from_millis(500);

/// Serves `config`, whose digest is told to whoever asks, until a signal ends it. The exit code of the process.
///
/// # Errors
/// One line that names what could not be started and what to do.
pub fn run(config: Config, digest: String) -> Result<u8, String> {
    let runtime =
        Builder::new_current_thread().enable_io().enable_time().build().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        // Before anything else: a signal during the start must end PID 1, which has no default action.
        let mut signals = Signals::new().map_err(|error| format!("cannot wait for signals: {error}"))?;
        let server = config.server.clone();
        // On a thread of its own, because a root or a log file may hang when it is opened.
        let (started, start) = oneshot::channel();
        std::thread::Builder::new()
            .name("start".to_owned())
            .spawn(move || {
                // Nobody listens any more where a signal was quicker.
                let _ = started.send(prepare(config, digest));
            })
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        let prepared = tokio::select! {
            prepared = start => prepared.map_err(|_| "the start failed; its cause was reported".to_owned())??,
            signal = signals.ending() => {
                log::event(Level::Info, "stopped", &json!({ "signal": signal.as_raw_value(), "during": "start" }));
                log::flush();
                return Ok(0);
            }
        };
        // From here on a signal drains.
        let running = launch(prepared)?;
        start::ready();
        Ok(live(&server, signals, &running).await)
    })
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The next signal that ends the process.
    async fn ending(&mut self) -> SignalKind {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return SignalKind::terminate(),
                _ = self.interrupt.recv() => return SignalKind::interrupt(),
                _ = self.quit.recv() => return SignalKind::quit(),
                _ = self.hang_up.recv() => {
                    log::event(Level::Warn, "SIGHUP ignored", &json!({ "hint": "reload is not there yet: restart" }));
                }
            }
        }
    }
}

/// Refreshes roots until the end.
async fn live(config: &checked::Server, mut signals: Signals, running: &Running) -> u8 {
    let Running { roots, refresher, .. } = running;
    // To the end: a deployment during a drain is as likely as before it.
    let refresh = async {
        let mut tick = tokio::time::interval(Duration::from_millis(TICK_MS));
        // The first one comes at once; at the second everything has started.
        for has_started in [false, true].into_iter().chain(std::iter::repeat(false)) {
            tick.tick().await;
            if has_started {
                sys::memory::forget_code();
            }
            refresher.refresh(roots);
        }
    };
    tokio::select! {
        code = leave(config, &mut signals, running) => code,
        () = refresh => 0,
    }
}

/// Waits for a signal, drains, and hands over the last log lines. A second signal ends at once.
async fn leave(config: &checked::Server, signals: &mut Signals, running: &Running) -> u8 {
    let Running { shared, access_sink, exporter, .. } = running;
    let first = signals.ending().await;
    let fields = json!({ "signal": first.as_raw_value(), "delay_ms": as_ms(config.drain_delay),
        "timeout_ms": as_ms(config.drain_timeout), "connections": shared.connections.load(Ordering::Relaxed) });
    log::event(Level::Info, "draining", &fields);
    let second = tokio::select! {
        second = signals.ending() => Some(second),
        () = drain(config, shared) => None,
    };
    let cut = shared.connections.load(Ordering::Acquire);
    end(shared).await;
    // At once, so that it has its time while the log has its own. A second signal waits for nobody.
    let exporting =
        exporter.as_ref().filter(|_| second.is_none()).map(|exporter| (exporter, exporter.stop()));
    let code = match second {
        None => 0,
        Some(second) => u8::try_from(128 + second.as_raw_value()).unwrap_or(255),
    };
    if let Some(sink) = access_sink {
        sink.flush();
    }
    let mut fields = json!({ "connections_cut": cut, "exit_code": code, "offload": running.offloaded() });
    if let Some((exporter, end)) = exporting {
        exporter.wait(end);
    }
    if let Some(exporter) = exporter {
        fields["spans"] = exporter.tally.told();
    }
    log::event(Level::Info, "stopped", &fields);
    log::flush();
    code
}

/// Ready says no for `delay` while requests are taken; then no new connections, and everything that
/// runs may finish until `timeout`.
async fn drain(config: &checked::Server, shared: &Arc<Shared>) {
    shared.phase.send_replace(Phase::Leaving);
    tokio::time::sleep(config.drain_delay).await;
    shared.phase.send_replace(Phase::Draining);
    if let Some(changes) = &shared.dev {
        changes.end();
    }
    let end = Instant::now() + config.drain_timeout;
    let is_done = || {
        // In this order: a listener that closes has counted what it accepted before.
        shared.listeners_open.load(Ordering::Acquire) == 0 && shared.connections.load(Ordering::Acquire) == 0
    };
    while !is_done() && Instant::now() < end {
        tokio::time::sleep(DRAIN_LOOK).await;
    }
}

/// Lets the workers hand over their last log lines.
async fn end(shared: &Arc<Shared>) {
    shared.phase.send_replace(Phase::Ending);
    let end = Instant::now() + ENDING_TIME;
    while shared.workers_running.load(Ordering::Acquire) > 0 && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn as_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
