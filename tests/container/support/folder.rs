//! A directory of a test's own, to be mounted into containers.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// Removed with everything in it when dropped.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        Self::below(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    /// On the tmpfs that every Linux has.
    pub fn in_memory() -> Folder {
        Self::below(Path::new("/dev/shm"))
    }

    fn below(parent: &Path) -> Folder {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("scalws-container-{}-{number}", std::process::id());
        let path = parent.join(name);
        // A run that was killed may have left one under the same process id.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// A small site: an index, and whatever else a test writes.
    pub fn site() -> Folder {
        let folder = Folder::new();
        folder.file("index.html", b"<p>home</p>\n");
        folder
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file, with the directories above it.
    pub fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// The `--volume` value that mounts the folder read-only.
    pub fn mounted_at(&self, target: &str) -> String {
        format!("{}:{target}:ro", self.0.display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
