//! `respond = { json = … }`: a document whose values may come from the environment, each with its type.
//!
//! Whatever a variable holds, the document stays valid JSON: values become nodes of a tree that is
//! written afterwards, never text in text. And it stays harmless inside of HTML, where people put it
//! into a `<script>`: what could end that element, or a line of a script, is escaped.

use serde_json::{Map, Number, Value as Json};

use super::expand::{self, Environment};
use super::raw::{Entry, Node, Table, Value};
use super::report::Report;
use crate::limits::RESPOND_BODY_BYTES_MAX;

/// Words of `type` in a reference.
const TYPES: &[&str] = &["string", "integer", "number", "boolean"];
/// Largest integer that a reader with doubles, such as every browser, reads as written (RFC 8259 §6).
const INTEGER_MAX: i128 = (1 << 53) - 1;

/// `{ env = "N", type = "integer", default = 3 }`: a table with exactly these keys, the last one optional.
struct Reference<'t> {
    env: &'t Node,
    kind: &'t Node,
    default: Option<&'t Node>,
}

/// The document as bytes.
pub(super) fn read(node: &Node, environment: &Environment, report: &mut Report<'_>) -> Option<Vec<u8>> {
    let is_reference = matches!(&node.value, Value::Table(table) if reference(table).is_some());
    if !is_reference && !matches!(node.value, Value::Table(_) | Value::List(_)) {
        // A string would be a document too, but whoever writes one means the JSON inside of it.
        report.expected(node, "a table or a list such as { api = \"${env:API}\" }", None);
        return None;
    }
    let document = html_safe(&value(node, environment, report)?.to_string());
    if document.len() as u64 > RESPOND_BODY_BYTES_MAX {
        report.fault(node, "expected a document of at most 1 MiB", None);
        return None;
    }
    report.set_from("route.respond.json", show(node), node.origin.clone());
    Some(document.into_bytes())
}

/// These characters stand in strings alone, where an escape means the same. `<`, `>` and `&` could end
/// the element or begin a comment; U+2028 and U+2029 ended a line of JavaScript before 2019.
fn html_safe(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                safe.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            _ => safe.push(character),
        }
    }
    safe
}

fn value(node: &Node, environment: &Environment, report: &mut Report<'_>) -> Option<Json> {
    match &node.value {
        Value::Text(text) => Some(Json::String(text.text.clone())),
        Value::Integer(number) => match integer(*number) {
            Some(number) => Some(number),
            None => {
                let hint = "write it as a string".to_owned();
                report.expected(
                    node,
                    "an integer that a browser reads as it is (at most 2^53-1)",
                    Some(hint),
                );
                None
            }
        },
        Value::Float(number) => {
            let number = Number::from_f64(*number).map(Json::Number);
            if number.is_none() {
                report.fault(node, "expected a finite number, as JSON has no other", None);
            }
            number
        }
        Value::Boolean(value) => Some(Json::Bool(*value)),
        Value::List(list) => {
            // No short cut: every element has its own problems.
            let list: Vec<_> = list.iter().map(|node| value(node, environment, report)).collect();
            list.into_iter().collect::<Option<_>>().map(Json::Array)
        }
        Value::Table(table) => match reference(table) {
            Some(reference) => resolve(node, &reference, environment, report),
            None => object(table, environment, report),
        },
        Value::Other(what) => {
            // JSON has no dates, and of the forms that stand for one the file says none.
            let hint = (*what == "a date").then(|| "write it as a string".to_owned());
            report.expected(node, "a value that JSON has", hint);
            None
        }
        Value::Broken => None,
    }
}

fn integer(number: i128) -> Option<Json> {
    let number = Some(number).filter(|number| (-INTEGER_MAX..=INTEGER_MAX).contains(number))?;
    i64::try_from(number).ok().map(Json::from)
}

fn object(table: &Table, environment: &Environment, report: &mut Report<'_>) -> Option<Json> {
    warn_of_near_reference(table, report);
    let entries = in_order(table);
    let fields: Vec<_> = entries
        .into_iter()
        .map(|entry| value(&entry.node, environment, report).map(|value| (entry.name.clone(), value)))
        .collect();
    fields.into_iter().collect::<Option<Map<_, _>>>().map(Json::Object)
}

/// In the order of the file, where the parser sorts by name.
fn in_order(table: &Table) -> Vec<&Entry> {
    let mut entries: Vec<_> = table.entries.iter().collect();
    entries.sort_by(|left, right| left.at.cmp(&right.at));
    entries
}

fn reference(table: &Table) -> Option<Reference<'_>> {
    let default = table.get("default");
    let has_no_other = table.entries.len() == 2 + usize::from(default.is_some());
    let (env, kind) = (table.get("env")?, table.get("type")?);
    has_no_other.then_some(Reference { env, kind, default })
}

