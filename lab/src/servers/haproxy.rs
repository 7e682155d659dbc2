//! HAProxy: fixed answers, 404 and the proxy; it serves no files.

use super::recipe::{CONNECTIONS_MAX, Features, Missing, Place, Recipe};
use super::tool;
use crate::scenario::{RESPOND_TEXT, Setup};

pub(super) fn recipe(place: &Place<'_>) -> Result<Recipe, Missing> {
    let Some(program) = tool::find("haproxy") else {
        return Missing::lacks("haproxy is not installed: apt-get install haproxy");
    };
    let serves_files = match place.setup() {
        Setup::Respond | Setup::Proxy => false,
        Setup::Usual => place.launch.scenario.status != 404,
        _ => true,
    };
    if serves_files {
        return Missing::lacks("HAProxy serves no files");
    }
    let config_file = place.file("haproxy.cfg");
    Ok(Recipe {
        program,
        arguments: vec!["-db".into(), "-f".into(), config_file.clone().into()],
        config: config(place)?,
        config_file: Some(config_file),
        environment: Vec::new(),
        version: Some("-v"),
        features: Features {
            cache: "–".into(),
            send: "from memory".into(),
            log: "off".into(),
            keep_alive: "any number of requests, 60 s idle".into(),
            compression: "off".into(),
            tls: String::new(),
            notes: match place.setup() {
                Setup::Proxy => "http-reuse always: connections to the backend are kept".into(),
                Setup::Respond => String::new(),
                _ => "its 404 comes from a rule and not from a missing file".into(),
            },
        },
    })
}

fn config(place: &Place<'_>) -> Result<String, Missing> {
    let answer = |condition: &str, status: u16, body: &str| {
        format!(
            "    http-request return status {status} content-type \"text/plain; charset=utf-8\" string {body:?}{condition}\n"
        )
    };
    let mut config = format!(
        "global
    nbthread {workers}
    maxconn {CONNECTIONS_MAX}
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    timeout http-keep-alive 60s
    option http-keep-alive
frontend lab
    bind 127.0.0.1:{port}
",
        workers = place.workers(),
        port = place.port,
    );
    match place.backend()? {
        Some(backend) => {
            config += &format!(
                "    default_backend lab_backend\nbackend lab_backend\n    http-reuse always\n    server one {backend}\n"
            );
        }
        None => {
            config += &answer(" if { path /ping }", 200, RESPOND_TEXT);
            config += &answer("", 404, "Not Found\n");
        }
    }
    Ok(config)
}
