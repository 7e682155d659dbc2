//! HTTP/2 over TLS by the `h2` crate on a runtime of the calling thread. It costs more for a request than the
//! engine does, but each answer is looked at, which h2load does not offer.
//!
//! A server that says that it is going away (nginx after `keepalive_requests`) gets a new connection; requests
//! that it had not taken are asked again on it (RFC 9113, section 6.8).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::{JoinSet, LocalSet};

use super::answer::Want;
use super::fetch::Fetched;
use super::pace::Pace;
use super::tally::Tally;
use super::{Bounds, Outcome, Plan, STALL, TICK, answer_to, no_connection, tls};
use crate::Refusal;
use crate::scenario::Protocol;

/// No stream waits for its window: flow control is not what these rows are about.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;
/// Streams at once in all; RFC 9113 section 6.5.2 lets a server allow as few as 100 on one connection.
const STREAMS_MAX: u32 = 10_000;

type Sender = SendRequest<Bytes>;

/// Connections that are open and have asked nothing yet.
pub(super) struct Streams {
    runtime: Runtime,
    local: LocalSet,
    shared: Rc<Shared>,
    links: Vec<Rc<Link>>,
    streams: u32,
}

impl fmt::Debug for Streams {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} connections of {} streams", self.links.len(), self.streams)
    }
}

struct Shared {
    plan: Plan,
    request: http::Request<()>,
    want: Want,
    tls: Arc<ClientConfig>,
    bounds: Bounds,
    pace: RefCell<Pace>,
    tally: RefCell<Tally>,
}

/// One connection, and the one that takes its place.
struct Link {
    sender: RefCell<Sender>,
    generation: Cell<u64>,
    /// Held by the stream that connects again.
    renewing: tokio::sync::Mutex<()>,
    /// When each of its streams sent what it waits for.
    sent: Vec<Cell<Option<Instant>>>,
}

impl Streams {
    pub(super) fn open(
        plan: &Plan,
        connections: u32,
        streams: u32,
        bounds: Bounds,
    ) -> Result<Streams, Refusal> {
        if plan.rate.is_some() {
            // The runtime's timers are a millisecond coarse: that would be latency of the server's.
            return Err(Refusal::new("an open loop over HTTP/2 is not offered: ask with HTTP/1.1 or TLS"));
        }
        if connections == 0 || streams == 0 || connections.saturating_mul(streams) > STREAMS_MAX {
            return Err(Refusal::new(format!("{connections} × {streams} streams: 1 to {STREAMS_MAX}")));
        }
        let runtime = runtime()?;
        let local = LocalSet::new();
        let tls = config()?;
        let mut links = Vec::new();
        for _ in 0..connections {
            let sender = local.block_on(&runtime, limited(bounds.stall, connect(plan.address, &tls)))?;
            links.push(Rc::new(Link {
                sender: RefCell::new(sender),
                generation: Cell::new(0),
                renewing: tokio::sync::Mutex::new(()),
                sent: (0..streams).map(|_| Cell::new(None)).collect(),
            }));
        }
        let mut tally = Tally::new();
        tally.connects = u64::from(connections);
        let shared = Rc::new(Shared {
            request: request(&plan.request)?,
            want: Want { status: plan.expect.status, length: Some(plan.expect.length) },
            pace: RefCell::new(Pace::begin(plan, Instant::now())),
            tally: RefCell::new(tally),
            plan: plan.clone(),
            tls,
            bounds,
        });
        Ok(Streams { runtime, local, shared, links, streams })
    }

