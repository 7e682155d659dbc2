//! Conditional requests (RFC 9110 §13) for GET and HEAD, evaluated in the order of §13.2.2.

use crate::semantics::{date, etag};

/// The conditions of a request: values of its fields, as sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conditions<'a> {
    /// If-Match, all lines.
    pub if_match: &'a [&'a [u8]],
    /// If-None-Match, all lines.
    pub if_none_match: &'a [&'a [u8]],
    /// If-Modified-Since.
    pub if_modified_since: Option<&'a [u8]>,
    /// If-Unmodified-Since.
    pub if_unmodified_since: Option<&'a [u8]>,
    /// If-Range.
    pub if_range: Option<&'a [u8]>,
}

/// What is known of the selected representation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Validators<'a> {
    /// Its entity tag, with its quotes; with `W/` where it is weak.
    pub tag: Option<&'a str>,
    /// Its Last-Modified, in seconds since the epoch; `None` where none is sent.
    pub modified_s: Option<i64>,
    /// The Date of the answer.
    pub now_s: i64,
}

/// What the conditions come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answer as if there were none; a Range counts or does not.
    Proceed {
        /// If-Range is absent or holds.
        range_counts: bool,
    },
    /// 304
    NotModified,
    /// 412
    Failed,
}

/// Evaluates the conditions of a GET or HEAD whose answer without them would be 200.
#[must_use]
pub fn evaluate(conditions: &Conditions<'_>, validators: &Validators<'_>) -> Outcome {
    let date = |value: Option<&[u8]>| date::parse_http_date(value?, validators.now_s);
    // Steps 1 and 2: If-Match, and only without it If-Unmodified-Since.
    if !conditions.if_match.is_empty() {
        if !etag::match_names(conditions.if_match, validators.tag) {
            return Outcome::Failed;
        }
    } else if let (Some(since), Some(modified)) =
        (date(conditions.if_unmodified_since), validators.modified_s)
        && modified > since
    {
        return Outcome::Failed;
    }
    // Steps 3 and 4: If-None-Match, and only without it If-Modified-Since.
    if !conditions.if_none_match.is_empty() {
        if etag::none_match_names(conditions.if_none_match, validators.tag) {
            return Outcome::NotModified;
        }
    } else if let (Some(since), Some(modified)) = (date(conditions.if_modified_since), validators.modified_s)
        && modified <= since
    {
        return Outcome::NotModified;
    }
    // Step 5: If-Range.
    let range_counts = conditions.if_range.is_none_or(|value| if_range_holds(value, validators));
    Outcome::Proceed { range_counts }
}

