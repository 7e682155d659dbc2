//! `redirect = { … }`: where to, and with which status.
//!
//! What a client sends may never begin or extend the authority of the target: `{rest}` stands in the
//! path alone, after the slash that ends the authority.

use super::checked::Redirect;
use super::error::Origin;
use super::keys::REDIRECT_STATUSES;
use super::raw::{Node, Table};
use super::report::Report;

/// Why a target is refused, after "expected".
type Fault = &'static str;

const REST: &str = "{rest}";

pub(super) fn read(
    table: &Table,
    origin: &Origin,
    is_exact: bool,
    report: &mut Report<'_>,
) -> Option<Redirect> {
    let status = report.value(("route.redirect", table), "status", 308, read_status, u64::to_string);
    let Some(node) = table.get("to") else {
        if table.lacks("to") {
            report.missing(origin, "route.redirect", "to");
        }
        return None;
    };
    let to = report.text(node)?;
    let fault = target_fault(to)
        .or_else(|| (is_exact && to.contains(REST)).then_some("no {rest}, as an exact route leaves nothing"));
    if let Some(fault) = fault {
        report.expected(node, fault, None);
        return None;
    }
    report.set("route.redirect.to", format!("{to:?}"), Some(node));
    Some(Redirect { to: to.to_owned(), status: u16::try_from(status).ok()? })
}

fn read_status(report: &mut Report<'_>, node: &Node) -> Option<u64> {
    let is_known = |status: &u64| REDIRECT_STATUSES.contains(status);
    let status = match &node.value {
        super::raw::Value::Integer(number) => u64::try_from(*number).ok(),
        super::raw::Value::Text(text) if text.typed.is_some() => text.text.parse().ok(),
        _ => None,
    };
    if status.filter(is_known).is_none() {
        report.expected(node, "301, 302, 303, 307 or 308", None);
    }
    status.filter(is_known)
}

fn target_fault(to: &str) -> Option<Fault> {
    if !to.bytes().all(|byte| matches!(byte, b'!'..=b'~')) || to.contains('\\') {
        return Some("visible ASCII without backslashes, everything else percent-encoded");
    }
    let path = if to.starts_with('/') {
        if to.starts_with("//") {
            return Some("one slash at its start, as \"//\" would begin a host");
        }
        to
    } else {
        match authority_and_path(to) {
            Ok(path) => path,
            Err(fault) => return Some(fault),
        }
    };
    placeholder_fault(path)
}

/// The path of an absolute target, after its authority was looked at.
fn authority_and_path(to: &str) -> Result<&str, Fault> {
    const FORM: Fault = "a path such as \"/new/{rest}\", or a URL such as \"https://www.example.com/{rest}\"";
    let (scheme, rest) = to.split_once("://").ok_or(FORM)?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(FORM);
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if authority.contains(['{', '}']) {
        return Err("no placeholder in the host, which the client would choose then");
    }
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    if authority.is_empty() || authority.starts_with(':') || !authority.bytes().all(is_part) {
        return Err("a plain host, with a port or without, after \"://\"");
    }
    Ok(path)
}

fn placeholder_fault(path: &str) -> Option<Fault> {
    let without = path.replacen(REST, "", 1);
    if without.contains(['{', '}']) {
        return Some("one {rest} at most, and no other placeholder");
    }
    let query = path.find(['?', '#']).unwrap_or(path.len());
    match path.find(REST) {
        Some(at) if at > query => Some("{rest} before the query and the fragment"),
        // `/{rest}` is safe because a request's path is normalised: what it leaves has no slash in front.
        Some(_) if !path.starts_with('/') => Some("a slash between the host and {rest}"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(to: &str, expected: Option<&str>) {
        let found = target_fault(to);
        match (found, expected) {
            (Some(found), Some(expected)) => assert!(found.contains(expected), "{to}: {found}"),
            (found, expected) => assert_eq!(found, expected, "{to}"),
        }
    }

    #[test]
    fn a_client_never_chooses_the_host() {
        for to in ["/", "/new", "/new/{rest}", "/{rest}", "/a/{rest}/b?x=1#y", "/a{rest}", "/a//b"] {
            check(to, None);
        }
        for to in ["https://a", "HTTP://a:8080/{rest}", "https://[::1]/", "https://a?x", "https://a/b{rest}"]
        {
            check(to, None);
        }
        check("//evil", Some("begin a host"));
        check("//{rest}", Some("begin a host"));
        check("/\\evil", Some("without backslashes"));
        check("https://{rest}/", Some("no placeholder in the host"));
        check("https://a{rest}", Some("no placeholder in the host"));
        check("https://a:{rest}/", Some("no placeholder in the host"));
        check("https://a?{rest}", Some("before the query"));
        check("/a?b={rest}", Some("before the query"));
        check("/{rest}/{rest}", Some("one {rest}"));
        check("/{path}", Some("no other placeholder"));
        check("/{", Some("no other placeholder"));
        check("{rest}", Some("a path such as"));
        check("new", Some("a path such as"));
        check("javascript://x/", Some("a path such as"));
        check("https:///x", Some("a plain host"));
        check("https://user@host/", Some("a plain host"));
        check("/a b", Some("visible ASCII"));
        check("/a\r\nX: 1", Some("visible ASCII"));
        check("/ä", Some("visible ASCII"));
    }
}
