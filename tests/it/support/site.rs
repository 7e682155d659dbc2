//! A directory of a test's own: `root/` is served, what lies beside it is not.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// Removed with everything in it when dropped.
pub struct Site {
    directory: PathBuf,
}

impl Site {
    /// Under Cargo's directory for tests: a real file system, unlike `/tmp` in many places.
    pub fn new() -> Site {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("site-{}-{number}", std::process::id());
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // A run that was killed may have left one under the same process id.
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(directory.join("root")).unwrap();
        Site { directory }
    }

    /// With `x.txt`, `y.txt`, a directory `docs/` with an index, and an index of its own.
    pub fn sample() -> Site {
        let site = Site::new();
        site.file("x.txt", b"x marks the spot\n");
        site.file("y.txt", b"why\n");
        site.file("index.html", b"<p>home</p>\n");
        site.file("docs/index.html", b"<p>docs</p>\n");
        site.file("empty", b"");
        site
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn root(&self) -> PathBuf {
        self.directory.join("root")
    }

    /// Writes a file beneath the root, with the directories above it.
    pub fn file(&self, name: impl AsRef<[u8]>, content: &[u8]) -> PathBuf {
        self.beside(Path::new("root").join(OsStr::from_bytes(name.as_ref())), content)
    }

    /// Writes a file relative to the directory that holds the root.
    pub fn beside(&self, name: impl AsRef<Path>, content: &[u8]) -> PathBuf {
        let path = self.directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// A symbolic link beneath the root.
    pub fn link(&self, name: &str, to: impl AsRef<Path>) {
        symlink(to, self.root().join(name)).unwrap();
    }

    /// A static route for the root at `/`.
    pub fn route(&self) -> String {
        self.route_at("/")
    }

    /// A static route for the root at a prefix.
    pub fn route_at(&self, prefix: &str) -> String {
        format!("[[route]]\npath = \"{prefix}\"\nstatic = {{ root = '{}' }}\n", self.root().display())
    }

    /// A static route for the root at `/`, with more of its keys: `, index = []`.
    pub fn route_with(&self, keys: &str) -> String {
        format!("[[route]]\npath = \"/\"\nstatic = {{ root = '{}'{keys} }}\n", self.root().display())
    }

    /// Writes the config that [`super::Launch`] starts with.
    pub fn config(&self, text: &str) -> PathBuf {
        self.beside("scalws.toml", text.as_bytes())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // What cannot be removed is in Cargo's target directory, and `cargo clean` takes it.
        let _ = fs::remove_dir_all(&self.directory);
    }
}
