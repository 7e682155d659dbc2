//! A copy of the tree in which what has not changed keeps its time, so that Cargo builds only what has.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What no build needs: its own results, the history, and what scripts leave.
const LEFT_OUT: [&str; 4] = ["target", ".git", ".local", ".env"];

/// Makes `copy` like `house`.
pub fn copy(house: &Path, copy: &Path) {
    let (wanted, present) = (files(house), files(copy));
    for gone in present.difference(&wanted) {
        fs::remove_file(copy.join(gone)).unwrap();
    }
    for file in wanted {
        let content = fs::read(house.join(&file)).unwrap();
        let target = copy.join(&file);
        if fs::read(&target).is_ok_and(|there| there == content) {
            continue;
        }
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        // With its permissions.
        fs::copy(house.join(&file), target).unwrap();
    }
}

/// Every file below a directory, relative to it.
fn files(top: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut open = vec![top.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten() {
            let path = entry.unwrap().path();
            let relative = path.strip_prefix(top).unwrap().to_owned();
            if LEFT_OUT.iter().any(|name| relative == Path::new(name)) {
                continue;
            }
            if path.is_dir() && !path.is_symlink() {
                open.push(path);
            } else {
                found.insert(relative);
            }
        }
    }
    found
}
