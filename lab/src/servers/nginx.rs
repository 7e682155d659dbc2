//! nginx: the usual one for files, one without its cache, one with our socket buffer.

use super::recipe::{CONNECTIONS_MAX, Features, KEEP_ALIVE_REQUESTS_MAX, Missing, Place, Recipe, quoted};
use super::{SUITE, tool};
use crate::Refusal;
use crate::scenario::{RESPOND_TEXT, Setup};

/// Which of the three.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Usual,
    Uncached,
    Buffer,
}

pub(super) fn recipe(place: &Place<'_>, kind: Kind) -> Result<Recipe, Missing> {
    let Some(program) = tool::find("nginx") else {
        return Err(Refusal::new("nginx is not installed: apt-get install nginx-light").into());
    };
    let config_file = place.file("nginx.conf");
    Ok(Recipe {
        program,
        arguments: vec![
            "-p".into(),
            place.directory.clone().into(),
            "-c".into(),
            config_file.clone().into(),
            "-e".into(),
            "stderr".into(),
        ],
        config: config(place, kind)?,
        config_file: Some(config_file),
        environment: Vec::new(),
        version: Some("-v"),
        features: features(place, kind),
    })
}

fn is_cached(place: &Place<'_>, kind: Kind) -> bool {
    kind != Kind::Uncached && place.setup() != Setup::Uncached
}

fn config(place: &Place<'_>, kind: Kind) -> Result<String, Missing> {
    Ok(format!(
        "daemon off;
{user}worker_processes {workers};
error_log stderr error;
pid {pid};
events {{ worker_connections {CONNECTIONS_MAX}; }}
http {{
    {temporary}
    types {{ text/html html; text/css css; text/plain txt; text/javascript js; image/svg+xml svg; }}
    default_type application/octet-stream;
    sendfile on;
    tcp_nopush {nopush};
    keepalive_requests {KEEP_ALIVE_REQUESTS_MAX};
    keepalive_timeout 60s;
    open_file_cache {cache};
    log_not_found off;
    access_log {access};
    {compression}
    {upstream}
    server {{
        listen 127.0.0.1:{port}{listen};
        {tls}
        location = /ping {{ default_type \"text/plain; charset=utf-8\"; return 200 {body:?}; }}
        location / {{ {answer} }}
    }}
}}
",
        // The workers are who the lab is: another user may not read its files.
        user = if rustix::process::geteuid().is_root() { "user root;\n" } else { "" },
        workers = place.workers(),
        pid = quoted(&place.file("nginx.pid"))?,
        temporary = temporary(place)?,
        nopush = if kind == Kind::Buffer { "off" } else { "on" },
        cache = match is_cached(place, kind) {
            // Misses are kept like hits: nginx at its best.
            true => "max=1000 inactive=60s; open_file_cache_valid 1s; open_file_cache_errors on",
            false => "off",
        },
        // As ScalWS batches its lines: a write for each request would be another contest.
        access = match place.access_log() {
            Some(file) => format!("{} combined buffer=32k flush=1s", quoted(&file)?),
            None => "off".to_owned(),
        },
        compression = match place.setup() {
            Setup::Compress => "gzip on; gzip_comp_level 6; gzip_types text/javascript;",
            Setup::Sidecar => "gzip_static on;",
            _ => "gzip off;",
        },
        upstream = match place.backend()? {
            Some(backend) => format!(
                "upstream lab {{ server {backend}; keepalive 128; keepalive_requests {KEEP_ALIVE_REQUESTS_MAX}; }}"
            ),
            None => String::new(),
        },
        port = place.port,
        listen = listen(place, kind),
        tls = tls(place)?,
        body = RESPOND_TEXT,
        answer = match place.backend()? {
            Some(_) => {
                "proxy_pass http://lab; proxy_http_version 1.1; proxy_set_header Connection \"\";".to_owned()
            }
            None => format!("root {}; index index.html;", quoted(&place.root)?),
        },
    ))
}

/// Directories that would else be where only root may write.
fn temporary(place: &Place<'_>) -> Result<String, Refusal> {
    let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let lines: Result<Vec<String>, Refusal> = kinds
        .iter()
        .map(|kind| Ok(format!("{kind}_temp_path {};", quoted(&place.file(&format!("{kind}.tmp")))?)))
        .collect();
    Ok(lines?.join(" "))
}

fn listen(place: &Place<'_>, kind: Kind) -> String {
    let mut listen = String::new();
    if place.certificate.is_some() {
        listen.push_str(" ssl");
    }
    if place.is_h2() {
        listen.push_str(" http2");
    }
    if kind == Kind::Buffer {
        listen.push_str(" sndbuf=128k");
    }
    // A socket for each worker, as ScalWS has them.
    if place.workers() > 1 {
        listen.push_str(" reuseport");
    }
    listen
}

fn tls(place: &Place<'_>) -> Result<String, Refusal> {
    let Some(certificate) = &place.certificate else { return Ok(String::new()) };
    Ok(format!(
        "ssl_certificate {}; ssl_certificate_key {}; ssl_protocols TLSv1.3; ssl_conf_command Ciphersuites {SUITE};",
        quoted(&certificate.certificate)?,
        quoted(&certificate.key)?
    ))
}

fn features(place: &Place<'_>, kind: Kind) -> Features {
    let nopush = if kind == Kind::Buffer { "sndbuf=128k, tcp_nopush off" } else { "tcp_nopush" };
    Features {
        cache: match is_cached(place, kind) {
            true => "open files and misses, valid 1 s".into(),
            false => "none".into(),
        },
        send: match place.certificate {
            Some(_) => "read and encrypted in the process".into(),
            None => format!("sendfile, {nopush}"),
        },
        log: match place.setup() {
            Setup::AccessLog => "combined, to a file, in batches of 32 KiB or 1 s".into(),
            _ => "off, nor misses in the error log".into(),
        },
        keep_alive: "10^9 requests, 60 s idle".into(),
        compression: match place.setup() {
            Setup::Compress => "gzip 6, on every request".into(),
            Setup::Sidecar => "gzip_static".into(),
            _ => "off".into(),
        },
        tls: place.certificate.as_ref().map_or_else(String::new, |_| format!("1.3, {SUITE}, P-256, tickets")),
        notes: match place.setup() {
            Setup::Proxy => "128 kept connections to the backend for each worker".into(),
            _ => String::new(),
        },
    }
}
