//! A FUSE file system that hangs: it answers what a mount needs, and no lookup below its root until it
//! is told to.
//!
//! Written against linux/fuse.h: plain structs of little-endian numbers over `/dev/fuse`.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// Opcodes of linux/fuse.h.
pub(super) const LOOKUP: u32 = 1;
pub(super) const FORGET: u32 = 2;
pub(super) const GETATTR: u32 = 3;
pub(super) const OPEN: u32 = 14;
pub(super) const STATFS: u32 = 17;
pub(super) const INIT: u32 = 26;
pub(super) const OPENDIR: u32 = 27;
pub(super) const ACCESS: u32 = 34;
const INTERRUPT: u32 = 36;
pub(super) const BATCH_FORGET: u32 = 42;

const FUSE_PARALLEL_DIROPS: u32 = 1 << 18;

const ENOENT: i32 = -2;
const EINTR: i32 = -4;
const ENOSYS: i32 = -38;

/// Mounted; lazily unmounted when dropped.
pub struct Hanging {
    path: PathBuf,
    device: File,
    held: Arc<Held>,
}

/// Calls that wait, by the number that names them in an answer.
type Held = Mutex<Vec<u64>>;

impl Hanging {
    /// Mounts at an existing directory; the error says why it cannot be had here.
    pub fn mount(path: &Path) -> Result<Hanging, String> {
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let device = device.map_err(|error| format!("/dev/fuse: {error}"))?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let options = std::ffi::CString::new(options).unwrap();
        mount(
            "scalws-it",
            path,
            "fuse.scalws-it",
            MountFlags::NOSUID | MountFlags::NODEV,
            options.as_c_str(),
        )
        .map_err(|error| format!("mount: {error}"))?;
        let held = Arc::new(Held::default());
        let serving = device.try_clone().map_err(|error| format!("/dev/fuse: {error}"))?;
        let holding = Arc::clone(&held);
        std::thread::spawn(move || serve(serving, &holding));
        Ok(Hanging { path: path.to_owned(), device, held })
    }

    /// Calls that have come and wait for an answer.
    pub fn waiting(&self) -> usize {
        self.held.lock().unwrap().len()
    }

    /// Answers all calls that wait now: there is no such file.
    pub fn release(&mut self) {
        let held = std::mem::take(&mut *self.held.lock().unwrap());
        for unique in held {
            reply(&mut self.device, unique, ENOENT, &[]);
        }
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        // What still waits ends when the last descriptor of the device is closed: ours with this value,
        // that of the thread below when the file system is gone.
        let held = std::mem::take(&mut *self.held.lock().unwrap());
        for unique in held {
            reply(&mut self.device, unique, EINTR, &[]);
        }
        let _ = unmount(self.path.as_path(), UnmountFlags::DETACH);
    }
}

/// Until the file system is gone (ENODEV).
fn serve(mut device: File, held: &Held) {
    // At least FUSE_MIN_READ_BUFFER, 8 KiB.
    let mut buffer = vec![0; 256 * 1024];
    loop {
        let length = match device.read(&mut buffer) {
            Ok(length) => length,
            Err(error) if error.raw_os_error() == Some(19) => return,
            // ENOENT: the caller was killed before its call was read. Others: try again.
            Err(_) => continue,
        };
        // fuse_in_header: len, opcode, unique, nodeid, uid, gid, pid, padding.
        let (head, body) = buffer[..length].split_at(40);
        let opcode = u32::from_le_bytes(head[4..8].try_into().unwrap());
        let unique = u64::from_le_bytes(head[8..16].try_into().unwrap());
        let answer = match opcode {
            INIT => Ok(init(body)),
            GETATTR => Ok(root_attributes()),
            STATFS => Ok(vec![0; 80]),
            OPENDIR => Ok(vec![0; 16]),
            FORGET | BATCH_FORGET => continue,
            LOOKUP | OPEN => {
                held.lock().unwrap().push(unique);
                continue;
            }
            INTERRUPT => {
                // A killed caller: a daemon that did not answer this would keep it as a zombie.
                let interrupted = u64::from_le_bytes(body[..8].try_into().unwrap());
                let mut held = held.lock().unwrap();
                if let Some(at) = held.iter().position(|unique| *unique == interrupted) {
                    held.swap_remove(at);
                    reply(&mut device, interrupted, EINTR, &[]);
                }
                continue;
            }
            ACCESS => Err(ENOSYS),
            _ => Err(ENOSYS),
        };
        match answer {
            Ok(body) => reply(&mut device, unique, 0, &body),
            Err(error) => reply(&mut device, unique, error, &[]),
        }
    }
}

/// fuse_out_header: len, error, unique.
pub(super) fn reply(device: &mut File, unique: u64, error: i32, body: &[u8]) {
    let length = u32::try_from(16 + body.len()).unwrap();
    let bytes = [&length.to_le_bytes(), &error.to_le_bytes(), &unique.to_le_bytes() as &[u8], body].concat();
    // The caller may have gone.
    let _ = device.write(&bytes);
}

/// fuse_init_out: version 7.31, the kernel's readahead, a write size of a page, and lookups in one
/// directory side by side: otherwise the kernel lets in one after the other.
pub(super) fn init(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(7_u32.to_le_bytes());
    out.extend(31_u32.to_le_bytes());
    out.extend(&body[8..12]);
    out.extend(FUSE_PARALLEL_DIROPS.to_le_bytes());
    out.extend(64_u16.to_le_bytes());
    out.extend(48_u16.to_le_bytes());
    out.extend(4096_u32.to_le_bytes());
    out.extend(1_u32.to_le_bytes());
    out.resize(64, 0);
    out
}

/// fuse_attr_out: valid for an hour; inode 1, a directory that all may enter.
fn root_attributes() -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(3600_u64.to_le_bytes());
    out.extend([0; 8]); // attr_valid_nsec, dummy
    out.extend(1_u64.to_le_bytes()); // ino
    out.extend([0; 40]); // size, blocks, atime, mtime, ctime
    out.extend([0; 12]); // their nanoseconds
    out.extend(0o40_755_u32.to_le_bytes()); // mode
    out.extend(2_u32.to_le_bytes()); // nlink
    out.extend([0; 12]); // uid, gid, rdev
    out.extend(4096_u32.to_le_bytes()); // blksize
    out.extend(0_u32.to_le_bytes()); // flags
    out
}
