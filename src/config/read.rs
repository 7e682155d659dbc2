//! Reads one value as one kind: a text, a number in a range, a duration, a list. A value that does not
//! fit is reported with what was expected, and the reader answers `None`.
//!
//! Text that came from outside the file (a variable, a flag, `${env:…}`) may stand for a number or a
//! boolean; text in the file may not, so that `workers = "2"` is one way less to write the same.

use super::error::Origin;
use super::keys;
use super::raw::{Node, Table, Value};
use super::report::Report;
use super::units::{self, Measure};

/// An empty table, for one that the config does not have.
pub(super) static NO_TABLE: Table = Table { entries: Vec::new(), excused: Vec::new() };

/// The text of a node that may be taken for another kind.
fn loose(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Text(text) if text.typed.is_some() || !matches!(node.origin, Origin::File { .. }) => {
            Some(text.text.trim())
        }
        _ => None,
    }
}

impl Report<'_> {
    /// Reads the value of `name` and records it, or its default. `table_key` is the dotted table.
    pub(super) fn value<T>(
        &mut self,
        (table_key, table): (&str, &Table),
        name: &str,
        default: T,
        read: impl FnOnce(&mut Self, &Node) -> Option<T>,
        show: impl FnOnce(&T) -> String,
    ) -> T {
        let node = table.get(name);
        let value = node.and_then(|node| read(self, node)).unwrap_or(default);
        self.set(&format!("{table_key}.{name}"), show(&value), node);
        value
    }

    /// The table under `name`, or an empty one.
    pub(super) fn table<'t>(&mut self, table: &'t Table, name: &str) -> &'t Table {
        match table.get(name) {
            None => &NO_TABLE,
            Some(Node { value: Value::Table(table), .. }) => table,
            Some(node) => {
                self.expected(node, "a table", None);
                &NO_TABLE
            }
        }
    }

    /// A text that is not empty.
    pub(super) fn text<'t>(&mut self, node: &'t Node) -> Option<&'t str> {
        let text = self.any_text(node)?;
        if text.is_empty() {
            self.fault(node, "expected text, found an empty string", None);
            return None;
        }
        Some(text)
    }

    /// A text, empty or not.
    pub(super) fn any_text<'t>(&mut self, node: &'t Node) -> Option<&'t str> {
        if let Value::Text(text) = &node.value {
            return Some(&text.text);
        }
        self.expected(node, "a string", None);
        None
    }

    /// `true` or `false`.
    pub(super) fn boolean(&mut self, node: &Node) -> Option<bool> {
        self.boolean_or(node, "true or false")
    }

    /// `true` or `false`, where a table is taken too.
    pub(super) fn boolean_or_table(&mut self, node: &Node) -> Option<bool> {
        self.boolean_or(node, "true, false or a table")
    }

    fn boolean_or(&mut self, node: &Node, what: &str) -> Option<bool> {
        match (&node.value, loose(node)) {
            (Value::Boolean(value), _) => return Some(*value),
            (_, Some("true")) => return Some(true),
            (_, Some("false")) => return Some(false),
            _ => {}
        }
        let quoted = matches!(&node.value, Value::Text(text) if text.text == "true" || text.text == "false");
        self.expected(node, what, quoted.then(|| "without quotes".to_owned()));
        None
    }

    /// An integer from `min` to `max`; `or` names what else the key takes, such as `"auto" or `.
    pub(super) fn integer(&mut self, node: &Node, or: &str, min: u64, max: u64) -> Option<u64> {
        let number = match (&node.value, loose(node)) {
            (Value::Integer(number), _) => u64::try_from(*number).ok(),
            (_, Some(text)) => text.parse().ok(),
            _ => None,
        };
        let number = number.filter(|number| (min..=max).contains(number));
        if number.is_none() {
            let quoted = matches!(&node.value, Value::Text(text) if text.text.parse::<u64>().is_ok());
            let hint = (quoted && loose(node).is_none()).then(|| "without quotes".to_owned());
            self.expected(node, &format!("{or}an integer from {min} to {max}"), hint);
        }
        number
    }

    /// Milliseconds of a duration in a range.
    pub(super) fn duration_ms(&mut self, node: &Node, min: u64, max: u64) -> Option<u64> {
        let (measure, bare) = match &node.value {
            Value::Text(text) => (units::duration_ms(text.text.trim()), bare(node)),
            Value::Integer(number) => (Measure::NoUnit, Some(number.to_string())),
            _ => (Measure::Other, None),
        };
        match measure {
            Measure::Value(ms) if (min..=max).contains(&ms) => return Some(ms),
            Measure::Value(_) => {
                let range = format!("{:?} to {:?}", units::show_ms(min), units::show_ms(max));
                self.expected(node, &range, None);
            }
            Measure::NoUnit => {
                let hint = bare.map(|digits| format!("did you mean \"{digits}s\"?"));
                self.expected(node, "a duration with a unit (ms, s, m or h)", hint);
            }
            Measure::Other => self.expected(node, "a duration such as \"30s\" or \"250ms\"", None),
        }
        None
    }

    /// Bytes of a size in a range.
    pub(super) fn size_bytes(&mut self, node: &Node, min: u64, max: u64) -> Option<u64> {
        let measure = match &node.value {
            Value::Text(text) => units::size_bytes(text.text.trim()),
            Value::Integer(number) => u64::try_from(*number).map_or(Measure::Other, Measure::Value),
            _ => Measure::Other,
        };
        let measure = match (measure, loose(node).and_then(|text| text.parse().ok())) {
            (Measure::NoUnit, Some(bytes)) => Measure::Value(bytes),
            (measure, _) => measure,
        };
        match measure {
            Measure::Value(bytes) if (min..=max).contains(&bytes) => return Some(bytes),
            Measure::Value(_) => {
                let range = format!("{:?} to {:?}", units::show_bytes(min), units::show_bytes(max));
                self.expected(node, &range, None);
            }
            Measure::NoUnit => {
                let hint = bare(node).map(|digits| format!("did you mean \"{digits}B\"?"));
                self.expected(node, "a size with a unit (B, KB, KiB, MB, MiB, …)", hint);
            }
            Measure::Other => self.expected(node, "a size such as \"64KiB\", or an integer in bytes", None),
        }
        None
    }

    /// One of `words`.
    pub(super) fn word(&mut self, node: &Node, words: &[&'static str], or: &str) -> Option<&'static str> {
        if let Value::Text(text) = &node.value
            && let Some(word) = words.iter().find(|word| **word == text.text)
        {
            return Some(word);
        }
        let near = match &node.value {
            Value::Text(text) if text.typed.is_none() => keys::nearest(&text.text, words.iter().copied()),
            _ => None,
        };
        let words: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
        let hint = near.map(|near| format!("did you mean {near:?}?"));
        self.expected(node, &format!("{}{or}", words.join(", ")), hint);
        None
    }

    /// A list whose elements `read` turns into values; `None` when one of them is faulty.
    pub(super) fn list<'t, T>(
        &mut self,
        node: &'t Node,
        what: &str,
        mut read: impl FnMut(&mut Self, &'t Node) -> Option<T>,
    ) -> Option<Vec<T>> {
        let Value::List(list) = &node.value else {
            let hint = match &node.value {
                Value::Text(text) if text.typed.is_none() => Some(format!("did you mean [{:?}]?", text.text)),
                _ => None,
            };
            self.expected(node, what, hint);
            return None;
        };
        // No short cut: every element has its own problems.
        let read: Vec<_> = list.iter().map(|node| read(self, node)).collect();
        read.into_iter().collect()
    }
}

/// The digits of a text that a hint may repeat.
fn bare(node: &Node) -> Option<String> {
    match &node.value {
        Value::Text(text) if text.typed.is_none() => Some(text.text.trim().to_owned()),
        _ => None,
    }
}
