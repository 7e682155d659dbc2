//! The thread of the admin port.

use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::json;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use super::accept::accept;
use super::shared::{Phase, Report, Shared};
use crate::admin::Admin;
use crate::config::checked::AccessFormat;
use crate::connection::Context;
use crate::limits::{Limits, TICK_MS};
use crate::sys::clock::monotonic_coarse_ms;
use crate::telemetry::access::AccessLog;
use crate::telemetry::log::{self, Level};

/// Probes and scrapers that may be connected at once.
const CONNECTIONS_MAX: u64 = 64;

/// Starts the admin thread on a bound listener. It outlives the drain: `/readyz` answers to the end.
///
/// # Errors
/// The thread or its runtime cannot be started.
pub(super) fn start(listener: TcpListener, reported: Arc<Shared>) -> std::io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let address = listener.local_addr()?.to_string();
    std::thread::Builder::new().name("admin".to_owned()).spawn(move || {
        LocalSet::new().block_on(&runtime, async move {
            let access = AccessLog::new(AccessFormat::Off, None);
            let service = Box::new(Admin::new(Report(reported)));
            let context = Rc::new(Context::new(Limits::default(), access, Arc::default(), service));
            // The figure in the log is of the site, not of a probe.
            context.keep_first_ok_quiet();
            let listener =
                tokio::net::TcpListener::from_std(listener).expect("a listener can be registered with epoll");
            // Its own connection count, and a phase that never drains.
            let own = Arc::new(Shared::new(0, CONNECTIONS_MAX));
            let mut phase = own.phase.subscribe();
            tokio::task::spawn_local(accept(listener, Rc::clone(&context), Arc::clone(&own)));
            let mut tick = tokio::time::interval(std::time::Duration::from_millis(TICK_MS));
            while *phase.borrow_and_update() != Phase::Ending {
                tick.tick().await;
                context.wheel.turn(monotonic_coarse_ms());
            }
        });
    })?;
    log::event(Level::Info, "admin listening", &json!({ "address": address }));
    Ok(())
}
