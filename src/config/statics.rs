//! `static = { … }`: a directory, and what of it may be seen.
//!
//! Looks whether the root is there and readable. On request it also walks the root for absolute
//! symbolic links, which the resolver never follows (openat2(2), RESOLVE_BENEATH) and which people
//! only notice as 404s.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::checked::{Spa, Static};
use super::compress;
use super::error::Origin;
use super::file_headers;
use super::keys::{REVALIDATE_MS_MAX, SYMLINK_WORDS};
use super::raw::{Node, Table};
use super::report::Report;
use super::units::show_ms;
use super::{cache_control, error_pages};
use crate::semantics::path::{SafePath, has_hidden_segment};

/// The walk is a courtesy: it ends here even if the root is a whole file server.
const WALK_ENTRIES_MAX: usize = 10_000;
const WALK_DEPTH_MAX: usize = 8;
/// Default of `revalidate`: deployments show within a second, and a busy file costs three calls in it.
pub(super) const REVALIDATE_MS: u64 = 1_000;
/// Links that are named one by one; the others are counted.
const LINKS_NAMED_MAX: usize = 10;

pub(super) fn read(table: &Table, origin: &Origin, report: &mut Report<'_>) -> Option<Static> {
    let here = ("route.static", table);
    let root = match table.get("root") {
        Some(node) => read_root(report, node),
        None => {
            if table.lacks("root") {
                report.missing(origin, "route.static", "root");
            }
            None
        }
    };
    let read = |report: &mut Report<'_>, node: &Node| report.word(node, SYMLINK_WORDS, "");
    let symlinks = report.value(here, "symlinks", "inside", read, |word| format!("{word:?}"));
    let index = vec!["index.html".to_owned()];
    let index = report.value(here, "index", index, read_index, |names| format!("{names:?}"));
    let listing = report.value(here, "listing", false, Report::boolean, |on| format!("{on}"));
    let clean_urls = report.value(here, "clean_urls", false, Report::boolean, |on| format!("{on}"));
    let precompressed = report.value(here, "precompressed", true, Report::boolean, |on| format!("{on}"));
    let compress = compress::read(table, report);
    let read = |report: &mut Report<'_>, node: &Node| report.duration_ms(node, 0, REVALIDATE_MS_MAX);
    let revalidate_ms =
        report.value(here, "revalidate", REVALIDATE_MS, read, |ms| format!("{:?}", show_ms(*ms)));
    let rules = table.get("cache_control");
    let cache_control = rules.map_or_else(|| Some(Vec::new()), |node| cache_control::read(node, report));
    let rules = table.get("headers");
    let headers = rules.map_or_else(|| Some(Vec::new()), |node| file_headers::read(node, report));
    let follow_symlinks = symlinks == "inside";
    let beneath = root.as_deref().map(|root| Beneath { root, follow_symlinks });
    let spa = read_spa(here, beneath, report);
    let error_pages = error_pages::of_static(table, beneath, report);
    Some(Static {
        root: root?,
        follow_symlinks,
        index,
        listing,
        clean_urls,
        revalidate_ms,
        precompressed,
        cache_control: cache_control?,
        compress,
        headers: headers?,
        spa,
        error_pages,
    })
}

/// `spa` and `spa_exclude`. That the page is there is looked at like the root itself: a misspelt name
/// would answer every page of the app with 404.
fn read_spa(here: (&str, &Table), beneath: Option<Beneath<'_>>, report: &mut Report<'_>) -> Option<Spa> {
    let (_, table) = here;
    let read = |report: &mut Report<'_>, node: &Node| {
        report.list(node, "a list of paths such as [\"/api/\"]", path_below)
    };
    let exclude = report.value(here, "spa_exclude", Vec::new(), read, |paths| {
        let shown: Vec<_> = paths.iter().map(|path| format!("/{}", String::from_utf8_lossy(path))).collect();
        format!("{shown:?}")
    });
    let Some(node) = table.get("spa") else {
        if let Some(exclude) = table.get("spa_exclude") {
            report.warning(&exclude.origin, "spa_exclude has no effect without spa");
        }
        return None;
    };
    let page = path_below(report, node)?;
    let hidden = has_hidden_segment(&page, true).then_some("whose name is hidden");
    if let Some(fault) = hidden.or_else(|| beneath.and_then(|beneath| beneath.fault_of(&page))) {
        report.expected(node, "a file beneath root such as \"/index.html\"", Some(fault.to_owned()));
        return None;
    }
    report.set(
        "route.static.spa",
        format!("{:?}", format!("/{}", String::from_utf8_lossy(&page))),
        Some(node),
    );
    Some(Spa { page, exclude })
}

