//! `respond = { … }`: a fixed answer. Its body is in the config, in a file that is read now, or a JSON
//! document that is put together now.

use std::fs::File;
use std::io::Read;

use super::checked::Respond;
use super::expand::Environment;
use super::raw::{Node, Table, Value};
use super::report::Report;
use super::{headers, json};
use crate::limits::RESPOND_BODY_BYTES_MAX;

const CONTENT_TYPE: &str = "text/plain; charset=utf-8";
/// Without a charset: JSON is UTF-8, and the type has no such parameter (RFC 8259 §11).
const CONTENT_TYPE_OF_JSON: &str = "application/json";
/// Keys of which a route has at most one.
const BODIES: [&str; 3] = ["body", "body_file", "json"];

pub(super) fn read(table: &Table, environment: &Environment, report: &mut Report<'_>) -> Option<Respond> {
    let here = ("route.respond", table);
    let read = |report: &mut Report<'_>, node: &Node| report.integer(node, "", 200, 599);
    let status = report.value(here, "status", 200, read, u64::to_string);
    let mut body_nodes: Vec<_> = BODIES.iter().filter_map(|name| table.get(name)).collect();
    body_nodes.sort_by(|left, right| left.origin.cmp(&right.origin));
    let body = match body_nodes[..] {
        [] => Some(Vec::new()),
        [node] => body(node, environment, report),
        [_, second, ..] => {
            report.fault(second, "expected one of body, body_file and json, found two", None);
            None
        }
    };
    let body_node = body_nodes.first().copied();
    let content_type = if matches!(status, 204 | 205 | 304) {
        refuse_body(table, status, report);
        None
    } else {
        content_type(table, body_node, report)
    };
    let headers =
        table.get("headers").map_or_else(|| Some(Vec::new()), |node| headers::of_respond(node, report));
    Some(Respond { status: u16::try_from(status).ok()?, body: body?, content_type, headers: headers? })
}

/// These statuses have no content (RFC 9110 §15.3.5, §15.3.6, §15.4.5).
fn refuse_body(table: &Table, status: u64, report: &mut Report<'_>) {
    for name in ["body", "body_file", "json", "content_type"] {
        if let Some(node) = table.get(name)
            && !matches!(node.value, Value::Broken)
        {
            report.fault(node, &format!("expected no {name}, as status {status} never has a body"), None);
            return;
        }
    }
}

fn body(node: &Node, environment: &Environment, report: &mut Report<'_>) -> Option<Vec<u8>> {
    match node.key.as_str() {
        "route.respond.json" => json::read(node, environment, report),
        "route.respond.body" => {
            let text = report.any_text(node)?;
            if text.len() as u64 > RESPOND_BODY_BYTES_MAX {
                report.fault(node, "expected a body of at most 1 MiB", None);
                return None;
            }
            report.set("route.respond.body", format!("{text:?}"), Some(node));
            Some(text.as_bytes().to_vec())
        }
        _ => {
            let name = report.text(node)?;
            match read_file(name) {
                Ok(body) => {
                    report.set("route.respond.body_file", format!("{name:?}"), Some(node));
                    Some(body)
                }
                Err(reason) => {
                    report.expected(node, "a readable file of at most 1 MiB", Some(reason));
                    None
                }
            }
        }
    }
}

fn read_file(name: &str) -> Result<Vec<u8>, String> {
    // Looked at before it is opened: opening a fifo would wait for its writer.
    let metadata = std::fs::metadata(name).map_err(|error| super::io_reason(&error))?;
    if !metadata.is_file() {
        return Err("which is no regular file".to_owned());
    }
    let mut body = Vec::new();
    let file = File::open(name).map_err(|error| super::io_reason(&error))?;
    file.take(RESPOND_BODY_BYTES_MAX + 1).read_to_end(&mut body).map_err(|error| super::io_reason(&error))?;
    if body.len() as u64 > RESPOND_BODY_BYTES_MAX {
        return Err("which is larger".to_owned());
    }
    Ok(body)
}

fn content_type(table: &Table, body: Option<&Node>, report: &mut Report<'_>) -> Option<String> {
    let Some(node) = table.get("content_type") else {
        let is_json = body?.key == "route.respond.json";
        let content_type = if is_json { CONTENT_TYPE_OF_JSON } else { CONTENT_TYPE };
        report.set("route.respond.content_type", format!("{content_type:?}"), None);
        return Some(content_type.to_owned());
    };
    if body.is_none() && BODIES.iter().all(|name| table.lacks(name)) {
        report.fault(node, "expected body, body_file or json beside it", None);
    }
    let text = report.text(node)?;
    if !text.contains('/') || !text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        report.expected(node, "a media type such as \"text/html; charset=utf-8\"", None);
        return None;
    }
    report.set("route.respond.content_type", format!("{text:?}"), Some(node));
    Some(text.to_owned())
}
