//! The ground of the race: a site with something worth reading right beside it.
//!
//! What lies inside is ASCII alone, in a few known versions of known lengths. What lies outside has no
//! ASCII byte and a length of its own, so that one byte, one length or one tag of it gives it away.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use crate::support::Site;

/// Length of every file outside; no version of anything inside has it.
pub const OUTSIDE_BYTES: usize = 7_777;
/// Seconds since the epoch at which everything inside was changed; sidecars lie around it.
const MODIFIED_S: u64 = 1_000_000_000;

/// What names inside may lead to: bytes of the first version, versions, and how much later than
/// `MODIFIED_S` they seem to be changed.
const KINDS: [(&str, usize, u32, i64); 14] = [
    ("real", 900, 3, 0),
    ("twin", 1_100, 2, 0),
    ("room", 700, 2, 0),
    ("index", 400, 2, 0),
    ("twin-index", 450, 2, 0),
    ("page", 1_300, 3, 0),
    ("page.br", 1_000, 2, 1_000),
    ("page.gz", 1_050, 2, 1_000),
    // Older than what it would stand for: served by nobody.
    ("stale", 800, 1, -1_000),
    ("shape", 600, 2, 0),
    ("app", 500, 2, 0),
    ("error", 300, 2, 0),
    ("release", 1_200, 2, 0),
    // Beyond 128 KiB: streamed, not read into the answer.
    ("big", 200_000, 2, 0),
];

pub struct Ground {
    pub site: Site,
    versions: BTreeMap<&'static str, Vec<Vec<u8>>>,
}

impl Ground {
    pub fn new() -> Ground {
        let ground = Ground { site: Site::new(), versions: BTreeMap::new() };
        ground.filled()
    }

    fn filled(mut self) -> Ground {
        for (kind, bytes, count, later_s) in KINDS {
            let mut all = Vec::new();
            for version in 0..count {
                let content = content(kind, version, bytes + 31 * version as usize);
                assert_ne!(content.len(), OUTSIDE_BYTES);
                let path = self.site.beside(self.stored(kind, version), &content);
                let modified = UNIX_EPOCH + Duration::from_secs(MODIFIED_S.saturating_add_signed(later_s));
                fs::File::options().append(true).open(path).unwrap().set_modified(modified).unwrap();
                all.push(content);
            }
            self.versions.insert(kind, all);
        }
        self.lay_out();
        self
    }

    /// All that a name of this kind may hold.
    pub fn versions(&self, kind: &str) -> &[Vec<u8>] {
        &self.versions[kind]
    }

    pub fn root(&self) -> PathBuf {
        self.site.root()
    }

    pub fn outside(&self) -> PathBuf {
        self.site.directory().join("outside")
    }

    /// Where a version lies ready to be put in place by a hard link.
    pub fn stored(&self, kind: &str, version: u32) -> PathBuf {
        self.site.directory().join("store").join(format!("{kind}.{version}"))
    }

    fn lay_out(&self) {
        let (root, beside) = (self.root(), self.site.directory());
        let put = |path: PathBuf, kind: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::hard_link(self.stored(kind, 0), path).unwrap();
        };
        for (name, kind) in [
            ("real/file", "real"),
            ("real/index.html", "index"),
            ("twin/file", "twin"),
            ("twin/index.html", "twin-index"),
            ("room/file", "room"),
            ("page.txt", "page"),
            ("page.txt.br", "page.br"),
            ("page.txt.gz", "page.gz"),
            ("fresh/page.br", "page.br"),
            ("shape", "shape"),
            ("app/index.html", "app"),
            ("error.html", "error"),
            ("big.bin", "big"),
        ] {
            put(root.join(name), kind);
        }
        fs::create_dir_all(root.join("deep/er")).unwrap();
        // Through `..`, which is where a rename makes the kernel answer EAGAIN, and where a directory that
        // was moved away meanwhile would lead somewhere else.
        symlink("../../real/file", root.join("deep/er/up")).unwrap();
        symlink("real", root.join("link")).unwrap();
        symlink("real/file", root.join("hop")).unwrap();
        for release in ["releases/1", "releases/2", "swapped", "spare"] {
            put(beside.join(release).join("file"), "release");
            symlink("../../outside/file", beside.join(release).join("leak")).unwrap();
            symlink("../outside/file", beside.join(release).join("hole")).unwrap();
        }
        symlink("releases/1", beside.join("current")).unwrap();
        let outside = vec![0xe5; OUTSIDE_BYTES];
        for name in ["file", "file.br", "index.html", "real/file", "page.txt", "page.br", "only"] {
            self.site.beside(Path::new("outside").join(name), &outside);
        }
        fs::create_dir(self.outside().join("vault")).unwrap();
    }

    /// The routes: the ground itself with a page for its misses, two roots that are swapped, and an app with one page.
    pub fn tables(&self, revalidate: &str) -> String {
        let route = |prefix: &str, root: &str, more: &str| {
            let root = self.site.directory().join(root);
            let root = root.display();
            format!(
                "[[route]]\npath = \"{prefix}\"\nstatic = {{ root = '{root}', revalidate = \"{revalidate}\"{more} }}\n"
            )
        };
        let app = ", spa = \"/index.html\"";
        let routes = [
            route("/", "root", ", error_pages = { \"404\" = \"/error.html\" }"),
            route("/current/", "current", ""),
            route("/swapped/", "swapped", ""),
            route("/app/", "root/app", app),
        ];
        // A line for each of millions of requests is not what is watched here.
        format!("[log]\naccess = \"off\"\n{}", routes.concat())
    }
}

/// Lines that say what they are and where, so that no part of a version is a part of another.
fn content(kind: &str, version: u32, length: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(length + 40);
    let mut line = 0;
    while text.len() < length {
        text.extend_from_slice(format!("{line:05} {kind} {version}\n").as_bytes());
        line += 1;
    }
    text.truncate(length);
    text
}
