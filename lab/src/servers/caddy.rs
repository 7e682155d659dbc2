//! Caddy.

use super::recipe::{Features, Missing, Place, Recipe, quoted};
use super::tool;
use crate::scenario::{RESPOND_TEXT, Setup};

pub(super) fn recipe(place: &Place<'_>) -> Result<Recipe, Missing> {
    let Some(program) = tool::find("caddy") else {
        return Missing::lacks("caddy is not installed: apt-get install caddy");
    };
    let config_file = place.file("Caddyfile");
    Ok(Recipe {
        program,
        arguments: vec![
            "run".into(),
            "--adapter".into(),
            "caddyfile".into(),
            "--config".into(),
            config_file.clone().into(),
        ],
        config: config(place)?,
        config_file: Some(config_file),
        environment: vec![
            ("GOMAXPROCS", place.workers().to_string().into()),
            ("XDG_DATA_HOME", place.directory.clone().into()),
            ("XDG_CONFIG_HOME", place.directory.clone().into()),
        ],
        version: Some("version"),
        features: features(place),
    })
}

fn config(place: &Place<'_>) -> Result<String, Missing> {
    let scheme = if place.certificate.is_some() { "https" } else { "http" };
    let h2 = if place.is_h2() { " h2" } else { "" };
    let mut config = format!(
        "{{
    admin off
    auto_https disable_redirects
    servers {{
        protocols h1{h2}
        timeouts {{
            idle 60s
        }}
    }}
}}
{scheme}://:{port} {{
    bind 127.0.0.1
",
        port = place.port
    );
    if let Some(certificate) = &place.certificate {
        let (pem, key) = (quoted(&certificate.certificate)?, quoted(&certificate.key)?);
        config += &format!("    tls {pem} {key} {{\n        protocols tls1.3\n    }}\n");
    }
    if let Some(file) = place.access_log() {
        config += &format!(
            "    log {{\n        output file {} {{\n            roll_disabled\n        }}\n    }}\n",
            quoted(&file)?
        );
    }
    match place.setup() {
        Setup::Compress => config += "    encode {\n        gzip 6\n    }\n",
        Setup::Respond => config += &format!("    respond /ping \"{RESPOND_TEXT}\"\n"),
        _ => {}
    }
    config += &match (place.backend()?, place.setup()) {
        (Some(backend), _) => format!("    reverse_proxy {backend}\n"),
        (None, Setup::Sidecar) => {
            format!(
                "    root * {}\n    file_server {{\n        precompressed gzip\n    }}\n",
                quoted(&place.root)?
            )
        }
        (None, _) => format!("    root * {}\n    file_server\n", quoted(&place.root)?),
    };
    Ok(config + "}\n")
}

fn features(place: &Place<'_>) -> Features {
    Features {
        cache: "none".into(),
        send: match place.certificate {
            Some(_) => "read and encrypted in the process".into(),
            None => "sendfile, as Go decides".into(),
        },
        log: match place.setup() {
            Setup::AccessLog => "JSON (it has no combined form), to a file, a write for each request".into(),
            _ => "off".into(),
        },
        keep_alive: "any number of requests, 60 s idle".into(),
        compression: match place.setup() {
            Setup::Compress => "gzip 6, on every request".into(),
            Setup::Sidecar => "precompressed gzip".into(),
            _ => "off".into(),
        },
        tls: match place.certificate {
            Some(_) => "1.3; Go chooses the cipher; P-256; tickets".into(),
            None => String::new(),
        },
        notes: match place.setup() {
            Setup::Proxy => "GOMAXPROCS as many as CPUs; connections to the backend are kept".into(),
            _ => "GOMAXPROCS as many as CPUs".into(),
        },
    }
}