/// `{ env = "N", typ = "integer" }` is a table like any other, but hardly meant as one.
fn warn_of_near_reference(table: &Table, report: &mut Report<'_>) {
    let is_near =
        |entry: &Entry| super::keys::nearest(&entry.name, ["type", "default"].into_iter()).is_some();
    if let Some(Node { value: Value::Text(_), key, .. }) = table.get("env")
        && table.entries.len() <= 3
        && let Some(entry) = table.entries.iter().find(|entry| is_near(entry))
    {
        let key = key.trim_end_matches(".env");
        let message = format!("{key} is sent as it is: a variable has exactly env, type and perhaps default");
        report.warning(&entry.at, &message);
    }
}

fn resolve(
    node: &Node,
    reference: &Reference<'_>,
    environment: &Environment,
    report: &mut Report<'_>,
) -> Option<Json> {
    let name = match &reference.env.value {
        Value::Text(text) if text.typed.is_none() && expand::is_name(&text.text) => Some(&*text.text),
        _ => {
            report.expected(reference.env, "the name of a variable such as \"API_URL\"", None);
            None
        }
    };
    let or = " (a table with exactly env and type is a variable)";
    let kind = report.word(reference.kind, TYPES, or);
    let (name, kind) = (name?, kind?);
    let default = match reference.default {
        None => None,
        Some(node) => Some(literal(node, kind, report)?),
    };
    let text = match environment.get(name) {
        // As with `:-`, a default covers an empty variable too: Compose sets unset ones to "".
        Some(value) if !value.is_empty() || default.is_none() => value,
        _ if default.is_some() => return default,
        _ => {
            let hint = format!("or a default as in {{ env = {name:?}, type = {kind:?}, default = … }}");
            report.fault(node, &format!("expected the environment variable {name} to be set"), Some(hint));
            return None;
        }
    };
    let Some(text) = text.to_str() else {
        report.fault(node, &format!("expected UTF-8 in the environment variable {name}"), None);
        return None;
    };
    let value = typed(text, kind);
    if value.is_none() {
        // The value stays unsaid: it may be a secret.
        let what = expected(kind);
        report.fault(node, &format!("expected {what} in the environment variable {name}"), None);
    }
    value
}

/// The value of a variable as its type. Space around it is what editors and `echo` leave.
fn typed(text: &str, kind: &str) -> Option<Json> {
    let trimmed = text.trim();
    match kind {
        "string" => Some(Json::String(text.to_owned())),
        "integer" => trimmed.parse().ok().and_then(integer),
        "number" => match trimmed.parse().ok().and_then(integer) {
            Some(number) => Some(number),
            None => trimmed.parse().ok().and_then(Number::from_f64).map(Json::Number),
        },
        _ => trimmed.parse().ok().map(Json::Bool),
    }
}

/// A default, which stands in the file and has its type there.
fn literal(node: &Node, kind: &str, report: &mut Report<'_>) -> Option<Json> {
    let found = match (&node.value, kind) {
        (Value::Text(text), "string") => Some(Json::String(text.text.clone())),
        // `default = "${env:OTHER:-3}"`: text from outside of the file may stand for a number.
        (Value::Text(text), kind) if text.typed.is_some() => typed(&text.text, kind),
        (Value::Integer(number), "integer" | "number") => integer(*number),
        (Value::Float(number), "number") => Number::from_f64(*number).map(Json::Number),
        (Value::Boolean(value), "boolean") => Some(Json::Bool(*value)),
        _ => None,
    };
    if found.is_none() {
        report.expected(node, expected(kind), None);
    }
    found
}

fn expected(kind: &str) -> &'static str {
    match kind {
        "string" => "a string",
        "integer" => "an integer from -2^53+1 to 2^53-1",
        "number" => "a number",
        _ => "true or false",
    }
}

/// As TOML in one line; what came from the environment as it was typed.
fn show(node: &Node) -> String {
    match &node.value {
        Value::Text(text) => format!("{:?}", text.typed.as_ref().unwrap_or(&text.text)),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => format!("{number:?}"),
        Value::Boolean(value) => value.to_string(),
        Value::List(list) => format!("[{}]", list.iter().map(show).collect::<Vec<_>>().join(", ")),
        Value::Table(table) if table.entries.is_empty() => "{}".to_owned(),
        Value::Table(table) => {
            let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            let field = |entry: &&Entry| match &entry.name {
                name if !name.is_empty() && name.bytes().all(is_bare) => {
                    format!("{name} = {}", show(&entry.node))
                }
                name => format!("{name:?} = {}", show(&entry.node)),
            };
            format!("{{ {} }}", in_order(table).iter().map(field).collect::<Vec<_>>().join(", "))
        }
        Value::Other(what) => (*what).to_owned(),
        Value::Broken => String::new(),
    }
}
