//! A file, or a sidecar that stands for it: `app.js.br` is opened instead of `app.js` and not after it.
//!
//! A sidecar is served only while its original is there and no newer, and the original has to be looked
//! at for that; but only once a sidecar was found, and without being opened for reading. One rule for
//! the worker and the pool: they differ in how they open, not in what they choose
//! (docs/adr/0017-sidecars.md).

use crate::fs::{Found, Miss, Step};
use crate::sys::file::{Kind, Stat};

/// A path with the endings of the sidecars that would do as well, the best first.
#[derive(Clone, Debug)]
pub struct Sought {
    /// The original.
    pub path: Vec<u8>,
    /// What follows its name in theirs.
    pub endings: Vec<&'static str>,
}

/// What was found for a path.
#[derive(Debug)]
pub struct Chosen {
    /// The file itself, or its sidecar.
    pub found: Found,
    /// The sidecar's place in the list of endings; `None`: the original.
    pub sidecar: Option<usize>,
    /// The first sidecar that is there and cannot be used.
    pub passed_over: Option<(usize, Unfit)>,
}

/// Why a sidecar is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// Its original was changed after it.
    Stale,
    /// It has no bytes: none of the codings is that short, not even of an empty original.
    Empty,
    /// It cannot be opened or read.
    Unreadable,
}

impl Unfit {
    /// For the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Unfit::Stale => "older than its original",
            Unfit::Empty => "empty",
            Unfit::Unreadable => "cannot be read",
        }
    }
}

/// Opens the first sidecar of `path` that may stand for it, or `path`. `open` and `look` follow the same
/// resolver; the one opens a file for reading, the other tells what is there.
pub(in crate::fs) fn choose(
    path: &[u8],
    endings: &[&'static str],
    open: impl Fn(&[u8]) -> Step<Result<Found, Miss>>,
    look: impl Fn(&[u8]) -> Step<Result<Stat, Miss>>,
) -> Step<Result<Chosen, Miss>> {
    let mut passed_over = None;
    let mut original = None;
    for (number, ending) in endings.iter().enumerate() {
        let found = match open(&[path, ending.as_bytes()].concat()) {
            Step::Ready(found) => found,
            Step::Wait(why) => return Step::Wait(why),
        };
        let found = match found {
            Ok(found @ Found::File(..)) => found,
            Ok(Found::Directory) | Err(Miss::NotFound | Miss::NotRegular) => continue,
            // The original may still be had; if not, its own cause is the answer.
            Err(Miss::Forbidden | Miss::Busy(_) | Miss::Io(_)) => {
                passed_over.get_or_insert((number, Unfit::Unreadable));
                continue;
            }
        };
        if original.is_none() {
            original = match look(path) {
                Step::Ready(Ok(stat)) if stat.kind == Kind::Regular => Some(stat),
                // An orphan stands for nothing: what the original's name leads to is the answer.
                Step::Ready(_) => break,
                Step::Wait(why) => return Step::Wait(why),
            };
        }
        let (Found::File(file, _), Some(original)) = (&found, &original) else { continue };
        match unfit(file.stat(), original) {
            None => return Step::Ready(Ok(Chosen { found, sidecar: Some(number), passed_over })),
            Some(reason) => passed_over = passed_over.or(Some((number, reason))),
        }
    }
    match open(path) {
        Step::Ready(found) => Step::Ready(found.map(|found| Chosen { found, sidecar: None, passed_over })),
        Step::Wait(why) => Step::Wait(why),
    }
}

/// Of the same time is fresh: gzip, brotli and zstd give their output the time of their input.
fn unfit(sidecar: &Stat, original: &Stat) -> Option<Unfit> {
    if sidecar.size == 0 {
        return Some(Unfit::Empty);
    }
    let time = |stat: &Stat| (stat.mtime_s, stat.mtime_ns);
    (time(sidecar) < time(original)).then_some(Unfit::Stale)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs::File;

    use super::*;
    use crate::fs::{Mode, OpenFile};
    use crate::offload::{Offload, Why};

    fn stat(size: u64, mtime_s: i64, mtime_ns: u32) -> Stat {
        Stat {
            device: 1,
            inode: 1,
            kind: Kind::Regular,
            size,
            links: 1,
            mtime_s,
            mtime_ns,
            ctime_s: 0,
            ctime_ns: 0,
        }
    }

    #[test]
    fn only_a_fresh_sidecar_with_content_stands_for_its_original() {
        let original = stat(10, 100, 5);
        assert_eq!(unfit(&stat(20, 100, 5), &original), None, "larger, and of the same time");
        assert_eq!(unfit(&stat(3, 101, 0), &original), None);
        assert_eq!(unfit(&stat(3, 100, 4), &original), Some(Unfit::Stale));
        assert_eq!(unfit(&stat(3, 99, 9), &original), Some(Unfit::Stale));
        assert_eq!(unfit(&stat(0, 101, 0), &original), Some(Unfit::Empty));
        assert_eq!(unfit(&stat(0, 101, 0), &stat(0, 100, 0)), Some(Unfit::Empty));
    }

    #[test]
    fn a_worker_that_would_wait_chooses_nothing() {
        let ready = |_: &[u8]| Step::Ready(Ok(Found::Directory));
        let look = |_: &[u8]| Step::Ready(Ok(stat(1, 1, 1)));
        let is_wait = |step| matches!(step, Step::Wait(_));
        assert!(!is_wait(choose(b"x", &[".br"], ready, look)));
        let waits_for = |name: &'static [u8]| {
            move |path: &[u8]| {
                if path == name { Step::Wait(Why::ColdName) } else { Step::Ready(Err(Miss::NotFound)) }
            }
        };
        for name in [b"x.br" as &[u8], b"x.gz", b"x"] {
            assert!(is_wait(choose(b"x", &[".br", ".gz"], waits_for(name), look)), "{}", name.escape_ascii());
        }
    }

    /// What `choose` opens and looks at where only `there` is to be found.
    fn asked(there: &'static str) -> Vec<String> {
        let lane = Offload::start(1, 10).unwrap().lane();
        let calls = RefCell::new(Vec::new());
        let open = |path: &[u8]| {
            calls.borrow_mut().push(format!("open {}", path.escape_ascii()));
            if path != there.as_bytes() {
                return Step::Ready(Err(Miss::NotFound));
            }
            let fd = File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap().into();
            let file = OpenFile::new(fd, stat(3, 100, 0), Mode::Inline, lane);
            Step::Ready(Ok(Found::File(file, None)))
        };
        let look = |path: &[u8]| {
            calls.borrow_mut().push(format!("look {}", path.escape_ascii()));
            Step::Ready(Ok(stat(10, 100, 0)))
        };
        let chosen = choose(b"x", &[".br", ".gz"], open, look);
        let place = ["x.br", "x.gz"].iter().position(|name| *name == there);
        assert!(matches!(chosen, Step::Ready(Ok(Chosen { sidecar, .. })) if sidecar == place), "{there}");
        calls.into_inner()
    }

    /// Looking at the original first would cost every answer a system call more, opening it three.
    #[test]
    fn a_sidecar_is_opened_instead_of_its_original_and_not_after_it() {
        assert_eq!(asked("x.br"), ["open x.br", "look x"]);
        assert_eq!(asked("x.gz"), ["open x.br", "open x.gz", "look x"]);
        assert_eq!(asked("x"), ["open x.br", "open x.gz", "open x"]);
    }
}
