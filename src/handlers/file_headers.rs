//! Further fields of files by glob: on 200 and 206, and on the 304 after which a browser goes on with
//! what it has. All globs that match add theirs; a field of several is that of the last.

use std::rc::Rc;

use globset::{Candidate, GlobSet};

use crate::config::checked::HeaderRule;
use crate::message::{Fields, Reply};

/// The rules of one route.
#[derive(Debug)]
pub struct FileHeaders {
    globs: GlobSet,
    /// The fields of each glob.
    rules: Vec<Vec<Field>>,
}

#[derive(Debug)]
struct Field {
    line: Rc<[u8]>,
    /// Later globs that give the same field, ascending.
    later: Vec<usize>,
}

impl FileHeaders {
    /// From its slice of the config.
    #[must_use]
    pub fn new(rules: &[HeaderRule]) -> FileHeaders {
        let mut globs = GlobSet::builder();
        for rule in rules {
            globs.add(rule.glob.clone());
        }
        let globs = globs.build().expect("the config has built this very set");
        let fields = |(number, rule): (usize, &HeaderRule)| {
            let field = |(name, value): &(String, String)| Field {
                line: Fields::of(&[(name, value)]).as_bytes().into(),
                later: (number + 1..rules.len()).filter(|later| gives(&rules[*later], name)).collect(),
            };
            rule.headers.iter().map(field).collect()
        };
        FileHeaders { globs, rules: rules.iter().enumerate().map(fields).collect() }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Adds the fields of the file to its answer.
    pub fn add(&self, reply: &mut Reply, name: &Candidate<'_>) {
        // Ascending, so that they stand in the order of the config.
        let matches = self.globs.matches_candidate(name);
        for field in matches.iter().filter_map(|number| self.rules.get(*number)).flatten() {
            if !field.later.iter().any(|later| matches.binary_search(later).is_ok()) {
                reply.fields.append(&field.line);
            }
        }
    }
}

fn gives(rule: &HeaderRule, name: &str) -> bool {
    rule.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use globset::GlobBuilder;

    #[test]
    fn all_globs_add_and_the_last_wins() {
        let rule = |glob: &str, headers: &[(&str, &str)]| HeaderRule {
            glob: GlobBuilder::new(glob).literal_separator(true).build().unwrap(),
            headers: headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        };
        let rules = [
            rule("**", &[("X-A", "0"), ("X-B", "0")]),
            rule("**/*.js", &[("x-a", "1"), ("X-C", "1")]),
            rule("a/**", &[("X-A", "2")]),
        ];
        let headers = FileHeaders::new(&rules);
        let check = |name: &str, expected: &str| {
            let mut reply = Reply::bodiless(200, Fields::Empty);
            headers.add(&mut reply, &Candidate::new(name));
            let found = String::from_utf8(reply.fields.as_bytes().to_vec()).unwrap();
            assert_eq!(found.replace("\r\n", ";"), expected, "{name}");
        };
        check("x", "X-A: 0;X-B: 0;");
        check("x.js", "X-B: 0;x-a: 1;X-C: 1;");
        check("a/x", "X-B: 0;X-A: 2;");
        check("a/x.js", "X-B: 0;X-C: 1;X-A: 2;");
    }
}
