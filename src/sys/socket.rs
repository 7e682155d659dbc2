//! Sockets: files sent without a copy, reading without a zeroed buffer, how far the peer is, and what it has
//! not acknowledged yet.

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

/// `ssize_t sendfile(int out_fd, int in_fd, off_t *offset, size_t count)`, sendfile(2): at most `bytes`
/// from `offset` of `file` go to the socket; the file's own position stays. May be short; 0 at the end of
/// the file. Waits for data of the file that is not resident, also where the socket never waits.
///
/// # Errors
/// The errno of the call, of the file or of the socket.
pub fn sendfile(
    socket: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    offset: u64,
    bytes: usize,
) -> io::Result<usize> {
    let offset = libc::off_t::try_from(offset);
    let mut offset = offset.map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
    // SAFETY: the pointer is to one off_t, which the kernel reads and writes; both descriptors are
    // borrowed for the call.
    let result = unsafe { libc::sendfile(socket.as_raw_fd(), file.as_raw_fd(), &raw mut offset, bytes) };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Words of `struct tcp_info` up to `tcpi_min_rtt`, the smooth round trip and the shortest one among
/// them (linux/tcp.h; the C libraries' own definitions end at different fields).
const TCP_INFO_WORDS: usize = 38;
const TCPI_RTT: usize = 17;
const TCPI_MIN_RTT: usize = 37;

/// `int getsockopt(int sockfd, int level, int optname, void *optval, socklen_t *optlen)` with TCP_INFO,
/// tcp(7): the shortest round trip of late in microseconds, 0 where none was measured. Not the smooth
/// one: that has the client's delayed acknowledgements in it.
///
/// # Errors
/// The errno of the call; EOPNOTSUPP for what is no TCP socket.
pub fn round_trip_us(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut info = [0_u32; TCP_INFO_WORDS];
    let mut length = libc::socklen_t::try_from(size_of_val(&info)).unwrap_or(0);
    // SAFETY: the buffer has `length` bytes, and integers for which all bytes are values; the kernel
    // writes no more than that.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // "None was measured" is all ones there.
    Ok(match info[TCPI_MIN_RTT] {
        0 | u32::MAX => info[TCPI_RTT],
        shortest => shortest,
    })
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

    #[test]
    fn a_file_goes_to_a_socket_from_an_offset_and_ends_with_zero() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut reader, _) = listener.accept().unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let (file, expected) = (std::fs::File::open(path).unwrap(), std::fs::read(path).unwrap());
        assert_eq!(sendfile(sender.as_fd(), file.as_fd(), 7, 100).unwrap(), 100);
        let mut found = [0; 100];
        reader.read_exact(&mut found).unwrap();
        assert_eq!(found[..], expected[7..107]);
        assert_eq!(sendfile(sender.as_fd(), file.as_fd(), expected.len() as u64, 100).unwrap(), 0);
        let far = sendfile(sender.as_fd(), file.as_fd(), u64::MAX, 100).unwrap_err();
        assert_eq!(far.raw_os_error(), Some(libc::EOVERFLOW));
        // Something was acknowledged, so the round trip is known; nothing here is a second away.
        assert!((1..1_000_000).contains(&round_trip_us(sender.as_fd()).unwrap()));
        assert!((1..1_000_000).contains(&round_trip_us(reader.as_fd()).unwrap()), "by the handshake alone");
        assert!(round_trip_us(file.as_fd()).is_err());
    }
}