    pub(super) fn run(self) -> Result<Outcome, Refusal> {
        let Streams { runtime, local, shared, links, streams } = self;
        let start = Instant::now();
        *shared.pace.borrow_mut() = Pace::begin(&shared.plan, start);
        local.block_on(&runtime, async {
            let mut all = JoinSet::new();
            for link in &links {
                for stream in 0..streams as usize {
                    let (shared, link) = (Rc::clone(&shared), Rc::clone(link));
                    all.spawn_local(async move { ask_on(&shared, &link, stream).await });
                }
            }
            let mut looked = start;
            loop {
                match tokio::time::timeout(TICK, all.join_next()).await {
                    Ok(None) => return Ok(()),
                    Ok(Some(Ok(ended))) => ended?,
                    Ok(Some(Err(error))) => return Err(Refusal::new(format!("a stream ended: {error}"))),
                    Err(_) => {}
                }
                let now = Instant::now();
                if now.saturating_duration_since(looked) >= TICK {
                    looked = now;
                    look(&shared, &links, now)?;
                }
            }
        })?;
        let outcome = shared.tally.borrow().outcome(start, Instant::now());
        Ok(outcome)
    }
}

/// What is looked at ten times a second.
fn look(shared: &Shared, links: &[Rc<Link>], now: Instant) -> Result<(), Refusal> {
    if (shared.bounds.stop)() {
        return Err(Refusal::new("stopped while load was running"));
    }
    let stall = shared.bounds.stall;
    let is_late = |sent: &Cell<Option<Instant>>| {
        sent.get().is_some_and(|sent| now.saturating_duration_since(sent) >= stall)
    };
    if links.iter().any(|link| link.sent.iter().any(is_late)) {
        let what = format!("does not end: nothing more within {} s", stall.as_secs_f64());
        return Err(fault(&shared.plan.request, &what));
    }
    Ok(())
}

fn fault(request: &str, what: &str) -> Refusal {
    Refusal::new(format!("{} {what}", answer_to(request)))
}

/// One stream after the other, until the pace says that it is over.
async fn ask_on(shared: &Shared, link: &Link, stream: usize) -> Result<(), Refusal> {
    loop {
        let now = Instant::now();
        let Some(from) = shared.pace.borrow_mut().take(now) else { return Ok(()) };
        link.sent[stream].set(Some(now));
        loop {
            let generation = link.generation.get();
            let sender = link.sender.borrow().clone();
            match exchange(sender, &shared.request, shared.want, &mut |_| {}).await {
                Ok(length) => {
                    shared.tally.borrow_mut().count(from.elapsed(), length);
                    break;
                }
                Err(Trouble::GoneAway) => renew(shared, link, generation).await?,
                Err(Trouble::Fault(what)) => return Err(fault(&shared.plan.request, &what)),
            }
        }
        link.sent[stream].set(None);
    }
}

/// Connects again, unless another stream has.
async fn renew(shared: &Shared, link: &Link, generation: u64) -> Result<(), Refusal> {
    let _held = link.renewing.lock().await;
    if link.generation.get() == generation {
        let sender = limited(shared.bounds.stall, connect(shared.plan.address, &shared.tls)).await?;
        shared.tally.borrow_mut().connects += 1;
        *link.sender.borrow_mut() = sender;
        link.generation.set(generation + 1);
    }
    Ok(())
}

enum Trouble {
    /// The server takes no more on this connection, and says so in good order.
    GoneAway,
    /// A predicate of "the answer to …".
    Fault(String),
}

impl From<h2::Error> for Trouble {
    fn from(error: h2::Error) -> Trouble {
        if error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR) {
            return Trouble::GoneAway;
        }
        Trouble::Fault(format!("does not come: {error}"))
    }
}

