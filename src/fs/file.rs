//! An open regular file, with the facts that were true when it was opened.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fs::{Mode, Version};
use crate::offload::Lane;
use crate::sys::file::{Stat, fstat};

/// Files from this size on are looked at once more before they are closed: closing the last
/// descriptor of an unlinked 1 GiB file took 338 ms, and the time grows with the size.
const CLOSE_CHECK_BYTES_MIN: u64 = 1 << 20;

/// An open regular file. Closing it never blocks a worker: where it could, the pool closes it.
#[derive(Debug)]
pub struct OpenFile {
    /// Taken by `drop` alone.
    fd: Option<OwnedFd>,
    stat: Stat,
    mode: Mode,
    lane: Lane,
    is_settled: bool,
    /// It was kept open for later requests.
    is_kept: AtomicBool,
}

impl OpenFile {
    pub(in crate::fs) fn new(fd: OwnedFd, stat: Stat, mode: Mode, lane: Lane) -> OpenFile {
        OpenFile { fd: Some(fd), stat, mode, lane, is_settled: false, is_kept: AtomicBool::new(false) }
    }

    /// An open file that did not come through the resolver: for benches under valgrind, which has no
    /// openat2.
    ///
    /// # Errors
    /// fstat(2) fails.
    #[cfg(feature = "bench")]
    pub fn adopt(fd: OwnedFd, lane: Lane) -> std::io::Result<OpenFile> {
        let stat = fstat(fd.as_fd())?;
        Ok(OpenFile::new(fd, stat, Mode::Inline, lane))
    }

    /// Facts from the `fstat` right after it was opened.
    #[must_use]
    pub fn stat(&self) -> &Stat {
        &self.stat
    }

    /// Whether it is still the version that its facts are of, by a look at it. May hang where the file
    /// system is remote.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        let version = Version::of(&self.stat);
        fstat(self.fd()).is_ok_and(|now| Version::of(&now) == version && now.links > 0)
    }

    /// Says that it is kept open. Files that are deleted meanwhile, a whole release of them, are then closed
    /// at once, and for each the close is what frees it: not a worker's, whatever its size.
    pub fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }

    /// Says that what the pool read of it was read between two looks that agree.
    pub(in crate::fs) fn settle(&mut self) {
        self.is_settled = true;
    }

    /// Whether that was said.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// How it may be read.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The lane of the pool that reads it where the worker may not.
    #[must_use]
    pub fn lane(&self) -> Lane {
        self.lane
    }

    pub(in crate::fs) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect("the descriptor is taken by drop alone").as_fd()
    }

    /// A second descriptor for the same open file; it shares nothing that a positional read uses.
    pub(in crate::fs) fn duplicate(&self) -> std::io::Result<OpenFile> {
        let fd = self.fd().try_clone_to_owned()?;
        Ok(OpenFile::new(fd, self.stat, self.mode, self.lane))
    }

    fn may_block_on_close(&self) -> bool {
        match self.mode {
            Mode::Remote => true,
            _ if self.stat.size < CLOSE_CHECK_BYTES_MIN && !self.is_kept.load(Ordering::Relaxed) => false,
            // Unlinked since it was opened? Then this may be the last descriptor.
            _ => self.fd.as_ref().is_some_and(|fd| fstat(fd.as_fd()).map_or(true, |stat| stat.links == 0)),
        }
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if self.may_block_on_close() {
            let fd = self.fd.take();
            self.lane.detach(move || drop(fd));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::Offload;

    /// A change within the same tick of the clock would not show in the times.
    #[test]
    fn what_was_just_changed_is_not_kept_in_memory() {
        let path = std::env::temp_dir().join(format!("scalws-young-{}", std::process::id()));
        std::fs::write(&path, b"content").unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
        let stat = fstat(file.as_fd()).unwrap();
        let lane = Offload::start(1, 10).unwrap().lane();
        let file = OpenFile::new(file.into(), stat, Mode::Memory, lane);
        let settled = crate::fs::read::settled(&file);
        std::fs::remove_file(&path).unwrap();
        // The modification time is long past; the change time is that of now.
        assert_eq!(settled, None);
    }

    /// The look before says one version, the bytes are of the next.
    #[test]
    fn what_changed_since_its_look_is_not_kept_in_memory() {
        let path = std::env::temp_dir().join(format!("scalws-changed-{}", std::process::id()));
        std::fs::write(&path, b"content").unwrap();
        let file = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let now = fstat(file.as_fd()).unwrap();
        let an_hour_ago = now.ctime_s - 3_600;
        let before = Stat { mtime_s: an_hour_ago, ctime_s: an_hour_ago, ..now };
        let file = OpenFile::new(file.into(), before, Mode::Memory, Offload::start(1, 10).unwrap().lane());
        assert!(!crate::fs::read::is_young(&file), "or it would not have been read");
        assert_eq!(crate::fs::read::settled(&file), None);
    }

    #[test]
    fn only_a_close_that_may_block_goes_to_the_pool() {
        let path = std::env::temp_dir().join(format!("scalws-close-{}", std::process::id()));
        let lane = Offload::start(1, 10).unwrap().lane();
        let open = |bytes: u64, mode| {
            let file = std::fs::File::create_new(&path).unwrap();
            file.set_len(bytes).unwrap();
            let fd = OwnedFd::from(file);
            let stat = fstat(fd.as_fd()).unwrap();
            OpenFile::new(fd, stat, mode, lane)
        };
        let large = open(CLOSE_CHECK_BYTES_MIN, Mode::Inline);
        assert!(!large.may_block_on_close(), "it has a name still");
        std::fs::remove_file(&path).unwrap();
        assert!(large.may_block_on_close(), "its last descriptor frees its pages");
        let small = open(10, Mode::Inline);
        std::fs::remove_file(&path).unwrap();
        assert!(!small.may_block_on_close());
        small.keep();
        assert!(small.may_block_on_close(), "kept, it is closed with all others of its release");
        let remote = open(10, Mode::Remote);
        std::fs::remove_file(&path).unwrap();
        assert!(remote.may_block_on_close());
    }
}
