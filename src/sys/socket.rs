//! Sockets: what the peer has not acknowledged yet, and reading without a zeroed buffer.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use tokio::io::ReadBuf;

/// `ssize_t recv(int sockfd, void *buf, size_t len, int flags)`, recv(2): appends what is there to
/// `buffer`; the number of bytes.
///
/// # Errors
/// The errno of the call.
pub fn receive(fd: BorrowedFd<'_>, buffer: &mut ReadBuf<'_>) -> io::Result<usize> {
    // SAFETY: nothing but recv(2) below touches these bytes, and it takes none back that was there.
    let room = unsafe { buffer.unfilled_mut() };
    // SAFETY: recv(2) writes at most as many bytes as it is told, which is the room behind the pointer.
    let count = unsafe { libc::recv(fd.as_raw_fd(), room.as_mut_ptr().cast(), room.len(), 0) };
    let Ok(count) = usize::try_from(count) else { return Err(io::Error::last_os_error()) };
    // SAFETY: the kernel has filled the first `count` bytes.
    unsafe { buffer.assume_init(count) };
    buffer.advance(count);
    Ok(count)
}

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
    fn what_came_is_appended_and_its_end_is_zero() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (reader, _) = listener.accept().unwrap();
        let mut room = [std::mem::MaybeUninit::uninit(); 8];
        let mut buffer = ReadBuf::uninit(&mut room);
        buffer.put_slice(b"ab");
        sender.write_all(b"cdefghij").unwrap();
        assert_eq!(receive(reader.as_fd(), &mut buffer).unwrap(), 6);
        assert_eq!(buffer.filled(), b"abcdefgh");
        buffer.clear();
        assert_eq!(receive(reader.as_fd(), &mut buffer).unwrap(), 2);
        drop(sender);
        assert_eq!(receive(reader.as_fd(), &mut buffer).unwrap(), 0);
        assert_eq!(buffer.filled(), b"ij");
    }

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
