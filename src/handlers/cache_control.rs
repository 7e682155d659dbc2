//! Cache-Control of files by glob, and before it what else they have by glob. It is a matter of what is sent for a file: 200, 206, and the 304
//! that stands for it (RFC 9110 §15.4.5). An error is never kept because a file would have been.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::rc::Rc;

use globset::{Candidate, GlobSet};

use crate::config::checked::{CacheRule, HeaderRule};
use crate::handlers::compress::forbids_transform;
use crate::handlers::file_headers::FileHeaders;
use crate::message::{Fields, Reply};

/// The rules of one route.
#[derive(Debug)]
pub struct CacheControl {
    globs: GlobSet,
    /// The line of each glob.
    lines: Vec<Rc<[u8]>>,
    /// Whether any of them forbids a coding.
    may_forbid: bool,
    /// Here, as they are for the same answers and the same name.
    headers: FileHeaders,
}

impl CacheControl {
    /// From its slice of the config, and that of further fields.
    #[must_use]
    pub fn new(rules: &[CacheRule], headers: &[HeaderRule]) -> CacheControl {
        let mut globs = GlobSet::builder();
        for rule in rules {
            globs.add(rule.glob.clone());
        }
        let globs = globs.build().expect("the config has built this very set");
        let line = |rule: &CacheRule| Fields::of(&[("Cache-Control", &rule.value)]).as_bytes().into();
        let may_forbid = rules.iter().any(|rule| forbids_transform(rule.value.as_bytes()));
        let headers = FileHeaders::new(headers);
        CacheControl { globs, lines: rules.iter().map(line).collect(), may_forbid, headers }
    }

    /// Whether the file `name` has to go out as it is (RFC 9111 §5.2.2.6).
    #[must_use]
    pub fn forbids_transform(&self, name: &[u8]) -> bool {
        let value = |line: &Rc<[u8]>| line.iter().position(|byte| *byte == b':').map_or(0, |colon| colon + 1);
        let name = Candidate::new(OsStr::from_bytes(name));
        self.may_forbid && self.line(&name).is_some_and(|line| forbids_transform(&line[value(line)..]))
    }

    /// The line of the first glob that matches.
    fn line(&self, name: &Candidate<'_>) -> Option<&Rc<[u8]>> {
        // Ascending, so that the first of them is the first of the config.
        let matches = self.globs.matches_candidate(name);
        matches.first().and_then(|first| self.lines.get(*first))
    }

    /// The answer about the file `name`, a path beneath the root, with its lines.
    #[must_use]
    pub fn on(&self, mut reply: Reply, name: &[u8]) -> Reply {
        let is_empty = self.lines.is_empty() && self.headers.is_empty();
        if !is_empty && matches!(reply.status, 200 | 206 | 304) {
            let name = Candidate::new(OsStr::from_bytes(name));
            self.headers.add(&mut reply, &name);
            if let Some(line) = self.line(&name) {
                reply.fields.append(line);
            }
        }
        reply
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use globset::GlobBuilder;

    #[test]
    fn the_first_glob_that_matches_wins() {
        let globs = ["a/**", "**/*.html", "**/[x]?.{js,css}", "a/b.txt", "**/\\*", "**"];
        let rules = globs.iter().enumerate().map(|(number, glob)| CacheRule {
            glob: GlobBuilder::new(glob).literal_separator(true).build().unwrap(),
            value: number.to_string(),
        });
        let rules: Vec<_> = rules.collect();
        let check = |count: usize, status: u16, name: &[u8], expected: &str| {
            let reply = Reply::bodiless(status, Fields::Empty);
            let reply = CacheControl::new(&rules[..count], &[]).on(reply, name);
            let found = String::from_utf8(reply.fields.as_bytes().to_vec()).unwrap();
            assert_eq!(found, expected, "{}", name.escape_ascii());
        };
        let first = |name: &str, number: usize| {
            check(6, 200, name.as_bytes(), &format!("Cache-Control: {number}\r\n"));
        };
        first("a/b.txt", 0);
        first("a/b/c.html", 0);
        first("a", 5);
        first("ab/c", 5);
        first("index.html", 1);
        first("d/index.html", 1);
        first("index.htm", 5);
        first("x1.js", 2);
        first("d/e/xy.css", 2);
        first("xyz.css", 5);
        first("*", 4);
        first(".well-known/x", 5);
        check(6, 200, b"\xff\xfe\n.html", "Cache-Control: 1\r\n");
        check(4, 200, b"b.txt", "");
        check(0, 200, b"b.txt", "");
        for (status, count) in [(206, 1), (304, 1), (308, 0), (404, 0), (412, 0), (416, 0), (503, 0)] {
            check(1, status, b"a/b", &"Cache-Control: 0\r\n".repeat(count));
        }
    }
}
