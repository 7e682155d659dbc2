//! h2o.

use super::recipe::{CONNECTIONS_MAX, Features, Missing, Place, Recipe, quoted};
use super::tool;
use crate::scenario::{RESPOND_TEXT, Setup};

pub(super) fn recipe(place: &Place<'_>) -> Result<Recipe, Missing> {
    let Some(program) = tool::find("h2o") else {
        return Missing::lacks("h2o is not installed: apt-get install h2o");
    };
    if place.setup() == Setup::Respond && !tool::says(&program, &["-v"]).contains("mruby: YES") {
        return Missing::lacks("no fixed answers: this h2o is built without mruby");
    }
    let config_file = place.file("h2o.conf");
    Ok(Recipe {
        program,
        arguments: vec!["-m".into(), "worker".into(), "-c".into(), config_file.clone().into()],
        config: config(place)?,
        config_file: Some(config_file),
        environment: Vec::new(),
        version: Some("-v"),
        features: features(place),
    })
}

fn config(place: &Place<'_>) -> Result<String, Missing> {
    let mut config = format!(
        "num-threads: {workers}
max-connections: {CONNECTIONS_MAX}
http1-request-timeout: 60
pid-file: {pid}
",
        workers = place.workers(),
        pid = quoted(&place.file("h2o.pid"))?,
    );
    if rustix::process::geteuid().is_root() {
        config += "user: root\n"; // else it becomes nobody, who may not read the lab's files
    }
    config += &format!("listen:\n  host: 127.0.0.1\n  port: {}\n", place.port);
    if let Some(certificate) = &place.certificate {
        config += &format!(
            "  ssl:\n    certificate-file: {}\n    key-file: {}\n    neverbleed: OFF\n",
            quoted(&certificate.certificate)?,
            quoted(&certificate.key)?
        );
    }
    if let Some(file) = place.access_log() {
        config += &format!("access-log: {}\n", quoted(&file)?);
    }
    match place.setup() {
        Setup::Compress => config += "compress:\n  gzip: 6\n",
        Setup::Sidecar => config += "file.send-compressed: ON\n",
        _ => {}
    }
    config += "file.index: [index.html]\nhosts:\n  default:\n    paths:\n";
    if place.setup() == Setup::Respond {
        config += &format!(
            "      /ping:\n        mruby.handler: |\n          proc {{|env| [200, \
             {{\"content-type\" => \"text/plain; charset=utf-8\"}}, [{RESPOND_TEXT:?}]]}}\n"
        );
    }
    config += &match place.backend()? {
        Some(backend) => format!(
            "      /:\n        proxy.reverse.url: \"http://{backend}/\"\n        proxy.timeout.keepalive: 60000\n"
        ),
        None => format!("      /:\n        file.dir: {}\n", quoted(&place.root)?),
    };
    Ok(config)
}

fn features(place: &Place<'_>) -> Features {
    Features {
        cache: "open files within one turn of its loop; no setting".into(),
        send: match place.certificate {
            Some(_) => "read and encrypted in the process".into(),
            None => "read and written; no sendfile".into(),
        },
        log: match place.setup() {
            Setup::AccessLog => "combined, to a file, a write for each request".into(),
            _ => "off".into(),
        },
        keep_alive: "any number of requests, 60 s idle".into(),
        compression: match place.setup() {
            Setup::Compress => "gzip 6, on every request".into(),
            Setup::Sidecar => "file.send-compressed".into(),
            _ => "off".into(),
        },
        tls: match place.certificate {
            Some(_) => "its own versions and ciphers, those of OpenSSL; P-256; neverbleed off".into(),
            None => String::new(),
        },
        notes: match place.setup() {
            Setup::Respond => "the answer comes from mruby, as it has no fixed ones".into(),
            Setup::Proxy => "connections to the backend are kept".into(),
            _ => String::new(),
        },
    }
}
