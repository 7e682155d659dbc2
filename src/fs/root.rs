//! Roots: the directory that a route serves, as a descriptor that follows deployments.
//!
//! A descriptor opened once would pin the old release for ever (case A12), so the path is looked up
//! again once a second, in the pool, and a worker sees the change at its next request. Requests in
//! progress keep what they have.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::fs::listing::{self, Entries, OrListed, Wanted};
use crate::fs::resolve::{self, Found, Links, Support};
use crate::fs::sidecar::{self, Chosen, Sought};
use crate::fs::{Miss, Mode, Step, device};
use crate::offload::{Full, Lane, Pool, Why};
use crate::sys::file::{self, Stat};

/// The directory behind a root's path at one time.
#[derive(Debug)]
pub struct Directory {
    pub(in crate::fs) fd: OwnedFd,
    pub(in crate::fs) stat: Stat,
    mode: Mode,
    /// Every mount beneath the root is local, so a worker may cross into it.
    pub(in crate::fs) may_cross_mounts: bool,
    /// It has a `..data`: a ConfigMap or Secret volume, whose versions are swapped and removed.
    pub(in crate::fs) is_kubelet_volume: bool,
}

impl Directory {
    pub(in crate::fs) fn open(path: &Path) -> io::Result<Directory> {
        let fd = file::open_anchor(path)?;
        let stat = file::fstat(fd.as_fd())?;
        let mode = Mode::of_magic(file::file_system_magic(fd.as_fd())?);
        let may_cross_mounts = mounts_beneath_are_local(path);
        // Not asked of a remote root, whose lookups may hang; kubelets make these volumes locally.
        let is_kubelet_volume = mode != Mode::Remote && path.join("..data").symlink_metadata().is_ok();
        Ok(Directory { fd, stat, mode, may_cross_mounts, is_kubelet_volume })
    }

    fn is_same(&self, other: &Directory) -> bool {
        let identity = |directory: &Directory| {
            let flags = (directory.may_cross_mounts, directory.is_kubelet_volume);
            (directory.stat.device, directory.stat.inode, directory.mode, flags)
        };
        // An unlinked directory may give its inode number to the next one; nlink tells.
        identity(self) == identity(other) && file::fstat(self.fd.as_fd()).is_ok_and(|now| now.links > 0)
    }
}

/// A root of the process; workers look at it through a [`View`].
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    links: Links,
    support: Support,
    lane: Lane,
    current: Mutex<Arc<Directory>>,
    /// Counts changes of `current`; workers compare it before each request.
    generation: AtomicU64,
    /// Held while the path is looked up again, by no worker.
    refreshing: Mutex<()>,
}

impl Root {
    /// Opens the root and tests what the kernel can do there.
    ///
    /// # Errors
    /// The directory cannot be opened, or `openat2` is refused.
    pub fn open(path: &Path, links: Links, pool: Pool) -> io::Result<Arc<Root>> {
        let directory = Directory::open(path)?;
        let support = resolve::probe(directory.fd.as_fd())?;
        Ok(Arc::new(Root::with(path, directory, links, support, pool)))
    }

    /// A root that was not tested: for benches under valgrind, which has no openat2.
    ///
    /// # Errors
    /// The directory cannot be opened.
    #[cfg(feature = "bench")]
    pub fn adopt(path: &Path, pool: Pool) -> io::Result<Arc<Root>> {
        let support = Support { cached: true };
        Ok(Arc::new(Root::with(path, Directory::open(path)?, Links::Inside, support, pool)))
    }

    fn with(path: &Path, directory: Directory, links: Links, support: Support, pool: Pool) -> Root {
        Root {
            path: path.to_owned(),
            links,
            support,
            lane: pool.lane(),
            current: Mutex::new(Arc::new(directory)),
            generation: AtomicU64::new(0),
            refreshing: Mutex::default(),
        }
    }

    /// The path as configured.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the kernel can do here.
    #[must_use]
    pub fn support(&self) -> Support {
        self.support
    }

    /// Trips to the pool for its files since the start: opening, reading, closing.
    #[must_use]
    pub fn hops(&self) -> u64 {
        self.lane.taken()
    }

    /// How its own files are opened and read, and the name of the file system.
    #[must_use]
    pub fn mode(&self) -> (Mode, &'static str) {
        let directory = self.current();
        (directory.mode, resolve::file_system_name(directory.fd.as_fd()))
    }

    /// Looks the path up again. A path that leads nowhere at this moment keeps the directory that was
    /// there. May hang where the file system does: for the pool, or a thread of one's own.
    pub fn refresh_waiting(&self) {
        // One at a time: of two, the one that looked first might have the last word.
        let _refreshing = self.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(found) = Directory::open(&self.path)
            && !self.current().is_same(&found)
        {
            *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(found);
            self.generation.fetch_add(1, Ordering::Release);
        }
    }

