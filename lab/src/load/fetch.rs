//! Asks once and at leisure: connections before a window, and the whole answer at its edges.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{ClientConfig, ClientConnection, StreamOwned};
use sha2::{Digest as _, Sha256};

use super::answer::{Answer, Piece, Want, value};
use super::{STALL, answer_to, h2, no_connection, tls};
use crate::Refusal;
use crate::scenario::Protocol;

/// A body larger than this is not held against anything.
const BODY_BYTES_MAX: u64 = 64 << 20;

/// A whole answer.
#[derive(Debug, Default)]
pub(super) struct Fetched {
    pub(super) body: Vec<u8>,
    pub(super) etag: Option<String>,
    pub(super) coding: Option<String>,
}

impl Fetched {
    pub(super) fn sha256(&self) -> String {
        hex_sha256(&self.body)
    }
}

pub(super) fn hex_sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One request on a connection of its own.
pub(super) fn fetch(
    address: SocketAddr,
    protocol: Protocol,
    request: &str,
    want: Want,
) -> Result<Fetched, Refusal> {
    match protocol {
        Protocol::H2(..) => h2::fetch(address, request, want),
        _ => over(address, tls::config(protocol)?.as_ref(), request, want, STALL),
    }
}

/// Opens a connection, with its TLS handshake.
pub(super) fn connect(
    address: SocketAddr,
    tls: Option<&Arc<ClientConfig>>,
    stall: Duration,
) -> Result<(TcpStream, Option<ClientConnection>), Refusal> {
    let refused = |error: io::Error| no_connection(address, &error);
    let mut socket = TcpStream::connect_timeout(&address, stall).map_err(refused)?;
    socket.set_nodelay(true).map_err(refused)?;
    socket.set_read_timeout(Some(stall)).map_err(refused)?;
    socket.set_write_timeout(Some(stall)).map_err(refused)?;
    let Some(config) = tls else { return Ok((socket, None)) };
    let mut tls = tls::connection(config)?;
    while tls.is_handshaking() {
        tls.complete_io(&mut socket)
            .map_err(|error| Refusal::new(format!("the TLS handshake with {address} failed: {error}")))?;
    }
    Ok((socket, Some(tls)))
}

/// One HTTP/1.1 request and its whole answer.
pub(super) fn over(
    address: SocketAddr,
    tls: Option<&Arc<ClientConfig>>,
    request: &str,
    want: Want,
    stall: Duration,
) -> Result<Fetched, Refusal> {
    let fault = |what: String| Refusal::new(format!("{} {what}", answer_to(request)));
    let (socket, tls) = connect(address, tls, stall)?;
    let clock = socket.try_clone()?;
    let mut stream: Box<dyn Stream> = match tls {
        None => Box::new(socket),
        Some(tls) => Box::new(StreamOwned::new(tls, socket)),
    };
    stream.write_all(request.as_bytes()).map_err(|error| no_connection(address, &error))?;
    stream.flush().map_err(|error| no_connection(address, &error))?;
    let deadline = Instant::now() + stall;
    let (mut answer, mut fetched) = (Answer::default(), Fetched::default());
    let mut buffer = vec![0; 64 << 10];
    while !answer.is_done() {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        clock.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer) {
            Ok(0) => answer.close(want, "the server closed the connection").map_err(fault)?,
            // TLS without its own end: the length says whether anything is missing.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                answer.close(want, "the server closed the connection").map_err(fault)?;
            }
            Ok(read) => {
                let extra =
                    answer.feed(&buffer[..read], want, &mut |piece| fetched.take(&piece)).map_err(fault)?;
                if extra > 0 {
                    return Err(fault(format!("is followed by {extra} bytes more than it has")));
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => {
                answer.close(want, &format!("the connection broke ({error})")).map_err(fault)?;
            }
        }
        if answer.body_bytes() > BODY_BYTES_MAX {
            return Err(fault(format!("has more than {BODY_BYTES_MAX} bytes")));
        }
        if !answer.is_done() && Instant::now() >= deadline {
            let far = answer.so_far("stops");
            return Err(fault(format!("{far}: nothing more within {} s", stall.as_secs_f64())));
        }
    }
    Ok(fetched)
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

impl Fetched {
    fn take(&mut self, piece: &Piece<'_>) {
        match piece {
            Piece::Body(bytes) => self.body.extend_from_slice(bytes),
            Piece::Head(head) => {
                let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
                for line in head.split(|byte| *byte == b'\n') {
                    if let Some(found) = value(line, b"etag") {
                        self.etag = Some(text(found));
                    } else if let Some(found) = value(line, b"content-encoding") {
                        self.coding = Some(text(found));
                    }
                }
            }
        }
    }
}
