//! What a request asks for beyond its target: conditions and ranges (RFC 9110 §13, §14), as sent.

use crate::message::Request;
use crate::semantics::conditional::Conditions;
use crate::semantics::method::Method;

/// The fields of a request that choose its answer, borrowed from it.
#[derive(Debug, Default)]
pub struct Asked<'a> {
    if_match: Lines<'a>,
    if_none_match: Lines<'a>,
    if_modified_since: Option<&'a [u8]>,
    if_unmodified_since: Option<&'a [u8]>,
    pub(super) if_range: Option<&'a [u8]>,
    /// `None` for HEAD too: a range is for GET alone (RFC 9110 §14.2).
    pub(super) range: Option<&'a [u8]>,
}

impl<'a> Asked<'a> {
    /// What `request` asks for. A field that may stand once and stands twice says nothing.
    #[must_use]
    pub fn of(request: &Request<'a>) -> Asked<'a> {
        let mut asked = Asked::default();
        let mut seen_twice = [false; 4];
        for field in request.fields {
            let once = match field.name.len() {
                5 if field.name.eq_ignore_ascii_case("range") => (&mut asked.range, 0),
                8 if field.name.eq_ignore_ascii_case("if-range") => (&mut asked.if_range, 1),
                8 if field.name.eq_ignore_ascii_case("if-match") => {
                    asked.if_match.push(field.value);
                    continue;
                }
                13 if field.name.eq_ignore_ascii_case("if-none-match") => {
                    asked.if_none_match.push(field.value);
                    continue;
                }
                17 if field.name.eq_ignore_ascii_case("if-modified-since") => {
                    (&mut asked.if_modified_since, 2)
                }
                19 if field.name.eq_ignore_ascii_case("if-unmodified-since") => {
                    (&mut asked.if_unmodified_since, 3)
                }
                _ => continue,
            };
            let (slot, number) = once;
            seen_twice[number] |= slot.replace(field.value).is_some();
        }
        let slots = [
            &mut asked.range,
            &mut asked.if_range,
            &mut asked.if_modified_since,
            &mut asked.if_unmodified_since,
        ];
        slots.into_iter().zip(seen_twice).filter(|(_, twice)| *twice).for_each(|(slot, _)| *slot = None);
        // An If-Range that says nothing must not let a range through that it was to guard.
        if request.method != Method::Get || seen_twice[1] {
            asked.range = None;
        }
        asked
    }

    /// Whether nothing but the target says what is asked for.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.range.is_none() && !self.has_conditions()
    }

    pub(super) fn has_conditions(&self) -> bool {
        !self.if_match.as_slice().is_empty()
            || !self.if_none_match.as_slice().is_empty()
            || self.if_modified_since.is_some()
            || self.if_unmodified_since.is_some()
    }

    /// Whether a part is asked for.
    #[must_use]
    pub fn has_range(&self) -> bool {
        self.range.is_some()
    }

    /// A copy that outlives the request's buffer.
    #[must_use]
    pub fn to_owned(&self) -> OwnedAsked {
        let list = |lines: &Lines<'_>| lines.as_slice().iter().map(|value| value.to_vec()).collect();
        let once = [self.if_modified_since, self.if_unmodified_since, self.if_range, self.range];
        OwnedAsked {
            lists: [list(&self.if_match), list(&self.if_none_match)],
            once: once.map(|value| value.map(<[u8]>::to_vec)),
        }
    }

    pub(in crate::handlers) fn conditions(&self) -> Conditions<'_> {
        Conditions {
            if_match: self.if_match.as_slice(),
            if_none_match: self.if_none_match.as_slice(),
            if_modified_since: self.if_modified_since,
            if_unmodified_since: self.if_unmodified_since,
            if_range: self.if_range,
        }
    }
}

/// The lines of a field, of which there is one but for rare requests: those need no memory of their own.
#[derive(Debug, Default)]
enum Lines<'a> {
    #[default]
    None,
    One([&'a [u8]; 1]),
    Several(Vec<&'a [u8]>),
}

impl<'a> Lines<'a> {
    fn of(lines: &'a [Vec<u8>]) -> Lines<'a> {
        let mut all = Lines::None;
        lines.iter().for_each(|line| all.push(line));
        all
    }

    fn push(&mut self, line: &'a [u8]) {
        match self {
            Lines::None => *self = Lines::One([line]),
            Lines::One([first]) => *self = Lines::Several(vec![*first, line]),
            Lines::Several(lines) => lines.push(line),
        }
    }

    fn as_slice(&self) -> &[&'a [u8]] {
        match self {
            Lines::None => &[],
            Lines::One(line) => line,
            Lines::Several(lines) => lines,
        }
    }
}

/// The same for a request whose buffer is gone.
#[derive(Debug)]
pub struct OwnedAsked {
    lists: [Vec<Vec<u8>>; 2],
    once: [Option<Vec<u8>>; 4],
}

impl OwnedAsked {
    /// Copies what `request` asks for.
    #[must_use]
    pub fn of(request: &Request<'_>) -> OwnedAsked {
        Asked::of(request).to_owned()
    }

    /// As it was.
    #[must_use]
    pub fn borrowed(&self) -> Asked<'_> {
        let [if_modified_since, if_unmodified_since, if_range, range] = &self.once;
        Asked {
            if_match: Lines::of(&self.lists[0]),
            if_none_match: Lines::of(&self.lists[1]),
            if_modified_since: if_modified_since.as_deref(),
            if_unmodified_since: if_unmodified_since.as_deref(),
            if_range: if_range.as_deref(),
            range: range.as_deref(),
        }
    }
}