    fn current(&self) -> Arc<Directory> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Looks the paths of all roots up again, local and remote ones apart: a remote file system that hangs
/// holds one thread of the pool, whatever the number of roots, and no local root goes stale for it.
#[derive(Debug)]
pub struct Refresher {
    local: Round,
    remote: Round,
}

/// One kind of root: a lane of its own, and whether a round is on its way there.
#[derive(Debug)]
struct Round {
    lane: Lane,
    is_running: Arc<AtomicBool>,
}

impl Refresher {
    /// Works in `pool`.
    #[must_use]
    pub fn new(pool: Pool) -> Refresher {
        let round = || Round { lane: pool.lane(), is_running: Arc::default() };
        Refresher { local: round(), remote: round() }
    }

    /// Starts a round, where the last one is done.
    pub fn refresh(&self, roots: &[Arc<Root>]) {
        for (is_remote, round) in [(false, &self.local), (true, &self.remote)] {
            let is_mine = |root: &&Arc<Root>| (root.current().mode == Mode::Remote) == is_remote;
            let mine: Vec<_> = roots.iter().filter(is_mine).cloned().collect();
            if mine.is_empty() || round.is_running.swap(true, Ordering::Relaxed) {
                continue;
            }
            let is_running = Arc::clone(&round.is_running);
            round.lane.detach(move || {
                mine.iter().for_each(|root| root.refresh_waiting());
                is_running.store(false, Ordering::Relaxed);
            });
        }
    }
}

/// One worker's sight of a root: no lock and no shared counter while nothing changes.
#[derive(Debug)]
pub struct View {
    root: Arc<Root>,
    generation: Cell<u64>,
    directory: RefCell<Arc<Directory>>,
    /// Modes of the devices seen beneath the root, few.
    modes: RefCell<Vec<(u64, Mode)>>,
}

impl View {
    /// A fresh sight of `root`.
    #[must_use]
    pub fn new(root: &Arc<Root>) -> View {
        let generation = root.generation.load(Ordering::Acquire);
        let directory = root.current();
        let modes = RefCell::new(vec![(directory.stat.device, directory.mode)]);
        View {
            root: Arc::clone(root),
            generation: Cell::new(generation),
            directory: RefCell::new(directory),
            modes,
        }
    }

    /// The root that this is a sight of.
    #[must_use]
    pub fn root(&self) -> &Arc<Root> {
        &self.root
    }

    /// Counts the directories that the root's path has led to.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.root.generation.load(Ordering::Acquire)
    }

