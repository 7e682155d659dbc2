//! One literal request, one answer, read to the end.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use super::DEADLINE;

/// An answer as it came.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    /// Status line and fields, without the empty line.
    pub head: String,
    pub body: Vec<u8>,
}

impl Response {
    /// The value of a field, by its name in lower case.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    fn parse(bytes: &[u8]) -> Option<Response> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Response { status, head, body: bytes[end + 4..].to_vec() })
    }
}

/// Sends the bytes and reads until the server closes; `None` where nobody listens (yet).
pub fn request(address: SocketAddr, bytes: &str) -> Option<Response> {
    let mut stream = TcpStream::connect_timeout(&address, DEADLINE).ok()?;
    stream.set_read_timeout(Some(DEADLINE)).ok()?;
    stream.write_all(bytes.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    Response::parse(&answer)
}

/// A GET on a connection of its own.
pub fn get(address: SocketAddr, target: &str) -> Option<Response> {
    request(address, &format!("GET {target} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n"))
}
