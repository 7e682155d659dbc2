//! `scalws healthcheck`: the probe of an image without a shell.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::config::checked;

/// A probe that takes longer than this has failed.
const TIME_MAX: Duration = Duration::from_secs(2);

/// Asks `/readyz` of the admin port, or connects to a listener where the admin port is off.
///
/// # Errors
/// One line that says what did not answer and how.
pub fn check(server: &checked::Server, tls: Option<&checked::Tls>) -> Result<(), String> {
    match server.admin {
        Some(admin) => {
            let address = reachable(admin);
            match ask(address) {
                Ok(status) if status == "200" => Ok(()),
                Ok(status) => Err(format!("http://{address}/readyz answered {status}")),
                Err(error) => Err(format!("http://{address}/readyz does not answer: {error}")),
            }
        }
        None => {
            let with_tls = tls.into_iter().flat_map(|tls| &tls.listen);
            let listen = server
                .listen
                .iter()
                .chain(with_tls)
                .next()
                .ok_or("neither an admin port nor a listener is configured")?;
            let address = reachable(*listen);
            let outcome = TcpStream::connect_timeout(&address, TIME_MAX);
            outcome.map(drop).map_err(|error| format!("{address} does not answer: {error}"))
        }
    }
}

/// A wildcard is reached by the loopback address; `[::]` by the IPv4 one, which it takes as well and
/// which is there without IPv6 too.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) | IpAddr::V6(Ipv6Addr::UNSPECIFIED) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn ask(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIME_MAX)?;
    stream.set_read_timeout(Some(TIME_MAX))?;
    stream.set_write_timeout(Some(TIME_MAX))?;
    write!(stream, "GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(4096).read_to_end(&mut answer)?;
    let line = String::from_utf8_lossy(&answer);
    let status = line.split(' ').nth(1).unwrap_or_default();
    if status.len() == 3 {
        Ok(status.to_owned())
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidData, "not an HTTP answer"))
    }
}
