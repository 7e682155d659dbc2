//! lighttpd.

use std::path::Path;

use super::recipe::{CONNECTIONS_MAX, Features, Missing, Place, Recipe, quoted};
use super::{SUITE, tool};
use crate::scenario::Setup;

/// The most that its 16 bits hold; then it closes the connection.
const KEEP_ALIVE_REQUESTS_MAX: u32 = 65_535;
const MODULES: [&str; 3] = ["/usr/lib/lighttpd", "/usr/lib64/lighttpd", "/usr/local/lib/lighttpd"];

pub(super) fn recipe(place: &Place<'_>) -> Result<Recipe, Missing> {
    let Some(program) = tool::find("lighttpd") else {
        return Missing::lacks("lighttpd is not installed: apt-get install lighttpd");
    };
    match place.setup() {
        Setup::Respond => return Missing::lacks("no fixed answers without a script (mod_magnet)"),
        Setup::Sidecar => return Missing::lacks("no sidecars"),
        Setup::Compress => module("mod_deflate")?,
        _ => {}
    }
    if place.certificate.is_some() {
        module("mod_openssl")?;
    }
    let config_file = place.file("lighttpd.conf");
    Ok(Recipe {
        program,
        arguments: vec!["-D".into(), "-f".into(), config_file.clone().into()],
        config: config(place)?,
        config_file: Some(config_file),
        environment: Vec::new(),
        version: Some("-v"),
        features: features(place),
    })
}

/// Debian has some of them in packages of their own.
fn module(name: &str) -> Result<(), Missing> {
    let file = format!("{name}.so");
    if MODULES.iter().any(|place| Path::new(place).join(&file).exists()) {
        return Ok(());
    }
    let package = name.replace('_', "-");
    Missing::lacks(format!("lighttpd has no {name}: apt-get install lighttpd-{package}"))
}

fn config(place: &Place<'_>) -> Result<String, Missing> {
    let mut modules = Vec::new();
    let mut more = String::new();
    if let Some(file) = place.access_log() {
        modules.push("\"mod_accesslog\"");
        let format = r#""%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"""#;
        more += &format!("accesslog.filename = {}\naccesslog.format = {format}\n", quoted(&file)?);
    }
    if place.setup() == Setup::Compress {
        modules.push("\"mod_deflate\"");
        more += "deflate.mimetypes = (\"text/javascript\")\ndeflate.allowed-encodings = (\"gzip\")\n\
                 deflate.compression-level = 6\n";
    }
    if let Some(certificate) = &place.certificate {
        modules.push("\"mod_openssl\"");
        let (pem, key) = (quoted(&certificate.certificate)?, quoted(&certificate.key)?);
        more += &format!(
            "ssl.engine = \"enable\"\nssl.pemfile = {pem}\nssl.privkey = {key}\n\
             ssl.openssl.ssl-conf-cmd = (\"MinProtocol\" => \"TLSv1.3\", \"Ciphersuites\" => \"{SUITE}\")\n"
        );
    }
    if let Some(backend) = place.backend()? {
        modules.push("\"mod_proxy\"");
        let (host, port) = (backend.ip(), backend.port());
        more += &format!("proxy.server = (\"\" => ((\"host\" => \"{host}\", \"port\" => {port})))\n");
    }
    Ok(format!(
        "server.bind = \"127.0.0.1\"
server.port = {port}
server.modules = ({modules})
server.document-root = {root}
server.upload-dirs = ({directory})
server.max-worker = {workers}
server.max-keep-alive-requests = {KEEP_ALIVE_REQUESTS_MAX}
server.max-keep-alive-idle = 60
server.max-connections = {CONNECTIONS_MAX}
server.max-fds = {descriptors}
server.network-backend = \"sendfile\"
server.stat-cache-engine = \"{cache}\"
server.feature-flags = (\"server.h2proto\" => \"{h2}\")
index-file.names = (\"index.html\")
mimetype.assign = (\".html\" => \"text/html\", \".css\" => \"text/css\", \".txt\" => \"text/plain\",
    \".js\" => \"text/javascript\", \".svg\" => \"image/svg+xml\", \"\" => \"application/octet-stream\")
{more}",
        port = place.port,
        modules = modules.join(", "),
        root = quoted(&place.root)?,
        directory = quoted(&place.directory)?,
        // 0: the one process serves; with workers there is a parent that only watches them.
        workers = if place.workers() > 1 { place.workers() } else { 0 },
        descriptors = 2 * CONNECTIONS_MAX,
        cache = if place.setup() == Setup::Uncached { "disable" } else { "simple" },
        h2 = if place.is_h2() { "enable" } else { "disable" },
    ))
}

fn features(place: &Place<'_>) -> Features {
    Features {
        cache: match place.setup() {
            // Seen in its system calls: no open, as it has no setting for that.
            Setup::Uncached => "a stat on every request; open files are kept all the same".into(),
            _ => "stat and open files, valid 1 s".into(),
        },
        send: match place.certificate {
            Some(_) => "read and encrypted in the process".into(),
            None => "sendfile; small files read and sent with the head".into(),
        },
        log: match place.setup() {
            Setup::AccessLog => "combined, to a file, in batches of about a second".into(),
            _ => "off".into(),
        },
        keep_alive: format!("{KEEP_ALIVE_REQUESTS_MAX} requests (its most), 60 s idle"),
        compression: match place.setup() {
            Setup::Compress => "gzip 6, on every request".into(),
            _ => "off".into(),
        },
        tls: place.certificate.as_ref().map_or_else(String::new, |_| format!("1.3, {SUITE}, P-256, tickets")),
        notes: match place.setup() {
            Setup::Proxy => "a new connection to the backend for each request".into(),
            _ => String::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_that_is_not_there_is_named_with_its_package() {
        let Err(Missing::Lacks(reason)) = module("mod_nothing") else { panic!("there is none") };
        assert_eq!(reason, "lighttpd has no mod_nothing: apt-get install lighttpd-mod-nothing");
    }
}
