//! Environment variables and flags laid over the file: flag > variable > file > default.
//!
//! Only names with a double underscore are ours (`SCALWS_SERVER__WORKERS`): Kubernetes injects
//! `SCALWS_SERVICE_HOST` and the like into every container beside a service named `scalws`.

use super::error::Origin;
use super::expand::Environment;
use super::keys::{self, Key, Kind, State};
use super::raw::{Entry, Node, Table, Text, Value};
use super::report::Report;

/// Begins the name of every variable that is ours.
const PREFIX: &str = "SCALWS_";

/// What the command line says about the config.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--listen`, as often as given; replaces the whole list of the file.
    pub listen: Vec<String>,
    /// `--workers`
    pub workers: Option<String>,
    /// `--admin`
    pub admin: Option<String>,
}

/// The variable that overrides a key; `None` for tables and for routes, which have no names.
pub(super) fn variable(key: &Key) -> Option<String> {
    let is_table = matches!(key.kind, Kind::Table(_) | Kind::Tables(_) | Kind::Pages);
    if is_table || key.table.is_empty() || key.table.starts_with("route") || key.table == "tls.certificates" {
        return None;
    }
    Some(format!("{PREFIX}{}__{}", key.table.replace('.', "__"), key.name).to_uppercase())
}

/// Sets what the environment overrides; a variable that matches no key is a problem.
pub(super) fn apply_environment(root: &mut Table, environment: &Environment, report: &mut Report<'_>) {
    let known: Vec<_> = keys::all().iter().filter_map(|key| Some((variable(key)?, key))).collect();
    for (name, value) in environment {
        if !name.starts_with(PREFIX) || !name.contains("__") {
            continue;
        }
        let origin = Origin::Variable(name.clone());
        let Some((_, key)) = known.iter().find(|(variable, _)| variable == name) else {
            // Without the prefix, which would make all of them look alike.
            let bare = known.iter().filter_map(|(variable, _)| variable.strip_prefix(PREFIX));
            let near = name.strip_prefix(PREFIX).and_then(|name| keys::nearest(name, bare));
            let hint = near.map(|near| format!("did you mean {PREFIX}{near}?"));
            let message = "expected the name of a key, such as SCALWS_SERVER__WORKERS";
            report.problem(&origin, message.to_owned(), hint);
            continue;
        };
        match (key.state, value.to_str()) {
            (State::NotBuilt, _) => {
                let message = format!("{}.{} is not built yet in this version", key.table, key.name);
                report.problem(&origin, format!("{message}, expected no such variable"), None);
            }
            (_, None) => report.problem(&origin, "expected UTF-8".to_owned(), None),
            (State::Works, Some(value)) => set(root, key, from_text(key, value, &origin), &origin),
        }
    }
}

/// Sets what the command line overrides.
pub(super) fn apply_flags(root: &mut Table, flags: &Flags) {
    let mut one = |name, flag, value: &Option<String>| {
        if let (Some(key), Some(value)) = (keys::find("server", name), value) {
            let origin = Origin::Flag(flag);
            set(root, key, text(value, "", &origin).value, &origin);
        }
    };
    one("workers", "--workers", &flags.workers);
    one("admin", "--admin", &flags.admin);
    if let Some(key) = keys::find("server", "listen")
        && !flags.listen.is_empty()
    {
        let origin = Origin::Flag("--listen");
        let list = flags.listen.iter().map(|address| text(address, "server.listen", &origin)).collect();
        set(root, key, Value::List(list), &origin);
    }
}

/// A list is written with commas; every other value is read from its text by `read`.
fn from_text(key: &Key, value: &str, origin: &Origin) -> Value {
    if !matches!(key.kind, Kind::Texts) {
        return text(value, "", origin).value;
    }
    let parts = value.split(',').map(str::trim).filter(|part| !part.is_empty());
    Value::List(parts.map(|part| text(part, key.name, origin)).collect())
}

fn text(value: &str, key: &str, origin: &Origin) -> Node {
    let text = Text { text: value.to_owned(), typed: None };
    Node { key: key.to_owned(), value: Value::Text(text), origin: origin.clone() }
}

fn set(root: &mut Table, key: &Key, value: Value, origin: &Origin) {
    let mut table = root;
    let mut dotted = String::new();
    for part in key.table.split('.') {
        dotted = if dotted.is_empty() { part.to_owned() } else { format!("{dotted}.{part}") };
        let node = slot(table, part, &dotted, origin);
        // `log.access = "combined"` in the file and only the file name from the environment.
        if dotted == "log.access" && matches!(node.value, Value::Text(_)) {
            let format = Node { key: "log.access.format".to_owned(), ..node.clone() };
            let at = format.origin.clone();
            let entries = vec![Entry { name: "format".to_owned(), at, node: format }];
            node.value = Value::Table(Table { entries, excused: Vec::new() });
        }
        let Value::Table(next) = &mut node.value else {
            // Not a table, which the reader of that key reports.
            return;
        };
        table = next;
    }
    let node = slot(table, key.name, &format!("{dotted}.{}", key.name), origin);
    node.value = value;
    node.origin = origin.clone();
}

/// The node under `name`; an empty table is put there when it has none.
fn slot<'t>(table: &'t mut Table, name: &str, key: &str, origin: &Origin) -> &'t mut Node {
    let at = table.entries.iter().position(|entry| entry.name == name).unwrap_or_else(|| {
        let node =
            Node { key: key.to_owned(), value: Value::Table(Table::default()), origin: origin.clone() };
        table.entries.push(Entry { name: name.to_owned(), at: origin.clone(), node });
        table.entries.len() - 1
    });
    &mut table.entries[at].node
}
