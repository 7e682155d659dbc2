//! ScalWS as it stands: what it has not learned yet is named with its milestone.

use std::path::Path;

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
        config: config(place)?,
        config_file: Some(config_file),
        environment: Vec::new(),
        version: Some("--version"),
        features: features(place.setup()),
    })
}

fn config(place: &Place<'_>) -> Result<String, Refusal> {
    let log = place.access_log().map(|file| quoted(&file)).transpose()?;
    Ok(text(place.setup(), place.port, place.workers(), &quoted(&place.root)?, log.as_deref()))
}

/// Its config for a row as a container sees the files.
///
/// # Errors
/// A path that no config can hold.
pub fn config_in_container(
    scenario: &Scenario,
    (port, workers): (u16, usize),
    root: &Path,
    log: &Path,
) -> Result<String, Refusal> {
    let log = quoted(log)?;
    let log = (scenario.setup == Setup::AccessLog).then_some(log.as_str());
    Ok(text(scenario.setup, port, workers, &quoted(root)?, log))
}

fn text(setup: Setup, port: u16, workers: usize, root: &str, log: Option<&str>) -> String {
    let access = match log {
        Some(file) => format!("{{ format = \"combined\", file = {file} }}"),
        None => "\"off\"".to_owned(),
    };
    let compress = match setup {
        Setup::Compress => "{ codings = [\"gzip\"], gzip_level = 6 }",
        _ => "false",
    };
    format!(
        "[server]
listen = [\"127.0.0.1:{port}\"]
admin = \"off\"
workers = {workers}
drain = {{ timeout = \"1s\" }}

[log]
access = {access}

[[route]]
exact = \"/ping\"
respond = {{ body = {RESPOND_TEXT:?} }}

[[route]]
path = \"/\"
[route.static]
root = {root}
precompressed = {sidecars}
compress = {compress}
revalidate = {revalidate}
",
        sidecars = setup == Setup::Sidecar,
        revalidate = if setup == Setup::Uncached { "\"0s\"" } else { "\"1s\"" },
    )
}

fn features(setup: Setup) -> Features {
    Features {
        // `revalidate` has no effect before the open-file cache of M4: whoever builds that changes this.
        cache: "none of open files (M4)".into(),
        send: "read and written; no sendfile (M4)".into(),
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
