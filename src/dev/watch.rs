//! Looks at the roots again and again and tells when something is other than it was.
//!
//! By polling: inotify hears nothing of the other side of a bind mount of Docker Desktop, of NFS, or of
//! a root that is swapped, and wants a watch for each directory. Only names and `stat` are read here;
//! what a file holds comes through `fs`. A file system that hangs holds this thread and nobody else.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::fs::{self, DirEntry, Metadata};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::changes::{Changes, Kind};
use crate::fs::Root;
use crate::limits::{
    WATCH_DEPTH_MAX, WATCH_ENTRIES_MAX, WATCH_IDLE_PARTS, WATCH_MS, WATCH_SETTLE_LOOKS_MAX, WATCH_SETTLE_MS,
};
use crate::telemetry::log::{self, Level};

/// Starts to watch `roots`. What changes after the return is told. May hang as a root may.
///
/// # Errors
/// The thread cannot be started.
pub fn start(roots: &[Arc<Root>]) -> io::Result<Arc<Changes>> {
    let changes = Arc::new(Changes::new());
    let watcher = Watcher { roots: distinct(roots), changes: Arc::clone(&changes) };
    let first = watcher.look();
    // Looked up before, they may be older than what was just seen.
    watcher.follow();
    if first.is_cut {
        let fields = json!({ "entries": WATCH_ENTRIES_MAX, "depth": WATCH_DEPTH_MAX,
            "hint": "a change beyond them reloads no page: serve a smaller directory" });
        log::event(Level::Warn, "too many files to watch", &fields);
    }
    std::thread::Builder::new().name("dev-watch".to_owned()).spawn(move || watcher.watch(first))?;
    Ok(changes)
}

/// Two routes may serve one directory.
fn distinct(roots: &[Arc<Root>]) -> Vec<Arc<Root>> {
    let mut distinct: Vec<Arc<Root>> = Vec::new();
    for root in roots {
        if !distinct.iter().any(|known| known.path() == root.path()) {
            distinct.push(Arc::clone(root));
        }
    }
    distinct
}

struct Watcher {
    roots: Vec<Arc<Root>>,
    changes: Arc<Changes>,
}

impl Watcher {
    /// Lives as long as the process, whose end does not wait for it.
    fn watch(&self, mut known: Look) {
        let mut pause = Duration::from_millis(WATCH_MS);
        loop {
            std::thread::sleep(pause);
            let start = Instant::now();
            let now = self.look();
            pause = Duration::from_millis(WATCH_MS).max(start.elapsed() * WATCH_IDLE_PARTS);
            if now == known {
                continue;
            }
            let settled = self.settle(now);
            let kind = known.kind_to(&settled);
            known = settled;
            // The pages that reload now must find the new root, not the one of a second ago.
            self.follow();
            self.changes.raise(kind);
            let kind = if kind == Kind::Styles { "style sheets" } else { "page" };
            log::event(Level::Info, "files changed", &json!({ "reloads": kind }));
        }
    }

    /// A program that writes many files, or one in several steps, is one change: looks again until two
    /// looks agree, within a bound for one that never rests.
    fn settle(&self, mut now: Look) -> Look {
        for _ in 0..WATCH_SETTLE_LOOKS_MAX {
            std::thread::sleep(Duration::from_millis(WATCH_SETTLE_MS));
            let next = self.look();
            if next == now {
                break;
            }
            now = next;
        }
        now
    }

    fn look(&self) -> Look {
        let mut look = Look::default();
        self.roots.iter().for_each(|root| look.at(root.path()));
        look
    }

    fn follow(&self) {
        self.roots.iter().for_each(|root| root.refresh_waiting());
    }
}

/// What trees look like at one time: sums over their entries, so that the order in which a directory
/// lists them does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Look {
    styles: u64,
    others: u64,
    is_cut: bool,
}

impl Look {
    fn kind_to(&self, now: &Look) -> Kind {
        let others_rest = (self.others, self.is_cut) == (now.others, now.is_cut);
        // Nothing at all: something was away and is back, and a page may have missed it.
        if others_rest && self.styles != now.styles { Kind::Styles } else { Kind::Page }
    }