    /// Opens `path` on the worker, or the first of its sidecars that may stand for it, if the kernel
    /// can answer without waiting.
    pub fn open(&self, path: &[u8], endings: &[&'static str]) -> Step<Result<Chosen, Miss>> {
        self.follow();
        let directory = self.directory.borrow();
        if directory.mode == Mode::Remote || !self.root.support.cached {
            let is_remote = directory.mode == Mode::Remote;
            return Step::Wait(if is_remote { Why::Remote } else { Why::NoResolveCached });
        }
        let (links, lane) = (self.root.links, self.root.lane);
        let mode_of = |stat: &Stat, fd: BorrowedFd<'_>| self.mode_of(stat, fd);
        let open = |path: &[u8]| resolve::open_cached(&directory, path, links, lane, mode_of);
        let look = |path: &[u8]| resolve::look_cached(&directory, path, links, lane, mode_of);
        sidecar::choose(path, endings, open, look)
    }

    /// Opens the first of `sought` that leads to something, in the pool; says which one it was.
    ///
    /// # Errors
    /// The pool is full.
    pub fn open_in_pool(
        &self,
        sought: Vec<Sought>,
    ) -> Result<impl Future<Output = Result<(usize, Chosen), Miss>> + use<>, Full> {
        self.in_pool(move |directory, links, lane| resolve::open_waiting(directory, &sought, links, lane))
    }

    /// The same for files alone; where there is none, lists a directory in the same job and has its
    /// entries told there by `tell`, which may take its time.
    ///
    /// # Errors
    /// The pool is full.
    pub fn open_or_list_in_pool<T: Send + 'static, F: FnOnce(Entries) -> T + Send + 'static>(
        &self,
        sought: Vec<Sought>,
        wanted: Wanted,
        tell: F,
    ) -> Result<impl Future<Output = Result<OrListed<T>, Miss>> + use<T, F>, Full> {
        let job = move |directory: &Directory, links, lane| match resolve::open_waiting(
            directory, &sought, links, lane,
        ) {
            Ok((_, Chosen { found: Found::Directory, .. })) | Err(Miss::NotFound | Miss::NotRegular) => {
                listing::list_waiting(directory, &wanted, links).map(|list| OrListed::Listed(tell(list)))
            }
            found => found.map(|(number, chosen)| OrListed::Found(number, chosen)),
        };
        self.in_pool(job)
    }

    fn in_pool<T, F>(&self, job: F) -> Result<impl Future<Output = Result<T, Miss>> + use<T, F>, Full>
    where
        T: Send + 'static,
        F: FnOnce(&Directory, Links, Lane) -> Result<T, Miss> + Send + 'static,
    {
        self.follow();
        let directory = Arc::clone(&self.directory.borrow());
        let (links, lane) = (self.root.links, self.root.lane);
        let job = lane.run(move || job(&directory, links, lane))?;
        Ok(async move { job.await.unwrap_or_else(|_| Err(Miss::Io(io::Error::other("a pool job failed")))) })
    }

    fn follow(&self) {
        let generation = self.root.generation.load(Ordering::Acquire);
        if generation != self.generation.get() {
            self.generation.set(generation);
            let directory = self.root.current();
            self.modes.replace(vec![(directory.stat.device, directory.mode)]);
            // The last reference may end a mount that was taken away lazily: not on a worker.
            let old = self.directory.replace(directory);
            self.root.lane.detach(move || drop(old));
        }
    }

    fn mode_of(&self, stat: &Stat, fd: BorrowedFd<'_>) -> Mode {
        let mut modes = self.modes.borrow_mut();
        let known = modes.iter().find(|(device, _)| *device == stat.device).map(|(_, mode)| *mode);
        let mode = known.unwrap_or_else(|| {
            let mode = file::file_system_magic(fd).map_or(Mode::Remote, Mode::of_magic);
            modes.push((stat.device, mode));
            mode
        });
        if mode == Mode::Inline && device::lacks_nowait(stat.device) { Mode::OpenInline } else { mode }
    }
}

/// Whether every mount beneath `path` is of a local type, by proc_pid_mountinfo(5). What cannot be
/// read counts as not local.
fn mounts_beneath_are_local(path: &Path) -> bool {
    #[expect(
        clippy::disallowed_methods,
        reason = "compared with the mount table only, nothing is opened by it"
    )]
    let Ok(path) = std::fs::canonicalize(path) else { return false };
    std::fs::read_to_string("/proc/self/mountinfo").is_ok_and(|table| all_local(&table, &path))
}

fn all_local(table: &str, path: &Path) -> bool {
    table.lines().all(|line| {
        let Some((left, right)) = line.split_once(" - ") else { return false };
        let Some(mount) = left.split(' ').nth(4) else { return false };
        let mount = unescape(mount);
        let beneath = mount.as_path() != path && mount.starts_with(path);
        !beneath || right.split(' ').next().is_some_and(device::is_local_type)
    })
}

/// Undoes the octal escapes of mountinfo (space, tab, newline, backslash).
fn unescape(field: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let octal = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    std::ffi::OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::Offload;

    /// Names that the kernel knows open without RESOLVE_CACHED's help, and then the worker hangs in the
    /// open of a file system that hangs: it must not even try.
    #[test]
    fn a_remote_root_is_left_to_the_pool() {
        let house = Path::new(env!("CARGO_MANIFEST_DIR"));
        let pool = Offload::start(1, 10).unwrap();
        let root = Root::open(house, Links::Inside, pool).unwrap();
        assert!(house.join("Cargo.toml").is_file(), "a name that the kernel knows");
        let mut remote = Directory::open(house).unwrap();
        remote.mode = Mode::Remote;
        *root.current.lock().unwrap() = Arc::new(remote);
        assert!(matches!(View::new(&root).open(b"Cargo.toml", &[]), Step::Wait(Why::Remote)));
        // What was opened all the same is closed there.
        assert_eq!(pool.taken(), 0);
    }

    #[test]
    fn mounts_beneath_a_root_are_judged_by_type() {
        let table = "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / /srv rw - ext4 /dev/b rw\n\
                     3 2 0:3 / /srv/a\\040b rw shared:1 - tmpfs t rw\n4 1 0:4 / /srvx rw - nfs4 h:/ rw\n";
        assert!(all_local(table, Path::new("/srv")));
        assert!(!all_local(table, Path::new("/")));
        assert!(all_local(table, Path::new("/srvx")), "the root's own type is judged apart");
        assert!(!all_local(&format!("{table}5 2 0:5 / /srv/f rw - fuse.sshfs h rw\n"), Path::new("/srv")));
        assert!(!all_local("broken line\n", Path::new("/srv")));
        assert_eq!(unescape("/a\\040b\\134"), PathBuf::from("/a b\\"));
    }
}
