//! Accepting: is somebody there, and a socket that never waits from its first moment on.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use socket2::SockAddr;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A listener that the reactor of this thread watches.
///
/// # Errors
/// The reactor does not take it.
pub fn watch(listener: TcpListener) -> io::Result<AsyncFd<TcpListener>> {
    // SAFETY: a TcpListener owns its descriptor, and says the same one until it is dropped.
    let watched = unsafe { AsyncFd::register_with_interest(listener, Interest::READABLE) };
    watched.map_err(io::Error::from)
}

/// `int poll(struct pollfd *fds, nfds_t nfds, int timeout)`, poll(2), without a wait: whether a call
/// of accept(2) would find something, be it an error.
///
/// # Errors
/// The errno of the call.
pub fn has_queued(listener: &TcpListener) -> io::Result<bool> {
    let mut entry = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: poll(2) reads and writes as many entries as it is told: the one that the pointer is to.
    match unsafe { libc::poll(&raw mut entry, 1, 0) } {
        -1 => Err(io::Error::last_os_error()),
        count => Ok(count > 0),
    }
}

/// `int accept4(int sockfd, struct sockaddr *addr, socklen_t *addrlen, int flags)`, accept(2): the next
/// connection, non-blocking and not inherited by programs, and who it is with.
///
/// # Errors
/// The errno of the call.
pub fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let fd = listener.as_raw_fd();
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let call = |storage: *mut socket2::SockAddrStorage, length: *mut libc::socklen_t| {
        // SAFETY: accept(2) writes at most `*length` bytes to the address and its own length to `length`;
        // `try_init` passes a zeroed storage of that size, which any address fits into.
        match unsafe { libc::accept4(fd, storage.cast(), length, flags) } {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: the kernel has just made this descriptor for this call; nobody else knows it.
            accepted => Ok(unsafe { OwnedFd::from_raw_fd(accepted) }),
        }
    };
    // SAFETY: the closure fills the storage with an address and sets its length, or fails.
    let (socket, address) = unsafe { SockAddr::try_init(call) }?;
    let address =
        address.as_socket().ok_or_else(|| io::Error::other("a peer that is not of the internet"))?;
    Ok((TcpStream::from(socket), address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn what_is_accepted_never_waits_and_is_not_inherited() {
        for local in ["127.0.0.1:0", "[::1]:0"] {
            // A machine may have no IPv6.
            let Ok(listener) = TcpListener::bind(local) else { continue };
            assert!(!has_queued(&listener).unwrap());
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            assert!(has_queued(&listener).unwrap());
            let (mut accepted, peer) = accept(&listener).unwrap();
            assert_eq!(peer, client.local_addr().unwrap());
            assert!(!has_queued(&listener).unwrap());
            let error = accepted.read(&mut [0]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            assert!(rustix::io::fcntl_getfd(&accepted).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
            listener.set_nonblocking(true).unwrap();
            assert_eq!(accept(&listener).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
    }
}
