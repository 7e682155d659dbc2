//! What is in a directory and would be served: regular files that may be read and directories that may
//! be searched, by the rules of the resolver. Runs in the pool alone (docs/adr/0023-listings.md).

use std::time::{Duration, Instant};

use crate::fs::root::Directory;
use crate::fs::{Chosen, Links, Miss, resolve};
use crate::limits::LISTING_MS_MAX;
use crate::semantics::path::has_hidden_segment;
use crate::sys::directory::{Hint, Name, Names, OPEN_NAMES, Right};
use crate::sys::file::{self, Kind, Stat};

/// A directory whose entries are wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Beneath the root; empty, or with its slash.
    pub path: Vec<u8>,
    /// Whether it is the root and where the paths of requests start: `.well-known` is seen there.
    pub is_top: bool,
    /// Most entries that are told.
    pub entries_max: usize,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: Vec<u8>,
    /// A directory, or a file.
    pub is_directory: bool,
    /// Bytes of a file; of a link, those of the file that it leads to, and so its time.
    pub size: u64,
    /// Modification time, seconds since the epoch.
    pub mtime_s: i64,
    /// And its nanoseconds.
    pub mtime_ns: u32,
}

/// The entries of a directory in no order.
#[derive(Debug, Default)]
pub struct Entries {
    /// At most as many as were wanted.
    pub list: Vec<Entry>,
    /// There may be more: the bound of their number or of time was met.
    pub is_truncated: bool,
}

/// A file that was sought, or what was told of a directory.
#[derive(Debug)]
pub enum OrListed<T> {
    /// The first of the sought paths with a file, by its number.
    Found(usize, Chosen),
    /// There was none.
    Listed(T),
}

/// The entries of a directory. Waits as long as `LISTING_MS_MAX` and one call.
pub(in crate::fs) fn list_waiting(root: &Directory, wanted: &Wanted, links: Links) -> Result<Entries, Miss> {
    list_until(root, wanted, links, Instant::now() + Duration::from_millis(LISTING_MS_MAX))
}

fn list_until(root: &Directory, wanted: &Wanted, links: Links, end: Instant) -> Result<Entries, Miss> {
    // The dot asks for leave to search it, without which nothing in it would be served.
    let path = [&wanted.path, b"." as &[u8]].concat();
    let mut names = Names::of(resolve::open_with_retries(root, &path, OPEN_NAMES, links)?);
    let mut entries = Entries::default();
    while let Some(name) = names.advance()? {
        if Instant::now() >= end {
            entries.is_truncated = true;
            break;
        }
        if !may_be_shown(&name, wanted.is_top) {
            continue;
        }
        let Some(stat) = served(root, wanted, links, &name) else { continue };
        if entries.list.len() == wanted.entries_max {
            entries.is_truncated = true;
            break;
        }
        entries.list.push(Entry {
            name: name.bytes().to_vec(),
            is_directory: stat.kind == Kind::Directory,
            size: stat.size,
            mtime_s: stat.mtime_s,
            mtime_ns: stat.mtime_ns,
        });
    }
    Ok(entries)
}

/// By its name alone. A backslash cannot be linked to: browsers take it for a slash, and escaped it is
/// none of a name's bytes (`semantics::path`).
fn may_be_shown(name: &Name<'_>, is_top: bool) -> bool {
    name.hint == Hint::Maybe && !has_hidden_segment(name.bytes(), is_top) && !name.bytes().contains(&b'\\')
}

/// The facts of what a request for the name would find; `None` where it would find nothing. What fails
/// now is not there now.
fn served(root: &Directory, wanted: &Wanted, links: Links, name: &Name<'_>) -> Option<Stat> {
    let stat = name.stat().ok()?;
    match stat.kind {
        Kind::Regular => name.may(Right::Read).then_some(stat),
        Kind::Directory => name.may(Right::Search).then_some(stat),
        Kind::Link if links == Links::Inside => linked(root, wanted, links, name),
        Kind::Link | Kind::Other => None,
    }
}

/// Where a link leads is for the one resolver to say. It is looked at before it is opened: opening a fifo
/// wakes its writer.
fn linked(root: &Directory, wanted: &Wanted, links: Links, name: &Name<'_>) -> Option<Stat> {
    let path = [&wanted.path, name.bytes()].concat();
    let stat = resolve::look_waiting(root, &path, links).ok()?;
    let is_served = match stat.kind {
        Kind::Regular => resolve::open_with_retries(root, &path, file::OPEN_READ, links).is_ok(),
        Kind::Directory => {
            let inside = [&path, b"/." as &[u8]].concat();
            resolve::open_with_retries(root, &inside, file::OPEN_ANCHOR, links).is_ok()
        }
        Kind::Link | Kind::Other => false,
    };
    is_served.then_some(stat)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn directory(name: &str) -> (PathBuf, Directory) {
        let path = std::env::temp_dir().join(format!("scalws-listing-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(path.join("sub")).unwrap();
        for name in ["a", "b", ".hidden", ".well-known", "back\\slash", "sub/.well-known", "sub/c"] {
            std::fs::write(path.join(name), name).unwrap();
        }
        let opened = Directory::open(&path).unwrap();
        (path, opened)
    }

    #[test]
    fn what_is_read_ends_at_the_bound_and_at_the_time() {
        let (path, root) = directory("bound");
        let later = Instant::now() + Duration::from_secs(60);
        let check =
            |below: &[u8], is_top: bool, entries_max: usize, end: Instant, expected: (usize, bool)| {
                let wanted = Wanted { path: below.to_vec(), is_top, entries_max };
                let found = list_until(&root, &wanted, Links::Inside, end).unwrap();
                assert_eq!((found.list.len(), found.is_truncated), expected, "{wanted:?}");
            };
        check(b"", true, 5, later, (4, false));
        check(b"", true, 4, later, (4, false));
        check(b"", true, 3, later, (3, true));
        check(b"", false, 3, later, (3, false));
        check(b"sub/", false, 1, later, (1, false));
        check(b"", true, 5, Instant::now(), (0, true));
        std::fs::remove_dir_all(&path).unwrap();
    }
}
