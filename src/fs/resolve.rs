//! The one resolver: a path beneath a root descriptor becomes an open file by one `openat2`
//! (docs/adr/0006-one-resolver.md). Nothing else in the house opens a file for a request.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::fs::root::Directory;
use crate::fs::sidecar::{self, Chosen, Sought};
use crate::fs::{Miss, Mode, OpenFile, Step, content_tag, device, read};
use crate::limits::{FILE_INLINE_BYTES_MAX, RESOLVE_MS_MAX, RESOLVE_TRIES_AT_ONCE, RESOLVE_TRIES_MAX};
use crate::offload::{Lane, Why};
use crate::sys::file::{self, Kind, Stat};

/// Whether symbolic links that stay beneath the root are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Followed while they stay beneath the root.
    Inside,
    /// None, on any level.
    Refused,
}

impl Links {
    fn flags(self) -> u64 {
        let base = file::RESOLVE_BENEATH | file::RESOLVE_NO_MAGICLINKS;
        match self {
            Links::Inside => base,
            Links::Refused => base | file::RESOLVE_NO_SYMLINKS,
        }
    }
}

/// What a path leads to.
#[derive(Debug)]
pub enum Found {
    /// A regular file; from the pool with its first read, when it is small.
    File(OpenFile, Option<Vec<u8>>),
    /// A directory.
    Directory,
}

