//! `static.compress`: which files are compressed on the fly, and how hard.

use super::checked::Compress;
use super::keys::{CODING_WORDS, COMPRESS_BYTES_MAX, COMPRESS_LEVELS, COMPRESS_TYPES};
use super::raw::{Node, Table, Value};
use super::read::NO_TABLE;
use super::report::Report;
use super::units;
use crate::semantics::encoding::Coding;

const KEY: &str = "route.static.compress";

/// Reads `compress`; what is not there is off.
pub(super) fn read(table: &Table, report: &mut Report<'_>) -> Option<Compress> {
    let node = table.get("compress");
    let inside = match node {
        Some(Node { value: Value::Table(inside), .. }) => inside,
        Some(node) if report.boolean_or_table(node)? => &NO_TABLE,
        _ => {
            report.set(KEY, "false".to_owned(), node);
            return None;
        }
    };
    let here = (KEY, inside);
    let words = CODING_WORDS.to_vec();
    let codings = report.value(here, "codings", words, read_codings, |words| format!("{words:?}"));
    let mut levels = Vec::new();
    for (coding, name, (min, max, default)) in COMPRESS_LEVELS {
        let read = |report: &mut Report<'_>, node: &Node| report.integer(node, "", min, max);
        let level = report.value(here, name, default, read, u64::to_string);
        levels.push((coding, u8::try_from(level).unwrap_or(u8::MAX)));
    }
    let read = |report: &mut Report<'_>, node: &Node| report.size_bytes(node, 1, COMPRESS_BYTES_MAX);
    let show = |bytes: &u64| format!("{:?}", units::show_bytes(*bytes));
    let min_bytes = report.value(here, "min_size", 1024, read, show);
    let max_bytes = report.value(here, "max_size", COMPRESS_BYTES_MAX / 4, read, show);
    if min_bytes > max_bytes {
        // Either of them may be the default.
        let node = inside.get("min_size").or_else(|| inside.get("max_size"));
        if let Some(node) = node {
            let (min, max) = (show(&min_bytes), show(&max_bytes));
            report.fault(node, &format!("expected min_size up to max_size, found {min} and {max}"), None);
        }
    }
    let types = COMPRESS_TYPES.iter().map(|name| (*name).to_owned()).collect();
    let types = report.value(here, "types", types, read_types, |types| format!("{types:?}"));
    let is_named = |coding: Coding| codings.contains(&coding.name());
    let levels = levels.into_iter().filter(|(coding, _)| is_named(*coding)).collect();
    Some(Compress { levels, min_bytes, max_bytes, types })
}

fn read_codings(report: &mut Report<'_>, node: &Node) -> Option<Vec<&'static str>> {
    let words = report.list(node, "a list such as [\"br\", \"gzip\"]", |report, node| {
        report.word(node, CODING_WORDS, "")
    })?;
    if words.is_empty() {
        report.expected(node, "at least one coding", Some("false turns compression off".to_owned()));
        return None;
    }
    Some(words)
}

fn read_types(report: &mut Report<'_>, node: &Node) -> Option<Vec<String>> {
    let types =
        report.list(node, "a list of types such as [\"text/*\", \"application/json\"]", |report, node| {
            let text = report.text(node)?;
            let is_token = |part: &str| {
                !part.is_empty()
                    && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
            };
            match text.split_once('/') {
                Some((family, part)) if is_token(family) && (part == "*" || is_token(part)) => {
                    Some(text.to_ascii_lowercase())
                }
                _ => {
                    report.expected(node, "a type without parameters such as \"text/*\"", None);
                    None
                }
            }
        })?;
    if types.is_empty() {
        report.expected(node, "at least one type", Some("false turns compression off".to_owned()));
        return None;
    }
    Some(types)
}