    /// Adds what is beneath `root`, breadth first: where there is too much, what is near stays in sight.
    fn at(&mut self, root: &Path) {
        let mut left = WATCH_ENTRIES_MAX;
        let mut visited = HashSet::new();
        let mut open = VecDeque::from([(root.to_owned(), 0)]);
        while let Some((directory, depth)) = open.pop_front() {
            let stat = fs::metadata(&directory).ok();
            // By its inode, so that a swapped root or link shows. Not by its times: they tell of hidden
            // files too, such as those that editors write beside the one that is edited.
            let identity = stat.as_ref().map(|stat| (stat.dev(), stat.ino()));
            self.add(&directory, &identity);
            // Links may lead in circles.
            if identity.is_none_or(|identity| !visited.insert(identity)) {
                continue;
            }
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                if is_passed_over(&entry) {
                    continue;
                }
                if left == 0 {
                    self.is_cut = true;
                    return;
                }
                left -= 1;
                let path = entry.path();
                // Of what a link leads to; a link that leads nowhere counts by its name.
                match fs::metadata(&path).ok() {
                    Some(stat) if stat.is_dir() && depth < WATCH_DEPTH_MAX => {
                        open.push_back((path, depth + 1));
                    }
                    Some(stat) if stat.is_dir() => self.is_cut = true,
                    stat => self.add(&path, &stat.as_ref().map(facts)),
                }
            }
        }
    }

    fn add(&mut self, path: &Path, facts: &impl std::hash::Hash) {
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        facts.hash(&mut hasher);
        let sum = if is_style(path) { &mut self.styles } else { &mut self.others };
        *sum = sum.wrapping_add(hasher.finish());
    }
}

/// What differs once a file was written, replaced, or had its permissions changed.
fn facts(stat: &Metadata) -> [i64; 6] {
    let (device, inode) = (stat.dev().cast_signed(), stat.ino().cast_signed());
    let (modified, changed) = ((stat.mtime(), stat.mtime_nsec()), (stat.ctime(), stat.ctime_nsec()));
    [device ^ inode, stat.size().cast_signed(), modified.0, modified.1, changed.0, changed.1]
}

/// Hidden names are never served, absolute links neither, and `node_modules` is where most files of a
/// project are and none of its own. `.well-known` is served and does not change while one works.
fn is_passed_over(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let is_absolute_link = || {
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        is_link && fs::read_link(entry.path()).is_ok_and(|target| target.is_absolute())
    };
    name.as_bytes().starts_with(b".") || name == OsStr::new("node_modules") || is_absolute_link()
}

