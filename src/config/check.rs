//! `[server]`, `[log]` and `[limits]`: from what was typed to what is meant.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net};

use super::checked::{AccessFormat, Log, Server};
use super::keys::{self, ACCESS_WORDS, DRAIN_MS_MAX, WORKERS_MAX};
use super::raw::{Node, Table, Value};
use super::report::Report;
use super::units;
use crate::limits::{self, Limits, Unit};

/// What the server listens on when nobody says otherwise.
const LISTEN: &str = "[::]:8080";
/// And in development mode: what is half done is nobody else's to see.
const LISTEN_DEV: &str = "127.0.0.1:8080";
const ADMIN: &str = "127.0.0.1:8081";

pub(super) fn server(root: &Table, is_dev: bool, report: &mut Report<'_>) -> Server {
    // Who serves HTTPS need not serve anything else.
    let may_be_none = root.get("tls").is_some();
    let table = report.table(root, "server");
    let here = ("server", table);
    let default = vec![address(if is_dev { LISTEN_DEV } else { LISTEN })];
    let read_listen = |report: &mut Report<'_>, node: &Node| read_addresses(report, node, may_be_none);
    let listen = report.value(here, "listen", default, read_listen, |addresses| show(addresses));
    let admin = report.value(here, "admin", Some(address(ADMIN)), read_admin, |admin| {
        format!("{:?}", admin.map_or("off".to_owned(), |address| address.to_string()))
    });
    if let Some(admin) = admin
        && admin.port() != 0
        && listen.contains(&admin)
    {
        // The default of neither is in the other, so one of them was said by somebody.
        if let Some(node) = table.get("admin").or_else(|| table.get("listen")) {
            report.fault(node, "expected different addresses for listen and admin, found one in both", None);
        }
    }
    let workers = report.value(here, "workers", None, read_workers, |workers| {
        workers.map_or("\"auto\"".to_owned(), |workers| workers.to_string())
    });
    let drain = ("server.drain", report.table(table, "drain"));
    let mut pause = |name, default| {
        let read = |report: &mut Report<'_>, node: &Node| report.duration_ms(node, 0, DRAIN_MS_MAX);
        let ms = report.value(drain, name, default, read, |ms| format!("{:?}", units::show_ms(*ms)));
        Duration::from_millis(ms)
    };
    let (drain_delay, drain_timeout) = (pause("delay", 0), pause("timeout", 8000));
    let read = |report: &mut Report<'_>, node: &Node| {
        report.list(node, "a list of networks such as [\"10.0.0.0/8\"]", read_network)
    };
    let show =
        |networks: &Vec<IpNet>| format!("{:?}", networks.iter().map(ToString::to_string).collect::<Vec<_>>());
    let trusted_proxies = report.value(here, "trusted_proxies", Vec::new(), read, show);
    Server { listen, admin, workers, drain_delay, drain_timeout, is_dev, trusted_proxies }
}

pub(super) fn address(text: &str) -> SocketAddr {
    text.parse().expect("the constants above are addresses")
}

pub(super) fn show(addresses: &[SocketAddr]) -> String {
    format!("{:?}", addresses.iter().map(ToString::to_string).collect::<Vec<_>>())
}

/// Addresses to listen on.
pub(super) fn read_addresses(
    report: &mut Report<'_>,
    node: &Node,
    may_be_none: bool,
) -> Option<Vec<SocketAddr>> {
    const WHAT: &str = "a list of addresses such as [\"[::]:8080\"]";
    if matches!(node.value, Value::Text(_) | Value::Integer(_)) {
        let hint = address_hint(node).map(|meant| format!("did you mean [\"{meant}\"]?"));
        report.expected(node, WHAT, hint);
        return None;
    }
    let addresses = report.list(node, WHAT, |report, node| read_address(report, node, ""))?;
    if addresses.is_empty() && !may_be_none {
        report.fault(node, "expected at least one address, found an empty list", None);
        return None;
    }
    let is_twice =
        |(at, address): (usize, &SocketAddr)| address.port() != 0 && addresses[..at].contains(address);
    if let Some(at) = addresses.iter().enumerate().position(is_twice)
        && let Value::List(list) = &node.value
    {
        report.expected(&list[at], "each address once", None);
        return None;
    }
    Some(addresses)
}

fn read_admin(report: &mut Report<'_>, node: &Node) -> Option<Option<SocketAddr>> {
    match &node.value {
        Value::Text(text) if text.text == "off" => Some(None),
        _ => read_address(report, node, "\"off\" or ").map(Some),
    }
}

