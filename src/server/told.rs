//! What the process tells of its requests: the access log, spans, and ids.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;

use ipnet::IpNet;

use crate::config::checked::{self, AccessFormat};
use crate::limits::Limits;
use crate::telemetry::access;
use crate::telemetry::sink::Sink;
use crate::telemetry::spans::{self, Exporter, Queue};

/// What each worker gets of it.
#[derive(Clone)]
pub(super) struct Told {
    pub(super) access: AccessFormat,
    pub(super) access_sink: Option<Sink>,
    pub(super) telemetry: checked::Telemetry,
    /// Peers whose word about traces and ids is believed.
    pub(super) trusted: Vec<IpNet>,
    pub(super) spans: Option<Queue>,
}

/// Starts the thread that sends spans, where some are wanted.
pub(super) fn start_spans(
    telemetry: &checked::Telemetry,
    routes: &[checked::Route],
) -> Result<Option<(Queue, Exporter)>, String> {
    let Some(traces) = &telemetry.traces else { return Ok(None) };
    let names = routes.iter().map(|route| route.name.clone()).collect();
    let started = spans::start(traces, names, &spans::of_process());
    started.map(Some).map_err(|error| format!("cannot send traces to {}: {error}", traces.endpoint))
}

pub(super) fn open_access_log(config: &checked::Log, limits: &Limits) -> Result<Option<Sink>, String> {
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