/// Opens `path` for reading without waiting. `mode_of` knows the mode of a device, or asks the kernel.
pub(in crate::fs) fn open_cached(
    directory: &Directory,
    path: &[u8],
    links: Links,
    lane: Lane,
    mode_of: impl FnOnce(&Stat, BorrowedFd<'_>) -> Mode,
) -> Step<Result<Found, Miss>> {
    match resolve_cached(directory, path, file::OPEN_READ, links, lane, mode_of) {
        Step::Ready(Err(miss)) => Step::Ready(Err(miss)),
        Step::Ready(Ok((_, stat, _)))
            if stat.kind == Kind::Regular
                && content_tag::is_wanted(&stat)
                && content_tag::known(&stat).is_none() =>
        {
            // Its tag has to be read from its content first.
            Step::Wait(Why::ContentTag)
        }
        Step::Ready(Ok((fd, stat, mode))) => Step::Ready(classify(fd, stat, mode, lane)),
        Step::Wait(why) => Step::Wait(why),
    }
}

/// What `path` leads to, without waiting and without opening it for reading.
pub(in crate::fs) fn look_cached(
    directory: &Directory,
    path: &[u8],
    links: Links,
    lane: Lane,
    mode_of: impl FnOnce(&Stat, BorrowedFd<'_>) -> Mode,
) -> Step<Result<Stat, Miss>> {
    match resolve_cached(directory, path, file::OPEN_LOOK, links, lane, mode_of) {
        Step::Ready(opened) => Step::Ready(opened.map(|(_, stat, _)| stat)),
        Step::Wait(why) => Step::Wait(why),
    }
}

fn resolve_cached(
    directory: &Directory,
    path: &[u8],
    flags: i32,
    links: Links,
    lane: Lane,
    mode_of: impl FnOnce(&Stat, BorrowedFd<'_>) -> Mode,
) -> Step<Result<(OwnedFd, Stat, Mode), Miss>> {
    let mut resolve = links.flags() | file::RESOLVE_CACHED;
    if !directory.may_cross_mounts {
        resolve |= file::RESOLVE_NO_XDEV;
    }
    let fd = match open_beneath(directory, path, flags, resolve) {
        Ok(fd) => fd,
        Err(error) => {
            return match error.raw_os_error() {
                Some(libc::EAGAIN) => Step::Wait(Why::ColdName),
                // Another mount or an escape: the pool tells them apart.
                Some(libc::EXDEV) if !directory.may_cross_mounts => Step::Wait(Why::Mount),
                // A directory that may be passed but not listed is still a directory.
                Some(libc::EACCES) => Step::Wait(Why::Permission),
                _ => Step::Ready(Err(error.into())),
            };
        }
    };
    let stat = match file::fstat(fd.as_fd()) {
        Ok(stat) => stat,
        Err(error) => return Step::Ready(Err(error.into())),
    };
    let mode = mode_of(&stat, fd.as_fd());
    if mode == Mode::Remote {
        // It was opened all the same: a remote file system behind mounts that looked local.
        lane.detach(move || drop(fd));
        return Step::Wait(Why::Remote);
    }
    Step::Ready(Ok((fd, stat, mode)))
}

/// Opens the first of `sought` that leads to a file or its sidecar, waiting as long as it takes, and
/// reads it whole when it is small; where none does, the first that leads to a directory. Says which one
/// it was. Runs in the pool.
pub(in crate::fs) fn open_waiting(
    directory: &Directory,
    sought: &[Sought],
    links: Links,
    lane: Lane,
) -> Result<(usize, Chosen), Miss> {
    let open = |path: &[u8]| Step::Ready(open_one_waiting(directory, path, links, lane));
    let look = |path: &[u8]| Step::Ready(look_waiting(directory, path, links));
    let (mut miss, mut directory_found) = (Miss::NotFound, None);
    for (number, one) in sought.iter().enumerate() {
        let chosen = match sidecar::choose(&one.path, &one.endings, open, look) {
            Step::Ready(chosen) => chosen,
            Step::Wait(_) => unreachable!("what may wait never says so"),
        };
        match chosen {
            Ok(chosen @ Chosen { found: Found::Directory, .. }) => {
                directory_found.get_or_insert((number, chosen));
            }
            Err(next @ (Miss::NotFound | Miss::NotRegular)) => miss = next,
            chosen => return chosen.map(|chosen| (number, chosen)),
        }
    }
    directory_found.ok_or(miss)
}

/// What `path` leads to, waiting as long as it takes.
pub(in crate::fs) fn look_waiting(directory: &Directory, path: &[u8], links: Links) -> Result<Stat, Miss> {
    let fd = open_with_retries(directory, path, file::OPEN_LOOK, links)?;
    Ok(file::fstat(fd.as_fd())?)
}

fn open_one_waiting(directory: &Directory, path: &[u8], links: Links, lane: Lane) -> Result<Found, Miss> {
    let fd = match open_with_retries(directory, path, file::OPEN_READ, links) {
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
            // A directory without read permission can still be an anchor for what lies in it.
            return match open_with_retries(directory, path, file::OPEN_ANCHOR, links) {
                Ok(_) => Ok(Found::Directory),
                Err(_) => Err(error.into()),
            };
        }
        other => other?,
    };
    let stat = file::fstat(fd.as_fd())?;
    let mode = Mode::of_magic(file::file_system_magic(fd.as_fd())?);
    let mut found = classify(fd, stat, mode, lane)?;
    if let Found::File(file, content) = &mut found {
        if content_tag::is_wanted(&stat) && content_tag::known(&stat).is_none() {
            content_tag::learn(file)?;
        }
        if stat.size <= FILE_INLINE_BYTES_MAX {
            *content = Some(read::part_waiting(file, 0, stat.size)?);
            if !read::is_young(file) && file.is_unchanged() {
                file.settle();
            }
        }
    }
    Ok(found)
}

/// One `openat2`, and in a volume of a kubelet a second one for what is not there: the kubelet removes the
/// old version right after it swapped `..data`, and a walk that had just read that link ends in
/// nothing (4 of 6,000 swaps). By then the new link is in place, so the second look finds what was
/// there all the time. It never waits: a miss on a remote file system is not asked for twice.
fn open_beneath(directory: &Directory, path: &[u8], flags: i32, resolve: u64) -> io::Result<OwnedFd> {
    let fd = directory.fd.as_fd();
    match file::openat2(fd, path, flags, resolve) {
        Err(first) if first.raw_os_error() == Some(libc::ENOENT) && directory.is_kubelet_volume => {
            match file::openat2(fd, path, flags, resolve | file::RESOLVE_CACHED) {
                Err(_) if resolve & file::RESOLVE_CACHED == 0 => Err(first),
                second => second,
            }
        }
        other => other,
    }
}

pub(in crate::fs) fn open_with_retries(
    directory: &Directory,
    path: &[u8],
    flags: i32,
    links: Links,
) -> io::Result<OwnedFd> {
    with_retries(|| open_beneath(directory, path, flags, links.flags()))
}

/// EAGAIN without RESOLVE_CACHED is a rename while `..` was walked, or a lease that stays: tried
/// again a bounded number of times, then it is the caller's to say "busy".
///
/// Any rename on the machine counts, and a walk that loses its core meets one for sure. So the first tries
/// follow at once, whatever the time says: a thread that came back after 64 ms used to give up without
/// a second look (2 of 3,000 links through `..` on two busy cores).
fn with_retries<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let start = Instant::now();
    let mut tries = 0;
    loop {
        tries += 1;
        match open() {
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {
                if tries < RESOLVE_TRIES_AT_ONCE {
                    continue;
                }
                if tries >= RESOLVE_TRIES_MAX || start.elapsed() >= Duration::from_millis(RESOLVE_MS_MAX) {
                    return Err(error);
                }
                // A pool thread, not a worker: a lease holder needs time to let go.
                std::thread::sleep(Duration::from_millis(u64::from(tries - RESOLVE_TRIES_AT_ONCE + 1)));
            }
            other => return other,
        }
    }
}

fn classify(fd: OwnedFd, stat: Stat, mode: Mode, lane: Lane) -> Result<Found, Miss> {
    match stat.kind {
        Kind::Regular => Ok(Found::File(OpenFile::new(fd, stat, mode, lane), None)),
        Kind::Directory => Ok(Found::Directory),
        Kind::Link | Kind::Other => Err(Miss::NotRegular),
    }
}

/// What the kernel can do, found out once at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Support {
    /// RESOLVE_CACHED works (Linux 5.12); without it every resolution goes through the pool.
    pub cached: bool,
}

