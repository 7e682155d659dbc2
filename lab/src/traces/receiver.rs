//! A collector of spans: OTLP/HTTP with protobuf, `POST /v1/traces`, on a thread of its own. A page of its own shows
//! what came, where that is wanted.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message as _;
use tokio::sync::oneshot;

use super::Compact;
use super::request::{self, Request};
use crate::Refusal;

/// Of a message: the largest batch that the server sends, 4,096 spans of all their strings, is 4 MiB.
const BODY_BYTES_MAX: usize = 16 << 20;
/// Requests that are kept: half a gigabyte would be a million, and a window has some ten thousand.
const REQUESTS_MAX: usize = 200_000;
const PROTOBUF: &str = "application/x-protobuf";

/// What it keeps of what it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The first requests, as many as there is room for.
    First,
    /// The latest of them, as many as this.
    Latest(usize),
    /// That messages came and how large they were. They are not read: another thread's CPU is not to be taken
    /// from a generator.
    Sizes,
}

/// What came so far.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// Messages.
    pub messages: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Spans.
    pub spans: u64,
    /// Requests that found no room, or had to make some.
    pub not_kept: u64,
    /// The others.
    pub requests: Vec<Request>,
}

impl Taken {
    /// For a file.
    #[must_use]
    pub fn compact(self) -> Compact {
        Compact::of(self.requests, self.spans, self.not_kept)
    }
}

struct Kept {
    keep: Keep,
    /// Without its requests.
    sums: Taken,
    requests: VecDeque<Request>,
}

/// A page of what came.
pub type Page = fn(&Taken) -> String;

/// See the module. Ends with its owner.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    kept: Arc<Mutex<Kept>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Kept").field("keep", &self.keep).finish_non_exhaustive()
    }
}

impl Receiver {
    /// Listens there; port 0 is any that is free. The thread has the CPUs of the calling one.
    ///
    /// # Errors
    /// The port is taken, or a thread cannot be started.
    pub fn start(address: SocketAddr, keep: Keep, page: Option<Page>) -> Result<Receiver, Refusal> {
        let at = |error: std::io::Error| Refusal::new(format!("no collector at {address}: {error}"));
        let listener = TcpListener::bind(address).map_err(at)?;
        listener.set_nonblocking(true).map_err(at)?;
        let own = listener.local_addr().map_err(at)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(at)?;
        let kept = Arc::new(Mutex::new(Kept { keep, sums: Taken::default(), requests: VecDeque::new() }));
        let (stop, stopped) = oneshot::channel();
        let service = Service { kept: Arc::clone(&kept), page };
        let thread = std::thread::Builder::new().name("collector".to_owned()).spawn(move || {
            runtime.block_on(async {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                tokio::select! {
                    () = serve(listener, service) => {}
                    // Told to stop, or nobody is left who could tell.
                    _ = stopped => {}
                }
            });
        });
        let thread = thread.map_err(at)?;
        Ok(Receiver { address: own, kept, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What came so far.
    #[must_use]
    pub fn taken(&self) -> Taken {
        taken(&self.kept)
    }

    /// Messages so far.
    #[must_use]
    pub fn messages(&self) -> u64 {
        lock(&self.kept).sums.messages
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

fn taken(kept: &Mutex<Kept>) -> Taken {
    let kept = lock(kept);
    Taken { requests: kept.requests.iter().cloned().collect(), ..kept.sums.clone() }
}

#[derive(Clone)]
struct Service {
    kept: Arc<Mutex<Kept>>,
    page: Option<Page>,
}

async fn serve(listener: tokio::net::TcpListener, service: Service) {
    loop {
        // Out of descriptors, or a client that is gone already: the next one is another.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let service = service.clone();
        let answer = move |request| {
            let service = service.clone();
            async move { Ok::<_, Infallible>(service.answer(request).await) }
        };
        let connection = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service_fn(answer));
        tokio::spawn(async move {
            // A client that breaks off has lost its own spans.
            let _ = connection.await;
        });
    }
}

type Answer = hyper::Response<Full<Bytes>>;

fn reply(status: u16, kind: &'static str, body: Vec<u8>) -> Answer {
    let mut answer = hyper::Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    answer.headers_mut().insert(hyper::header::CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    answer
}

impl Service {
    async fn answer(&self, request: hyper::Request<Incoming>) -> Answer {
        let (head, body) = request.into_parts();
        match (head.method.as_str(), head.uri.path(), self.page) {
            ("POST", "/v1/traces", _) => {}
            ("GET", "/", Some(page)) => {
                return reply(200, "text/html; charset=utf-8", page(&taken(&self.kept)).into_bytes());
            }
            _ => return reply(404, "text/plain", b"POST /v1/traces\n".to_vec()),
        }
        let kind = head.headers.get(hyper::header::CONTENT_TYPE);
        if kind.is_none_or(|kind| kind != PROTOBUF) {
            return reply(415, "text/plain", format!("{PROTOBUF} alone\n").into_bytes());
        }
        let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else {
            return reply(413, "text/plain", Vec::new());
        };
        if self.take(&body.to_bytes()) {
            // No partial success: all of it was taken, also what found no room here.
            return reply(200, PROTOBUF, ExportTraceServiceResponse::default().encode_to_vec());
        }
        reply(400, "text/plain", Vec::new())
    }

    fn take(&self, body: &[u8]) -> bool {
        let is_read = lock(&self.kept).keep != Keep::Sizes;
        let message = if is_read { ExportTraceServiceRequest::decode(body) } else { Ok(Default::default()) };
        let Ok(message) = message else { return false };
        let (requests, spans) = request::requests(&message);
        let mut kept = lock(&self.kept);
        kept.sums.messages += 1;
        kept.sums.bytes += body.len() as u64;
        kept.sums.spans += spans;
        kept.add(requests);
        true
    }
}

impl Kept {
    fn add(&mut self, requests: Vec<Request>) {
        let (room, is_latest) = match self.keep {
            Keep::Latest(room) => (room, true),
            _ => (REQUESTS_MAX, false),
        };
        for request in requests {
            if self.requests.len() < room {
                self.requests.push_back(request);
                continue;
            }
            self.sums.not_kept += 1;
            if is_latest {
                self.requests.pop_front();
                self.requests.push_back(request);
            }
        }
    }
}
