//! What a file system can promise: which calls may be made on a worker.
//!
//! Local file systems are listed, everything else counts as remote: an unknown one may hang.

use std::sync::atomic::{AtomicU64, Ordering};

/// How files of a file system are opened and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Opened and read on the worker; RWF_NOWAIT says whether data is resident.
    Inline,
    /// Opened and read on the worker: the data is always in memory (tmpfs, ramfs).
    Memory,
    /// Opened on the worker, read in the pool: RWF_NOWAIT is not supported (overlayfs).
    OpenInline,
    /// Never touched by a worker: every call may hang (FUSE, NFS, SMB, 9p, virtiofs, unknown).
    Remote,
}

impl Mode {
    /// The mode that a file system starts with, by its magic number (statfs(2)). EOPNOTSUPP from a
    /// read may turn `Inline` into `OpenInline` later.
    #[must_use]
    pub fn of_magic(magic: u64) -> Mode {
        match name_of_magic(magic) {
            "tmpfs" | "ramfs" => Mode::Memory,
            "overlayfs" => Mode::OpenInline,
            "fuse" | "nfs" | "smb" | "9p" | "ceph" | "afs" | "unknown" => Mode::Remote,
            _ => Mode::Inline,
        }
    }

    /// For the start-up log and `explain`.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Mode::Inline => "inline while resident, cold data through the pool",
            Mode::Memory => "inline, always in memory",
            Mode::OpenInline => "opened inline, read through the pool (no RWF_NOWAIT here)",
            Mode::Remote => "everything through the pool (may hang)",
        }
    }
}

/// Devices whose reads answered EOPNOTSUPP to RWF_NOWAIT; 0 is an empty slot. A device that finds no
/// slot is asked again with each file: slower, never wrong.
static WITHOUT_NOWAIT: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];

/// Remembers, for the whole process, that a device cannot say whether a read would wait.
pub fn remember_no_nowait(device: u64) {
    let free = |slot: &&AtomicU64| {
        slot.compare_exchange(0, device, Ordering::Relaxed, Ordering::Relaxed)
            .map_or_else(|found| found == device, |_| true)
    };
    let _ = WITHOUT_NOWAIT.iter().find(free);
}

/// Whether that was remembered of a device.
#[must_use]
pub fn lacks_nowait(device: u64) -> bool {
    let known = WITHOUT_NOWAIT.iter().map(|slot| slot.load(Ordering::Relaxed));
    known.take_while(|slot| *slot != 0).any(|slot| slot == device)
}

/// Name of a file system by its magic number.
#[must_use]
pub fn name_of_magic(magic: u64) -> &'static str {
    match magic {
        0xEF53 => "ext4", // ext2 and ext3 share it
        0x5846_5342 => "xfs",
        0x9123_683E => "btrfs",
        0xF2F5_2010 => "f2fs",
        0xCA45_1A4E => "bcachefs",
        0x2FC1_2FC1 => "zfs",
        0x7371_7368 => "squashfs",
        0xE0F5_E1E2 => "erofs",
        0x9660 => "iso9660",
        0x4D44 => "vfat",
        0x2011_BAB0 => "exfat",
        0x0102_1994 => "tmpfs",
        0x8584_58F6 => "ramfs",
        0x794C_7630 => "overlayfs",
        0x6573_5546 => "fuse", // virtiofs too
        0x6969 => "nfs",
        0xFF53_4D42 | 0xFE53_4D42 | 0x517B => "smb",
        0x0102_1997 => "9p",
        0x00C3_6400 => "ceph",
        0x5346_414F => "afs",
        _ => "unknown",
    }
}

/// Name of the types in mountinfo that are as local as those above: a mount of another type
/// beneath a root keeps workers from crossing mounts.
#[must_use]
pub fn is_local_type(name: &str) -> bool {
    const LOCAL: [&str; 16] = [
        "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "bcachefs", "zfs", "squashfs", "erofs", "iso9660",
        "vfat", "exfat", "tmpfs", "ramfs", "overlay",
    ];
    LOCAL.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_without_nowait_are_remembered() {
        let device = u64::MAX - 7;
        assert!(!lacks_nowait(device));
        remember_no_nowait(device);
        remember_no_nowait(device);
        assert!(lacks_nowait(device) && !lacks_nowait(device - 1));
    }

    #[test]
    fn what_is_not_known_to_be_local_is_remote() {
        assert_eq!(Mode::of_magic(0xEF53), Mode::Inline);
        assert_eq!(Mode::of_magic(0x0102_1994), Mode::Memory);
        assert_eq!(Mode::of_magic(0x794C_7630), Mode::OpenInline);
        for remote in [0x6573_5546, 0x6969, 0x0102_1997, 0xFE53_4D42, 0xDEAD_BEEF] {
            assert_eq!(Mode::of_magic(remote), Mode::Remote, "{remote:x}");
        }
        assert!(is_local_type("ext4") && !is_local_type("fuse.sshfs") && !is_local_type("nfs4"));
    }
}
