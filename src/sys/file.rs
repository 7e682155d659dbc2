//! Files: `openat2`, `fstat`, `fstatfs`, positional reads that may or may not wait.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Longest path of a system call, its NUL included (PATH_MAX of limits.h).
const PATH_BYTES_MAX: usize = 4096;

/// Follow nothing that leads out of the directory (openat2(2)).
pub const RESOLVE_BENEATH: u64 = libc::RESOLVE_BENEATH;
/// Refuse `/proc/PID/fd`-like links.
pub const RESOLVE_NO_MAGICLINKS: u64 = libc::RESOLVE_NO_MAGICLINKS;
/// Refuse every symbolic link.
pub const RESOLVE_NO_SYMLINKS: u64 = libc::RESOLVE_NO_SYMLINKS;
/// Do not cross into another mount.
pub const RESOLVE_NO_XDEV: u64 = libc::RESOLVE_NO_XDEV;
/// EAGAIN unless the whole lookup is answered by the kernel's cache (Linux 5.12).
pub const RESOLVE_CACHED: u64 = libc::RESOLVE_CACHED;

/// Read a regular file without ever waiting for a writer, a device or a terminal.
pub const OPEN_READ: i32 = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
/// A directory as an anchor for lookups; needs no read permission on it.
pub const OPEN_ANCHOR: i32 = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;

/// A name for what it leads to, to be looked at and never read; no driver and no lease hears of it.
pub const OPEN_LOOK: i32 = libc::O_PATH | libc::O_CLOEXEC;

/// `long syscall(SYS_openat2, int dirfd, const char *pathname, struct open_how *how, size_t size)`,
/// openat2(2). An empty `path` names the directory itself.
///
/// # Errors
/// The errno of the call; ENOENT for a path with a NUL byte, ENAMETOOLONG from 4,096 bytes on.
pub fn openat2(directory: BorrowedFd<'_>, path: &[u8], flags: i32, resolve: u64) -> io::Result<OwnedFd> {
    let path = if path.is_empty() { b"." as &[u8] } else { path };
    let mut name = [MaybeUninit::<u8>::uninit(); PATH_BYTES_MAX];
    if path.len() >= PATH_BYTES_MAX {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    if memchr::memchr(0, path).is_some() {
        return Err(io::Error::from_raw_os_error(libc::ENOENT));
    }
    for (slot, byte) in name.iter_mut().zip(path.iter().chain(&[0])) {
        slot.write(*byte);
    }
    // SAFETY: open_how is plain integers, for which all zeroes is a value.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = u64::from(flags.unsigned_abs());
    how.resolve = resolve;
    // SAFETY: `name` holds the path and its NUL, written above; `how` is a whole struct open_how and
    // the size given is its own; the descriptor is borrowed for the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_openat2,
            directory.as_raw_fd(),
            name.as_ptr(),
            &raw const how,
            std::mem::size_of::<libc::open_how>(),
        )
    };
    let fd = i32::try_from(result).unwrap_or(-1);
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just handed out this descriptor and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Opens the directory at `path` by the ordinary lookup, as an anchor: the one place where a path
/// of the operator, not of a request, is followed wherever it leads.
///
/// # Errors
/// The errno of open(2).
pub fn open_anchor(path: &std::path::Path) -> io::Result<OwnedFd> {
    use std::os::unix::fs::OpenOptionsExt;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(OPEN_ANCHOR).open(path)?;
    Ok(file.into())
}

/// What kind of thing a descriptor is open on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link itself; a descriptor leads to one only where that was asked for.
    Link,
    /// A fifo, device or socket.
    Other,
}

/// The part of `struct stat` that serving needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// File system it lies on.
    pub device: u64,
    /// Inode number there.
    pub inode: u64,
    /// Kind by the mode bits.
    pub kind: Kind,
    /// Bytes.
    pub size: u64,
    /// Names that lead to it; 0 for an unlinked file.
    pub links: u64,
    /// Modification time, seconds since the epoch (may be negative).
    pub mtime_s: i64,
    /// And its nanoseconds.
    pub mtime_ns: u32,
    /// Change time, seconds since the epoch.
    pub ctime_s: i64,
    /// And its nanoseconds.
    pub ctime_ns: u32,
}

/// `int fstat(int fd, struct stat *statbuf)`, fstat(2). Blocks on FUSE and network file systems.
///
/// # Errors
/// The errno of the call.
pub fn fstat(fd: BorrowedFd<'_>) -> io::Result<Stat> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the pointer is to a whole struct stat; the descriptor is borrowed for the call.
    if unsafe { libc::fstat(fd.as_raw_fd(), stat.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so the kernel filled the struct.
    Ok(stat_of(&unsafe { stat.assume_init() }))
}

/// The part of a `struct stat` that serving needs.
#[allow(
    clippy::unnecessary_cast,
    clippy::useless_conversion,
    reason = "field widths differ between architectures"
)]
pub(super) fn stat_of(stat: &libc::stat) -> Stat {
    let kind = match stat.st_mode & libc::S_IFMT {
        libc::S_IFREG => Kind::Regular,
        libc::S_IFDIR => Kind::Directory,
        libc::S_IFLNK => Kind::Link,
        _ => Kind::Other,
    };
    Stat {
        device: stat.st_dev as u64,
        inode: stat.st_ino as u64,
        kind,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        links: stat.st_nlink as u64,
        mtime_s: stat.st_mtime as i64,
        mtime_ns: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
        ctime_s: stat.st_ctime as i64,
        ctime_ns: u32::try_from(stat.st_ctime_nsec).unwrap_or(0),
    }
}

