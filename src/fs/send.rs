//! Files on their way to a socket without a copy in the process: what of them is resident, and sendfile(2).
//!
//! sendfile has no RWF_NOWAIT, so the question comes first: the first and the last byte of a window, as
//! one resident byte proves nothing about its range. Between question and sending the kernel may drop a
//! page; docs/adr/0030 says what that can cost.

use std::cell::RefCell;
use std::io;
use std::os::fd::BorrowedFd;

use crate::fs::read::{Warm, why_not};
use crate::fs::{Mode, OpenFile, Step, device};
use crate::limits::{FILE_CHUNK_BYTES, RESIDENT_FILES, RESIDENT_MS, RESIDENT_WINDOWS};
use crate::offload::Why;
use crate::sys::clock::monotonic_coarse_ms;
use crate::sys::{file, socket};

const WINDOW_BYTES: u64 = FILE_CHUNK_BYTES as u64;

/// Windows of files that a worker has just found resident: what many clients download at once is asked
/// for once. Only asking makes an entry, never sending, so that nothing is believed for longer than
/// [`RESIDENT_MS`].
#[derive(Debug, Default)]
pub struct Resident {
    files: RefCell<[Known; RESIDENT_FILES]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    device: u64,
    inode: u64,
    /// For each window until when.
    until_ms: [u64; RESIDENT_WINDOWS],
}

impl Resident {
    fn knows(&self, of: &OpenFile, window: u64, now_ms: u64) -> bool {
        self.with(of, |known| {
            known.is_of(of) && known.slot(window).is_some_and(|until_ms| now_ms < *until_ms)
        })
    }

    fn note(&self, of: &OpenFile, window: u64, now_ms: u64) {
        self.with(of, |known| {
            if !known.is_of(of) {
                let (device, inode) = (of.stat().device, of.stat().inode);
                *known = Known { device, inode, ..Known::default() };
            }
            if let Some(until_ms) = known.slot(window) {
                *until_ms = now_ms + RESIDENT_MS;
            }
        });
    }

    /// A file has one place; of two with the same the last one has it.
    fn with<T>(&self, of: &OpenFile, work: impl FnOnce(&mut Known) -> T) -> T {
        let place = usize::try_from(of.stat().inode % RESIDENT_FILES as u64).unwrap_or(0);
        work(&mut self.files.borrow_mut()[place])
    }
}

impl Known {
    fn is_of(&self, of: &OpenFile) -> bool {
        (self.device, self.inode) == (of.stat().device, of.stat().inode)
    }

    fn slot(&mut self, window: u64) -> Option<&mut u64> {
        self.until_ms.get_mut(usize::try_from(window).ok()?)
    }
}

/// How many of the next `bytes_max` bytes from `offset` can be sent without waiting for them, at least
/// one. Whole windows are looked at, up to the `end` of what is wanted; `warm` remembers them.
pub fn resident_bytes(
    of: &OpenFile,
    offset: u64,
    bytes_max: usize,
    end: u64,
    warm: &mut Warm,
    resident: &Resident,
) -> Step<io::Result<usize>> {
    let known = match of.mode() {
        Mode::Memory => bytes_max,
        Mode::Inline | Mode::OpenInline => warm.bytes_from(offset).min(bytes_max),
        Mode::Remote => 0,
    };
    if known > 0 {
        return Step::Ready(Ok(known));
    }
    if of.mode() != Mode::Inline {
        return Step::Wait(why_not(of.mode()));
    }
    let now_ms = monotonic_coarse_ms();
    let wanted = offset.saturating_add(bytes_max as u64).div_ceil(WINDOW_BYTES).saturating_mul(WINDOW_BYTES);
    match windows_from(of, offset, wanted.min(end), resident, now_ms) {
        Ok(reached) if reached > offset => {
            *warm = Warm::to(reached, now_ms + RESIDENT_MS);
            // Not by `warm`, which may be over: a worker can lose its core for longer.
            Step::Ready(Ok(usize::try_from(reached - offset).unwrap_or(bytes_max).min(bytes_max)))
        }
        Ok(_) => Step::Wait(Why::ColdData),
        Err(error) => Step::Ready(Err(error)),
    }
}

/// Where the windows end that are resident from `offset` on, `end` at most.
fn windows_from(of: &OpenFile, offset: u64, end: u64, resident: &Resident, now_ms: u64) -> io::Result<u64> {
    let mut at = offset;
    // The last look took the first byte of this window too.
    let mut has_first = false;
    while at < end {
        let window = at / WINDOW_BYTES;
        let window_end = (window + 1).saturating_mul(WINDOW_BYTES).min(end);
        if resident.knows(of, window, now_ms) {
            (at, has_first) = (window_end, false);
            continue;
        }
        if !has_first {
            match looked(of, at, 1)? {
                // The file ends before: nothing is to be waited for, and the sending says so.
                Some(0) => return Ok(window_end),
                Some(_) => {}
                None => break,
            }
        }
        let wanted = if window_end < end { 2 } else { 1 };
        match looked(of, window_end - 1, wanted)? {
            // Shorter than it was: the pool finds out where it ends now.
            Some(0) | None => break,
            Some(found) => has_first = found == 2,
        }
        let ends = window_end.is_multiple_of(WINDOW_BYTES) || window_end == of.stat().size;
        let is_whole = at.is_multiple_of(WINDOW_BYTES) && ends;
        if is_whole {
            resident.note(of, window, now_ms);
        }
        at = window_end;
    }
    Ok(at)
}

