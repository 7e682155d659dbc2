//! The engine of the server in this process, over a wire of memory: the same bytes in, the same bytes out,
//! no kernel between them. What is left is the server's own code, which can be counted.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use scalws::config::checked::{AccessFormat, Handler};
use scalws::config::{self, Source};
use scalws::connection::wire::Wire;
use scalws::connection::{Context, h1};
use scalws::fs::{OpenFile, Root};
use scalws::handlers::OpenFiles;
use scalws::handlers::compress::Store;
use scalws::handlers::representation::{self, Asked, Form};
use scalws::limits::Limits;
use scalws::message::{Answer, Request, Service, Where};
use scalws::offload::{Lane, Offload};
use scalws::route::Site;
use scalws::semantics::head::Version;
use scalws::semantics::method::Method;
use scalws::semantics::path::SafePath;
use scalws::telemetry::access::AccessLog;
use scalws::telemetry::counters::Worker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::Refusal;

/// What a browser sends, field by field; about as long as most.
pub const REQUEST: &str =
    "GET /1k.bin HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: scalws-lab/0.1\r\nAccept: */*\r\n\r\n";

/// What a browser sends for what it has: a condition that holds.
pub const UNCHANGED: &str = "GET /1k.bin HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: scalws-lab/0.1\r\n\
    Accept: */*\r\nIf-None-Match: *\r\n\r\n";

/// The same for the fixed answer.
pub const PING: &str =
    "GET /ping HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: scalws-lab/0.1\r\nAccept: */*\r\n\r\n";

/// Hands out one request a read, so often, and counts the bytes of the answers.
#[derive(Debug)]
pub struct MemoryWire {
    requests: VecDeque<&'static str>,
    written: Rc<std::cell::Cell<u64>>,
}

impl MemoryWire {
    /// A wire with `count` times the same request.
    #[must_use]
    pub fn new(request: &'static str, count: usize) -> (MemoryWire, Rc<std::cell::Cell<u64>>) {
        let written = Rc::new(std::cell::Cell::new(0));
        (MemoryWire { requests: vec![request; count].into(), written: Rc::clone(&written) }, written)
    }
}

impl AsyncRead for MemoryWire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Task<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(request) = self.requests.pop_front() {
            buffer.put_slice(request.as_bytes());
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for MemoryWire {
    fn poll_write(self: Pin<&mut Self>, _: &mut Task<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.written.set(self.written.get() + bytes.len() as u64);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Task<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Task<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Wire for MemoryWire {
    fn poll_write_ready(&mut self, _: &mut Task<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn unacknowledged_bytes(&self) -> u64 {
        0
    }

    fn reset_on_close(&self) {}
}

/// Answers with a file that it opens by open(2) and describes as the server does: valgrind has no
/// openat2, so the resolver's one call is the one thing that is left out.
pub struct OneFile {
    path: PathBuf,
    lane: Lane,
}

impl OneFile {
    /// # Errors
    /// No thread can be started.
    pub fn new(path: &Path) -> Result<OneFile, Refusal> {
        Ok(OneFile { path: path.to_owned(), lane: Offload::start(1, 16)?.lane() })
    }
}

impl Service for OneFile {
    fn answer(&self, request: &Request<'_>) -> Answer {
        let fd: OwnedFd = std::fs::File::open(&self.path).expect("the fixture's file is there").into();
        let file = OpenFile::adopt(fd, self.lane).expect("an open file has facts");
        let form = Form { content_type: "application/octet-stream", is_negotiated: false, coding: None };
        Answer::Ready(representation::reply(Arc::new(file), None, form, &Asked::of(request)))
    }
}

/// The site of a config, as a worker has it, without roots: `respond` and `redirect` routes.
///
/// # Errors
/// The config has a mistake.
pub fn site(text: &str, scratch: &Path) -> Result<Site, Refusal> {
    let file = scratch.join("scalws.toml");
    std::fs::write(&file, text)?;
    let source = Source { file: Some(file), ..Source::default() };
    let loaded = config::load(&source).map_err(|problems| Refusal::new(problems.to_string()))?;
    let pool = Offload::start(1, 16)?;
    let limits = &loaded.config.limits;
    Ok(Site::new(
        &loaded.config.routes,
        None,
        &[],
        &Store::new(limits, pool),
        &OpenFiles::new(limits, 1, &Arc::default()),
        limits,
    ))
}

/// The site of one static route over `root`, with the file of [`REQUEST`] open and known, as after its first
/// requests; valgrind has no openat2, so the file is opened by open(2).
///
/// # Errors
/// The root or its file cannot be opened.
pub fn kept(root: &Path) -> Result<Site, Refusal> {
    let directory = Some(root.to_owned());
    let source = Source { directory, file: None, ..Source::default() };
    let loaded = config::load(&source).map_err(|problems| Refusal::new(problems.to_string()))?;
    let mut config = loaded.config;
    for route in &mut config.routes {
        if let Handler::Static(files) = &mut route.handler {
            // Looking the path up again is a matter of seconds, not of requests.
            files.revalidate_ms = 24 * 3600 * 1000;
        }
    }
    let (limits, pool) = (&config.limits, Offload::start(1, 16)?);
    let (roots, store) = ([Root::adopt(root, pool)?], Store::new(limits, pool));
    let site =
        Site::new(&config.routes, None, &roots, &store, &OpenFiles::new(limits, 1, &Arc::default()), limits);
    let fd: OwnedFd = std::fs::File::open(root.join("1k.bin"))?.into();
    let request = Request {
        method: Method::Get,
        target: Where::Path(SafePath::parse(b"/1k.bin").expect("a safe path"), None),
        authority: b"127.0.0.1:8080",
        version: Version::Http11,
        fields: &[],
        body_bytes: 0,
    };
    site.adopt(&request, OpenFile::adopt(fd, pool.lane())?);
    Ok(site)
}

/// A config with the fixed answer.
pub const RESPOND: &str = "[[route]]\nexact = \"/ping\"\nrespond = { body = \"pong\\n\" }\n";

/// Serves `count` times `request` on one connection; the bytes of all answers.
///
/// # Errors
/// No runtime can be had.
pub fn serve(service: Box<dyn Service>, request: &'static str, count: usize) -> Result<u64, Refusal> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let access = AccessLog::new(AccessFormat::Off, None);
    let context = Rc::new(Context::new(Limits::default(), access, Arc::new(Worker::new(1)), service));
    let (wire, written) = MemoryWire::new(request, count);
    runtime.block_on(h1::serve(wire, IpAddr::V4(Ipv4Addr::LOCALHOST), context, ()));
    Ok(written.get())
}