/// Where pages are looked for, and by which rule.
#[derive(Clone, Copy)]
pub(super) struct Beneath<'a> {
    pub(super) root: &'a Path,
    pub(super) follow_symlinks: bool,
}

impl Beneath<'_> {
    /// Why `page` would not be served. By the rules of the resolver as far as they show from outside:
    /// what a link leads to may be there and still be a miss for every request.
    pub(super) fn fault_of(self, page: &[u8]) -> Option<&'static str> {
        let path = self.root.join(OsStr::from_bytes(page));
        if !path.is_file() {
            return Some("which is no file there");
        }
        let depth = page.split(|byte| *byte == b'/').count();
        let targets: Vec<_> =
            path.ancestors().take(depth).filter_map(|path| std::fs::read_link(path).ok()).collect();
        if !self.follow_symlinks && !targets.is_empty() {
            return Some("which is behind a symbolic link, and symlinks is \"none\"");
        }
        if targets.iter().any(|target| target.is_absolute()) {
            return Some("which is behind an absolute symbolic link, and those are never followed");
        }
        #[expect(clippy::disallowed_methods, reason = "compared only, nothing is opened by it")]
        let whole = |path: &Path| std::fs::canonicalize(path).ok();
        let is_beneath = whole(&path)?.starts_with(whole(self.root)?);
        (!is_beneath).then_some("which a symbolic link leads out of there")
    }
}

/// A path with its leading slash, decoded, without the slashes at its ends.
fn path_below(report: &mut Report<'_>, node: &Node) -> Option<Vec<u8>> {
    path_such_as(report, node, "/index.html")
}

/// The same with another example for who wrote something else.
pub(super) fn path_such_as(report: &mut Report<'_>, node: &Node, example: &str) -> Option<Vec<u8>> {
    let text = report.any_text(node)?;
    // Looked at first: `SafePath` is for what begins with a slash.
    let path = Some(text).filter(|text| text.starts_with('/'));
    let path = path.and_then(|text| SafePath::parse(text.as_bytes()).ok());
    match path {
        Some(path) if !path.segments().is_empty() && !path.segments().contains(&0) => {
            Some(path.segments().to_vec())
        }
        _ => {
            report.expected(node, &format!("a path that begins with a slash, such as {example:?}"), None);
            None
        }
    }
}

fn read_root(report: &mut Report<'_>, node: &Node) -> Option<PathBuf> {
    let text = report.text(node)?;
    if let Some(reason) = root_fault(Path::new(text)) {
        report.expected(node, "a readable directory", Some(reason));
        return None;
    }
    report.set("route.static.root", format!("{text:?}"), Some(node));
    Some(PathBuf::from(text))
}

/// Why nothing can be served from `root`.
pub(super) fn root_fault(root: &Path) -> Option<String> {
    match std::fs::metadata(root) {
        Ok(metadata) if !metadata.is_dir() => Some("which is no directory".to_owned()),
        Ok(_) => std::fs::read_dir(root)
            .map(drop)
            // Searching it is a right of its own.
            .and_then(|()| std::fs::metadata(root.join(".")).map(drop))
            .err()
            .map(|error| super::io_reason(&error)),
        Err(error) => Some(super::io_reason(&error)),
    }
}

fn read_index(report: &mut Report<'_>, node: &Node) -> Option<Vec<String>> {
    report.list(node, "a list of file names such as [\"index.html\"]", |report, node| {
        let name = report.any_text(node)?;
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
            report.expected(node, "a plain file name such as \"index.html\"", None);
            return None;
        }
        Some(name.to_owned())
    })
}

