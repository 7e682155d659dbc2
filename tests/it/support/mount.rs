//! File systems of a test's own, mounted beneath its directory; only root can.

use std::ffi::CString;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::Site;

/// Unmounted when dropped: make it after the site and before the server.
pub struct Mounted {
    path: PathBuf,
}

impl Mounted {
    /// The site's root seen through an overlay, as in a container image. The error says why it cannot
    /// be had here.
    pub fn overlay(site: &Site) -> Result<Mounted, String> {
        let at = |name: &str| {
            let path = site.directory().join(name);
            std::fs::create_dir(&path).unwrap();
            path
        };
        let (upper, work, merged) = (at("upper"), at("work"), at("merged"));
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            site.root().display(),
            upper.display(),
            work.display()
        );
        Self::mount("overlay", merged, &options)
    }

    /// A disk of that size beneath the site's directory.
    pub fn small_disk(site: &Site, kib: u32) -> Result<Mounted, String> {
        let path = site.directory().join("disk");
        std::fs::create_dir(&path).unwrap();
        Self::mount("tmpfs", path, &format!("size={kib}k"))
    }

    fn mount(kind: &str, path: PathBuf, options: &str) -> Result<Mounted, String> {
        let options = CString::new(options).unwrap();
        mount("scalws-it", &path, kind, MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())
            .map_err(|error| format!("mount: {error}"))?;
        Ok(Mounted { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: a server that was killed just now may still hold files.
        let _ = unmount(&self.path, UnmountFlags::DETACH);
    }
}
