//! `error_pages`, of `static` and of the whole site: which page stands for which error. That a page is
//! there is looked at like a root: a misspelt name would show as plain text, and only with an error.

use std::path::{Path, PathBuf};

use super::checked::{ErrorPage, ErrorPages};
use super::keys;
use super::raw::{Entry, Node, Table, Value};
use super::report::Report;
use super::statics::{Beneath, path_such_as, root_fault};
use crate::semantics::path::has_hidden_segment;

/// Classes of statuses: the only ones that are errors (RFC 9110 §15.5, §15.6).
const CLASSES: [(&str, u16, u16); 2] = [("4xx", 400, 499), ("5xx", 500, 599)];
const EXAMPLE: &str = "/404.html";

/// `static.error_pages`, beneath the `root` of its route; `None` where that is faulty.
pub(super) fn of_static(
    table: &Table,
    beneath: Option<Beneath<'_>>,
    report: &mut Report<'_>,
) -> Vec<ErrorPage> {
    table.get("error_pages").map_or_else(Vec::new, |node| pages(node, beneath, report))
}

/// `[error_pages]`
pub(super) fn of_site(config: &Table, report: &mut Report<'_>) -> Option<ErrorPages> {
    let node = config.get("error_pages")?;
    let Value::Table(table) = &node.value else {
        report.expected(node, "a table with root and pages", None);
        return None;
    };
    for name in keys::required("error_pages").iter().filter(|name| table.lacks(name)) {
        report.missing(&node.origin, "error_pages", name);
    }
    let root = table.get("root").and_then(|node| {
        let text = report.text(node)?;
        if let Some(reason) = root_fault(Path::new(text)) {
            report.expected(node, "a readable directory", Some(reason));
            return None;
        }
        report.set("error_pages.root", format!("{text:?}"), Some(node));
        Some(PathBuf::from(text))
    });
    let list = table.get("pages").map(|node| {
        if matches!(&node.value, Value::Table(pages) if pages.entries.is_empty()) {
            report.fault(node, "expected at least one page, found an empty table", None);
        }
        let beneath = root.as_deref().map(|root| Beneath { root, follow_symlinks: true });
        pages(node, beneath, report)
    });
    Some(ErrorPages { root: root?, pages: list? })
}

/// Exact statuses before classes: the first that fits is the one.
fn pages(node: &Node, beneath: Option<Beneath<'_>>, report: &mut Report<'_>) -> Vec<ErrorPage> {
    let Value::Table(table) = &node.value else {
        let what = "a table of statuses with their pages such as { \"404\" = \"/404.html\" }";
        report.expected(node, what, None);
        return Vec::new();
    };
    let mut pages = Vec::new();
    for Entry { name, at, node } in &table.entries {
        let statuses = statuses(name);
        if statuses.is_none() {
            let near = keys::nearest(name, CLASSES.iter().map(|class| class.0));
            let hint = near.map(|near| format!("did you mean {near:?}?"));
            let message = format!("{}: expected a status from 400 to 599, \"4xx\" or \"5xx\"", node.key);
            report.problem(at, message, hint);
        }
        let path = page(node, beneath, report);
        if let (Some((first, last)), Some(path)) = (statuses, path) {
            pages.push(ErrorPage { first, last, path });
        }
    }
    pages.sort_by_key(|page| page.last - page.first);
    pages
}

fn statuses(name: &str) -> Option<(u16, u16)> {
    if let Some((_, first, last)) = CLASSES.iter().find(|class| class.0 == name) {
        return Some((*first, *last));
    }
    // Not by `parse` alone, which takes a sign and leading zeros.
    let status = name.parse().ok().filter(|_| name.len() == 3)?;
    (400..=599).contains(&status).then_some((status, status))
}

fn page(node: &Node, beneath: Option<Beneath<'_>>, report: &mut Report<'_>) -> Option<Vec<u8>> {
    let path = path_such_as(report, node, EXAMPLE)?;
    let fault = if has_hidden_segment(&path, true) {
        Some("whose name is hidden")
    } else {
        beneath.and_then(|beneath| beneath.fault_of(&path))
    };
    if let Some(fault) = fault {
        report.expected(node, &format!("a file beneath root such as {EXAMPLE:?}"), Some(fault.to_owned()));
        return None;
    }
    report.set(&node.key, format!("{:?}", format!("/{}", String::from_utf8_lossy(&path))), Some(node));
    Some(path)
}
