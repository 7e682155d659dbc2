//! Redirects. The target comes from the config; a request only fills `{rest}`, in its normalised and
//! escaped form, behind the start of a path: it can never start or extend an authority (case A04).

use crate::config::checked;
use crate::fs::Miss;
use crate::handlers::miss;
use crate::message::{Body, Fields, Reply};
use crate::semantics::path::SafePath;
use crate::semantics::status;

const REST: &str = "{rest}";

/// A redirect.
#[derive(Debug)]
pub struct Redirect {
    before: String,
    /// What follows `{rest}`; `None` where the target has none.
    after: Option<String>,
    status: u16,
}

impl Redirect {
    /// From its slice of the config.
    #[must_use]
    pub fn new(config: &checked::Redirect) -> Redirect {
        let (before, after) = match config.to.split_once(REST) {
            Some((before, after)) => (before.to_owned(), Some(after.to_owned())),
            None => (config.to.clone(), None),
        };
        Redirect { before, after, status: config.status }
    }

    /// The answer; `rest` is the escaped path behind the route's prefix. The query goes along where
    /// the target has none of its own.
    #[must_use]
    pub fn answer(&self, rest: &[u8], query: Option<&[u8]>) -> Reply {
        let mut location = self.before.clone().into_bytes();
        if let Some(after) = &self.after {
            // One slash between the parts, whatever they bring along and also when the rest is empty:
            // two at the start would be an authority (RFC 3986 §4.2).
            for part in [rest, after.as_bytes()] {
                let part =
                    if location.ends_with(b"/") { part.strip_prefix(b"/").unwrap_or(part) } else { part };
                location.extend_from_slice(part);
            }
        }
        if let Some(query) = query
            && !location.contains(&b'?')
        {
            // Before the fragment, if there is one (RFC 3986 §3).
            let fragment = location.iter().position(|byte| *byte == b'#').unwrap_or(location.len());
            let fragment = location.split_off(fragment);
            location.push(b'?');
            location.extend_from_slice(query);
            location.extend_from_slice(&fragment);
        }
        to(self.status, &location)
    }
}

/// A redirect to `location`: visible ASCII, by the checks on targets and configs.
#[must_use]
pub fn to(status: u16, location: &[u8]) -> Reply {
    debug_assert!(location.iter().all(|byte| matches!(byte, 0x21..=0x7e)), "a Location with other bytes");
    let text = format!("{status} {}\n", status::reason(status)).into_bytes();
    let location = String::from_utf8_lossy(location);
    let fields = Fields::of(&[("Content-Type", "text/plain; charset=utf-8"), ("Location", &location)]);
    Reply { status, fields, body: Body::Owned(text) }
}

/// The redirect to a directory's own path. Not where its name holds a backslash: escaped it would be
/// another path (`%5C` is none of a name's bytes), and as it is browsers take it for a slash.
pub(super) fn to_directory(relative: &[u8], location: &[u8]) -> Reply {
    if relative.contains(&b'\\') {
        return miss::reply(&Miss::NotFound);
    }
    to(308, location)
}

/// The path with its slash and the query as it was: path-absolute with one leading slash, so that it
/// stays on this site whatever the names are (case A04).
#[must_use]
pub fn with_slash(path: &SafePath<'_>, query: Option<&[u8]>) -> Vec<u8> {
    let mut location = path.escaped().to_vec();
    location.push(b'/');
    if let Some(query) = query {
        location.push(b'?');
        location.extend_from_slice(query);
    }
    location
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rest_is_put_into_a_path() {
        let check = |to: &str, rest: &str, query: Option<&str>, expected: &str| {
            let redirect = Redirect::new(&checked::Redirect { to: to.into(), status: 308 });
            let reply = redirect.answer(rest.as_bytes(), query.map(str::as_bytes));
            let fields = String::from_utf8(reply.fields.as_bytes().to_vec()).unwrap();
            assert!(fields.contains(&format!("\r\nLocation: {expected}\r\n")), "{fields}");
        };
        check("/new/{rest}", "a/b", None, "/new/a/b");
        check("/new/{rest}", "", Some("x=1"), "/new/?x=1");
        check("/{rest}", "/evil.example", None, "/evil.example");
        check("https://h/{rest}/x?y", "a", Some("z"), "https://h/a/x?y");
        check("/fixed", "a", Some("q"), "/fixed?q");
        check("/{rest}/x.example", "", None, "/x.example");
        check("/{rest}/x.example", "a", None, "/a/x.example");
        check("/new#frag", "", Some("q=1"), "/new?q=1#frag");
    }
}
