//! The start of the process: everything is opened first, and only then taken into service. What cannot
//! be had is said in one line that names it and what to do.

use std::collections::HashMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustls::ServerConfig;
use serde_json::json;

use super::certificates::Keeper;
use super::metrics::Sources;
use super::shared::{Report, Shared};
use super::told::{self, Told};
use super::worker::{self, Listener};
use super::{admin, listen};
use crate::config::checked::{self, Config};
use crate::dev;
use crate::fs::{Links, Refresher, Root};
use crate::handlers::compress::Store;
use crate::limits::{DESCRIPTORS_RESERVED, Limits};
use crate::offload::{Offload, Pool};
use crate::sys::clock::monotonic_coarse_ms;
use crate::sys::{cpu, process};
use crate::telemetry::log::{self, Level};
use crate::telemetry::sink::Sink;
use crate::telemetry::spans::Exporter;

/// Threads of the offload pool for each worker.
const OFFLOAD_THREADS_PER_WORKER: usize = 4;

/// What runs, as far as the main thread looks after it.
pub(super) struct Running {
    pub(super) shared: Arc<Shared>,
    pub(super) roots: Vec<Arc<Root>>,
    pub(super) refresher: Refresher,
    pub(super) access_sink: Option<Sink>,
    pub(super) exporter: Option<Exporter>,
    pool: Pool,
}

impl Running {
    /// What the pool did since the start: all its jobs, those to open, read and close files of roots, and
    /// those that it had no place for.
    pub(super) fn offloaded(&self) -> serde_json::Value {
        let is_first = |number: &usize| {
            let same = |other: &Arc<Root>| Arc::ptr_eq(other, &self.roots[*number]);
            !self.roots[..*number].iter().any(same)
        };
        let of_files: u64 =
            (0..self.roots.len()).filter(is_first).map(|number| self.roots[number].hops()).sum();
        json!({ "jobs": self.pool.taken(), "of_files": of_files, "refused": self.pool.refused() })
    }
}

/// What is open and ready to be served from: nothing of it takes a request yet.
pub(super) struct Prepared {
    limits: Limits,
    listeners: Vec<Vec<Listener>>,
    tls: Option<(Keeper, Arc<ServerConfig>)>,
    admin_listener: Option<TcpListener>,
    routes: Vec<checked::Route>,
    error_pages: Option<checked::ErrorPages>,
    roots: Vec<Arc<Root>>,
    pool: Pool,
    dev: Option<Arc<dev::Changes>>,
    told: Told,
    exporter: Option<Exporter>,
    config_digest: String,
}

/// Opens listeners, roots, pool and logs, in an order in which a failure leaves nothing behind. May
/// hang, as a root or a log file may when it is opened.
///
/// # Errors
/// One line that names what could not be opened and what to do.
pub(super) fn prepare(config: Config, config_digest: String) -> Result<Prepared, String> {
    let Config { server, tls, log: log_config, telemetry, mut limits, routes, error_pages } = config;
    let (workers, source) = worker_count(&server);
    limits.connections_max = affordable_connections(&mut limits);
    let threads = match usize::try_from(limits.offload_threads_max).unwrap_or(usize::MAX) {
        0 => workers * OFFLOAD_THREADS_PER_WORKER,
        threads => threads,
    };
    let pool = Offload::start(threads, limits.offload_queue_max).map_err(|error| {
        format!("cannot start a thread: {error}; raise the limit of processes (ulimit -u)")
    })?;
    let mut listeners: Vec<Vec<Listener>> = (0..workers).map(|_| Vec::new()).collect();
    let plain = server.listen.iter().map(|address| (address, false));
    let with_tls = tls.iter().flat_map(|tls| &tls.listen).map(|address| (address, true));
    for (address, has_tls) in plain.chain(with_tls) {
        for (own, listener) in listeners.iter_mut().zip(listen::bind(*address, workers)?) {
            own.push(Listener { listener, has_tls });
        }
    }
    let admin_listener = server.admin.map(|address| listen::bind(address, 1)).transpose()?;
    let admin_listener = admin_listener.and_then(|mut listeners| listeners.pop());
    let roots = open_roots(&routes, error_pages.as_ref(), pool)?;
    let dev = server.is_dev.then(|| develop(&server, tls.as_ref(), &roots)).transpose()?;
    let tls = tls.map(|tls| Keeper::open(&tls.certificates)).transpose()?;
    let access_sink = told::open_access_log(&log_config, &limits)?;
    let (spans, exporter) = told::start_spans(&telemetry, &routes)?.unzip();
    let fields = json!({ "version": env!("CARGO_PKG_VERSION"), "workers": workers, "workers_from": source,
        "connections": limits.connections_max, "offload_threads": threads, "routes": routes.len() });
    log::event(Level::Info, "starting", &fields);
    let (access, trusted) = (log_config.access, server.trusted_proxies);
    let told = Told { access, access_sink, telemetry, trusted, spans };
    Ok(Prepared {
        limits,
        listeners,
        tls,
        admin_listener,
        routes,
        error_pages,
        roots,
        pool,
        dev,
        told,
        exporter,
        config_digest,
    })
}

