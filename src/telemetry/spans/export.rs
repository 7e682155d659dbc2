//! The telemetry thread: takes finished requests out of the queue, makes spans of them, and sends them by
//! the batch. Whatever the collector does, workers and the end of the process do not wait for it (case H07).

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc as std_mpsc;
use std::time::Duration;

use serde_json::json;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::encode::Encoder;
use super::resource::{self, Surroundings};
use super::transport::{Failure, Transport};
use super::{Finished, Queue, Tally};
use crate::config::checked::{Protocol, Traces};
use crate::limits::SPAN_FLUSH_MS_MAX;
use crate::sys::clock;
use crate::telemetry::kinds::Lost;
use crate::telemetry::log::{self, Level};

/// After a failure the next request waits at least this long: a collector that is down is not called a
/// thousand times a second, and what comes meanwhile has the queue.
const FAILURE_PAUSE: Duration = Duration::from_millis(500);

/// The process's hold on the telemetry thread.
#[derive(Debug)]
pub struct Exporter {
    /// What became of all spans.
    pub tally: Arc<Tally>,
    /// When everything has to be over, once it ends.
    stop: watch::Sender<Option<Instant>>,
    done: std_mpsc::Receiver<()>,
}

/// Starts the telemetry thread. `routes` are the names of all routes.
///
/// # Errors
/// The thread or its runtime cannot be started, or the endpoint is none.
pub fn start(
    traces: &Traces,
    routes: Vec<String>,
    surroundings: &Surroundings,
) -> io::Result<(Queue, Exporter)> {
    let (queue, requests) = Queue::new(traces.queue_max);
    let tally = Arc::clone(&queue.tally);
    let (stop, stopping) = watch::channel(None);
    let (report, started) = std_mpsc::channel();
    let (end, done) = std_mpsc::channel();
    let resource = resource::attributes(traces, surroundings);
    let (traces, own_tally) = (traces.clone(), Arc::clone(&tally));
    std::thread::Builder::new().name("telemetry".to_owned()).spawn(move || {
        let runtime = match Builder::new_current_thread().enable_io().enable_time().build() {
            Ok(runtime) => runtime,
            Err(error) => return drop(report.send(Err(error))),
        };
        runtime.block_on(async {
            let transport = match Transport::new(&traces) {
                Ok(transport) => transport,
                Err(error) => return drop(report.send(Err(io::Error::other(error)))),
            };
            tell_start(&traces, &resource);
            let encoder = Encoder::new(routes, &resource);
            let _ = report.send(Ok(()));
            let work =
                Work { traces, requests, transport, encoder, tally: own_tally, stopping, is_failing: false };
            work.run().await;
        });
        // A name that is still being looked up is waited for by nobody.
        runtime.shutdown_background();
        let _ = end.send(());
    })?;
    started.recv().map_err(|_| io::Error::other("its thread ended"))??;
    Ok((queue, Exporter { tally, stop, done }))
}

fn tell_start(traces: &Traces, resource: &BTreeMap<String, String>) {
    let protocol = match traces.protocol {
        Protocol::Grpc => "grpc",
        Protocol::Http => "http/protobuf",
    };
    let slow_ms = traces.slow.map(|slow| u64::try_from(slow.as_millis()).unwrap_or(u64::MAX));
    let fields = json!({ "endpoint": traces.endpoint, "protocol": protocol, "ratio": traces.sampler.ratio,
        "parent_based": traces.sampler.is_parent_based, "slow_ms": slow_ms, "errors": traces.errors,
        "service": resource.get("service.name") });
    log::event(Level::Info, "traces", &fields);
}

impl Exporter {
    /// Begins the end: what is left is sent within a bound, and what is not sent then is counted as lost. When
    /// that is over.
    #[must_use]
    pub fn stop(&self) -> Instant {
        let time = Duration::from_millis(SPAN_FLUSH_MS_MAX);
        let end = Instant::now() + time;
        self.stop.send_replace(Some(end));
        // And a moment to count.
        end + time / 4
    }

    /// Waits for the end that was begun, until then.
    pub fn wait(&self, end: Instant) {
        let _ = self.done.recv_timeout(end.saturating_duration_since(Instant::now()));
    }
}

/// What the thread works with.
struct Work {
    traces: Traces,
    requests: mpsc::Receiver<Finished>,
    transport: Transport,
    encoder: Encoder,
    tally: Arc<Tally>,
    stopping: watch::Receiver<Option<Instant>>,
    is_failing: bool,
}

impl Work {
    async fn run(mut self) {
        let mut batch = Vec::new();
        let mut earliest = Instant::now();
        loop {
            let is_stopping = !self.gather(&mut batch, earliest).await;
            if is_stopping {
                return self.flush(batch).await;
            }
            if self.export(&mut batch).await.is_err() {
                earliest = Instant::now() + FAILURE_PAUSE;
            }
        }
    }