/// `int fstatfs(int fd, struct statfs *buf)`, fstatfs(2): the magic number of the file system.
///
/// # Errors
/// The errno of the call.
pub fn file_system_magic(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut buffer = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the pointer is to a whole struct statfs; the descriptor is borrowed for the call.
    if unsafe { libc::fstatfs(fd.as_raw_fd(), buffer.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so the kernel filled the struct.
    let buffer = unsafe { buffer.assume_init() };
    // The type is a signed or unsigned word, by architecture; magic numbers are 32 bits.
    #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "see above")]
    Ok(buffer.f_type as u64 & 0xffff_ffff)
}

/// Whether a read may wait for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// RWF_NOWAIT: EAGAIN where the data is not resident, EOPNOTSUPP where the file system cannot say.
    Never,
    /// Wait for the device.
    May,
}

/// `ssize_t preadv2(int fd, const struct iovec *iov, int iovcnt, off_t offset, int flags)`,
/// preadv2(2): appends at most `bytes_max` bytes from `offset` to `buffer`. May be short.
///
/// # Errors
/// The errno of the call.
pub fn read_at(
    fd: BorrowedFd<'_>,
    buffer: &mut Vec<u8>,
    bytes_max: usize,
    offset: u64,
    wait: Wait,
) -> io::Result<usize> {
    buffer.reserve(bytes_max);
    let spare = buffer.spare_capacity_mut();
    let iov = libc::iovec { iov_base: spare.as_mut_ptr().cast(), iov_len: bytes_max.min(spare.len()) };
    let offset = libc::off_t::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
    let flags = match wait {
        Wait::Never => libc::RWF_NOWAIT,
        Wait::May => 0,
    };
    // SAFETY: one iovec over the buffer's own spare capacity, which outlives the call.
    let result = unsafe { libc::preadv2(fd.as_raw_fd(), &raw const iov, 1, offset, flags) };
    let Ok(count) = usize::try_from(result) else { return Err(io::Error::last_os_error()) };
    // SAFETY: the kernel wrote `count` bytes, at most iov_len, right behind the old length.
    unsafe { buffer.set_len(buffer.len() + count) };
    Ok(count)
}

/// Most that one [`look_at`] takes.
pub const LOOK_BYTES_MAX: usize = 2;

/// preadv2(2) with RWF_NOWAIT, see [`read_at`], of at most [`LOOK_BYTES_MAX`] bytes that nobody wants:
/// how many of them are resident, 0 at the end of the file.
///
/// # Errors
/// EAGAIN where none is; EOPNOTSUPP where the file system cannot say.
pub fn look_at(fd: BorrowedFd<'_>, bytes: usize, offset: u64) -> io::Result<usize> {
    let mut seen = [MaybeUninit::<u8>::uninit(); LOOK_BYTES_MAX];
    let iov = libc::iovec { iov_base: seen.as_mut_ptr().cast(), iov_len: bytes.min(LOOK_BYTES_MAX) };
    let offset = libc::off_t::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
    // SAFETY: one iovec over `seen`, no longer than it, which outlives the call.
    let result = unsafe { libc::preadv2(fd.as_raw_fd(), &raw const iov, 1, offset, libc::RWF_NOWAIT) };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn nothing_beneath_a_directory_leads_out_of_it() {
        let root = open_anchor(std::path::Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        let open = |path: &[u8]| {
            openat2(root.as_fd(), path, OPEN_READ, RESOLVE_BENEATH).map_err(|e| e.raw_os_error())
        };
        assert!(open(b"Cargo.toml").is_ok());
        assert!(open(b"").is_ok());
        assert_eq!(open(b"../x").err(), Some(Some(libc::EXDEV)));
        assert_eq!(open(b"/etc/passwd").err(), Some(Some(libc::EXDEV)));
        assert_eq!(open(b"Cargo.toml\0.png").err(), Some(Some(libc::ENOENT)));
        assert_eq!(open(&[b'a'; 5000]).err(), Some(Some(libc::ENAMETOOLONG)));
    }

    /// Without O_NONBLOCK the open waits for a writer, and on a worker everybody with it.
    #[test]
    fn a_fifo_without_a_writer_is_opened_at_once() {
        let directory = std::env::temp_dir().join(format!("scalws-fifo-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let fifo = directory.join("fifo");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let (sender, opened) = std::sync::mpsc::channel();
        let root = open_anchor(&directory).unwrap();
        std::thread::spawn(move || {
            let kind = openat2(root.as_fd(), b"fifo", OPEN_READ, RESOLVE_BENEATH)
                .and_then(|fd| fstat(fd.as_fd()))
                .map(|stat| stat.kind);
            let _ = sender.send(kind);
        });
        // Ten seconds are for ever here; a thread that waits is left behind.
        let kind = opened.recv_timeout(std::time::Duration::from_secs(10));
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(kind.expect("the open waits").unwrap(), Kind::Other);
    }

    #[test]
    fn reads_append_from_an_offset() {
        let root = open_anchor(std::path::Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        let file = openat2(root.as_fd(), b"Cargo.toml", OPEN_READ, RESOLVE_BENEATH).unwrap();
        let expected = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
        let mut buffer = b"x".to_vec();
        assert_eq!(read_at(file.as_fd(), &mut buffer, 10, 5, Wait::May).unwrap(), 10);
        assert_eq!(buffer[1..], expected[5..15]);
        assert_eq!(read_at(file.as_fd(), &mut buffer, 10, 1 << 40, Wait::May).unwrap(), 0);
        let stat = fstat(file.as_fd()).unwrap();
        assert_eq!((stat.kind, stat.size), (Kind::Regular, expected.len() as u64));
    }
}
