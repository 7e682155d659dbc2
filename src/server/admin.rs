//! The thread of the admin port.

use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use serde_json::json;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use super::accept::accept;
use super::shared::{Report, Shared};
use crate::admin::Admin;
use crate::config::checked::AccessFormat;
use crate::connection::Context;
use crate::limits::{Limits, TICK_MS};
use crate::sys::accept::watch;
use crate::sys::clock::monotonic_coarse_ms;
use crate::telemetry::access::AccessLog;
use crate::telemetry::log::{self, Level};

/// Probes and scrapers that may be connected at once.
const CONNECTIONS_MAX: u64 = 64;

/// Starts the admin thread on a bound listener. It outlives the drain: `/readyz` answers to the end.
///
/// # Errors
/// The thread or its runtime cannot be started.
pub(super) fn start(listener: TcpListener, reported: Report) -> io::Result<()> {
    let address = listener.local_addr()?.to_string();
    let (report, registered) = mpsc::channel();
    std::thread::Builder::new().name("admin".to_owned()).spawn(move || {
        // Built here, as a worker's is.
        match Builder::new_current_thread().enable_io().enable_time().build() {
            Err(error) => drop(report.send(Err(error))),
            Ok(runtime) => LocalSet::new().block_on(&runtime, work(listener, reported, report)),
        }
    })?;
    registered.recv().map_err(|_| io::Error::other("its thread ended"))??;
    log::event(Level::Info, "admin listening", &json!({ "address": address }));
    Ok(())
}

async fn work(listener: TcpListener, reported: Report, report: mpsc::Sender<io::Result<()>>) {
    let listener = match watch(listener) {
        Ok(listener) => listener,
        Err(error) => return drop(report.send(Err(error))),
    };
    let access = AccessLog::new(AccessFormat::Off, None);
    let service = Box::new(Admin::new(reported));
    let context = Rc::new(Context::new(Limits::default(), access, Arc::default(), service));
    // The figure in the log is of the site, not of a probe.
    context.keep_first_ok_quiet();
    // Its own connection count, and a phase that never drains.
    let own = Arc::new(Shared::new(0, CONNECTIONS_MAX, 0));
    tokio::task::spawn_local(accept(listener, None, Rc::clone(&context), None, own));
    // Whoever started this thread waits for the report.
    let _ = report.send(Ok(()));
    let mut tick = tokio::time::interval(Duration::from_millis(TICK_MS));
    loop {
        tick.tick().await;
        context.wheel.turn(monotonic_coarse_ms());
    }
}
