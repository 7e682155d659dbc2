//! A FUSE file system of a few files in the memory of the test: what a share on the network or a
//! directory of Docker Desktop is to the server.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::fuse::{ACCESS, BATCH_FORGET, FORGET, GETATTR, INIT, LOOKUP, OPEN, OPENDIR, STATFS, init, reply};

/// Opcodes of linux/fuse.h.
const READ: u32 = 15;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;

const ENOENT: i32 = -2;
const ENOSYS: i32 = -38;

/// Names with their content.
type Files = Vec<(&'static str, Vec<u8>)>;

/// What all of them are now, and how often one was written.
type Shared = Arc<Mutex<(Files, u64)>>;

/// Mounted; lazily unmounted when dropped.
pub struct Remote {
    path: PathBuf,
    files: Shared,
}

impl Remote {
    /// Mounts at an existing directory; the error says why it cannot be had here.
    pub fn mount(path: &Path, files: Files) -> Result<Remote, String> {
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let device = device.map_err(|error| format!("/dev/fuse: {error}"))?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let options = std::ffi::CString::new(options).unwrap();
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("scalws-it", path, "fuse.scalws-it", flags, options.as_c_str())
            .map_err(|error| format!("mount: {error}"))?;
        let files = Arc::new(Mutex::new((files, 0)));
        let served = Arc::clone(&files);
        std::thread::spawn(move || serve(device, &served));
        Ok(Remote { path: path.to_owned(), files })
    }

    /// Writes a file in its place, as another client of the share would, and looks at it here: what the kernel
    /// has of it is the new content from now on, for descriptors that are open as well.
    #[track_caller]
    pub fn write(&self, name: &str, content: &[u8]) {
        let mut files = self.files.lock().unwrap();
        files.1 += 1;
        files.0.iter_mut().find(|(known, _)| *known == name).unwrap().1 = content.to_vec();
        drop(files);
        assert_eq!(std::fs::read(self.path.join(name)).unwrap(), content);
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let _ = unmount(self.path.as_path(), UnmountFlags::DETACH);
    }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

/// Until the file system is gone (ENODEV).
fn serve(mut device: File, shared: &Shared) {
    let mut buffer = vec![0; 256 * 1024];
    loop {
        let length = match device.read(&mut buffer) {
            Ok(length) => length,
            Err(error) if error.raw_os_error() == Some(19) => return,
            Err(_) => continue,
        };
        let files = &*shared.lock().unwrap();
        // fuse_in_header: len, opcode, unique, nodeid, uid, gid, pid, padding.
        let (head, body) = buffer[..length].split_at(40);
        let opcode = u32::from_le_bytes(head[4..8].try_into().unwrap());
        let (unique, node) = (number(&head[8..]), number(&head[16..]));
        let answer = match opcode {
            INIT => Ok(init(body)),
            // The beginning of fuse_attr_out: nothing is valid for later.
            GETATTR => Ok([&[0; 16], &attributes(node, files)[..]].concat()),
            STATFS => Ok(vec![0; 80]),
            OPEN | OPENDIR => Ok(vec![0; 16]),
            FLUSH | RELEASE => Ok(Vec::new()),
            FORGET | BATCH_FORGET => continue,
            LOOKUP => {
                let name = body.strip_suffix(b"\0").unwrap_or(body);
                let found = files.0.iter().position(|(known, _)| known.as_bytes() == name);
                found.map(|at| entry(at as u64 + 2, files)).ok_or(ENOENT)
            }
            READ => {
                let (_, content) = &files.0[usize::try_from(node).unwrap() - 2];
                let size = u32::from_le_bytes(body[16..20].try_into().unwrap()) as usize;
                let start = usize::try_from(number(&body[8..])).unwrap().min(content.len());
                Ok(content[start..(start + size).min(content.len())].to_vec())
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

/// fuse_entry_out: the name is valid for an hour, what it is for no time.
fn entry(node: u64, files: &(Files, u64)) -> Vec<u8> {
    let mut out = Vec::new();
    for number in [node, 0, 3600, 0, 0] {
        out.extend(number.to_le_bytes());
    }
    out.extend(attributes(node, files));
    out
}

/// fuse_attr: node 1 is the root, the files follow.
fn attributes(node: u64, (files, writes): &(Files, u64)) -> Vec<u8> {
    let file = usize::try_from(node).unwrap().checked_sub(2).map(|at| &files[at].1);
    let time = 1_700_000_000 + writes;
    let size = file.map_or(0, Vec::len) as u64;
    let mut out = Vec::new();
    // ino, size, blocks, atime, mtime, ctime.
    for number in [node, size, size.div_ceil(512), time, time, time] {
        out.extend(number.to_le_bytes());
    }
    let mode = if file.is_some() { 0o100_644 } else { 0o40_755_u32 };
    // Nanoseconds of the three times, mode, nlink, uid, gid, rdev, blksize, flags.
    for number in [0, 0, 0, mode, 1, 0, 0, 0, 4096, 0] {
        out.extend(number.to_le_bytes());
    }
    out
}
