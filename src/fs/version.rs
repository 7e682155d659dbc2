//! What makes a version of a file: what is remembered of one holds for nothing else.

use crate::sys::file::Stat;

/// Device, inode, size and both times, so that a file that changes is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, u32),
    changed: (i64, u32),
}

impl Version {
    /// The version that a look at a file saw.
    #[must_use]
    pub fn of(stat: &Stat) -> Version {
        let modified = (stat.mtime_s, stat.mtime_ns);
        let changed = (stat.ctime_s, stat.ctime_ns);
        Version { device: stat.device, inode: stat.inode, size: stat.size, modified, changed }
    }

    /// What stays the same when the file is written in place.
    #[must_use]
    pub fn file(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// When its content was last changed, as far as its owner says so, in milliseconds since the epoch.
    #[must_use]
    pub(in crate::fs) fn modified_ms(&self) -> i64 {
        in_ms(self.modified)
    }

    /// When its inode was last changed, in milliseconds since the epoch.
    #[must_use]
    pub(in crate::fs) fn changed_ms(&self) -> i64 {
        in_ms(self.changed)
    }
}

fn in_ms((seconds, nanoseconds): (i64, u32)) -> i64 {
    seconds.saturating_mul(1000).saturating_add(i64::from(nanoseconds / 1_000_000))
}
