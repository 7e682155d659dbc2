//! Listening sockets. All are bound before any worker starts; they belong to the process.
//!
//! One bind without SO_REUSEPORT first proves the port free: with it a second instance would bind
//! silently and take half of the connections.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use serde_json::json;
use socket2::{Domain, Protocol, Socket, Type};

use crate::limits::LISTEN_BACKLOG;
use crate::telemetry::log::{self, Level};

/// Binds `address` once for each worker.
///
/// # Errors
/// One line that names the address, the reason and what to do.
pub(super) fn bind(address: SocketAddr, workers: usize) -> Result<Vec<TcpListener>, String> {
    match bind_all(address, workers) {
        Err(error) if is_without_ipv6(address, &error) => {
            let fallback = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
            let fields = json!({ "wanted": address.to_string(), "address": fallback.to_string() });
            log::event(Level::Info, "no IPv6, listening on IPv4", &fields);
            bind_all(fallback, workers).map_err(|error| explain(fallback, &error))
        }
        result => result.map_err(|error| explain(address, &error)),
    }
}

/// `[::]` on a machine without IPv6: not compiled in, or disabled by sysctl or by the container.
fn is_without_ipv6(address: SocketAddr, error: &io::Error) -> bool {
    let is_wildcard = address.is_ipv6() && address.ip().is_unspecified();
    is_wildcard && matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL))
}

fn bind_all(address: SocketAddr, workers: usize) -> io::Result<Vec<TcpListener>> {
    // Port 0 has no number to prove free; the first bind picks one and the others follow it.
    let mut address = address;
    if address.port() != 0 {
        drop(socket(address, false)?);
    }
    let mut listeners = Vec::with_capacity(workers);
    for _ in 0..workers {
        let socket = socket(address, true)?;
        socket.listen(LISTEN_BACKLOG)?;
        let listener: TcpListener = socket.into();
        address.set_port(listener.local_addr()?.port());
        listeners.push(listener);
    }
    Ok(listeners)
}

fn socket(address: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    // A restart must not wait for connections in TIME_WAIT; a listening owner still refuses the bind.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    // Accepted sockets inherit it (tcp(7)): no system call for each connection. Not TCP_USER_TIMEOUT:
    // it ends downloads that move on in steps smaller than a segment.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn explain(address: SocketAddr, error: &io::Error) -> String {
    let hint = match error.raw_os_error() {
        Some(libc::EADDRINUSE) => {
            "something listens there (another process, or another address of this config: [::] takes IPv4 as well): stop it or choose another port with --listen"
        }
        Some(libc::EACCES) => {
            "ports below 1024 need CAP_NET_BIND_SERVICE: choose 8080 and map it from outside"
        }
        Some(libc::EADDRNOTAVAIL) => "no interface of this machine has the address",
        Some(libc::EAFNOSUPPORT) => "this machine has no such address family",
        Some(libc::EMFILE | libc::ENFILE) => "no descriptors left: raise the limit (ulimit -n)",
        _ => "see bind(2)",
    };
    format!("cannot listen on {address}: {error}; {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_refused_in_one_line_that_names_it() {
        let first = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 3).unwrap();
        let address = first[0].local_addr().unwrap();
        assert!(first.iter().all(|listener| listener.local_addr().is_ok_and(|other| other == address)));
        let error = bind(address, 1).unwrap_err();
        assert!(
            error.starts_with(&format!("cannot listen on {address}: ")) && !error.contains('\n'),
            "{error}"
        );
        drop(first);
        assert!(bind(address, 1).is_ok());
    }

    #[test]
    fn accepted_sockets_inherit_nodelay() {
        let listener = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 1).unwrap().remove(0);
        listener.set_nonblocking(false).unwrap();
        let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let accepted = socket2::SockRef::from(&accepted);
        assert!(accepted.tcp_nodelay().unwrap());
    }

    #[test]
    fn only_the_wildcard_falls_back() {
        let lacks = io::Error::from_raw_os_error(libc::EAFNOSUPPORT);
        assert!(is_without_ipv6("[::]:80".parse().unwrap(), &lacks));
        assert!(!is_without_ipv6("[::1]:80".parse().unwrap(), &lacks));
        assert!(!is_without_ipv6("0.0.0.0:80".parse().unwrap(), &lacks));
        assert!(!is_without_ipv6(
            "[::]:80".parse().unwrap(),
            &io::Error::from_raw_os_error(libc::EADDRINUSE)
        ));
    }
}