/// Tests `openat2` and RESOLVE_CACHED on `directory`, apart from each other.
///
/// # Errors
/// Any answer but success or "unknown flag": an old kernel (before 5.6) or a seccomp profile. There
/// is no fallback: one that is latched on a refusal is how another server came to lose its walls.
pub fn probe(directory: BorrowedFd<'_>) -> io::Result<Support> {
    let flags = Links::Inside.flags();
    file::openat2(directory, b"", file::OPEN_ANCHOR, flags)?;
    match file::openat2(directory, b"", file::OPEN_ANCHOR, flags | file::RESOLVE_CACHED) {
        Ok(_) => Ok(Support { cached: true }),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(Support { cached: false }),
        Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => Ok(Support { cached: true }),
        Err(error) => Err(error),
    }
}

/// Name of the file system that a descriptor lies on, for people.
#[must_use]
pub fn file_system_name(fd: BorrowedFd<'_>) -> &'static str {
    file::file_system_magic(fd).map_or("unknown", device::name_of_magic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_answers_and_a_refusal_is_no_answer() {
        let here = file::open_anchor(std::path::Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        // Whether CACHED is known depends on the kernel; that openat2 is there is asked of every one.
        assert!(probe(here.as_fd()).is_ok());
        let no_directory: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
        let error = probe(no_directory.as_fd()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTDIR));
    }

    /// BENEATH happens to refuse magic links as well, today (openat2(2)): no test of behaviour can tell.
    #[test]
    fn every_open_is_beneath_the_root_and_follows_no_magic() {
        for links in [Links::Inside, Links::Refused] {
            let flags = links.flags();
            assert_ne!(flags & file::RESOLVE_BENEATH, 0, "{links:?}");
            assert_ne!(flags & file::RESOLVE_NO_MAGICLINKS, 0, "{links:?}");
        }
    }

    /// 1. A pool thread walks a link through `..` and loses its core in the middle.
    /// 2. Something somewhere is renamed.
    /// 3. The thread comes back to EAGAIN, and to a time that is up: it has to look again.
    #[test]
    fn a_walk_that_lost_its_core_is_tried_again() {
        let busy = || io::Error::from_raw_os_error(libc::EAGAIN);
        let mut tries = 0;
        let found = with_retries(|| {
            tries += 1;
            if tries == 1 {
                std::thread::sleep(Duration::from_millis(RESOLVE_MS_MAX + 1));
            }
            if tries == 2 { Ok(tries) } else { Err(busy()) }
        });
        assert_eq!(found.unwrap(), 2);
        let mut tries = 0;
        let error = with_retries::<()>(|| {
            tries += 1;
            Err(busy())
        });
        assert_eq!(error.unwrap_err().raw_os_error(), Some(libc::EAGAIN));
        assert!((RESOLVE_TRIES_AT_ONCE..=RESOLVE_TRIES_MAX).contains(&tries), "{tries}");
        let mut tries = 0;
        let error = with_retries::<()>(|| {
            tries += 1;
            Err(io::Error::from_raw_os_error(libc::ENOENT))
        });
        assert_eq!((error.unwrap_err().raw_os_error(), tries), (Some(libc::ENOENT), 1));
    }
}