/// One request; gives the length of the body. Head and body are handed on.
async fn exchange(
    sender: Sender,
    request: &http::Request<()>,
    want: Want,
    sink: &mut impl FnMut(Part<'_>),
) -> Result<u64, Trouble> {
    let (answer, _) = sender.ready().await?.send_request(request.clone(), true)?;
    let (head, mut body) = answer.await?.into_parts();
    if head.status.as_u16() != want.status {
        return Err(Trouble::Fault(format!("has status {}, expected {}", head.status.as_u16(), want.status)));
    }
    sink(Part::Head(&head.headers));
    let mut length = 0;
    while let Some(data) = body.data().await {
        let data = data.map_err(|error| Trouble::Fault(format!("ends after {length} bytes: {error}")))?;
        length += data.len() as u64;
        if let Some(wanted) = want.length.filter(|wanted| length > *wanted) {
            return Err(Trouble::Fault(format!("has more than {wanted} bytes")));
        }
        body.flow_control().release_capacity(data.len())?;
        sink(Part::Body(&data));
    }
    match want.length {
        Some(wanted) if wanted != length => {
            Err(Trouble::Fault(format!("has {length} bytes, expected {wanted}")))
        }
        _ => Ok(length),
    }
}

enum Part<'a> {
    Head(&'a http::HeaderMap),
    Body(&'a [u8]),
}

async fn connect(address: SocketAddr, tls: &Arc<ClientConfig>) -> Result<Sender, Refusal> {
    let failed = |error: &dyn fmt::Display| {
        Refusal::new(format!("the HTTP/2 connection to {address} failed: {error}"))
    };
    let socket = TcpStream::connect(address).await.map_err(|error| no_connection(address, &error))?;
    socket.set_nodelay(true)?;
    let name = ServerName::try_from(tls::NAME).map_err(|error| failed(&error))?;
    let stream = tokio_rustls::TlsConnector::from(Arc::clone(tls))
        .connect(name, socket)
        .await
        .map_err(|error| failed(&error))?;
    if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
        return Err(failed(&"the server does not choose h2"));
    }
    let (sender, connection) = h2::client::Builder::new()
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .enable_push(false)
        .handshake(stream)
        .await
        .map_err(|error| failed(&error))?;
    // What ends it, its streams hear of too.
    tokio::task::spawn_local(async move { drop(connection.await) });
    Ok(sender)
}

async fn limited<T>(stall: Duration, what: impl Future<Output = Result<T, Refusal>>) -> Result<T, Refusal> {
    tokio::time::timeout(stall, what).await.unwrap_or_else(|_| {
        Err(Refusal::new(format!("an HTTP/2 connection did not get ready within {} s", stall.as_secs_f64())))
    })
}

fn runtime() -> Result<Runtime, Refusal> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

fn config() -> Result<Arc<ClientConfig>, Refusal> {
    tls::config(Protocol::H2(1, 1))?.ok_or_else(|| Refusal::new("HTTP/2 without TLS is not offered"))
}

/// The request as HTTP/1.1 writes it, taken apart.
fn request(text: &str) -> Result<http::Request<()>, Refusal> {
    let broken = || Refusal::new(format!("no request that HTTP/2 can say: {text:?}"));
    let mut lines = text.split("\r\n").take_while(|line| !line.is_empty());
    let mut first = lines.next().ok_or_else(broken)?.split(' ');
    let (method, target) = (first.next().ok_or_else(broken)?, first.next().ok_or_else(broken)?);
    let (mut host, mut builder) = (tls::NAME, http::Request::builder().method(method));
    for line in lines {
        let (name, value) = line.split_once(':').ok_or_else(broken)?;
        match name.to_ascii_lowercase().as_str() {
            "host" => host = value.trim(),
            "connection" => {} // RFC 9113, section 8.2.2
            name => builder = builder.header(name, value.trim()),
        }
    }
    let builder = builder.version(http::Version::HTTP_2).uri(format!("https://{host}{target}"));
    builder.body(()).map_err(|_| broken())
}

/// One request on a connection of its own.
pub(super) fn fetch(address: SocketAddr, text: &str, want: Want) -> Result<Fetched, Refusal> {
    let tls = config()?;
    let request = request(text)?;
    let mut fetched = Fetched::default();
    let asked = async {
        let sender = connect(address, &tls).await?;
        let mut sink = |part: Part<'_>| match part {
            Part::Body(bytes) => fetched.body.extend_from_slice(bytes),
            Part::Head(fields) => {
                let text = |name| fields.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
                fetched.etag = text(http::header::ETAG);
                fetched.coding = text(http::header::CONTENT_ENCODING);
            }
        };
        match exchange(sender, &request, want, &mut sink).await {
            Ok(_) => Ok(()),
            Err(Trouble::GoneAway) => Err(fault(text, "does not come: the server goes away")),
            Err(Trouble::Fault(what)) => Err(fault(text, &what)),
        }
    };
    LocalSet::new().block_on(&runtime()?, limited(STALL, asked))?;
    Ok(fetched)
}
