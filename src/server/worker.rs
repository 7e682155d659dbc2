//! One worker: an OS thread with a runtime of its own, its own listeners, and everything it touches on
//! the way of a request in plain cells (docs/adr/0002-one-thread-per-core.md).

use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use super::accept::accept;
use super::shared::{Phase, Shared};
use super::told::Told;
use crate::config::checked;
use crate::connection::Context;
use crate::dev::Dev;
use crate::fs::Root;
use crate::handlers::OpenFiles;
use crate::handlers::compress::Store;
use crate::limits::{Limits, TICK_MS};
use crate::message::Service;
use crate::route::Site;
use crate::sys::accept::watch;
use crate::sys::clock::monotonic_coarse_ms;
use crate::telemetry::access::AccessLog;
use crate::telemetry::observer::Observer;

/// A listener of a worker.
pub(super) struct Listener {
    pub(super) listener: TcpListener,
    pub(super) has_tls: bool,
}

/// What a worker is made of; sent to its thread.
pub(super) struct Plan {
    pub(super) number: usize,
    pub(super) listeners: Vec<Listener>,
    /// For the listeners that have TLS.
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) limits: Limits,
    pub(super) routes: Arc<Vec<checked::Route>>,
    pub(super) error_pages: Option<checked::ErrorPages>,
    pub(super) roots: Vec<Arc<Root>>,
    pub(super) store: Arc<Store>,
    pub(super) told: Told,
    pub(super) shared: Arc<Shared>,
}

/// Starts a worker's thread; returns when its listeners are registered.
///
/// # Errors
/// The thread or its runtime cannot be started, or a listener cannot be watched.
pub(super) fn start(plan: Plan) -> io::Result<()> {
    let name = format!("worker-{}", plan.number);
    let (report, registered) = mpsc::channel();
    std::thread::Builder::new().name(name).spawn(move || {
        // Built here: a runtime may not be dropped on a thread that runs one, as it would be where the
        // thread cannot be had.
        match Builder::new_current_thread().enable_io().enable_time().build() {
            Err(error) => drop(report.send(Err(error))),
            Ok(runtime) => {
                LocalSet::new().block_on(&runtime, work(plan, report));
                // Connections that were cut are still tasks: dropping them would wait for nothing, but
                // a blocked close is not worth a delay of the exit.
                runtime.shutdown_background();
            }
        }
    })?;
    registered.recv().map_err(|_| io::Error::other("its thread ended"))?
}

async fn work(plan: Plan, report: mpsc::Sender<io::Result<()>>) {
    // Non-blocking since they were made; the reactor is this thread's own.
    let watched = |own: Listener| Ok((watch(own.listener)?, plan.tls.clone().filter(|_| own.has_tls)));
    let listeners: io::Result<Vec<_>> = plan.listeners.into_iter().map(watched).collect();
    let (listeners, outcome) = match listeners {
        Ok(listeners) => (listeners, Ok(())),
        Err(error) => (Vec::new(), Err(error)),
    };
    // Whoever started this thread waits for the report.
    let _ = report.send(outcome);
    let counters = Arc::clone(&plan.shared.workers[plan.number]);
    let mut kept = plan.limits.clone();
    if plan.shared.dev.is_some() {
        // A page that reloads must not be the one before the change.
        kept.open_files_max = 0;
    }
    let open_files = OpenFiles::new(&kept, plan.shared.workers.len(), &plan.shared.short_of_descriptors);
    let (routes, error_pages) = (&plan.routes, plan.error_pages.as_ref());
    let site = Site::new(routes, error_pages, &plan.roots, &plan.store, &open_files, &plan.limits);
    let site: Box<dyn Service> = match &plan.shared.dev {
        None => Box::new(site),
        Some(changes) => Box::new(Dev::new(site, changes, plan.limits.wait_ms_max)),
    };
    let Told { access, access_sink, telemetry, trusted, spans } = plan.told;
    let access = AccessLog::new(access, access_sink);
    let observer = Observer::new(&telemetry, &trusted, spans);
    let context = Rc::new(Context::new(plan.limits, access, counters, site).observed(observer));
    let shared = plan.shared;
    for (listener, tls) in listeners {
        tokio::task::spawn_local(accept(
            listener,
            tls,
            Rc::clone(&context),
            Some(Rc::clone(&open_files)),
            Arc::clone(&shared),
        ));
    }
    let mut phase = shared.phase.subscribe();
    let mut tick = tokio::time::interval(Duration::from_millis(TICK_MS));
    let mut is_draining = false;
    loop {
        tokio::select! {
            _ = tick.tick() => {
                let now_ms = monotonic_coarse_ms();
                context.counters.beat(now_ms);
                context.wheel.turn(now_ms);
                open_files.sweep(now_ms);
                context.counters.keeps(open_files.told());
                context.access.hand_over();
            }
            _ = phase.changed() => match *phase.borrow_and_update() {
                Phase::Serving | Phase::Leaving => {}
                Phase::Draining if is_draining => {}
                Phase::Draining => {
                    is_draining = true;
                    context.drain();
                }
                Phase::Ending => break,
            },
        }
    }
    context.access.hand_over();
    shared.workers_running.fetch_sub(1, Ordering::Release);
}
