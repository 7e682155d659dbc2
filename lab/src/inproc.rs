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

use scalws::config::{self, Source, checked::AccessFormat};
use scalws::connection::wire::Wire;
use scalws::connection::{Context, h1};
use scalws::fs::OpenFile;
use scalws::handlers::compress::Store;
use scalws::handlers::representation::{self, Asked, Form};
use scalws::limits::Limits;
use scalws::message::{Answer, Request, Service};
use scalws::offload::{Lane, Offload};
use scalws::route::Site;
use scalws::telemetry::access::AccessLog;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::Refusal;

/// What a browser sends, field by field; about as long as most.
pub const REQUEST: &str =
    "GET /1k.bin HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: scalws-lab/0.1\r\nAccept: */*\r\n\r\n";

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
    fn poll_write_ready(&self, _: &mut Task<'_>) -> Poll<io::Result<()>> {
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
        Answer::Ready(representation::reply(file, None, form, &Asked::of(request)))
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
    Ok(Site::new(&loaded.config.routes, None, &[], &Store::new(limits, pool), limits))
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
    let context = Rc::new(Context::new(Limits::default(), access, Arc::default(), service));
    let (wire, written) = MemoryWire::new(request, count);
    runtime.block_on(h1::serve(wire, IpAddr::V4(Ipv4Addr::LOCALHOST), context));
    Ok(written.get())
}