fn read_address(report: &mut Report<'_>, node: &Node, or: &str) -> Option<SocketAddr> {
    if let Value::Text(text) = &node.value
        && let Ok(address) = text.text.trim().parse()
    {
        return Some(address);
    }
    let hint = address_hint(node).map(|meant| format!("did you mean \"{meant}\"?"));
    let what = format!("{or}an IP address with a port such as \"[::]:8080\" or \"0.0.0.0:80\"");
    report.expected(node, &what, hint);
    None
}

/// What a port alone, `:port`, `*:port`, `localhost:port` or an address alone may have meant.
fn address_hint(node: &Node) -> Option<String> {
    let text = match &node.value {
        Value::Text(text) if text.typed.is_none() => text.text.trim().to_owned(),
        Value::Integer(number) => number.to_string(),
        _ => return None,
    };
    if text.parse::<SocketAddr>().is_ok() {
        return Some(text);
    }
    if let Ok(address) = text.trim_matches(['[', ']']).parse() {
        return Some(SocketAddr::new(address, 8080).to_string());
    }
    let (host, port) = text.rsplit_once(':').unwrap_or(("", &text));
    let port: u16 = port.parse().ok()?;
    match host {
        "" | "*" => Some(format!("[::]:{port}")),
        "localhost" => Some(format!("127.0.0.1:{port}")),
        _ => None,
    }
}

fn read_workers(report: &mut Report<'_>, node: &Node) -> Option<Option<usize>> {
    if matches!(&node.value, Value::Text(text) if text.text == "auto") {
        return Some(None);
    }
    let workers = report.integer(node, "\"auto\" or ", 1, WORKERS_MAX)?;
    usize::try_from(workers).ok().map(Some)
}

/// Peers are compared in the form of their family: IPv4 that came over a socket of IPv6 is IPv4.
fn canonical(network: IpNet) -> IpNet {
    let IpNet::V6(mapped) = network else { return network };
    match (mapped.addr().to_ipv4_mapped(), mapped.prefix_len().checked_sub(96)) {
        (Some(address), Some(length)) => Ipv4Net::new(address, length).map_or(network, IpNet::V4),
        _ => network,
    }
}

fn read_network(report: &mut Report<'_>, node: &Node) -> Option<IpNet> {
    if let Value::Text(text) = &node.value
        && let Ok(network) = text.text.parse::<IpNet>()
    {
        return Some(canonical(network));
    }
    let hint = match &node.value {
        Value::Text(text) if text.typed.is_none() => text.text.parse::<std::net::IpAddr>().ok(),
        _ => None,
    };
    let hint = hint.map(|address| format!("did you mean \"{}\"?", IpNet::from(address)));
    report.expected(node, "a network such as \"10.0.0.0/8\"", hint);
    None
}

pub(super) fn log(root: &Table, report: &mut Report<'_>) -> Log {
    let table = report.table(root, "log");
    let (access, access_file) = match table.get("access") {
        Some(Node { value: Value::Table(access), .. }) => {
            let here = ("log.access", access);
            let read = |report: &mut Report<'_>, node: &Node| report.word(node, ACCESS_WORDS, "");
            let word = report.value(here, "format", "json", read, |word| format!("{word:?}"));
            let file = access.get("file").and_then(|node| {
                let file = report.text(node)?;
                report.set("log.access.file", format!("{file:?}"), Some(node));
                Some(PathBuf::from(file))
            });
            (word, file)
        }
        _ => {
            let or = " or a table with format and file";
            let read = |report: &mut Report<'_>, node: &Node| report.word(node, ACCESS_WORDS, or);
            (report.value(("log", table), "access", "json", read, |word| format!("{word:?}")), None)
        }
    };
    let access = match access {
        "combined" => AccessFormat::Combined,
        "off" => AccessFormat::Off,
        _ => AccessFormat::Json,
    };
    Log { access, access_file }
}

pub(super) fn limits(root: &Table, report: &mut Report<'_>) -> Limits {
    let table = report.table(root, "limits");
    let mut limits = Limits::default();
    for limit in limits::TABLE {
        let read = |report: &mut Report<'_>, node: &Node| match limit.unit {
            Unit::Count => report.integer(node, "", limit.min, limit.max),
            Unit::Bytes => report.size_bytes(node, limit.min, limit.max),
            Unit::Milliseconds => report.duration_ms(node, limit.min, limit.max),
        };
        let show = |value: &u64| keys::show_limit(limit.unit, *value);
        let value = report.value(("limits", table), limit.key, limit.default, read, show);
        if let Some(slot) = limits.slot(limit.key) {
            *slot = value;
        }
    }
    limits
}
