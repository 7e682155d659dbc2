//! The life of the process: start everything or say in one line why not, then wait for signals, and
//! leave politely (RFC 9112 §9.6; case H01).

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::shared::{Phase, Shared};
use super::{admin, listen, worker};
use crate::config::checked::{self, AccessFormat, Config};
use crate::fs::{Refresher, Root};
use crate::handlers::static_files;
use crate::limits::{DESCRIPTORS_RESERVED, Limits, TICK_MS};
use crate::offload::{Offload, Pool};
use crate::sys::{cpu, process};
use crate::telemetry::log::{self, Level};
use crate::telemetry::sink::Sink;
use crate::telemetry::{access, start};

/// Threads of the offload pool for each worker.
const OFFLOAD_THREADS_PER_WORKER: usize = 4;
/// How often a drain looks whether it is done.
const DRAIN_LOOK: Duration = Duration::from_millis(5);
/// How long the workers may take to hand over their last log lines.
const ENDING_TIME: Duration = Duration::from_millis(500);

/// Serves `config` until a signal ends it. The exit code of the process.
///
/// # Errors
/// One line that names what could not be started and what to do.
pub fn run(config: Config) -> Result<u8, String> {
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
            .spawn(move || started.send(start_all(config)))
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        let running = tokio::select! {
            running = start => running.map_err(|_| "the start failed; its cause was reported".to_owned())??,
            signal = signals.ending() => {
                log::event(Level::Info, "stopped", &json!({ "signal": signal.as_raw_value(), "during": "start" }));
                log::flush();
                return Ok(0);
            }
        };
        start::ready();
        Ok(live(&server, signals, &running).await)
    })
}

/// What runs, as far as the main thread looks after it.
struct Running {
    shared: Arc<Shared>,
    roots: Vec<Arc<Root>>,
    refresher: Refresher,
    access_sink: Option<Sink>,
}

/// Starts listeners, roots, pool, logs, admin and workers, in an order in which a failure leaves
/// nothing behind.
fn start_all(config: Config) -> Result<Running, String> {
    let Config { server, log: log_config, mut limits, routes } = config;
    let (workers, source) = worker_count(&server);
    limits.connections_max = affordable_connections(&limits);
    let threads = match usize::try_from(limits.offload_threads_max).unwrap_or(usize::MAX) {
        0 => workers * OFFLOAD_THREADS_PER_WORKER,
        threads => threads,
    };
    let pool = Offload::start(threads, limits.offload_queue_max).map_err(|error| error.to_string())?;
    let mut listeners: Vec<Vec<TcpListener>> = (0..workers).map(|_| Vec::new()).collect();
    for address in &server.listen {
        for (own, listener) in listeners.iter_mut().zip(listen::bind(*address, workers)?) {
            own.push(listener);
        }
    }
    let admin_listener = server.admin.map(|address| listen::bind(address, 1)).transpose()?;
    let roots = open_roots(&routes, pool)?;
    let access_sink = open_access_log(&log_config, &limits)?;
    let shared = Arc::new(Shared::new(workers, limits.connections_max));
    let fields = json!({ "version": env!("CARGO_PKG_VERSION"), "workers": workers, "workers_from": source,
        "connections": limits.connections_max, "offload_threads": threads, "routes": routes.len() });
    log::event(Level::Info, "starting", &fields);
    let addresses: Vec<_> = listeners.first().into_iter().flatten().map(TcpListener::local_addr).collect();
    let start_time = crate::sys::clock::monotonic_coarse_ms();
    shared.workers.iter().for_each(|worker| worker.beat(start_time));
    let routes = Arc::new(routes);
    for (number, listeners) in listeners.into_iter().enumerate() {
        shared.listeners_open.fetch_add(listeners.len() as u64, Ordering::Relaxed);
        shared.workers_running.fetch_add(1, Ordering::Relaxed);
        worker::start(worker::Plan {
            number,
            listeners,
            limits: limits.clone(),
            routes: Arc::clone(&routes),
            roots: roots.clone(),
            access: log_config.access,
            access_sink: access_sink.clone(),
            shared: Arc::clone(&shared),
        })
        .map_err(|error| format!("cannot start worker {number}: {error}"))?;
    }
    for listener in admin_listener.into_iter().flatten() {
        admin::start(listener, Arc::clone(&shared))
            .map_err(|error| format!("cannot start admin: {error}"))?;
    }
    for address in addresses.into_iter().flatten() {
        log::event(Level::Info, "listening", &json!({ "address": address.to_string() }));
    }
    Ok(Running { shared, roots, refresher: Refresher::new(pool), access_sink })
}

fn worker_count(server: &checked::Server) -> (usize, String) {
    match server.workers {
        Some(workers) => (workers, "configuration".to_owned()),
        None => {
            let cpus = cpu::available();
            (cpus.count, cpus.source)
        }
    }
}