/// Starts the workers and the admin thread. Quick: nothing here is opened by name.
///
/// # Errors
/// One line that names the thread that could not be started.
pub(super) fn launch(prepared: Prepared) -> Result<Running, String> {
    let Prepared {
        limits,
        listeners,
        tls,
        admin_listener,
        routes,
        error_pages,
        roots,
        pool,
        dev,
        told,
        exporter,
        config_digest,
    } = prepared;
    let (keeper, tls) = tls.unzip();
    let certificates = keeper.as_ref().map(Keeper::statuses).unwrap_or_default();
    let labels = Sources::route_labels(routes.iter().map(|route| route.name.as_str()));
    let shared = Shared::new(listeners.len(), limits.connections_max, labels.len());
    let shared = Arc::new(Shared { dev, ..shared });
    let store = Store::new(&limits, pool);
    let address = |own: &Listener| Some((own.listener.local_addr().ok()?, own.has_tls));
    let addresses: Vec<_> = listeners.first().into_iter().flatten().filter_map(address).collect();
    let now_ms = monotonic_coarse_ms();
    shared.workers.iter().for_each(|worker| worker.beat(now_ms));
    let routes = Arc::new(routes);
    for (number, listeners) in listeners.into_iter().enumerate() {
        shared.listeners_open.fetch_add(listeners.len() as u64, Ordering::Relaxed);
        shared.workers_running.fetch_add(1, Ordering::Relaxed);
        worker::start(worker::Plan {
            number,
            listeners,
            tls: tls.clone(),
            limits: limits.clone(),
            routes: Arc::clone(&routes),
            error_pages: error_pages.clone(),
            roots: roots.clone(),
            store: Arc::clone(&store),
            told: told.clone(),
            shared: Arc::clone(&shared),
        })
        .map_err(|error| format!("cannot start worker {number}: {error}"))?;
    }
    if let Some(listener) = admin_listener {
        let access_sink = told.access_sink.clone();
        let tally = exporter.as_ref().map(|exporter| Arc::clone(&exporter.tally)).unwrap_or_default();
        let sources =
            Sources { routes: labels, pool, store, access_sink, config_digest, tally, certificates };
        admin::start(listener, Report { shared: Arc::clone(&shared), sources: Some(sources) })
            .map_err(|error| format!("cannot start the admin thread: {error}"))?;
    }
    if let Some(keeper) = keeper {
        keeper.start().map_err(|error| format!("cannot start the thread of certificates: {error}"))?;
    }
    for (address, has_tls) in addresses {
        let name = if has_tls { "listening with TLS" } else { "listening" };
        log::event(Level::Info, name, &json!({ "address": address.to_string() }));
    }
    let access_sink = told.access_sink;
    Ok(Running { shared, roots, refresher: Refresher::new(pool), access_sink, exporter, pool })
}

