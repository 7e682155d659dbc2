//! The writers: they swap what names lead to, as fast as they can, between requests and within them.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::ground::Ground;

/// Turns in a row before a writer lets the others have the core: as many as make a request meet several
/// swaps, and a pause in which it may also meet none.
const BURST: u64 = 32;
const PAUSE: Duration = Duration::from_millis(1);

/// What a name may be swapped for.
#[derive(Clone, Debug)]
enum Thing {
    File(PathBuf),
    Empty,
    Link(PathBuf),
    /// With this file as its index.
    Directory(PathBuf),
    Nothing,
}

/// Go on until they are told to stop, also when the test fails.
pub struct Writers {
    stop: Arc<AtomicBool>,
    swaps: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Writers {
    pub fn none() -> Writers {
        Writers { stop: Arc::default(), swaps: Arc::default(), threads: Vec::new() }
    }

    pub fn start(ground: &Ground) -> Writers {
        let mut writers = Writers::none();
        writers.swap_links(ground);
        writers.rename_directories(ground);
        writers.replace_files(ground);
        writers.replace_sidecars(ground);
        writers.swap_roots(ground);
        writers
    }

    /// Stops all of them; how many swaps there were.
    pub fn finish(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("a writer failed");
        }
        self.swaps.load(Ordering::Relaxed)
    }

    /// `turn` gets the number of the turn and says how many swaps it made.
    fn go(&mut self, mut turn: impl FnMut(u64) -> u64 + Send + 'static) {
        let (stop, swaps) = (Arc::clone(&self.stop), Arc::clone(&self.swaps));
        self.threads.push(std::thread::spawn(move || {
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                swaps.fetch_add(turn(number), Ordering::Relaxed);
                if number % BURST == BURST - 1 {
                    std::thread::sleep(PAUSE);
                }
            }
        }));
    }

    /// Goes round through what each of some names may be, each name with its own period.
    fn rotate(&mut self, names: Vec<(PathBuf, Vec<Thing>)>) {
        self.go(move |turn| {
            for (path, things) in &names {
                let number = usize::try_from(turn).unwrap() % things.len();
                place(path, &things[number]);
            }
            names.len() as u64
        });
    }

    /// Relative and absolute ways out, ways in, and a circle.
    fn swap_links(&mut self, ground: &Ground) {
        let (root, outside) = (ground.root(), ground.outside());
        let links = |to: &[&str]| to.iter().map(|to| Thing::Link(to.into())).collect::<Vec<_>>();
        let out = outside.to_str().unwrap();
        let out_file = format!("{out}/file");
        self.rotate(vec![
            (root.join("link"), links(&["real", "../outside", "twin", out, "room/../../outside", "link"])),
            (root.join("hop"), links(&["real/file", "../outside/file", "twin/file", &out_file])),
        ]);
    }

    /// `room` is called `hall` every second time. `deep` goes out of the root and comes back under the
    /// other name: whoever walks in it meanwhile finds `..` leading outside.
    fn rename_directories(&mut self, ground: &Ground) {
        let (root, outside) = (ground.root(), ground.outside());
        let way = [
            (root.join("room"), root.join("hall")),
            (root.join("deep"), outside.join("deep")),
            (outside.join("deep"), root.join("deeper")),
            (root.join("hall"), root.join("room")),
            (root.join("deeper"), outside.join("deep")),
            (outside.join("deep"), root.join("deep")),
        ];
        self.go(move |turn| {
            let (from, to) = &way[usize::try_from(turn).unwrap() % way.len()];
            fs::rename(from, to).unwrap();
            1
        });
    }

    fn replace_files(&mut self, ground: &Ground) {
        let (root, outside) = (ground.root(), ground.outside());
        let file = |kind: &str, version: u32| Thing::File(ground.stored(kind, version));
        let out = |to: &str| Thing::Link(outside.join(to));
        self.rotate(vec![
            (root.join("real/file"), (0..3).map(|version| file("real", version)).collect()),
            (root.join("real/index.html"), vec![file("index", 0), file("index", 1), out("index.html")]),
            (
                root.join("shape"),
                vec![
                    file("shape", 0),
                    Thing::Directory(ground.stored("index", 0)),
                    Thing::Link("../outside".into()),
                    file("shape", 1),
                    Thing::Link("real".into()),
                ],
            ),
            (
                root.join("app/index.html"),
                vec![
                    file("app", 0),
                    Thing::Link("../../outside/index.html".into()),
                    file("app", 1),
                    Thing::Nothing,
                ],
            ),
            (
                root.join("error.html"),
                vec![file("error", 0), out("index.html"), file("error", 1), Thing::Nothing],
            ),
            (root.join("big.bin"), vec![file("big", 0), file("big", 1)]),
        ]);
    }

    /// Fresh, stale, empty, a directory, a link in and a link out, and none; the original changes too.
    fn replace_sidecars(&mut self, ground: &Ground) {
        let root = ground.root();
        let file = |kind: &str, version: u32| Thing::File(ground.stored(kind, version));
        let link = |to: &str| Thing::Link(to.into());
        self.rotate(vec![
            (
                root.join("page.txt"),
                vec![file("page", 0), file("page", 1), link("../outside/page.txt"), file("page", 2)],
            ),
            (
                root.join("page.txt.br"),
                vec![
                    file("page.br", 0),
                    file("stale", 0),
                    link("../outside/page.br"),
                    file("page.br", 1),
                    Thing::Nothing,
                    link("fresh/page.br"),
                    Thing::Directory(ground.stored("stale", 0)),
                ],
            ),
            (
                root.join("page.txt.gz"),
                vec![
                    file("page.gz", 0),
                    link("../outside/page.br"),
                    Thing::Empty,
                    file("page.gz", 1),
                    file("stale", 0),
                ],
            ),
        ]);
    }

    /// Case A12: one root is a link that every deploy moves, the other a directory that changes places.
    fn swap_roots(&mut self, ground: &Ground) {
        let beside = ground.site.directory().to_owned();
        self.go(move |turn| {
            let release = format!("releases/{}", 1 + turn % 2);
            place(&beside.join("current"), &Thing::Link(release.into()));
            exchange(&beside.join("swapped"), &beside.join("spare"));
            2
        });
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Puts a thing in place of whatever bears the name, in one step. One writer a name.
fn place(path: &Path, thing: &Thing) {
    let fresh = path.with_extension("fresh");
    match thing {
        Thing::File(stored) => fs::hard_link(stored, &fresh).unwrap(),
        Thing::Empty => fs::write(&fresh, "").unwrap(),
        Thing::Link(to) => symlink(to, &fresh).unwrap(),
        Thing::Directory(index) => {
            fs::create_dir(&fresh).unwrap();
            fs::hard_link(index, fresh.join("index.html")).unwrap();
        }
        Thing::Nothing => {
            match fs::rename(path, &fresh) {
                Ok(()) => remove(&fresh),
                Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{}", path.display()),
            }
            return;
        }
    }
    if path.symlink_metadata().is_ok() {
        // A rename cannot put a file in place of a directory; an exchange can.
        exchange(&fresh, path);
        remove(&fresh);
    } else {
        fs::rename(&fresh, path).unwrap();
    }
}

fn exchange(one: &Path, other: &Path) {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)
        .unwrap_or_else(|error| panic!("{} and {}: {error}", one.display(), other.display()));
}

fn remove(path: &Path) {
    if path.symlink_metadata().unwrap().is_dir() {
        fs::remove_dir_all(path).unwrap();
    } else {
        fs::remove_file(path).unwrap();
    }
}