/// RFC 9110 §13.1.5: a strong tag by strong comparison, or the exact date, which counts as strong only
/// when it is a second or more before the answer's Date (§8.8.2.2).
fn if_range_holds(value: &[u8], validators: &Validators<'_>) -> bool {
    let value = value.trim_ascii();
    if value.starts_with(b"\"") {
        return validators.tag.is_some_and(|tag| tag.as_bytes() == value);
    }
    let is_strong = |modified: &i64| *modified < validators.now_s;
    let date = date::parse_http_date(value, validators.now_s);
    date.is_some() && date == validators.modified_s.filter(is_strong)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: &str = "\"5-6-7\"";
    /// Sun, 06 Nov 1994 08:49:37 GMT
    const MODIFIED: i64 = 784_111_777;
    const THEN: &[u8] = b"Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &[u8] = b"Sunday, 06-Nov-94 08:49:36 GMT";
    const AFTER: &[u8] = b"Sun Nov  6 08:49:38 1994";
    const PROCEED: Outcome = Outcome::Proceed { range_counts: true };

    fn check(conditions: Conditions<'_>, expected: Outcome) {
        let validators = Validators { tag: Some(TAG), modified_s: Some(MODIFIED), now_s: MODIFIED + 10 };
        assert_eq!(evaluate(&conditions, &validators), expected, "{conditions:?}");
    }

    #[test]
    fn the_order_is_that_of_the_rfc() {
        let (none, tag, other) = (Conditions::default(), [TAG.as_bytes()], [b"\"z\"".as_slice()]);
        check(none, PROCEED);
        check(Conditions { if_match: &tag, ..none }, PROCEED);
        check(Conditions { if_match: &[b"*"], ..none }, PROCEED);
        check(Conditions { if_match: &[b"\"z\"", b"\"y\", \"5-6-7\""], ..none }, PROCEED);
        check(Conditions { if_match: &other, ..none }, Outcome::Failed);
        check(Conditions { if_match: &[b"W/\"5-6-7\""], ..none }, Outcome::Failed);
        check(Conditions { if_unmodified_since: Some(BEFORE), ..none }, Outcome::Failed);
        check(Conditions { if_unmodified_since: Some(THEN), ..none }, PROCEED);
        check(Conditions { if_unmodified_since: Some(b"no date"), ..none }, PROCEED);
        let before_1970 = Some(b"Wed, 31 Dec 1969 23:59:59 GMT".as_slice());
        check(Conditions { if_unmodified_since: before_1970, ..none }, Outcome::Failed);
        check(Conditions { if_match: &tag, if_unmodified_since: Some(BEFORE), ..none }, PROCEED);
        check(Conditions { if_none_match: &tag, ..none }, Outcome::NotModified);
        check(Conditions { if_none_match: &[b"W/\"5-6-7\""], ..none }, Outcome::NotModified);
        check(Conditions { if_none_match: &other, ..none }, PROCEED);
        check(Conditions { if_none_match: &other, if_modified_since: Some(AFTER), ..none }, PROCEED);
        check(Conditions { if_modified_since: Some(THEN), ..none }, Outcome::NotModified);
        check(Conditions { if_modified_since: Some(AFTER), ..none }, Outcome::NotModified);
        check(Conditions { if_modified_since: Some(BEFORE), ..none }, PROCEED);
        check(Conditions { if_match: &other, if_none_match: &tag, ..none }, Outcome::Failed);
        check(Conditions { if_match: &tag, if_none_match: &tag, ..none }, Outcome::NotModified);
    }

    #[test]
    fn if_range_wants_the_very_same_representation() {
        let ask = |value: &'static [u8], range_counts| {
            check(
                Conditions { if_range: Some(value), ..Conditions::default() },
                Outcome::Proceed { range_counts },
            );
        };
        ask(TAG.as_bytes(), true);
        ask(b"W/\"5-6-7\"", false);
        ask(b"\"z\"", false);
        ask(b"\"5-6-7\", \"z\"", false);
        ask(THEN, true);
        ask(BEFORE, false);
        ask(AFTER, false);
        ask(b"*", false);
        ask(b"", false);
        let young = Validators { tag: None, modified_s: Some(MODIFIED), now_s: MODIFIED };
        let conditions = Conditions { if_range: Some(THEN), ..Conditions::default() };
        assert_eq!(evaluate(&conditions, &young), Outcome::Proceed { range_counts: false });
    }

    #[test]
    fn without_validators_only_a_star_matches() {
        let nothing = Validators::default();
        let evaluate = |conditions| evaluate(&conditions, &nothing);
        let none = Conditions::default();
        assert_eq!(evaluate(Conditions { if_match: &[b"\"a\""], ..none }), Outcome::Failed);
        assert_eq!(evaluate(Conditions { if_match: &[b"*"], ..none }), PROCEED);
        assert_eq!(evaluate(Conditions { if_none_match: &[b"*"], ..none }), Outcome::NotModified);
        assert_eq!(evaluate(Conditions { if_modified_since: Some(AFTER), ..none }), PROCEED);
        assert_eq!(evaluate(Conditions { if_unmodified_since: Some(BEFORE), ..none }), PROCEED);
    }
}
