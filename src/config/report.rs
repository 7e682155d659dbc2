//! What one walk over a config finds: problems, warnings, and every effective value with its origin.
//!
//! One mistake is one line: what follows from a mistake that was reported already is left out here.

use std::collections::BTreeSet;

use super::error::{Origin, Problem, Problems, one_line};
use super::keys::{self, State};
use super::raw::{Entry, Node, Table, Value};

/// Longest piece of a value that a message repeats.
const FOUND_CHARS_MAX: usize = 60;

/// One effective value, for `explain`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Dotted key; routes are counted from 1, as in `route.1.path`.
    pub key: String,
    /// The value as TOML. What came through `${env:…}` is shown as it was typed.
    pub shown: String,
    /// Who said so.
    pub origin: Origin,
}

/// Collects while a config is read.
pub(super) struct Report<'a> {
    /// Name of the config file in messages.
    file: &'a str,
    problems: Vec<Problem>,
    warnings: Vec<(Origin, String)>,
    settings: Vec<Setting>,
    /// Lines with a syntax error: their values are guesses of the parser.
    broken_lines: BTreeSet<usize>,
    /// A syntax error may have swallowed keys, so that none may be called missing.
    has_holes: bool,
    /// Number of the route that is being read, for the keys of its settings.
    pub(super) route: usize,
}

impl<'a> Report<'a> {
    pub(super) fn new(file: &'a str) -> Self {
        Self {
            file,
            problems: Vec::new(),
            warnings: Vec::new(),
            settings: Vec::new(),
            broken_lines: BTreeSet::new(),
            has_holes: false,
            route: 0,
        }
    }

    /// Settings and warnings, or else the problems in the order of their places.
    pub(super) fn finish(self) -> Result<(Vec<Setting>, Vec<String>), Problems> {
        let mut problems = self.problems;
        if problems.is_empty() {
            let mut warnings = self.warnings;
            warnings.sort_by(|left, right| left.0.cmp(&right.0));
            return Ok((self.settings, warnings.into_iter().map(|(_, line)| line).collect()));
        }
        problems.sort_by(|left, right| left.origin.cmp(&right.origin));
        Err(Problems(problems))
    }

    /// A problem of the text itself; its line is not looked at again.
    pub(super) fn syntax(&mut self, line: usize, column: usize, message: String) {
        self.has_holes |= !message.starts_with("duplicate key");
        self.push(Origin::File { line, column }, message, None);
        self.broken_lines.insert(line);
    }

    /// A problem at any place.
    pub(super) fn problem(&mut self, origin: &Origin, message: String, hint: Option<String>) {
        if !matches!(origin, Origin::File { line, .. } if self.broken_lines.contains(line)) {
            self.push(origin.clone(), message, hint);
        }
    }

    fn push(&mut self, origin: Origin, message: String, hint: Option<String>) {
        self.problems.push(Problem { file: self.file.to_owned(), origin, message, hint });
    }

    /// A problem of a value. Its key is named unless the origin names it already.
    pub(super) fn fault(&mut self, node: &Node, message: &str, hint: Option<String>) {
        let message = match node.origin {
            Origin::File { .. } => format!("{}: {message}", node.key),
            _ => message.to_owned(),
        };
        self.problem(&node.origin, message, hint);
    }

    /// A value that is not what its key takes.
    pub(super) fn expected(&mut self, node: &Node, what: &str, hint: Option<String>) {
        if !matches!(node.value, Value::Broken) {
            self.fault(node, &format!("expected {what}, found {}", found(node)), hint);
        }
    }

    /// A key that is required but missing from the table at `origin`.
    pub(super) fn missing(&mut self, origin: &Origin, key: &str, what: &str) {
        if !self.has_holes {
            self.problem(origin, format!("{key}: expected {what}, found none"), None);
        }
    }

    /// Something worth a line that stops nobody.
    pub(super) fn warning(&mut self, origin: &Origin, message: &str) {
        let place = self.place(origin);
        self.warnings.push((origin.clone(), one_line(&format!("{place}: {message}"))));
    }

    fn place(&self, origin: &Origin) -> String {
        match origin {
            Origin::File { line, column } => format!("{}:{line}:{column}", self.file),
            Origin::Variable(name) => name.clone(),
            Origin::Flag(name) => (*name).to_owned(),
            Origin::Default => "default".to_owned(),
        }
    }

