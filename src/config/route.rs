//! `[[route]]`: which requests it is for, and the handler that answers them.
//!
//! Two routes that match the same requests are an error: their order in the file must never decide.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::Ipv6Addr;

use super::checked::{Handler, PathMatch, Route};
use super::error::Origin;
use super::expand::Environment;
use super::raw::{Node, Table, Value};
use super::report::Report;
use super::{cors, headers, redirect, respond, statics};
use crate::semantics::method::Method;
use crate::semantics::path::SafePath;

/// Keys of which every route has exactly one.
const HANDLERS: [&str; 3] = ["redirect", "respond", "static"];
/// RFC 1035 §2.3.4: a name and a label of it.
const HOST_CHARS_MAX: usize = 253;
const LABEL_CHARS_MAX: usize = 63;

/// A route's conditions, with their place for the search of duplicates.
struct Conditions {
    name: String,
    hosts: Vec<String>,
    path: PathMatch,
    methods: Option<Vec<Method>>,
    origin: Origin,
}

/// One host, path and method that a route is for; `None` stands for every host, and for every method.
/// A route with methods beats one without (Gateway API HTTPRouteMatch), and so with hosts: only like
/// with like can match the same.
type Claim = (Option<String>, PathMatch, Option<Method>);

/// All routes. When one of them is faulty the result is incomplete, and never used.
pub(super) fn routes(root: &Table, environment: &Environment, report: &mut Report<'_>) -> Vec<Route> {
    let Some(node) = root.get("route") else {
        return Vec::new();
    };
    let Value::List(list) = &node.value else {
        report.expected(node, "tables named [[route]], in double brackets", None);
        return Vec::new();
    };
    let mut claims: HashMap<Claim, Origin> = HashMap::new();
    let mut routes = Vec::new();
    for (index, node) in list.iter().enumerate() {
        report.route = index + 1;
        let Value::Table(table) = &node.value else {
            report.expected(node, "a table named [[route]], in double brackets", None);
            continue;
        };
        let conditions = conditions(table, &node.origin, report);
        let handler = handler(table, &node.origin, environment, report);
        let headers = headers::of_route(table, handler.as_ref(), report);
        let methods = conditions.as_ref().and_then(|conditions| conditions.methods.as_deref());
        let cors = cors::of_route(table, handler.as_ref(), methods, report);
        let Some(conditions) = conditions else { continue };
        claim(&conditions, &mut claims, report);
        if let (Some(Handler::Static(_)), Some(methods)) = (&handler, &conditions.methods) {
            refuse_methods_of_files(table, methods, report);
        }
        let Conditions { name, hosts, path, methods, .. } = conditions;
        if let (Some(handler), Some(headers), Some(cors)) = (handler, headers, cors) {
            routes.push(Route { name, hosts, path, methods, headers, cors, handler });
        }
    }
    routes
}

/// A method that files never answer would be routed to them and refused with an Allow that disagrees.
fn refuse_methods_of_files(table: &Table, methods: &[Method], report: &mut Report<'_>) {
    let answered = [Method::Get, Method::Head, Method::Options];
    if let Some(node) = table.get("methods")
        && methods.iter().any(|method| !answered.contains(method))
    {
        report.expected(node, "GET, HEAD or OPTIONS, the methods that static answers", None);
    }
}

/// Claims what a route is for; at most one problem, however much of it is another's already.
fn claim(conditions: &Conditions, claims: &mut HashMap<Claim, Origin>, report: &mut Report<'_>) {
    let mut other = None;
    for host in or_every(Some(&conditions.hosts[..]).filter(|hosts| !hosts.is_empty())) {
        for method in or_every(conditions.methods.as_deref()) {
            let claim = (host.cloned(), conditions.path.clone(), method.copied());
            match claims.entry(claim) {
                Entry::Occupied(claimed) => other = Some(claimed.get().clone()),
                Entry::Vacant(free) => {
                    free.insert(conditions.origin.clone());
                }
            }
        }
    }
    if let Some(Origin::File { line, .. }) = other {
        let message = format!("route: matches the same requests as the route in line {line}");
        let hint = "expected another host, path or methods".to_owned();
        report.problem(&conditions.origin, message, Some(hint));
    }
}

/// Each element, or one `None` where there is no list.
fn or_every<T>(list: Option<&[T]>) -> Vec<Option<&T>> {
    list.map_or_else(|| vec![None], |list| list.iter().map(Some).collect())
}

