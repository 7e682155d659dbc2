//! Whether a request is a visitor going to a page, or a program asking for data: a single-page app
//! answers the first with its one page, and the second with the truth.

/// What a request says about itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asking<'a> {
    /// Sec-Fetch-Mode (Fetch Metadata Request Headers §2.2); every current browser sends it over
    /// HTTPS and to localhost.
    pub sec_fetch_mode: Option<&'a [u8]>,
    /// Accept, all lines.
    pub accept: &'a [&'a [u8]],
}

/// Whether it is a navigation. Where the browser says so, that counts; otherwise a request that names
/// HTML among what it accepts. `*/*` names nothing: `fetch` and `curl` send it.
#[must_use]
pub fn is_navigation(asking: &Asking<'_>) -> bool {
    if let Some(mode) = asking.sec_fetch_mode {
        return mode.trim_ascii().eq_ignore_ascii_case(b"navigate");
    }
    asking.accept.iter().flat_map(|line| line.split(|byte| *byte == b',')).any(names_html)
}

fn names_html(range: &[u8]) -> bool {
    let mut parts = range.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let name = parts.next().unwrap_or_default();
    let is_html =
        [&b"text/html"[..], b"application/xhtml+xml"].iter().any(|html| name.eq_ignore_ascii_case(html));
    // RFC 9110 §12.4.2: a weight of 0 means "not acceptable".
    let is_refused = parts.any(|part| {
        let weight = part.strip_prefix(b"q=").or_else(|| part.strip_prefix(b"Q="));
        weight
            .is_some_and(|weight| !weight.is_empty() && weight.iter().all(|byte| matches!(byte, b'0' | b'.')))
    });
    is_html && !is_refused
}

/// Whether a path may stand for a page of the app: its last segment has no dot, or it is a file that is
/// missing and not a page.
#[must_use]
pub fn may_be_page(relative: &[u8]) -> bool {
    let last = relative.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    !last.contains(&b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_that_go_somewhere_are_told_from_programs() {
        let check = |mode: Option<&str>, accept: &[&str], expected| {
            let accept: Vec<_> = accept.iter().map(|line| line.as_bytes()).collect();
            let asking = Asking { sec_fetch_mode: mode.map(str::as_bytes), accept: &accept };
            assert_eq!(is_navigation(&asking), expected, "{mode:?} {accept:?}");
        };
        check(None, &["text/html,application/xhtml+xml,*/*;q=0.8"], true);
        check(None, &["application/json", "TEXT/HTML ; q=0.5"], true);
        check(Some("navigate"), &[], true);
        check(Some("cors"), &["text/html"], false);
        check(None, &["*/*"], false);
        check(None, &[], false);
        check(None, &["application/json"], false);
        check(None, &["text/html;q=0"], false);
        check(None, &["text/html;q=0.000, */*"], false);
        check(None, &["text/htmlx"], false);
    }

    #[test]
    fn files_are_no_pages() {
        for (path, expected) in [
            ("", true),
            ("users/7", true),
            ("users/", true),
            ("a.b/c", true),
            ("app.js", false),
            ("a/b.", false),
        ] {
            assert_eq!(may_be_page(path.as_bytes()), expected, "{path}");
        }
    }
}
