//! The config as it was typed: a tree in which every value knows its key and its place.
//!
//! Takes the text apart, reports every syntax error at once, drops unknown keys after naming them,
//! and expands `${env:…}`. What the values mean is none of its business.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Origin;
use super::expand::{self, Environment};
use super::keys::{self, Key, Kind, State};
use super::report::Report;

/// A value, the dotted name of its key, and where it comes from.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) key: String,
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// What a value is in the text.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(Text),
    Integer(i128),
    Float(f64),
    Boolean(bool),
    List(Vec<Node>),
    Table(Table),
    /// A kind of value that no key takes.
    Other(&'static str),
    /// Its fault is reported already: whoever reads it stays silent.
    Broken,
}

/// A string.
#[derive(Clone, Debug)]
pub(super) struct Text {
    /// What it means.
    pub(super) text: String,
    /// As it stands in the file, when a variable took part in it: what may be shown of it.
    pub(super) typed: Option<String>,
}

/// A table.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    /// In the order of the parser: by key.
    pub(super) entries: Vec<Entry>,
    /// Keys that count as present although they are not: a misspelling of them was reported.
    pub(super) excused: Vec<String>,
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) at: Origin,
    pub(super) node: Node,
}

impl Table {
    /// The value of `name`.
    pub(super) fn get(&self, name: &str) -> Option<&Node> {
        self.entries.iter().find(|entry| entry.name == name).map(|entry| &entry.node)
    }

    /// Where the key `name` stands.
    pub(super) fn key_origin(&self, name: &str) -> Option<&Origin> {
        self.entries.iter().find(|entry| entry.name == name).map(|entry| &entry.at)
    }

    /// Whether to complain that `name` is missing.
    pub(super) fn lacks(&self, name: &str) -> bool {
        self.get(name).is_none() && !self.excused.iter().any(|excused| excused == name)
    }
}

/// Parses `text`, which has no byte order mark any more.
pub(super) fn parse(text: &str, report: &mut Report<'_>) -> Table {
    let (root, mut errors) = DeTable::parse_recoverable(text);
    let mut lines = Lines::new(text);
    // The parser finds all errors, but its tree ends at such a line: it is read again without.
    let blanked = lines.blank(errors.iter().filter(|error| error.message().starts_with("key with no value")));
    let root = match &blanked {
        None => root,
        Some(blanked) => {
            let (root, more) = DeTable::parse_recoverable(blanked);
            errors.extend(more);
            root
        }
    };
    let mut errors: Vec<_> = errors
        .iter()
        .map(|error| (error.span().unwrap_or(text.len()..text.len()), error.message()))
        .collect();
    errors.sort_by_key(|(span, _)| span.start);
    lines.errors = errors.iter().map(|(span, _)| span.start).collect();
    let mut last_line = 0;
    for (span, message) in errors {
        let (line, column) = lines.position(span.start);
        // The parser stumbles on: what it says of the same line is seldom a second mistake.
        if line != last_line {
            report.syntax(line, column, syntax_message(message, text.get(span).unwrap_or_default()));
        }
        last_line = line;
    }
    take_table(root.into_inner(), "", &lines)
}

fn syntax_message(message: &str, found: &str) -> String {
    if message == "duplicate key" {
        return format!("duplicate key \"{}\", expected once in its table", found.trim_matches(['"', '\'']));
    }
    message.to_owned()
}

fn take_table(table: DeTable<'_>, key: &str, lines: &Lines<'_>) -> Table {
    let take_entry = |(name, value): (Spanned<_>, Spanned<DeValue<'_>>)| {
        // A key without extent is one that the parser made up after an error.
        if name.span().is_empty() {
            return None;
        }
        let at = lines.origin(&name.span());
        let name = String::from(name.into_inner());
        let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
        Some(Entry { name, at, node: take_value(value, key, lines) })
    };
    Table { entries: table.into_iter().filter_map(take_entry).collect(), excused: Vec::new() }
}