/// How many of `bytes` at `offset` are resident; `None` where none is.
fn looked(of: &OpenFile, offset: u64, bytes: usize) -> io::Result<Option<usize>> {
    match file::look_at(of.fd(), bytes, offset) {
        Ok(count) => Ok(Some(count)),
        Err(error) => match error.raw_os_error() {
            Some(libc::EAGAIN) => Ok(None),
            Some(libc::EOPNOTSUPP) => {
                device::remember_no_nowait(of.stat().device);
                Ok(None)
            }
            _ => Err(error),
        },
    }
}

/// Bytes from `offset` that the pool reads through where they are not resident: to the end of a window,
/// and the whole next one for a start within one, so that a range takes no more trips than a file.
#[must_use]
pub fn window_to_read(offset: u64, left: usize) -> usize {
    let behind = usize::try_from(offset % WINDOW_BYTES).unwrap_or(0);
    let window = if behind == 0 { FILE_CHUNK_BYTES } else { 2 * FILE_CHUNK_BYTES - behind };
    left.min(window)
}

/// Sends up to `bytes` from `offset`, which [`resident_bytes`] gave. Zero means that the file is shorter
/// than it was.
///
/// # Errors
/// Of the file or of the socket: WouldBlock where that is full.
pub fn send(of: &OpenFile, offset: u64, bytes: usize, to: BorrowedFd<'_>) -> io::Result<usize> {
    socket::sendfile(to, of.fd(), offset, bytes)
}

/// Whether an error of [`send`] is about the connection and not about the file.
#[must_use]
pub fn is_of_client(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::EPIPE
                | libc::ECONNRESET
                | libc::ECONNABORTED
                | libc::ENOTCONN
                | libc::ETIMEDOUT
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::ENETDOWN
        )
    )
}

/// Whether an error of [`send`] says that this file system has no sendfile.
#[must_use]
pub fn is_lacking(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::Offload;
    use std::os::fd::{AsFd as _, OwnedFd};

    fn open(name: &str, bytes: u64, mode: Mode) -> OpenFile {
        // Beneath Cargo's own directory: a file system with RWF_NOWAIT, unlike /tmp in many places.
        let path = std::env::current_exe().unwrap().with_file_name(format!("{name}-{}", std::process::id()));
        std::fs::write(&path, vec![b'x'; usize::try_from(bytes).unwrap()]).unwrap();
        let fd = OwnedFd::from(std::fs::File::open(&path).unwrap());
        std::fs::remove_file(path).unwrap();
        let stat = file::fstat(fd.as_fd()).unwrap();
        OpenFile::new(fd, stat, mode, Offload::start(1, 10).unwrap().lane())
    }

    #[test]
    fn windows_that_were_looked_at_are_known_for_a_while_and_others_are_not() {
        let size = 2 * WINDOW_BYTES + 10;
        let of = open("send-known", size, Mode::Inline);
        let resident = Resident::default();
        // Just written, so in memory; where nobody can ask there is nothing to be known.
        if windows_from(&of, 0, size, &resident, 1_000).unwrap() != size {
            return;
        }
        assert!((0..3).all(|window| resident.knows(&of, window, 1_000 + RESIDENT_MS - 1)));
        assert!((0..3).all(|window| !resident.knows(&of, window, 1_000 + RESIDENT_MS)), "believed too long");
        assert!(!resident.knows(&of, 3, 1_000) && !resident.knows(&of, u64::MAX, 1_000));
        let other = open("send-other", size, Mode::Inline);
        assert!(!resident.knows(&other, 0, 1_000), "another file");
        // A part of a window says nothing about all of it.
        let resident = Resident::default();
        assert_eq!(windows_from(&of, 5, 100, &resident, 1_000).unwrap(), 100);
        assert_eq!(windows_from(&of, 5, size, &resident, 1_000).unwrap(), size);
        assert!(!resident.knows(&of, 0, 1_000) && resident.knows(&of, 1, 1_000));
    }

    #[test]
    fn each_kind_of_file_system_has_its_own_answer() {
        let bytes = |mode, warm: &mut Warm| match resident_bytes(
            &open("send-mode", 100, mode),
            0,
            100,
            100,
            warm,
            &Resident::default(),
        ) {
            Step::Ready(bytes) => bytes.ok(),
            Step::Wait(_) => None,
        };
        let soon = monotonic_coarse_ms() + 60_000;
        assert_eq!(bytes(Mode::Memory, &mut Warm::default()), Some(100));
        assert_eq!(bytes(Mode::OpenInline, &mut Warm::default()), None);
        assert_eq!(bytes(Mode::OpenInline, &mut Warm::to(30, soon)), Some(30));
        assert_eq!(bytes(Mode::OpenInline, &mut Warm::to(30, 1)), None, "it is over");
        assert_eq!(bytes(Mode::Remote, &mut Warm::to(30, soon)), None);
    }

    /// A start within a window made a trip more than `fs::read::hops_max` promises.
    #[test]
    fn a_range_takes_no_more_trips_than_a_file() {
        let window = FILE_CHUNK_BYTES;
        for start in [0, 1, window - 1, window, window + 7] {
            for bytes in [1, window - 1, window, window + 1, 4 * window, 4 * window + 1] {
                let (mut done, mut trips) = (0, 0);
                while done < bytes {
                    done += window_to_read((start + done) as u64, bytes - done);
                    trips += 1;
                }
                assert!(trips <= bytes.div_ceil(window), "{trips} trips for {bytes} bytes from {start}");
            }
        }
    }
}