fn conditions(table: &Table, origin: &Origin, report: &mut Report<'_>) -> Option<Conditions> {
    let hosts = hosts(table, report);
    let path = path(table, origin, report);
    let methods = match table.get("methods") {
        None => Some(None),
        Some(node) => methods(node, report).map(Some),
    };
    let (hosts, (path, pattern), methods) = (hosts?, path?, methods?);
    let mut name = hosts.iter().map(|host| host.1.as_str()).collect::<Vec<_>>().join(",");
    name.push_str(if name.is_empty() { "" } else { " " });
    name.push_str(&pattern);
    if let Some(methods) = &methods {
        let methods: Vec<_> = methods.iter().map(|method| method.as_str()).collect();
        name.push_str(&format!(" [{}]", methods.join(",")));
    }
    let hosts = hosts.into_iter().map(|host| host.0).collect();
    let key = if table.get("exact").is_some() { "exact" } else { "path" };
    let origin = table.key_origin(key).unwrap_or(origin).clone();
    Some(Conditions { name, hosts, path, methods, origin })
}

/// Hosts as they are matched, each with the text that may be shown of it.
fn hosts(table: &Table, report: &mut Report<'_>) -> Option<Vec<(String, String)>> {
    let hosts = match (table.get("host"), table.get("hosts")) {
        (None, None) => return Some(Vec::new()),
        (Some(_), Some(node)) => {
            report.fault(node, "expected one of host and hosts, found both", None);
            return None;
        }
        (Some(node), None) => {
            let hosts = vec![host(report, node)?];
            report.set("route.host", format!("{:?}", hosts[0].0), Some(node));
            hosts
        }
        (None, Some(node)) => {
            let hosts = report.list(node, "a list of hosts such as [\"www.example.com\"]", host)?;
            if hosts.is_empty() {
                let hint = "leave the key out to match every host".to_owned();
                report.fault(node, "expected at least one host, found an empty list", Some(hint));
                return None;
            }
            let shown: Vec<_> = hosts.iter().map(|host| &host.0).collect();
            report.set("route.hosts", format!("{shown:?}"), Some(node));
            hosts
        }
    };
    if let Some(at) = (1..hosts.len()).find(|at| hosts[..*at].iter().any(|host| host.0 == hosts[*at].0))
        && let Some(Node { value: Value::List(list), .. }) = table.get("hosts")
    {
        report.expected(&list[at], "each host once", None);
        return None;
    }
    Some(hosts)
}

fn host(report: &mut Report<'_>, node: &Node) -> Option<(String, String)> {
    let Value::Text(text) = &node.value else {
        report.expected(node, "a host such as \"www.example.com\"", None);
        return None;
    };
    let lower = text.text.to_ascii_lowercase();
    let inside = lower.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if let Some(address) = inside.and_then(|inside| inside.parse::<Ipv6Addr>().ok()) {
        let host = format!("[{address}]");
        return Some((host.clone(), text.typed.clone().unwrap_or(host)));
    }
    if is_host(lower.strip_prefix("*.").unwrap_or(&lower)) {
        return Some((lower.clone(), text.typed.clone().unwrap_or(lower)));
    }
    let name = lower.split_once("://").map_or(lower.as_str(), |(_, rest)| rest);
    let name = name.trim_end_matches(|last: char| matches!(last, '/' | ':' | '.') || last.is_ascii_digit());
    let hint = match &text.typed {
        None if lower == "*" => Some("leave the key out to match every host".to_owned()),
        None if name != lower && is_host(name) => Some(format!("did you mean {name:?}?")),
        None if !lower.is_ascii() => Some("write it in its xn-- form".to_owned()),
        _ => None,
    };
    report.expected(node, "a host without port such as \"www.example.com\" or \"*.example.com\"", hint);
    None
}

/// Letters, digits and hyphens in labels (RFC 1123 §2.1), and the underscore of container names.
fn is_host(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=LABEL_CHARS_MAX).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    name.len() <= HOST_CHARS_MAX && name.split('.').all(is_label)
}

/// The pattern, and the text that may be shown of it.
fn path(table: &Table, origin: &Origin, report: &mut Report<'_>) -> Option<(PathMatch, String)> {
    let (node, is_exact) = match (table.get("exact"), table.get("path")) {
        (Some(node), None) => (node, true),
        (None, Some(node)) => (node, false),
        (Some(exact), Some(path)) => {
            let later = std::cmp::max_by(exact, path, |left, right| left.origin.cmp(&right.origin));
            report.fault(later, "expected one of exact and path, found both", None);
            return None;
        }
        (None, None) => {
            if table.lacks("exact") && table.lacks("path") {
                report.missing(origin, "route", "one of exact and path");
            }
            return None;
        }
    };
    let text = report.any_text(node)?;
    let safe = match path_fault(text) {
        None => SafePath::parse(text.as_bytes()).map_err(|fault| fault.0),
        Some(fault) => Err(fault),
    };
    let safe = match safe {
        Ok(safe) => safe,
        Err(fault) => {
            let hint = (!text.starts_with('/')).then(|| "which begins with a slash".to_owned());
            report.expected(node, "a path such as \"/docs/\"", hint.or_else(|| Some(fault.to_owned())));
            return None;
        }
    };
    let key = if is_exact { "route.exact" } else { "route.path" };
    report.set(key, format!("{text:?}"), Some(node));
    let shown = match &node.value {
        Value::Text(text) => text.typed.as_ref().unwrap_or(&text.text),
        _ => text,
    };
    Some(if is_exact {
        (PathMatch::Exact(safe.decoded().to_vec()), format!("={shown}"))
    } else {
        (PathMatch::Prefix(safe.segments().to_vec()), shown.to_owned())
    })
}

