//! ScalWS as it stands: what it has not learned yet is named with its milestone.

use std::net::SocketAddr;
use std::path::Path;

use super::Server;
use super::recipe::{Features, Missing, Place, Recipe, quoted};
use crate::Refusal;
use crate::scenario::{RESPOND_TEXT, Scenario, Setup};

/// What it has not learned yet, of what a row needs.
#[must_use]
pub fn lacks(scenario: &Scenario) -> Option<&'static str> {
    match (scenario.protocol.is_tls(), scenario.setup) {
        (true, _) => Some("no TLS yet (milestone M6)"),
        (_, Setup::Proxy) => Some("no proxy yet (milestone M7)"),
        _ => None,
    }
}

pub(super) fn recipe(place: &Place<'_>, binary: &Path) -> Result<Recipe, Missing> {
    if let Some(reason) = lacks(place.launch.scenario) {
        return Missing::lacks(reason);
    }
    if !binary.is_file() {
        let build = "cargo build --release --bin scalws";
        return Err(Refusal::new(format!("no scalws at {}: {build}", binary.display())).into());
    }
    let config_file = place.file("scalws.toml");
    Ok(Recipe {
        program: binary.to_owned(),
        arguments: vec!["serve".into(), "--config".into(), config_file.clone().into()],
        config: config(&Site {
            listen: SocketAddr::from(([127, 0, 0, 1], place.port)),
            workers: place.workers(),
            setup: place.setup(),
            root: &place.root,
            access_log: place.access_log().as_deref(),
        })?,
        config_file: Some(config_file),
        environment: place.launch.variables.iter().map(|(name, value)| (*name, value.into())).collect(),
        version: Some("--version"),
        features: Features {
            notes: match place.launch.server {
                Server::Sampled(sampled) => sampled.note().to_owned(),
                _ => String::new(),
            },
            ..features(place.setup())
        },
    })
}

/// What its config says of a row, on the host and in a container.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Threads that serve.
    pub workers: usize,
    /// Of the row.
    pub setup: Setup,
    /// What it serves, as it sees it.
    pub root: &'a Path,
    /// Where a row that logs does so.
    pub access_log: Option<&'a Path>,
}

/// Its config.
///
/// # Errors
/// A path is not plain.
pub fn config(site: &Site<'_>) -> Result<String, Refusal> {
    let access = match site.access_log {
        Some(file) => format!("{{ format = \"combined\", file = {} }}", quoted(file)?),
        None => "\"off\"".to_owned(),
    };
    let compress = match site.setup {
        Setup::Compress => "{ codings = [\"gzip\"], gzip_level = 6 }",
        _ => "false",
    };
    Ok(format!(
        "[server]
listen = [\"{listen}\"]
admin = \"off\"
workers = {workers}
drain = {{ timeout = \"1s\" }}

[log]
access = {access}

[[route]]
exact = \"/ping\"
respond = {{ body = {body:?} }}

[[route]]
path = \"/\"
[route.static]
root = {root}
precompressed = {sidecars}
compress = {compress}
revalidate = {revalidate}
",
        listen = site.listen,
        workers = site.workers,
        body = RESPOND_TEXT,
        root = quoted(site.root)?,
        sidecars = site.setup == Setup::Sidecar,
        revalidate = if site.setup == Setup::Uncached { "\"0s\"" } else { "\"1s\"" },
    ))
}

/// What it has on and off.
#[must_use]
pub fn features(setup: Setup) -> Features {
    Features {
        cache: match setup {
            Setup::Uncached => "none".into(),
            _ => "open files, 1 s; looked at before each answer".into(),
        },
        send: "sendfile from 64 KiB on, sndbuf=256k for round trips below 0.25 ms".into(),
        log: match setup {
            Setup::AccessLog => "combined, to a file, in batches of 32 KiB or 1 s".into(),
            _ => "off".into(),
        },
        keep_alive: "any number of requests, 60 s idle".into(),
        compression: match setup {
            Setup::Compress => "gzip 6, once for each version of a file, then from memory".into(),
            Setup::Sidecar => "sidecars, looked for on every request".into(),
            _ => "off".into(),
        },
        ..Features::default()
    }
}
