//! Sockets: what the peer has not acknowledged yet.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `int ioctl(int fd, SIOCOUTQ, int *value)`, tcp(7): bytes in the send queue, sent or not, that the
/// peer has not acknowledged; a FIN counts as one.
///
/// # Errors
/// The errno of the call.
pub fn unacknowledged_bytes(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut value: libc::c_int = 0;
    // SAFETY: TIOCOUTQ, which is SIOCOUTQ for a socket, writes one int; the pointer is to one.
    if unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut value) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(value).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn what_a_peer_did_not_take_is_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut reader, _) = listener.accept().unwrap();
        sender.set_nonblocking(true).unwrap();
        let mut sent = 0;
        while let Ok(count) = sender.write(&[0; 65536]) {
            sent += count;
        }
        assert!(unacknowledged_bytes(sender.as_fd()).unwrap() > 0);
        reader.read_exact(&mut vec![0; sent]).unwrap();
        // The last acknowledgement may be on its way: bounded, and no sleep for its own sake.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while unacknowledged_bytes(sender.as_fd()).unwrap() > 0 && std::time::Instant::now() < end {
            std::thread::yield_now();
        }
        assert_eq!(unacknowledged_bytes(sender.as_fd()).unwrap(), 0);
    }
}