/// What would be normalised away or could never match: said here rather than guessed.
fn path_fault(text: &str) -> Option<&'static str> {
    let Some(relative) = text.strip_prefix('/') else {
        return Some("which begins with a slash");
    };
    if text.contains(['?', '#']) {
        return Some("a query or a fragment is no part of it");
    }
    if text.contains('*') {
        return Some("\"path\" covers everything below it; a literal star is \"%2A\"");
    }
    let mut segments = relative.split('/').peekable();
    while let Some(segment) = segments.next() {
        if segment.is_empty() && segments.peek().is_some() {
            return Some("without empty segments");
        }
        let alone = format!("/{segment}");
        let is_dot = match SafePath::parse(alone.as_bytes()) {
            Ok(safe) => !segment.is_empty() && safe.decoded().is_empty(),
            Err(fault) => fault.0.starts_with("dot segments"),
        };
        if is_dot {
            return Some("without dot segments");
        }
    }
    None
}

fn methods(node: &Node, report: &mut Report<'_>) -> Option<Vec<Method>> {
    let methods = report.list(node, "a list of methods such as [\"GET\", \"HEAD\"]", method)?;
    if methods.is_empty() {
        let hint = "leave the key out to match every method".to_owned();
        report.fault(node, "expected at least one method, found an empty list", Some(hint));
        return None;
    }
    if let Some(at) = (1..methods.len()).find(|at| methods[..*at].contains(&methods[*at]))
        && let Value::List(list) = &node.value
    {
        report.expected(&list[at], "each method once", None);
        return None;
    }
    let shown: Vec<_> = methods.iter().map(|method| method.as_str()).collect();
    report.set("route.methods", format!("{shown:?}"), Some(node));
    Some(methods)
}

pub(super) fn method(report: &mut Report<'_>, node: &Node) -> Option<Method> {
    let text = report.any_text(node)?;
    match Method::parse(text.as_bytes()) {
        Some(method @ (Method::Connect | Method::Trace)) => {
            let message = format!("{} is always refused by the server, expected another", method.as_str());
            report.fault(node, &message, None);
            None
        }
        Some(method) => Some(method),
        None => {
            let known = Method::ALL.iter().map(|(_, name)| *name);
            let is_usable = |name: &&str| !matches!(*name, "CONNECT" | "TRACE");
            let is_secret = matches!(&node.value, Value::Text(text) if text.typed.is_some());
            let near = super::keys::nearest(text, known.clone().filter(is_usable)).filter(|_| !is_secret);
            let hint = near.map(|near| format!("did you mean {near:?}?"));
            let known: Vec<_> = known.filter(is_usable).collect();
            report.expected(node, &format!("one of {}", known.join(", ")), hint);
            None
        }
    }
}

fn handler(
    table: &Table,
    origin: &Origin,
    environment: &Environment,
    report: &mut Report<'_>,
) -> Option<Handler> {
    let mut found: Vec<&Node> = HANDLERS.iter().filter_map(|name| table.get(name)).collect();
    found.sort_by(|left, right| left.origin.cmp(&right.origin));
    if let [_, second, ..] = found[..] {
        report.fault(second, "expected one of respond, redirect and static, found two", None);
    }
    let Some(node) = found.first() else {
        if HANDLERS.iter().chain(&["proxy"]).all(|name| table.lacks(name)) {
            report.missing(origin, "route", "one of respond, redirect and static");
        }
        return None;
    };
    let Value::Table(slice) = &node.value else {
        report.expected(node, "a table such as { … }", None);
        return None;
    };
    match node.key.as_str() {
        "route.respond" => respond::read(slice, environment, report).map(Handler::Respond),
        "route.redirect" => {
            redirect::read(slice, &node.origin, table.get("exact").is_some(), report).map(Handler::Redirect)
        }
        _ => {
            if let Some(exact) = table.get("exact")
                && table.get("path").is_none()
            {
                report.fault(exact, "expected path beside static, found exact", None);
            }
            statics::read(slice, &node.origin, report).map(Handler::Static)
        }
    }
}