fn take_value(value: Spanned<DeValue<'_>>, key: String, lines: &Lines<'_>) -> Node {
    let origin = lines.origin(&value.span());
    let span = value.span();
    // So is a value without extent, and one with an error inside is not what was meant.
    let next_error = lines.errors.partition_point(|at| *at < span.start);
    let has_error = lines.errors.get(next_error).is_some_and(|at| *at <= span.end);
    let value = match value.into_inner() {
        _ if span.is_empty() => Value::Broken,
        DeValue::String(_) | DeValue::Array(_) if has_error => Value::Broken,
        DeValue::String(text) => Value::Text(Text { text: text.into_owned(), typed: None }),
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
            .map_or(Value::Other("an integer that is too large"), Value::Integer),
        DeValue::Float(number) => {
            number.as_str().parse().map_or(Value::Other("a number with a fraction"), Value::Float)
        }
        DeValue::Boolean(value) => Value::Boolean(value),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Array(list) => {
            Value::List(list.into_iter().map(|value| take_value(value, key.clone(), lines)).collect())
        }
        DeValue::Table(table) => Value::Table(take_table(table, &key, lines)),
    };
    Node { key, value, origin }
}

/// Reports and drops every key of `root` that the table of keys does not have or that is not built.
pub(super) fn prune(root: &mut Table, report: &mut Report<'_>) {
    prune_table(root, "", report);
}

fn prune_table(table: &mut Table, name: &'static str, report: &mut Report<'_>) {
    for mut entry in std::mem::take(&mut table.entries) {
        let Some(key) = keys::find(name, &entry.name) else {
            report.unknown_key(name, &entry, table);
            continue;
        };
        if key.state == State::NotBuilt {
            let message =
                format!("{} is not built yet in this version, expected no such key", entry.node.key);
            report.problem(&entry.at, message, None);
            table.excused.push(entry.name);
            continue;
        }
        prune_value(&mut entry.node.value, key, report);
        table.entries.push(entry);
    }
}

fn prune_value(value: &mut Value, key: &Key, report: &mut Report<'_>) {
    match (key.kind, value) {
        (
            Kind::Table(name) | Kind::WordOrTable(_, name) | Kind::BooleanOrTable(name),
            Value::Table(table),
        ) => {
            prune_table(table, name, report);
        }
        (Kind::Tables(name), Value::List(list)) => {
            for node in list {
                if let Value::Table(table) = &mut node.value {
                    prune_table(table, name, report);
                }
            }
        }
        _ => {}
    }
}

/// Expands `${env:…}` in every text of `table`.
pub(super) fn expand(table: &mut Table, environment: &Environment, report: &mut Report<'_>) {
    table.entries.iter_mut().for_each(|entry| expand_node(&mut entry.node, environment, report));
}

fn expand_node(node: &mut Node, environment: &Environment, report: &mut Report<'_>) {
    match &mut node.value {
        Value::Text(text) => match expand::expand(&text.text, environment) {
            Ok(None) => {}
            Ok(Some((expanded, from_environment))) => {
                let typed = std::mem::replace(&mut text.text, expanded);
                text.typed = from_environment.then_some(typed);
            }
            Err(fault) => {
                report.problem(&node.origin, format!("{}: {}", node.key, fault.message), fault.hint);
                node.value = Value::Broken;
            }
        },
        Value::List(list) => list.iter_mut().for_each(|node| expand_node(node, environment, report)),
        Value::Table(table) => expand(table, environment, report),
        _ => {}
    }
}

/// Line starts of a text, to turn byte offsets into places.
pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
    /// Offsets of the syntax errors, ascending.
    errors: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1));
        Self { text, starts: starts.collect(), errors: Vec::new() }
    }

    /// The text with spaces in place of the lines of `errors`, so that nothing moves.
    fn blank<'e>(&self, errors: impl Iterator<Item = &'e toml::de::Error>) -> Option<String> {
        let mut text: Option<String> = None;
        for span in errors.filter_map(toml::de::Error::span) {
            let (line, _) = self.position(span.start);
            let start = self.starts[line - 1];
            let end = self.starts.get(line).map_or(self.text.len(), |next| next - 1);
            let spaces = " ".repeat(end - start);
            text.get_or_insert_with(|| self.text.to_owned()).replace_range(start..end, &spaces);
        }
        text
    }

    /// Line and column, both from 1; columns count characters.
    pub(super) fn position(&self, offset: usize) -> (usize, usize) {
        let offset = offset.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts[line - 1];
        let before = self.text.as_bytes()[start..offset].iter();
        // Bytes that do not continue a character begin one.
        (line, before.filter(|byte| **byte & 0xc0 != 0x80).count() + 1)
    }

    fn origin(&self, span: &Range<usize>) -> Origin {
        let (line, column) = self.position(span.start);
        Origin::File { line, column }
    }
}
