//! `cors`: `true`, or a table of what pages of other origins may do. What browsers would take for
//! something else than was meant is an error here, as nobody looks for it in a browser.

use super::checked::{Cors, Handler};
use super::headers::{self, is_token};
use super::keys::CORS_MAX_AGE_MS_MAX;
use super::raw::{Node, Table, Value};
use super::report::Report;
use super::route;
use crate::limits::{CORS_NAMES_MAX, CORS_ORIGINS_MAX};
use crate::semantics::method::Method;
use crate::semantics::origin::{self, Pattern};

/// Without `max_age`. Browsers left alone ask again after 5 s (the Fetch standard).
const MAX_AGE_MS: u64 = 600_000;
/// What a fixed answer or a redirect is asked with; OPTIONS is seldom meant.
const USUAL: [Method; 6] =
    [Method::Get, Method::Head, Method::Post, Method::Put, Method::Delete, Method::Patch];

/// `cors` of a route, `None` within where it has none. `methods` are those of the route.
#[expect(clippy::option_option, reason = "a mistake, nothing, or something, as with every reader")]
pub(super) fn of_route(
    table: &Table,
    handler: Option<&Handler>,
    methods: Option<&[Method]>,
    report: &mut Report<'_>,
) -> Option<Option<Cors>> {
    let Some(node) = table.get("cors") else { return Some(None) };
    let answered = match (methods, handler) {
        (Some(methods), _) => methods,
        (None, Some(Handler::Static(_))) => &USUAL[..2],
        (None, _) => &USUAL[..],
    };
    let cors = match &node.value {
        Value::Table(cors) => read(cors, node, answered, methods.is_none(), report)?,
        Value::Boolean(_) | Value::Text(_) => {
            let is_on = report.boolean(node)?;
            report.set("route.cors", is_on.to_string(), Some(node));
            if !is_on {
                return Some(None);
            }
            Cors {
                origins: None,
                methods: answered.to_vec(),
                request_headers: vec!["*".to_owned()],
                expose_headers: Vec::new(),
                max_age_s: MAX_AGE_MS / 1000,
                credentials: false,
            }
        }
        _ => {
            report.expected(
                node,
                "true, false, or a table such as { origins = [\"https://app.example\"] }",
                None,
            );
            return None;
        }
    };
    (!has_own_fields(table, report)).then_some(Some(cors))
}

fn read(
    table: &Table,
    node: &Node,
    answered: &[Method],
    takes_options: bool,
    report: &mut Report<'_>,
) -> Option<Cors> {
    let here = ("route.cors", table);
    let credentials = report.value(here, "credentials", false, Report::boolean, bool::to_string);
    if table.lacks("origins") {
        report.missing(&node.origin, "route.cors", "origins");
    }
    let origins = table.get("origins").and_then(|node| origins(node, credentials, report));
    let methods = match table.get("methods") {
        Some(node) => read_methods(node, answered, takes_options, report),
        None => {
            report.set("route.cors.methods", show(answered), None);
            Some(answered.to_vec())
        }
    };
    let mut names = |name: &str, default: &[&str]| {
        let Some(node) = table.get(name) else {
            report.set(&format!("route.cors.{name}"), format!("{default:?}"), None);
            return Some(default.iter().map(|name| (*name).to_owned()).collect());
        };
        read_names(node, credentials, report)
    };
    let request_headers = names("request_headers", if credentials { &[] } else { &["*"] });
    let expose_headers = names("expose_headers", &[]);
    let show_age = |seconds: &u64| format!("{:?}", super::units::show_ms(seconds * 1000));
    let max_age_s = report.value(here, "max_age", MAX_AGE_MS / 1000, read_max_age, show_age);
    Some(Cors {
        origins: origins?,
        methods: methods?,
        request_headers: request_headers?.iter().map(|name| name.to_ascii_lowercase()).collect(),
        expose_headers: expose_headers?,
        max_age_s,
        credentials,
    })
}

/// The patterns, or `None` within for every origin.
#[expect(clippy::option_option, reason = "a mistake, nothing, or something, as with every reader")]
fn origins(node: &Node, credentials: bool, report: &mut Report<'_>) -> Option<Option<Vec<Pattern>>> {
    let read = report.list(node, "a list of origins such as [\"https://app.example\"]", read_origin)?;
    let Value::List(list) = &node.value else { return None };
    if !(1..=CORS_ORIGINS_MAX).contains(&read.len()) {
        report.fault(node, &format!("expected 1 to {CORS_ORIGINS_MAX} origins, found {}", read.len()), None);
        return None;
    }
    if let Some(at) = (1..read.len()).find(|at| read[..*at].contains(&read[*at])) {
        report.expected(&list[at], "each origin once", None);
        return None;
    }
    if let Some(at) = read.iter().position(Option::is_none) {
        if credentials {
            let hint = "any site could read what the visitor's cookies open".to_owned();
            report.expected(&list[at], "origins by name beside credentials = true", Some(hint));
            return None;
        }
        if read.len() > 1 {
            report.warning(&list[at].origin, "route.cors.origins: \"*\" allows the others too");
        }
    }
    let shown: Vec<_> = list.iter().filter_map(text_of).collect();
    report.set("route.cors.origins", format!("{shown:?}"), Some(node));
    Some(read.into_iter().collect())
}

