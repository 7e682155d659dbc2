//! ScalWS as it stands: what it has not learned yet is named with its milestone.

use std::path::Path;

use super::recipe::{Features, Missing, Place, Recipe, quoted};
use crate::Refusal;
use crate::scenario::{RESPOND_TEXT, Setup};

pub(super) fn recipe(place: &Place<'_>, binary: &Path) -> Result<Recipe, Missing> {
    if place.launch.scenario.protocol.is_tls() {
        return Missing::lacks("no TLS yet (milestone M6)");
    }
    if place.setup() == Setup::Proxy {
        return Missing::lacks("no proxy yet (milestone M7)");
    }
    if !binary.is_file() {
        let build = "cargo build --release --bin scalws";
        return Err(Refusal::new(format!("no scalws at {}: {build}", binary.display())).into());
    }
    let config_file = place.file("scalws.toml");
    Ok(Recipe {
        program: binary.to_owned(),
        arguments: vec!["serve".into(), "--config".into(), config_file.clone().into()],
        config: config(place)?,
        config_file: Some(config_file),
        environment: Vec::new(),
        version: Some("--version"),
        features: features(place.setup()),
    })
}

fn config(place: &Place<'_>) -> Result<String, Refusal> {
    let access = match place.access_log() {
        Some(file) => format!("{{ format = \"combined\", file = {} }}", quoted(&file)?),
        None => "\"off\"".to_owned(),
    };
    let compress = match place.setup() {
        Setup::Compress => "{ codings = [\"gzip\"], gzip_level = 6 }",
        _ => "false",
    };
    Ok(format!(
        "[server]
listen = [\"127.0.0.1:{port}\"]
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
        port = place.port,
        workers = place.workers(),
        body = RESPOND_TEXT,
        root = quoted(&place.root)?,
        sidecars = place.setup() == Setup::Sidecar,
        revalidate = if place.setup() == Setup::Uncached { "\"0s\"" } else { "\"1s\"" },
    ))
}

fn features(setup: Setup) -> Features {
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