/// A source map comes with its style sheet.
fn is_style(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.as_bytes().to_ascii_lowercase()).unwrap_or_default();
    name.ends_with(b".css") || name.ends_with(b".css.map")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn look(root: &Path) -> Look {
        let mut look = Look::default();
        look.at(root);
        look
    }

    struct Tree(std::path::PathBuf);

    impl Tree {
        fn new(name: &str) -> Tree {
            let path = std::env::temp_dir().join(format!("scalws-watch-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(path.join("root/a/b")).unwrap();
            fs::write(path.join("root/a/b/x.html"), "x").unwrap();
            fs::write(path.join("root/site.css"), "x").unwrap();
            Tree(path)
        }

        fn root(&self) -> std::path::PathBuf {
            self.0.join("root")
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// What the step changes: `None` for nothing.
    #[track_caller]
    fn check(root: &Path, step: impl FnOnce(), expected: Option<Kind>) {
        let before = look(root);
        assert_eq!(before, look(root), "a look changes nothing");
        step();
        let after = look(root);
        assert_eq!((before != after).then(|| before.kind_to(&after)), expected);
    }

    #[test]
    fn every_change_shows_and_style_sheets_apart() {
        let tree = Tree::new("kinds");
        let root = tree.root();
        let write = |name: &str, text: &str| fs::write(root.join(name), text).unwrap();
        check(&root, || {}, None);
        check(&root, || write("a/b/x.html", "xx"), Some(Kind::Page));
        check(&root, || write("site.css", "xx"), Some(Kind::Styles));
        check(&root, || write("a/theme.CSS.map", "xx"), Some(Kind::Styles));
        check(&root, || write("new.js", ""), Some(Kind::Page));
        check(&root, || fs::rename(root.join("new.js"), root.join("other.js")).unwrap(), Some(Kind::Page));
        check(&root, || fs::remove_file(root.join("other.js")).unwrap(), Some(Kind::Page));
        check(&root, || fs::create_dir(root.join("empty")).unwrap(), Some(Kind::Page));
        let both = || {
            write("site.css", "xxx");
            write("a/b/x.html", "xxx");
        };
        check(&root, both, Some(Kind::Page));
    }

    /// Same size, and the old time put back: the change time tells.
    #[test]
    fn an_edit_that_hides_its_time_shows() {
        let tree = Tree::new("times");
        let file = tree.root().join("a/b/x.html");
        let modified = fs::metadata(&file).unwrap().modified().unwrap();
        // The clock of a file has a tick of 4 ms before Linux 6.13.
        std::thread::sleep(Duration::from_millis(10));
        let edit = || {
            fs::write(&file, "y").unwrap();
            fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
        };
        check(&tree.root(), edit, Some(Kind::Page));
    }

    #[test]
    fn what_is_not_served_is_not_watched() {
        let tree = Tree::new("hidden");
        let root = tree.root();
        fs::create_dir(root.join("node_modules")).unwrap();
        fs::create_dir(tree.0.join("elsewhere")).unwrap();
        symlink(tree.0.join("elsewhere"), root.join("absolute")).unwrap();
        for name in ["root/.x.swp", "root/a/.git", "root/node_modules/x.js", "elsewhere/x", "beside"] {
            check(&root, || fs::write(tree.0.join(name), "x").unwrap(), None);
        }
    }

    #[test]
    fn swapped_roots_and_links_show_and_circles_end() {
        let tree = Tree::new("swaps");
        let (root, moved) = (tree.root(), tree.0.join("current"));
        symlink("root", &moved).unwrap();
        symlink("..", root.join("a/up")).unwrap();
        symlink("nowhere", root.join("broken")).unwrap();
        check(&moved, || {}, None);
        for name in ["other/a/b", "root/..v1", "root/..v2"] {
            fs::create_dir_all(tree.0.join(name)).unwrap();
        }
        symlink("..v1", root.join("..data")).unwrap();
        fs::write(root.join("..v1/page.html"), "1").unwrap();
        fs::write(root.join("..v2/page.html"), "2").unwrap();
        symlink("..data/page.html", root.join("page.html")).unwrap();
        let swap = |to: &str, link: &Path| {
            symlink(to, tree.0.join("next")).unwrap();
            fs::rename(tree.0.join("next"), link).unwrap();
        };
        check(&moved, || swap("..v2", &root.join("..data")), Some(Kind::Page));
        check(&moved, || swap("other", &moved), Some(Kind::Page));
        check(&moved, || fs::remove_file(&moved).unwrap(), Some(Kind::Page));
    }

    #[test]
    fn a_look_has_an_end() {
        let tree = Tree::new("bounds");
        let mut deep = tree.root();
        for _ in 0..=WATCH_DEPTH_MAX + 1 {
            deep.push("d");
        }
        assert!(!look(&tree.root()).is_cut);
        fs::create_dir_all(&deep).unwrap();
        assert!(look(&tree.root()).is_cut);
        check(&tree.root(), || fs::write(deep.join("x"), "").unwrap(), None);
        fs::remove_dir_all(tree.root().join("d")).unwrap();
        for number in 0..WATCH_ENTRIES_MAX {
            fs::write(tree.root().join(number.to_string()), "").unwrap();
        }
        assert!(look(&tree.root()).is_cut);
    }
}
