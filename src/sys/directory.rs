//! Directories: the names in one, and what can be known of each without opening it.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::file::{Stat, stat_of};

/// Read the names of a directory.
pub const OPEN_NAMES: i32 = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NONBLOCK | libc::O_CLOEXEC;

/// What one call takes: a thousand names or so; glibc takes as much.
const BUFFER_BYTES: usize = 32 * 1024;
/// `struct linux_dirent64` (getdents64(2)): d_ino, d_off, d_reclen, d_type, then the name and its NUL.
const RECORD_LENGTH_AT: usize = 16;
const TYPE_AT: usize = 18;
const NAME_AT: usize = 19;

/// Whether a name may be a file or a directory, by its `d_type`. File systems need not know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// A fifo, a socket or a device.
    Neither,
    /// A file, a directory, a link, or unknown.
    Maybe,
}

/// The names of a directory, as they come: neither sorted nor at one time.
#[derive(Debug)]
pub struct Names {
    directory: OwnedFd,
    buffer: Vec<u8>,
    at: usize,
}

impl Names {
    /// The names of what `directory` is open on with [`OPEN_NAMES`].
    #[must_use]
    pub fn of(directory: OwnedFd) -> Names {
        Names { directory, buffer: Vec::with_capacity(BUFFER_BYTES), at: 0 }
    }

    /// The next name, `.` and `..` among them; `None` at the end.
    ///
    /// # Errors
    /// The errno of the call; ENOENT when the directory was removed.
    pub fn advance(&mut self) -> io::Result<Option<Name<'_>>> {
        if self.at >= self.buffer.len() {
            self.at = 0;
            getdents64(self.directory.as_fd(), &mut self.buffer)?;
            if self.buffer.is_empty() {
                return Ok(None);
            }
        }
        let broken = || io::Error::from_raw_os_error(libc::EIO);
        let rest = &self.buffer[self.at..];
        let length = rest.get(RECORD_LENGTH_AT..TYPE_AT).and_then(|two| two.try_into().ok());
        let length = length.map_or(0, |two| usize::from(u16::from_ne_bytes(two)));
        let record = rest.get(..length).filter(|record| record.len() > NAME_AT).ok_or_else(broken)?;
        let name = CStr::from_bytes_until_nul(&record[NAME_AT..]).map_err(|_| broken())?;
        let hint = match record[TYPE_AT] {
            libc::DT_FIFO | libc::DT_SOCK | libc::DT_CHR | libc::DT_BLK => Hint::Neither,
            _ => Hint::Maybe,
        };
        self.at += length;
        Ok(Some(Name { directory: self.directory.as_fd(), name, hint }))
    }
}

/// `ssize_t syscall(SYS_getdents64, int fd, void *dirp, size_t count)`, getdents64(2): fills `buffer` from
/// its start with whole records; nothing at the end.
fn getdents64(directory: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.clear();
    let spare = buffer.spare_capacity_mut();
    // SAFETY: the kernel writes at most as many bytes as the spare capacity has, which outlives the call.
    let result = unsafe {
        libc::syscall(libc::SYS_getdents64, directory.as_raw_fd(), spare.as_mut_ptr(), spare.len())
    };
    let Ok(count) = usize::try_from(result) else { return Err(io::Error::last_os_error()) };
    // SAFETY: the kernel wrote `count` bytes at the start of the capacity.
    unsafe { buffer.set_len(count) };
    Ok(())
}

/// What somebody wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Read a file.
    Read,
    /// Look names up in a directory.
    Search,
}

/// One name in its directory.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a> {
    directory: BorrowedFd<'a>,
    name: &'a CStr,
    /// What its directory says of it.
    pub hint: Hint,
}

impl Name<'_> {
    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.name.to_bytes()
    }

    /// `int fstatat(int dirfd, const char *pathname, struct stat *statbuf, int flags)`, fstatat(2), with
    /// AT_SYMLINK_NOFOLLOW: a link is told of as itself.
    ///
    /// # Errors
    /// The errno of the call.
    pub fn stat(&self) -> io::Result<Stat> {
        let mut stat = MaybeUninit::<libc::stat>::uninit();
        let directory = self.directory.as_raw_fd();
        // SAFETY: the name ends in NUL, the pointer is to a whole struct stat, the descriptor is borrowed.
        let result = unsafe {
            libc::fstatat(directory, self.name.as_ptr(), stat.as_mut_ptr(), libc::AT_SYMLINK_NOFOLLOW)
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call succeeded, so the kernel filled the struct.
        Ok(stat_of(&unsafe { stat.assume_init() }))
    }

    /// `int syscall(SYS_faccessat2, int dirfd, const char *path, int mode, int flags)`, faccessat2(2): whether
    /// this process may, as an open would find it (AT_EACCESS). A kernel before 5.8, or a seccomp profile
    /// of its time, does not know it: then faccessat(2), which differs for those alone who have privileges
    /// without being root.
    #[must_use]
    pub fn may(&self, right: Right) -> bool {
        let mode = match right {
            Right::Read => libc::R_OK,
            Right::Search => libc::X_OK,
        };
        let (directory, name) = (self.directory.as_raw_fd(), self.name.as_ptr());
        let flags = libc::AT_EACCESS | libc::AT_SYMLINK_NOFOLLOW;
        // SAFETY: the name ends in NUL, the descriptor is borrowed for the call; nothing is written.
        if unsafe { libc::syscall(libc::SYS_faccessat2, directory, name, mode, flags) } == 0 {
            return true;
        }
        let is_unknown =
            matches!(io::Error::last_os_error().raw_os_error(), Some(libc::ENOSYS | libc::EPERM));
        // SAFETY: as above.
        is_unknown && unsafe { libc::syscall(libc::SYS_faccessat, directory, name, mode) } == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::file::{Kind, RESOLVE_BENEATH, open_anchor, openat2};

    #[test]
    fn every_name_comes_once_over_several_reads() {
        let path = std::env::temp_dir().join(format!("scalws-names-{}", std::process::id()));
        std::fs::create_dir_all(path.join("directory")).unwrap();
        let long = "n".repeat(240);
        for number in 0..300 {
            std::fs::write(path.join(format!("{long}{number}")), b"12345").unwrap();
        }
        std::os::unix::fs::symlink("nowhere", path.join("link")).unwrap();
        let anchor = open_anchor(&path).unwrap();
        let mut names = Names::of(openat2(anchor.as_fd(), b"", OPEN_NAMES, RESOLVE_BENEATH).unwrap());
        let (mut found, mut links, mut directories) = (std::collections::BTreeSet::new(), 0, 0);
        while let Some(name) = names.advance().unwrap() {
            let stat = name.stat().unwrap();
            links += usize::from(stat.kind == Kind::Link);
            directories += usize::from(stat.kind == Kind::Directory && name.may(Right::Search));
            assert_eq!(name.hint, Hint::Maybe);
            assert!(stat.kind != Kind::Regular || (stat.size == 5 && name.may(Right::Read)));
            assert!(found.insert(name.bytes().to_vec()), "twice: {}", name.bytes().escape_ascii());
        }
        assert!(names.advance().unwrap().is_none(), "the end stays the end");
        std::fs::remove_dir_all(&path).unwrap();
        assert_eq!((found.len(), links, directories), (304, 1, 3), "with `.` and `..`");
    }
}