/// The connection limit, lowered to what descriptors there are.
fn affordable_connections(limits: &Limits) -> u64 {
    let Ok(descriptors) = process::raise_descriptor_limit() else { return limits.connections_max };
    let affordable = descriptors.saturating_sub(DESCRIPTORS_RESERVED.min(descriptors / 2)).max(1);
    if affordable < limits.connections_max {
        let fields = json!({ "wanted": limits.connections_max, "connections": affordable, "descriptors": descriptors,
            "hint": "raise the descriptor limit (ulimit -n)" });
        log::event(Level::Warn, "connection limit lowered", &fields);
    }
    affordable.min(limits.connections_max)
}

/// Opens the root of each static route, each directory once.
pub(super) fn open_roots(routes: &[checked::Route], pool: Pool) -> Result<Vec<Arc<Root>>, String> {
    let mut known: HashMap<(PathBuf, bool), Arc<Root>> = HashMap::new();
    let mut roots = Vec::new();
    for route in routes {
        let checked::Handler::Static(config) = &route.handler else { continue };
        let key = (config.root.clone(), config.follow_symlinks);
        let root = match known.get(&key) {
            Some(root) => Arc::clone(root),
            None => {
                let root =
                    static_files::open_root(config, pool).map_err(|error| explain_root(config, &error))?;
                known.insert(key, Arc::clone(&root));
                root
            }
        };
        let (mode, file_system) = root.mode();
        let fields = json!({ "route": route.name, "root": root.path().display().to_string(),
            "file_system": file_system, "files": mode.describe(), "resolve_cached": root.support().cached });
        log::event(Level::Info, "root", &fields);
        roots.push(root);
    }
    Ok(roots)
}

fn explain_root(config: &checked::Static, error: &std::io::Error) -> String {
    let hint = match error.raw_os_error() {
        Some(libc::ENOENT) => "the directory does not exist: create or mount it",
        Some(libc::EACCES) => "no permission: make it readable for the user that runs the server",
        Some(libc::ENOSYS) => "this kernel has no openat2: Linux 5.6 or newer is needed",
        Some(libc::EPERM) => "a seccomp profile refuses openat2: allow it",
        _ => "see openat2(2)",
    };
    format!("cannot serve {}: {error}; {hint}", config.root.display())
}

fn open_access_log(config: &checked::Log, limits: &Limits) -> Result<Option<Sink>, String> {
    if config.access == AccessFormat::Off {
        return Ok(None);
    }
    let bytes_max = limits.log_queue_bytes_max;
    let target =
        config.access_file.as_ref().map_or_else(|| "stdout".to_owned(), |path| path.display().to_string());
    let voice = access::voice(config.access, target);
    let sink = match &config.access_file {
        None => {
            // The descriptor itself: a buffer in between would tear lines where a write fails.
            let stdout = std::io::stdout().as_fd().try_clone_to_owned();
            stdout.and_then(|stdout| Sink::start("access-log", File::from(stdout), bytes_max, voice))
        }
        Some(path) => {
            let file = OpenOptions::new().append(true).create(true).open(path);
            let file = file.map_err(|error| {
                format!(
                    "cannot open the access log {}: {error}; choose a writable path or stdout",
                    path.display()
                )
            })?;
            Sink::start("access-log", file, bytes_max, voice)
        }
    };
    sink.map(Some).map_err(|error| format!("cannot start the access log: {error}"))
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
    let Running { shared, roots, refresher, access_sink } = running;
    // To the end: a deployment during a drain is as likely as before it.
    let refresh = async {
        let mut tick = tokio::time::interval(Duration::from_millis(TICK_MS));
        loop {
            tick.tick().await;
            refresher.refresh(roots);
        }
    };
    tokio::select! {
        code = leave(config, &mut signals, shared, access_sink.as_ref()) => code,
        () = refresh => 0,
    }
}

/// Waits for a signal, drains, and hands over the last log lines. A second signal ends at once.
async fn leave(
    config: &checked::Server,
    signals: &mut Signals,
    shared: &Arc<Shared>,
    access_sink: Option<&Sink>,
) -> u8 {
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
    let code = match second {
        None => 0,
        Some(second) => u8::try_from(128 + second.as_raw_value()).unwrap_or(255),
    };
    if let Some(sink) = access_sink {
        sink.flush();
    }
    log::event(Level::Info, "stopped", &json!({ "connections_cut": cut, "exit_code": code }));
    log::flush();
    code
}

/// Ready says no for `delay` while requests are taken; then no new connections, and everything that
/// runs may finish until `timeout`.
async fn drain(config: &checked::Server, shared: &Arc<Shared>) {
    shared.phase.send_replace(Phase::Leaving);
    tokio::time::sleep(config.drain_delay).await;
    shared.phase.send_replace(Phase::Draining);
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
