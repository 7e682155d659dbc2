//! Conditions in their order (RFC 9110 §13.2.2), and whether a Range counts (§13.1.5, §14.2).

use super::dates;
use super::tags::{self, Comparison};

/// What a representation is known by.
#[derive(Clone, Debug)]
pub struct Validators {
    /// Its tag, with `W/` where it is weak.
    pub tag: Option<String>,
    /// Its Last-Modified.
    pub modified_s: Option<i64>,
    /// The time of the answer.
    pub now_s: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    NotModified,
    Failed,
    /// As if there were no condition; a Range counts or does not.
    Goes {
        range_counts: bool,
    },
}

/// A request's fields, values without the space around them.
pub struct Fields<'a>(pub Vec<(&'a str, &'a [u8])>);

impl<'a> Fields<'a> {
    /// All lines of a field.
    pub fn lines(&self, name: &str) -> Vec<&'a [u8]> {
        self.0.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value).collect()
    }

    /// The value of a field that may stand once; standing twice it says nothing (ADR 0016).
    pub fn once(&self, name: &str) -> Option<&'a [u8]> {
        match self.lines(name)[..] {
            [value] => Some(value),
            _ => None,
        }
    }

    fn date(&self, name: &str, now_s: i64) -> Option<i64> {
        dates::read(self.once(name)?, now_s)
    }
}

/// For a GET or HEAD that would be answered with 200 (§13.2.1).
pub fn evaluate(fields: &Fields<'_>, validators: &Validators) -> Outcome {
    let Validators { tag, modified_s, now_s } = validators;
    let tag = tag.as_deref();
    // 1. If-Match, by strong comparison; 2. without it If-Unmodified-Since.
    let if_match = fields.lines("if-match");
    let must_hold = match if_match.is_empty() {
        false => tags::names(&if_match, tag, Comparison::Strong),
        // "MUST ignore" what is no date, and where the resource has none.
        true => match (fields.date("if-unmodified-since", *now_s), modified_s) {
            (Some(date), Some(modified)) => *modified <= date,
            _ => true,
        },
    };
    if !must_hold {
        return Outcome::Failed;
    }
    // 3. If-None-Match, by weak comparison; 4. without it If-Modified-Since.
    let if_none_match = fields.lines("if-none-match");
    let is_known = match if_none_match.is_empty() {
        false => tags::names(&if_none_match, tag, Comparison::Weak),
        true => match (fields.date("if-modified-since", *now_s), modified_s) {
            (Some(date), Some(modified)) => *modified <= date,
            _ => false,
        },
    };
    if is_known {
        return Outcome::NotModified;
    }
    // 5. If-Range. One that stands twice says nothing, and must not let a range through (ADR 0016).
    let if_range = fields.lines("if-range");
    let range_counts = match if_range[..] {
        [] => true,
        [value] => if_range_holds(value, validators),
        _ => false,
    };
    Outcome::Goes { range_counts }
}

fn if_range_holds(value: &[u8], validators: &Validators) -> bool {
    // "by examining the first three characters for a DQUOTE"
    if value.iter().take(3).any(|byte| *byte == b'"') {
        return tags::is_strongly(value, validators.tag.as_deref());
    }
    // A date that is exactly the last modification, and strong: a second before the answer (§8.8.2.2).
    match (dates::read(value, validators.now_s), validators.modified_s) {
        (Some(date), Some(modified)) => date == modified && modified < validators.now_s,
        _ => false,
    }
}
