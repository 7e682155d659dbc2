//! `static.headers`: further fields of files by glob. All globs that match add theirs; of two that give
//! the same field the later one wins, and either wins over the route's.

use globset::GlobSet;

use super::cache_control::read_glob;
use super::checked::HeaderRule;
use super::headers;
use super::raw::{Node, Value};
use super::report::Report;
use crate::limits::HEADER_RULES_MAX;

const KEY: &str = "route.static.headers";
const EXAMPLE: &str = "{ glob = \"*.wasm\", headers = { \"X-A\" = \"b\" } }";

pub(super) fn read(node: &Node, report: &mut Report<'_>) -> Option<Vec<HeaderRule>> {
    let Value::List(list) = &node.value else {
        report.expected(node, &format!("a list such as [{EXAMPLE}]"), None);
        return None;
    };
    if list.len() > HEADER_RULES_MAX {
        report.fault(node, &format!("expected at most {HEADER_RULES_MAX} globs"), None);
        return None;
    }
    // No short cut: every rule has its own problems.
    let rules: Vec<_> = list.iter().map(|node| rule(node, report)).collect();
    let rules: Vec<HeaderRule> = rules.into_iter().collect::<Option<_>>()?;
    let mut set = GlobSet::builder();
    for rule in &rules {
        set.add(rule.glob.clone());
    }
    if set.build().is_err() {
        report.fault(node, "expected globs that are simpler or fewer", None);
        return None;
    }
    Some(rules)
}

fn rule(node: &Node, report: &mut Report<'_>) -> Option<HeaderRule> {
    let Value::Table(table) = &node.value else {
        report.expected(node, &format!("a table such as {EXAMPLE}"), None);
        return None;
    };
    for name in ["glob", "headers"] {
        if table.lacks(name) {
            report.missing(&node.origin, KEY, name);
        }
    }
    // Before its fields, which are recorded one by one.
    let glob = table.get("glob").and_then(|node| {
        let glob = read_glob(node, report)?;
        let text = report.any_text(node)?;
        report.set("route.static.headers.glob", format!("{text:?}"), Some(node));
        Some(glob)
    });
    let headers = table.get("headers").and_then(|node| {
        if matches!(&node.value, Value::Table(table) if table.entries.is_empty()) {
            report.fault(node, "expected at least one field, found an empty table", None);
            return None;
        }
        headers::of_files(node, report)
    });
    Some(HeaderRule { glob: glob?, headers: headers? })
}