    /// A key that no table has, or not this one. What it is taken for counts as present.
    pub(super) fn unknown_key(&mut self, table: &'static str, entry: &Entry, siblings: &mut Table) {
        let owners = owners(&entry.name);
        if self.has_holes && table.is_empty() && !owners.is_empty() {
            // The header above it is broken, which was reported.
            return;
        }
        let place = match table {
            "" => "at the top level".to_owned(),
            _ => format!("in {}", keys::table_title(table)),
        };
        let near = keys::nearest(&entry.name, keys::of(table).map(|key| key.name));
        let (hint, excused) = if !owners.is_empty() {
            // What lies in this table is nearer than what lies elsewhere.
            let below = |owner: &&'static str| owner.strip_prefix(table)?.strip_prefix('.');
            let inside: Vec<_> = owners.iter().copied().filter(|owner| below(owner).is_some()).collect();
            let near = if inside.is_empty() { &owners } else { &inside };
            (format!("it belongs in {}", titles(near)), inside.first().and_then(below))
        } else if let Some(near) = near {
            (format!("did you mean {near:?}?"), Some(near))
        } else {
            let usable = keys::of(table).filter(|key| key.state != State::NotBuilt);
            let usable = usable.map(|key| key.name).collect::<Vec<_>>().join(", ");
            (format!("expected one of {usable}"), None)
        };
        // `static = { dir = "/srv" }`: what else could it have been?
        let guesses = excused.map_or(keys::required(table).to_vec(), |excused| vec![excused]);
        siblings.excused.extend(guesses.into_iter().map(str::to_owned));
        let message = format!("unknown key {:?} {place}", entry.name);
        self.problem(&entry.at, message, Some(hint));
    }

    /// Whether a syntax error may have swallowed keys.
    pub(super) fn has_holes(&self) -> bool {
        self.has_holes
    }

    /// Where a value that was recorded comes from.
    pub(super) fn origin_of(&self, key: &str) -> Origin {
        let setting = self.settings.iter().find(|setting| setting.key == key);
        setting.map_or(Origin::Default, |setting| setting.origin.clone())
    }

    /// Records an effective value.
    pub(super) fn set(&mut self, key: &str, shown: String, node: Option<&Node>) {
        let shown = node.and_then(typed).unwrap_or(shown);
        let origin = node.map_or(Origin::Default, |node| node.origin.clone());
        self.set_from(key, shown, origin);
    }

    /// Records an effective value that no node holds.
    pub(super) fn set_from(&mut self, key: &str, shown: String, origin: Origin) {
        let key = match key.strip_prefix("route.") {
            Some(rest) => format!("route.{}.{rest}", self.route),
            None => key.to_owned(),
        };
        self.settings.push(Setting { key, shown: one_line(&shown), origin });
    }
}

/// The tables that have a key of this name which may be used today.
fn owners(name: &str) -> Vec<&'static str> {
    let usable = keys::all().iter().filter(|key| key.name == name && key.state != State::NotBuilt);
    usable.map(|key| key.table).collect()
}

fn titles(tables: &[&'static str]) -> String {
    let title = |table: &&'static str| match *table {
        "" => "the top level",
        table => keys::table_title(table),
    };
    tables.iter().map(title).collect::<Vec<_>>().join(" or ")
}

/// A value as a message may repeat it.
fn found(node: &Node) -> String {
    match &node.value {
        Value::Text(text) => {
            let text = text.typed.as_ref().unwrap_or(&text.text);
            match text.char_indices().nth(FOUND_CHARS_MAX) {
                Some((end, _)) => format!("{:?}…", &text[..end]),
                None => format!("{text:?}"),
            }
        }
        Value::Integer(number) => number.to_string(),
        Value::Float(_) => "a number with a fraction".to_owned(),
        Value::Boolean(value) => value.to_string(),
        Value::List(_) => "a list".to_owned(),
        Value::Table(_) => "a table".to_owned(),
        Value::Other(what) => (*what).to_owned(),
        Value::Broken => "nothing".to_owned(),
    }
}

/// The value as it was typed, when a variable took part in it.
fn typed(node: &Node) -> Option<String> {
    match &node.value {
        Value::Text(text) => text.typed.as_ref().map(|typed| format!("{typed:?}")),
        Value::List(list) if list.iter().any(|node| typed(node).is_some()) => {
            Some(format!("[{}]", list.iter().map(found).collect::<Vec<_>>().join(", ")))
        }
        _ => None,
    }
}
