//! An example for every key that works: `docs/config.md` shows them beneath the tables that they are for,
//! and `tests/it/examples.rs` serves each of them and looks at its effect.

/// A whole config that shows some keys.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// The table that it stands beneath in the documentation, as in `keys`.
    pub table: &'static str,
    /// One line about it.
    pub title: &'static str,
    /// The config. Its files lie beneath `/srv`, `/etc/scalws` and `/var/log/scalws`.
    pub toml: &'static str,
    /// Files that it needs.
    pub files: &'static [&'static str],
    /// Variables that it needs, with values.
    pub variables: &'static [(&'static str, &'static str)],
}

const fn example(table: &'static str, title: &'static str, toml: &'static str) -> Example {
    Example { table, title, toml, files: &[], variables: &[] }
}

/// All of them, in the order of the documentation.
pub const ALL: &[Example] = &[
    example(
        "server",
        "Two addresses, two workers, and time for a load balancer to notice the end",
        r#"[server]
listen = ["0.0.0.0:8080", "127.0.0.1:8082"]
admin = "127.0.0.1:8081"
workers = 2
drain = { delay = "5s", timeout = "20s" }
"#,
    ),
    example(
        "server.drain",
        "Nobody has to notice first, and who is not done after two seconds is cut",
        r#"[server.drain]
delay = "0s"
timeout = "2s"
"#,
    ),
    Example {
        files: &[
            "/etc/scalws/tls.crt",
            "/etc/scalws/tls.key",
            "/etc/scalws/other.crt",
            "/etc/scalws/other.key",
        ],
        ..example(
            "tls",
            "Two certificates, and no patience with who stalls in a handshake",
            r#"[tls]
listen = ["127.0.0.1:8443"]
certificate = "/etc/scalws/tls.crt"
key = "/etc/scalws/tls.key"

[[tls.certificates]]
certificate = "/etc/scalws/other.crt"
key = "/etc/scalws/other.key"

[limits]
handshake_timeout = "2s"
idle_timeout = "2s"
"#,
        )
    },
    Example {
        files: &["/etc/scalws/tls.crt", "/etc/scalws/tls.key"],
        ..example(
            "tls.certificates",
            "HTTPS alone, and a name with a certificate of its own beside the one for development",
            r#"[server]
listen = []
admin = "127.0.0.1:8081"

[tls]
listen = ["127.0.0.1:8443"]
certificate = "self-signed"

[[tls.certificates]]
certificate = "/etc/scalws/tls.crt"
key = "/etc/scalws/tls.key"
"#,
        )
    },
    example(
        "log",
        "Lines as Apache and nginx write them",
        r#"[log]
access = "combined"
"#,
    ),
    example(
        "log.access",
        "JSON lines in a file of their own",
        r#"[log.access]
format = "json"
file = "/var/log/scalws/access.log"
"#,
    ),
    example(
        "telemetry",
        "Ids for all requests, spans for the failed and the slow, and a proxy whose word counts",
        r#"[server]
listen = ["127.0.0.1:8080"]
admin = "127.0.0.1:8081"
trusted_proxies = ["127.0.0.0/8"]

[telemetry]
traces = "on"
slow = "500ms"
errors = true
request_id = true
"#,
    ),
    example(
        "limits",
        "Small requests",
        r#"[limits]
head_size = "8KiB"
target_size = "1KiB"
fields = 50
body_size = "64KiB"
chunk_extension_size = "256B"
linger_size = "1MiB"
linger_timeout = "2m"
"#,
    ),
    example(
        "limits",
        "Short patience",
        r#"[limits]
head_timeout = "1s"
idle_timeout = "2s"
body_timeout = "1s"
write_timeout = "1s"
wait_timeout = "1s"
linger_timeout = "1s"
"#,
    ),
    example(
        "limits",
        "A small container",
        r#"[limits]
connections = 50
offload_threads = 4
offload_queue = 16
compressed_size = "1MiB"
open_files = 64
open_files_size = "1MiB"
missing_files = 64
listing_entries = 10
send_buffer = "128KiB"
log_queue_size = "256KiB"

[[route]]
path = "/"
static = { root = "/srv", listing = true, compress = { codings = ["gzip"] } }
"#,
    ),
    Example {
        files: &["/srv/errors/404.html", "/srv/errors/sorry.html"],
        ..example(
            "error_pages",
            "Pages for what no route answers",
            r#"[error_pages]
root = "/srv/errors"
pages = { 404 = "/404.html", 5xx = "/sorry.html" }

[[route]]
exact = "/"
respond = { body = "home\n" }
"#,
        )
    },
    Example {
        files: &["/srv/www/index.html"],
        ..example(
            "route",
            "Files for one host, an answer for others, and an old place",
            r#"[[route]]
host = "www.example.com"
path = "/"
security_headers = true
headers = { Content-Security-Policy = "default-src 'self'" }
static = { root = "/srv/www" }

[[route]]
hosts = ["api.example.com", "*.api.example.com"]
exact = "/version"
methods = ["GET", "HEAD"]
cors = true
respond = { body = "1.0\n" }

[[route]]
host = "www.example.com"
path = "/blog/"
redirect = { to = "https://blog.example.com/{rest}" }
"#,
        )
    },
    example(
        "route.cors",
        "An application on another origin, with cookies",
        r#"[[route]]
path = "/api/"
respond = { json = { ok = true }, headers = { X-Request-Cost = "1" } }

[route.cors]
origins = ["https://app.example.com", "https://*.preview.example.com"]
methods = ["GET", "PUT"]
request_headers = ["Content-Type", "X-Token"]
expose_headers = ["X-Request-Cost"]
max_age = "1h"
credentials = true
"#,
    ),
    Example {
        files: &["/etc/scalws/robots.txt"],
        variables: &[("API_URL", "https://api.example.com"), ("RETRIES", "5")],
        ..example(
            "route.respond",
            "A fixed answer, one from a file, and settings of the environment for a page",
            r#"[[route]]
path = "/teapot/"
[route.respond]
status = 418
body = "<p>short and stout</p>\n"
content_type = "text/html; charset=utf-8"
headers = { Cache-Control = "no-store" }

[[route]]
exact = "/robots.txt"
respond = { body_file = "/etc/scalws/robots.txt" }

[[route]]
exact = "/config.json"
respond = { json = { api = "${env:API_URL}", retries = { env = "RETRIES", type = "integer", default = 3 } } }
"#,
        )
    },
    example(
        "route.redirect",
        "A page that moved, for ever and for now",
        r#"[[route]]
path = "/old/"
redirect = { to = "/new/{rest}", status = 301 }

[[route]]
exact = "/sale"
redirect = { to = "https://shop.example.com/summer", status = 302 }
"#,
    ),
    Example {
        files: &["/srv/page.htm", "/srv/about.html", "/srv/docs/home.htm", "/srv/app.js", "/srv/app.js.gz"],
        ..example(
            "route.static",
            "Pages without their ending, lists of directories, no links and no look for sidecars",
            r#"[[route]]
path = "/"
[route.static]
root = "/srv"
symlinks = "none"
index = ["index.html", "home.htm"]
listing = true
clean_urls = true
precompressed = false
compress = true
revalidate = "5s"
"#,
        )
    },
    Example {
        files: &["/srv/index.html", "/srv/assets/app.js", "/srv/404.html"],
        ..example(
            "route.static",
            "A single-page application",
            r#"[[route]]
path = "/"
[route.static]
root = "/srv"
spa = "/index.html"
spa_exclude = ["/api/"]
error_pages = { 404 = "/404.html" }
cache_control = [
    { glob = "assets/**", value = "public, max-age=31536000, immutable" },
    { glob = "*.html", value = "no-cache" },
]
headers = [{ glob = "assets/**", headers = { Cross-Origin-Resource-Policy = "cross-origin" } }]
"#,
        )
    },
    example(
        "route.static.compress",
        "Smaller files for more time, of two kinds only",
        r#"[[route]]
path = "/"
[route.static]
root = "/srv"
[route.static.compress]
codings = ["br", "zstd", "gzip"]
br_level = 9
zstd_level = 19
gzip_level = 9
min_size = "2KiB"
max_size = "1MiB"
types = ["text/*", "application/json"]
"#,
    ),
    example(
        "route.static.cache_control",
        "The first glob that matches wins",
        r#"[[route]]
path = "/"
[route.static]
root = "/srv"
[[route.static.cache_control]]
glob = "assets/**"
value = "public, max-age=31536000, immutable"
[[route.static.cache_control]]
glob = "*"
value = "no-cache"
"#,
    ),
    example(
        "route.static.headers",
        "All globs that match add their fields",
        r#"[[route]]
path = "/"
[route.static]
root = "/srv"
[[route.static.headers]]
glob = "downloads/**"
headers = { Content-Disposition = "attachment" }
[[route.static.headers]]
glob = "*.wasm"
headers = { Cross-Origin-Resource-Policy = "same-site" }
"#,
    ),
];

#[cfg(test)]
mod tests;