/// Watches the roots for development mode, and says so: nobody should be in it unawares.
fn develop(
    server: &checked::Server,
    tls: Option<&checked::Tls>,
    roots: &[Arc<Root>],
) -> Result<Arc<dev::Changes>, String> {
    let changes =
        dev::start(roots).map_err(|error| format!("cannot start the thread that watches files: {error}"))?;
    let with_tls = tls.into_iter().flat_map(|tls| &tls.listen);
    let is_open = server.listen.iter().chain(with_tls).any(|address| !address.ip().is_loopback());
    let hint = if is_open { "others may reach it: not for production" } else { "not for production" };
    let fields = json!({ "pages": "reload when a file changes", "hint": hint });
    log::event(if is_open { Level::Warn } else { Level::Info }, "development mode", &fields);
    Ok(changes)
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

/// The connection limit, lowered to what descriptors there are; files that are kept have a quarter at most.
fn affordable_connections(limits: &mut Limits) -> u64 {
    let Ok(descriptors) = process::raise_descriptor_limit() else { return limits.connections_max };
    limits.open_files_max = limits.open_files_max.min(descriptors / 4);
    let affordable = descriptors.saturating_sub(DESCRIPTORS_RESERVED.min(descriptors / 2)).max(1);
    if affordable < limits.connections_max {
        let fields = json!({ "wanted": limits.connections_max, "connections": affordable, "descriptors": descriptors,
            "hint": "raise the descriptor limit (ulimit -n)" });
        log::event(Level::Warn, "connection limit lowered", &fields);
    }
    affordable.min(limits.connections_max)
}

/// Opens the root of each static route and that of the pages for errors, each directory once.
pub(super) fn open_roots(
    routes: &[checked::Route],
    error_pages: Option<&checked::ErrorPages>,
    pool: Pool,
) -> Result<Vec<Arc<Root>>, String> {
    let mut known: HashMap<(PathBuf, bool), Arc<Root>> = HashMap::new();
    let mut roots = Vec::new();
    let of_routes = routes.iter().filter_map(|route| match &route.handler {
        checked::Handler::Static(files) => Some((route.name.as_str(), &files.root, files.follow_symlinks)),
        _ => None,
    });
    let of_errors = error_pages.map(|pages| ("error_pages", &pages.root, true));
    for (route, path, follow_symlinks) in of_routes.chain(of_errors) {
        let root = match known.get(&(path.clone(), follow_symlinks)) {
            Some(root) => Arc::clone(root),
            None => {
                let links = if follow_symlinks { Links::Inside } else { Links::Refused };
                let root = Root::open(path, links, pool).map_err(|error| explain_root(path, &error))?;
                known.insert((path.clone(), follow_symlinks), Arc::clone(&root));
                root
            }
        };
        let (mode, file_system) = root.mode();
        let fields = json!({ "route": route, "root": root.path().display().to_string(),
            "file_system": file_system, "files": mode.describe(), "resolve_cached": root.support().cached });
        log::event(Level::Info, "root", &fields);
        roots.push(root);
    }
    Ok(roots)
}

fn explain_root(root: &Path, error: &std::io::Error) -> String {
    let hint = match error.raw_os_error() {
        Some(libc::ENOENT) => "the directory does not exist: create or mount it",
        Some(libc::EACCES) => "no permission: make it readable for the user that runs the server",
        Some(libc::ENOSYS) => "this kernel has no openat2: Linux 5.6 or newer is needed",
        Some(libc::EPERM) => "a seccomp profile refuses openat2: allow it",
        _ => "see openat2(2)",
    };
    format!("cannot serve {}: {error}; {hint}", root.display())
}