    /// Fills a batch, or as much of it as comes within the delay. `false` once the process ends, or nobody is
    /// left who could send more.
    async fn gather(&mut self, batch: &mut Vec<Finished>, earliest: Instant) -> bool {
        let mut stopping = self.stopping.clone();
        let stop = async {
            let _ = stopping.wait_for(Option::is_some).await;
        };
        let fill = async {
            sleep_until(earliest).await;
            let room = self.traces.batch_max;
            if self.requests.recv_many(batch, room).await == 0 {
                return false;
            }
            let end = Instant::now() + self.traces.delay;
            while batch.len() < room {
                match timeout_at(end, self.requests.recv_many(batch, room - batch.len())).await {
                    Ok(1..) => {}
                    Ok(0) | Err(_) => break,
                }
            }
            true
        };
        // What `fill` has taken is in the batch, also where it is not waited for any longer.
        tokio::select! {
            biased;
            () = stop => false,
            has_more = fill => has_more,
        }
    }

    /// Sends a batch and empties it, whatever becomes of it.
    async fn export(&mut self, batch: &mut Vec<Finished>) -> Result<(), Failure> {
        let spans: u64 = batch.iter().map(|finished| finished.spans()).sum();
        if spans == 0 {
            return Ok(());
        }
        let request = self.encoder.request(batch, clock::wall_offset_ns());
        batch.clear();
        let mut stopping = self.stopping.clone();
        let cut = async {
            let end = stopping.wait_for(Option::is_some).await.ok().and_then(|end| *end);
            sleep_until(end.unwrap_or_else(Instant::now)).await;
        };
        let timeout = Instant::now() + self.traces.timeout;
        let outcome = tokio::select! {
            biased;
            outcome = timeout_at(timeout, self.transport.send(request)) => outcome.unwrap_or_else(|_| {
                Err(Failure { lost: Lost::Timeout, error: "no answer in time".to_owned() })
            }),
            () = cut => Err(Failure { lost: Lost::Shutdown, error: "the process ends".to_owned() }),
        };
        match &outcome {
            Ok(rejected) => {
                let rejected = spans.min(*rejected);
                self.tally.export(spans - rejected);
                self.tally.lose(Lost::Rejected, rejected);
            }
            Err(failure) => self.tally.lose(failure.lost, spans),
        }
        self.tell(outcome.as_ref().err());
        outcome.map(drop)
    }

    /// One line for each change: it fails, or works again.
    fn tell(&mut self, failure: Option<&Failure>) {
        if failure.is_some() == self.is_failing
            || failure.is_some_and(|failure| failure.lost == Lost::Shutdown)
        {
            return;
        }
        self.is_failing = failure.is_some();
        let endpoint = &self.traces.endpoint;
        match failure {
            None => log::event(Level::Info, "traces arrive again", &json!({ "endpoint": endpoint })),
            Some(Failure { lost, error }) => {
                let hint = "requests go on; spans are dropped and counted in scalws_spans_dropped_total";
                let fields =
                    json!({ "endpoint": endpoint, "cause": lost.name(), "error": error, "hint": hint });
                log::event(Level::Warn, "traces do not arrive", &fields);
            }
        }
    }

    /// Sends what is left until the end; counts what is not sent.
    async fn flush(mut self, mut batch: Vec<Finished>) {
        self.requests.close();
        loop {
            let room = self.traces.batch_max.saturating_sub(batch.len());
            if room > 0 {
                // Closed: never waits.
                self.requests.recv_many(&mut batch, room).await;
            }
            if batch.is_empty() {
                return;
            }
            if self.export(&mut batch).await.is_err() {
                break;
            }
        }
        // It failed a moment ago, or the time is over.
        while let Some(finished) = self.requests.recv().await {
            self.tally.lose(Lost::Shutdown, finished.spans());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::checked::Sampler;

    fn traces(protocol: Protocol) -> Traces {
        Traces {
            is_compressed: false,
            protocol,
            endpoint: "http://127.0.0.1:9".to_owned(),
            headers: Vec::new(),
            timeout: Duration::from_secs(1),
            sampler: Sampler { is_parent_based: true, ratio: 1.0 },
            slow: None,
            errors: true,
            service: None,
            resource: Vec::new(),
            queue_max: 1,
            batch_max: 1,
            delay: Duration::from_millis(1),
        }
    }

    /// All workers are gone and the process is not: the thread ends, and does not ask without end whether there
    /// is something.
    #[test]
    fn the_thread_ends_with_those_who_send() {
        for protocol in [Protocol::Grpc, Protocol::Http] {
            let (queue, exporter) = start(&traces(protocol), Vec::new(), &Surroundings::default()).unwrap();
            drop(queue);
            assert_eq!(exporter.done.recv_timeout(Duration::from_secs(30)), Ok(()), "it turns for ever");
        }
    }
}