/// A pattern, or `None` within for `*`.
#[expect(clippy::option_option, reason = "a mistake, nothing, or something, as with every reader")]
fn read_origin(report: &mut Report<'_>, node: &Node) -> Option<Option<Pattern>> {
    let text = report.text(node)?;
    if text == "*" {
        return Some(None);
    }
    let pattern = Pattern::parse(text);
    if pattern.is_none() {
        let is_typed = matches!(&node.value, Value::Text(text) if text.typed.is_none());
        let hint = match origin::normal(text) {
            Some(normal) => Some(format!("did you mean {normal:?}?")),
            None if !text.is_ascii() => Some("write its host in xn-- form".to_owned()),
            None if text.contains('*') => {
                Some("a star stands for the first labels, as in \"https://*.example.com\"".to_owned())
            }
            None => None,
        };
        report.expected(
            node,
            "an origin as browsers write it, such as \"https://app.example\"",
            hint.filter(|_| is_typed),
        );
        return None;
    }
    Some(pattern)
}

fn read_methods(
    node: &Node,
    answered: &[Method],
    takes_options: bool,
    report: &mut Report<'_>,
) -> Option<Vec<Method>> {
    let methods = report.list(node, "a list of methods such as [\"GET\", \"PUT\"]", route::method)?;
    if methods.is_empty() {
        report.fault(node, "expected at least one method, found an empty list", None);
        return None;
    }
    let Value::List(list) = &node.value else { return None };
    for (at, method) in methods.iter().enumerate() {
        if methods[..at].contains(method) {
            report.expected(&list[at], "each method once", None);
            return None;
        }
        if !(answered.contains(method) || takes_options && *method == Method::Options) {
            let what = format!("a method that the route answers, one of {}", names_of(answered));
            report.expected(&list[at], &what, None);
            return None;
        }
    }
    report.set("route.cors.methods", show(&methods), Some(node));
    Some(methods)
}

fn read_names(node: &Node, credentials: bool, report: &mut Report<'_>) -> Option<Vec<String>> {
    let names = report.list(node, "a list of field names such as [\"X-A\"]", |report, node| {
        let name = report.text(node)?;
        if !is_token(name) {
            report.expected(node, "a field name of letters, digits and hyphens", None);
            return None;
        }
        if name == "*" && credentials {
            // https://fetch.spec.whatwg.org/#cors-protocol-and-credentials
            let hint = "a star is a name like any other there".to_owned();
            report.expected(node, "fields by name beside credentials = true", Some(hint));
            return None;
        }
        Some(name.to_owned())
    })?;
    if names.len() > CORS_NAMES_MAX {
        report.fault(node, &format!("expected at most {CORS_NAMES_MAX} names"), None);
        return None;
    }
    let is_again = |at: &usize| names[..*at].iter().any(|name| name.eq_ignore_ascii_case(&names[*at]));
    if let (Some(at), Value::List(list)) = ((1..names.len()).find(is_again), &node.value) {
        report.expected(&list[at], "each field once, whatever its case", None);
        return None;
    }
    report.set(&node.key, format!("{names:?}"), Some(node));
    Some(names)
}

fn read_max_age(report: &mut Report<'_>, node: &Node) -> Option<u64> {
    let ms = report.duration_ms(node, 0, CORS_MAX_AGE_MS_MAX)?;
    if ms % 1000 != 0 {
        report.expected(node, "whole seconds", None);
        return None;
    }
    Some(ms / 1000)
}

/// Whether other keys of the route give fields that `cors` writes, after saying so.
fn has_own_fields(table: &Table, report: &mut Report<'_>) -> bool {
    let inside = |name: &str| match table.get(name).map(|node| &node.value) {
        Some(Value::Table(handler)) => handler.get("headers"),
        _ => None,
    };
    let mut found = false;
    for node in [table.get("headers"), inside("respond")].into_iter().flatten() {
        found |= headers::refuse_of_cors(node, report);
    }
    if let Some(Value::List(rules)) = inside("static").map(|node| &node.value) {
        for rule in rules {
            if let Value::Table(rule) = &rule.value
                && let Some(node) = rule.get("headers")
            {
                found |= headers::refuse_of_cors(node, report);
            }
        }
    }
    found
}

fn text_of(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Text(text) => Some(&text.text),
        _ => None,
    }
}

fn names_of(methods: &[Method]) -> String {
    methods.iter().map(|method| method.as_str()).collect::<Vec<_>>().join(", ")
}

fn show(methods: &[Method]) -> String {
    format!("{:?}", methods.iter().map(|method| method.as_str()).collect::<Vec<_>>())
}
