//! `headers = { … }`, of a route and of `respond`, and the preset `security_headers`.

use super::checked::Handler;
use super::raw::{Entry, Node, Table, Value};
use super::report::Report;

/// Names with their values.
pub(super) type Headers = Vec<(String, String)>;

/// Fields that the engine writes, or whose meaning ends at one hop (RFC 9110 §7.6.1).
const RESERVED: [&str; 8] =
    ["content-length", "transfer-encoding", "connection", "date", "keep-alive", "upgrade", "trailer", "te"];

/// Fields that tell of one answer, so that they cannot be the same on all answers of a route.
const OF_ONE_ANSWER: [&str; 9] = [
    "content-type",
    "content-encoding",
    "content-range",
    "accept-ranges",
    "etag",
    "last-modified",
    "location",
    "allow",
    "retry-after",
];

/// What files get anyway: browsers take their types as they are sent.
const NO_SNIFF: (&str, &str) = ("X-Content-Type-Options", "nosniff");

/// The preset, of fields that are right for nearly every page. No Content-Security-Policy, which is
/// right for one page and breaks the next; no Strict-Transport-Security, which cannot be taken back.
const PRESET: [(&str, &str); 4] = [
    NO_SNIFF,
    ("Referrer-Policy", "strict-origin-when-cross-origin"),
    ("X-Frame-Options", "DENY"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
];

/// Fields that `cors` writes; beside it another value would be joined to its own.
const OF_CORS: [&str; 6] = [
    "access-control-allow-origin",
    "access-control-allow-credentials",
    "access-control-expose-headers",
    "access-control-allow-methods",
    "access-control-allow-headers",
    "access-control-max-age",
];

/// `respond.headers`
pub(super) fn of_respond(node: &Node, report: &mut Report<'_>) -> Option<Headers> {
    read(node, report, |name| {
        (name == "content-type").then_some("expected content_type in respond instead of this field")
    })
}

/// `headers` of one glob of `static.headers`.
pub(super) fn of_files(node: &Node, report: &mut Report<'_>) -> Option<Headers> {
    read(node, report, |name| match name {
        "cache-control" => Some("expected another field, as this one belongs in static.cache_control"),
        // What is not there or forbidden varies by the same as what is, and has no glob.
        "vary" => Some("expected another field, as this one belongs in headers of the route"),
        _ if OF_ONE_ANSWER.contains(&name) => {
            Some("expected another field, as this one tells of a single answer")
        }
        _ => None,
    })
}

/// Names that `cors` beside them writes.
pub(super) fn refuse_of_cors(node: &Node, report: &mut Report<'_>) -> bool {
    let Value::Table(table) = &node.value else { return false };
    let is_taken = |entry: &&Entry| OF_CORS.contains(&entry.name.to_ascii_lowercase().as_str());
    let taken: Vec<_> = table.entries.iter().filter(is_taken).collect();
    for entry in &taken {
        let message =
            format!("{}: expected another field, as cors of the route writes this one", entry.node.key);
        report.problem(&entry.at, message, None);
    }
    !taken.is_empty()
}

/// What all answers of a route have: its `headers`, then what `security_headers` adds to them. A name
/// that the operator gave is never given twice.
pub(super) fn of_route(table: &Table, handler: Option<&Handler>, report: &mut Report<'_>) -> Option<Headers> {
    let own = match handler {
        Some(Handler::Respond(respond)) => &respond.headers[..],
        _ => &[],
    };
    let by_glob = matches!(handler, Some(Handler::Static(files)) if !files.cache_control.is_empty());
    let fault = |name: &str| {
        if OF_ONE_ANSWER.contains(&name) {
            Some("expected another field, as this one tells of a single answer")
        } else if has(own, name) {
            Some("expected each field once, found it in respond.headers too")
        } else if by_glob && name == "cache-control" {
            Some("expected each field once, found it in static.cache_control too")
        } else {
            None
        }
    };
    let headers = table.get("headers").map_or_else(|| Some(Vec::new()), |node| read(node, report, fault));
    let wanted = match table.get("security_headers") {
        None => None,
        Some(node) => {
            let wanted = report.boolean(node)?;
            report.set("route.security_headers", wanted.to_string(), Some(node));
            Some(wanted)
        }
    };
    let preset = match (wanted, handler) {
        (Some(true), _) => &PRESET[..],
        (None, Some(Handler::Static(_))) => &PRESET[..1],
        _ => &[],
    };
    let mut headers = headers?;
    let is_free = |name: &str| !has(own, name) && !has(&headers, name);
    let added: Vec<_> = preset.iter().filter(|(name, _)| is_free(name)).collect();
    headers.extend(added.into_iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    Some(headers)
}

/// The fields of a static route that nobody wrote.
pub(super) fn of_implied_route() -> Headers {
    vec![(NO_SNIFF.0.to_owned(), NO_SNIFF.1.to_owned())]
}

fn has(headers: &[(String, String)], name: &str) -> bool {
    headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
}

/// Fields without what cannot be one; `fault_of` says what else a lower-case name cannot be here.
fn read(
    node: &Node,
    report: &mut Report<'_>,
    fault_of: impl Fn(&str) -> Option<&'static str>,
) -> Option<Headers> {
    let Value::Table(table) = &node.value else {
        report.expected(node, "a table of fields such as { \"X-A\" = \"b\" }", None);
        return None;
    };
    let mut headers: Headers = Vec::new();
    for entry in &table.entries {
        let Entry { name, at, node } = entry;
        let lower = name.to_ascii_lowercase();
        let fault = if !is_token(&lower) {
            Some("expected a field name of letters, digits and hyphens")
        } else if RESERVED.contains(&lower.as_str()) {
            Some("expected another field, as the server writes this one itself")
        } else if has(&headers, &lower) {
            Some("expected each field once, whatever its case")
        } else {
            fault_of(&lower)
        };
        if let Some(fault) = fault {
            report.problem(at, format!("{}: {fault}", node.key), None);
            continue;
        }
        let Some(value) = value(node, report) else { continue };
        report.set(&node.key, format!("{value:?}"), Some(node));
        headers.push((name.clone(), value.to_owned()));
    }
    Some(headers)
}

/// The value of a field.
pub(super) fn value<'t>(node: &'t Node, report: &mut Report<'_>) -> Option<&'t str> {
    let value = report.any_text(node)?;
    if value.chars().any(|character| character.is_control() && character != '\t') || value.trim() != value {
        let message = "expected a value without control characters and without space around it";
        report.fault(node, message, None);
        return None;
    }
    Some(value)
}

/// RFC 9110 §5.6.2
pub(super) fn is_token(name: &str) -> bool {
    let is_tchar = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_tchar)
}
