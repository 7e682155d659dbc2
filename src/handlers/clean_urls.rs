//! Clean URLs: `/about` is the page `about.html`, where there is no file `about`.

use crate::semantics::path::has_hidden_segment;

const ENDING: &[u8] = b".html";

/// The page that may stand for `relative`, a path without a trailing slash. None for a name that is a page's
/// already, and none that would be hidden: `/.well-known` is not.
pub(super) fn page_of(relative: &[u8], at_root: bool) -> Option<Vec<u8>> {
    let last = relative.rsplit(|byte| *byte == b'/').next()?;
    let is_page =
        last.len().checked_sub(ENDING.len()).is_some_and(|at| last[at..].eq_ignore_ascii_case(ENDING));
    if last.is_empty() || is_page {
        return None;
    }
    let page = [relative, ENDING].concat();
    (!has_hidden_segment(&page, at_root)).then_some(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_one_ending_and_a_name() {
        let check = |relative: &str, expected: Option<&str>| {
            assert_eq!(
                page_of(relative.as_bytes(), true).as_deref(),
                expected.map(str::as_bytes),
                "{relative}"
            );
        };
        check("about", Some("about.html"));
        check("a/v1.2", Some("a/v1.2.html"));
        check("a.htm", Some("a.htm.html"));
        check("html", Some("html.html"));
        check("a.html/b", Some("a.html/b.html"));
        check("about.html", None);
        check("a/About.HTML", None);
        check("", None);
        check(".well-known", None);
        check(".well-known/x", Some(".well-known/x.html"));
    }
}
