//! `static.cache_control`: how long caches may keep which files. The first glob that matches wins.

use globset::{Glob, GlobBuilder, GlobSet};

use super::checked::CacheRule;
use super::headers;
use super::raw::{Node, Value};
use super::report::Report;
use crate::limits::{CACHE_RULES_MAX, GLOB_BYTES_MAX};

const KEY: &str = "route.static.cache_control";

pub(super) fn read(node: &Node, report: &mut Report<'_>) -> Option<Vec<CacheRule>> {
    let Value::List(list) = &node.value else {
        report.expected(node, "a list such as [{ glob = \"**\", value = \"no-cache\" }]", None);
        return None;
    };
    if list.len() > CACHE_RULES_MAX {
        report.fault(node, &format!("expected at most {CACHE_RULES_MAX} globs"), None);
        return None;
    }
    // No short cut: every rule has its own problems.
    let rules: Vec<_> = list.iter().map(|node| rule(node, report)).collect();
    let rules: Vec<CacheRule> = rules.into_iter().collect::<Option<_>>()?;
    let mut set = GlobSet::builder();
    for rule in &rules {
        set.add(rule.glob.clone());
    }
    if set.build().is_err() {
        report.fault(node, "expected globs that are simpler or fewer", None);
        return None;
    }
    report.set_from(KEY, show(list), node.origin.clone());
    Some(rules)
}

fn rule(node: &Node, report: &mut Report<'_>) -> Option<CacheRule> {
    let Value::Table(table) = &node.value else {
        report.expected(node, "a table such as { glob = \"**\", value = \"no-cache\" }", None);
        return None;
    };
    for name in ["glob", "value"] {
        if table.lacks(name) {
            report.missing(&node.origin, KEY, name);
        }
    }
    let glob = table.get("glob").and_then(|node| read_glob(node, report));
    let value = table.get("value").and_then(|node| {
        report.text(node)?;
        headers::value(node, report)
    });
    Some(CacheRule { glob: glob?, value: value?.to_owned() })
}

pub(super) fn read_glob(node: &Node, report: &mut Report<'_>) -> Option<Glob> {
    let text = report.text(node)?;
    if text.len() > GLOB_BYTES_MAX {
        report.fault(node, &format!("expected a glob of at most {GLOB_BYTES_MAX} bytes"), None);
        return None;
    }
    // As in .gitignore: a pattern without a slash is about names, wherever they are; one with a slash
    // is about paths from the root, so that a slash at its start says nothing more.
    let pattern = match text.strip_prefix('/') {
        Some(path) => path.to_owned(),
        None if text.contains('/') => text.to_owned(),
        None => format!("**/{text}"),
    };
    match GlobBuilder::new(&pattern).literal_separator(true).build() {
        Ok(glob) => Some(glob),
        Err(error) => {
            let typed = matches!(&node.value, Value::Text(text) if text.typed.is_none());
            report.expected(node, "a glob such as \"assets/**\"", typed.then(|| error.kind().to_string()));
            None
        }
    }
}

/// As TOML; what came from the environment as it was typed.
fn show(list: &[Node]) -> String {
    let text = |node: &Node, name| match &node.value {
        Value::Table(table) => match table.get(name).map(|node| &node.value) {
            Some(Value::Text(text)) => format!("{:?}", text.typed.as_ref().unwrap_or(&text.text)),
            _ => String::new(),
        },
        _ => String::new(),
    };
    let rule = |node| format!("{{ glob = {}, value = {} }}", text(node, "glob"), text(node, "value"));
    format!("[{}]", list.iter().map(rule).collect::<Vec<_>>().join(", "))
}
