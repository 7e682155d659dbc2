//! Why there is no file: five causes that a handler turns into a status.

use std::io;

/// The cause of a miss.
#[derive(Debug)]
pub enum Miss {
    /// No such name, or one that leads outside: the two cannot be told apart from outside.
    NotFound,
    /// The file is there and we may not read it (EACCES, EPERM).
    Forbidden,
    /// A fifo, device, socket, or a directory where a file was wanted.
    NotRegular,
    /// Nothing is wrong with the file, but it cannot be had now: a lease, a storm of renames, no
    /// descriptors, or it changed while it was read.
    Busy(io::Error),
    /// The device or the file system failed.
    Io(io::Error),
}

impl Miss {
    /// Whether the process or the system has no descriptor left (open(2): EMFILE, ENFILE).
    #[must_use]
    pub fn is_for_descriptors(&self) -> bool {
        matches!(self, Miss::Busy(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)))
    }
}

impl From<io::Error> for Miss {
    /// The one table from errno to cause (openat2(2), read(2); cases A01, A03, A08).
    fn from(error: io::Error) -> Miss {
        match error.raw_os_error() {
            Some(
                libc::ENOENT
                | libc::ENOTDIR
                | libc::ENAMETOOLONG
                | libc::ELOOP
                | libc::EXDEV
                | libc::EINVAL
                | libc::ENXIO
                | libc::ENODEV
                | libc::EILSEQ,
            ) => Miss::NotFound,
            Some(libc::EACCES | libc::EPERM) => Miss::Forbidden,
            Some(libc::EISDIR) => Miss::NotRegular,
            Some(libc::EAGAIN | libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EBUSY | libc::ETXTBSY) => {
                Miss::Busy(error)
            }
            _ => Miss::Io(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_errno_has_a_cause() {
        let cause = |errno| Miss::from(io::Error::from_raw_os_error(errno));
        assert!(matches!(cause(libc::ENOENT), Miss::NotFound));
        assert!(matches!(cause(libc::EXDEV), Miss::NotFound));
        assert!(matches!(cause(libc::ELOOP), Miss::NotFound));
        assert!(matches!(cause(libc::EACCES), Miss::Forbidden));
        assert!(matches!(cause(libc::EMFILE), Miss::Busy(_)));
        assert!(matches!(cause(libc::EAGAIN), Miss::Busy(_)));
        assert!(matches!(cause(libc::EIO), Miss::Io(_)));
        assert!(matches!(cause(libc::ESTALE), Miss::Io(_)));
    }
}
