//! A client that knows only enough HTTP to find where an answer ends, and is strict about that.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};

use socket2::{Domain, Socket, Type};

use super::DEADLINE;

/// One answer, as it came.
#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    /// Status line and fields, with the empty line.
    pub head: String,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    /// The value of the only field of that name.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} twice in {}", self.head);
        value
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn closes(&self) -> bool {
        self.field("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// Takes one answer off the front of `bytes`; `None` when it is not all there yet. Anything that
    /// is not a well-formed answer with a length fails the test.
    #[track_caller]
    pub fn split(bytes: &[u8], to_head: bool) -> Option<(Response, usize)> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let head = std::str::from_utf8(&bytes[..end]).expect("a head is ASCII").to_owned();
        let mut lines = head[..end - 4].split("\r\n");
        let status_line = lines.next().unwrap();
        let status = status_line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).map(str::parse);
        let Some(Ok(status)) = status else { panic!("not a status line: {status_line:?}") };
        let fields: Vec<_> = lines
            .map(|line| {
                assert!(!line.contains(['\r', '\n']), "bare CR or LF in {head:?}");
                let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("not a field: {line:?}"));
                (name.to_owned(), value.to_owned())
            })
            .collect();
        let mut response = Response { status, head, fields, body: Vec::new() };
        assert!(response.field("transfer-encoding").is_none(), "{}", response.head);
        let length = response.field("content-length").map(|value| value.parse::<usize>().unwrap());
        let length = match (to_head, status) {
            (true, _) | (_, 100..=199 | 204 | 304) => 0,
            _ => length.unwrap_or_else(|| panic!("no Content-Length in {}", response.head)),
        };
        response.body = bytes.get(end..end + length)?.to_vec();
        Some((response, end + length))
    }
}

/// Takes a whole conversation apart; none of its requests may have been HEAD, and no byte may be left.
#[track_caller]
pub fn answers(mut bytes: &[u8]) -> Vec<Response> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let Some((response, length)) = Response::split(bytes, false) else {
            panic!("an unfinished answer: {:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(500)]));
        };
        found.push(response);
        bytes = &bytes[length..];
    }
    found
}

/// A connection that is kept.
pub struct Client {
    pub stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        Self::on(TcpStream::connect(address).unwrap())
    }

    /// With a receive buffer of that size from the first window on.
    pub fn connect_with_buffer(address: SocketAddr, bytes: usize) -> Client {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(bytes).unwrap();
        socket.connect(&address.into()).unwrap();
        Self::on(socket.into())
    }

    pub fn on(stream: TcpStream) -> Client {
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, buffer: Vec::new() }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    #[track_caller]
    pub fn response(&mut self) -> Response {
        self.next(false).expect("an answer, not the end of the connection")
    }

    #[track_caller]
    pub fn response_to_head(&mut self) -> Response {
        self.next(true).expect("an answer, not the end of the connection")
    }

    /// The next answer, or `None` at the end of the connection.
    #[track_caller]
    pub fn next(&mut self, to_head: bool) -> Option<Response> {
        loop {
            if let Some((response, length)) = Response::split(&self.buffer, to_head) {
                self.buffer.drain(..length);
                return Some(response);
            }
            if self.fill() == 0 {
                assert!(self.buffer.is_empty(), "cut: {:?}", String::from_utf8_lossy(&self.buffer));
                return None;
            }
        }
    }

    /// The head of an answer whose body the test reads itself: fields, and the promised length.
    pub fn head(&mut self) -> (String, usize) {
        let end = loop {
            if let Some(at) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            assert_ne!(self.fill(), 0, "end of the connection inside a head");
        };
        let head = String::from_utf8(self.buffer.drain(..end).collect()).unwrap();
        let lower = head.to_ascii_lowercase();
        let at = lower.find("\r\ncontent-length: ").expect("a length") + 18;
        let length = lower[at..].split("\r\n").next().unwrap().parse().unwrap();
        (head, length)
    }

    /// Exactly `length` bytes.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.buffer.drain(..length.min(self.buffer.len())).collect();
        let had = bytes.len();
        bytes.resize(length, 0);
        self.stream.read_exact(&mut bytes[had..]).unwrap();
        bytes
    }

    /// Everything to the end of the connection, which may be a reset.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.buffer);
        match self.stream.read_to_end(&mut bytes) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("{error}"),
        }
        bytes
    }

    #[track_caller]
    pub fn get(&mut self, target: &str) -> Response {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        self.response()
    }

    /// The server has nothing more to say and closed.
    #[track_caller]
    pub fn assert_closed(&mut self) {
        let rest = self.rest();
        assert!(rest.is_empty(), "more came: {:?}", String::from_utf8_lossy(&rest[..rest.len().min(500)]));
    }

    fn fill(&mut self) -> usize {
        let mut part = [0; 64 * 1024];
        let length = self.stream.read(&mut part).unwrap();
        self.buffer.extend_from_slice(&part[..length]);
        length
    }
}

/// What the client does once all is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Says that no more will come.
    HalfClose,
    /// Waits, so that only the server can end the connection.
    Wait,
}

/// How a conversation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Closed,
    /// On other systems a reset throws away what was not read yet.
    Reset,
    /// The server was still waiting at the deadline.
    Open,
}

/// All that a server said.
pub struct Heard {
    pub bytes: Vec<u8>,
    pub end: End,
}

impl Heard {
    #[track_caller]
    pub fn answers(&self) -> Vec<Response> {
        answers(&self.bytes)
    }

    #[track_caller]
    pub fn statuses(&self) -> Vec<u16> {
        self.answers().iter().map(|answer| answer.status).collect()
    }
}

/// Sends bytes in one go, whatever comes back meanwhile, then reads to the end.
pub fn exchange(address: SocketAddr, bytes: &[u8], then: Then) -> Heard {
    talk(address, std::iter::once(bytes), then)
}

/// The same with every byte in a segment of its own.
pub fn drip(address: SocketAddr, bytes: &[u8], then: Then) -> Heard {
    talk(address, bytes.chunks(1), then)
}

fn talk<'a>(address: SocketAddr, parts: impl Iterator<Item = &'a [u8]>, then: Then) -> Heard {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_write_timeout(Some(DEADLINE)).unwrap();
    let mut was_reset = false;
    for part in parts {
        // The kernel tells of a reset once: here, or when reading.
        was_reset = stream.write_all(part).is_err();
        if was_reset {
            break;
        }
    }
    if then == Then::HalfClose {
        let _ = stream.shutdown(Shutdown::Write);
    }
    let mut bytes = Vec::new();
    let end = match stream.read_to_end(&mut bytes) {
        Ok(_) if was_reset => End::Reset,
        Ok(_) => End::Closed,
        Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
            End::Reset
        }
        Err(_) => End::Open,
    };
    Heard { bytes, end }
}