/// Warnings about absolute symbolic links beneath `root`, each without its place.
pub(super) fn absolute_links(root: &Path) -> Vec<String> {
    let mut walk = Walk::default();
    walk.directory(root, 0);
    // Relative to the root, whose name may come from a variable; the warning's place names it.
    let relative = |link: &PathBuf| warning(link.strip_prefix(root).unwrap_or(link));
    let mut warnings: Vec<String> = walk.links.iter().take(LINKS_NAMED_MAX).map(relative).collect();
    if walk.links.len() > LINKS_NAMED_MAX {
        warnings.push(format!("{} more absolute symbolic links", walk.links.len() - LINKS_NAMED_MAX));
    }
    if walk.was_cut_short {
        warnings.push(format!(
            "the search for absolute symbolic links ended early, at {WALK_ENTRIES_MAX} entries or depth {WALK_DEPTH_MAX}"
        ));
    }
    warnings
}

fn warning(link: &Path) -> String {
    format!(
        "{} in this root is an absolute symbolic link, which is never followed (404): make it relative",
        link.display()
    )
}

#[derive(Default)]
struct Walk {
    entries: usize,
    links: Vec<PathBuf>,
    was_cut_short: bool,
}

impl Walk {
    fn directory(&mut self, directory: &Path, depth: usize) {
        if depth > WALK_DEPTH_MAX {
            self.was_cut_short = true;
            return;
        }
        // What we may not read we cannot serve either; the requests will say so.
        let Ok(entries) = std::fs::read_dir(directory) else { return };
        for entry in entries.flatten() {
            if self.entries == WALK_ENTRIES_MAX {
                self.was_cut_short = true;
                return;
            }
            self.entries += 1;
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if kind.is_dir() {
                self.directory(&path, depth + 1);
            } else if kind.is_symlink() && std::fs::read_link(&path).is_ok_and(|target| target.is_absolute())
            {
                self.links.push(path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn absolute_links_are_found_and_the_walk_is_bounded() {
        let root = std::env::temp_dir().join(format!("scalws-links-{}", std::process::id()));
        let deep = (0..12).fold(root.clone(), |path, _| path.join("d"));
        std::fs::create_dir_all(&deep).unwrap();
        symlink("/etc", root.join("d/absolute")).unwrap();
        symlink("d", root.join("relative")).unwrap();
        let found = absolute_links(&root);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(found[0], warning(Path::new("d/absolute")));
        assert!(found[1].contains("ended early"), "{found:?}");
        assert_eq!(found.len(), 2);
    }

    /// A page that the resolver will refuse would be found out by the first visitor who needs it.
    #[test]
    fn a_page_behind_a_link_has_to_be_one_that_is_served() {
        let top = std::env::temp_dir().join(format!("scalws-pages-{}", std::process::id()));
        let root = top.join("root");
        std::fs::create_dir_all(root.join("..data/d")).unwrap();
        std::fs::write(root.join("..data/d/x"), "x").unwrap();
        std::fs::write(top.join("out"), "x").unwrap();
        for (target, name) in [
            ("..data/d", "d"),
            ("d/x", "in"),
            ("../out", "out"),
            ("/proc/self/status", "absolute"),
            ("none", "none"),
        ] {
            symlink(target, root.join(name)).unwrap();
        }
        symlink("root", top.join("current")).unwrap();
        for (page, inside, none) in [
            ("..data/d/x", None, None),
            ("d/x", None, Some("\"none\"")),
            ("in", None, Some("\"none\"")),
            ("out", Some("out of there"), Some("\"none\"")),
            ("absolute", Some("never followed"), Some("\"none\"")),
            ("none", Some("no file"), Some("no file")),
        ] {
            for (follow_symlinks, expected) in [(true, inside), (false, none)] {
                let found = Beneath { root: &top.join("current"), follow_symlinks }.fault_of(page.as_bytes());
                let is_expected = match (found, expected) {
                    (Some(found), Some(part)) => found.contains(part),
                    (found, expected) => found.is_none() && expected.is_none(),
                };
                assert!(is_expected, "{page} {follow_symlinks}: {found:?}");
            }
        }
        std::fs::remove_dir_all(&top).unwrap();
    }
}
