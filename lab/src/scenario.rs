//! The matrix: one table from a scenario's name to what is served, what is asked and what has to come.
//! `bench`, `profile`, the scripts and the documents all read it.

use serde::{Deserialize, Serialize};

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Its name on the command line and in every table.
    pub name: &'static str,
    /// How it is asked.
    pub protocol: Protocol,
    /// What is asked for.
    pub target: &'static str,
    /// Further field lines of the request, each with its CRLF.
    pub fields: &'static str,
    /// Status that every answer has to have.
    pub status: u16,
    /// What its body has to be.
    pub body: Body,
    /// What of the servers has to be on or off.
    pub setup: Setup,
    /// What the row is about.
    pub what: &'static str,
}

/// How requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    /// HTTP/1.1, connections kept.
    Http1,
    /// HTTP/1.1, a connection for each request.
    Http1Fresh,
    /// HTTP/1.1 over TLS 1.3, connections kept.
    Tls,
    /// A full TLS handshake and one request for each connection.
    TlsFull,
    /// A resumed TLS handshake and one request for each connection.
    TlsResumed,
    /// HTTP/2 over TLS: connections, and streams at once on each.
    H2(u32, u32),
}

/// What a body has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// The fixture's file of that name.
    File(&'static str),
    /// Bytes `start..end` of the fixture's file.
    Part(&'static str, usize, usize),
    /// These bytes.
    Text(&'static str),
    /// Something of this coding that decodes to the fixture's file; its length is taken from the first
    /// answer and holds for all.
    Gzip(&'static str),
    /// No bytes at all (304).
    Nothing,
    /// Whatever the server says with this status; the length of the first answer holds for all.
    Any,
}

/// What is set up beside the usual: caches of open files with one second of validity, no access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setup {
    /// The usual.
    Usual,
    /// No cache of open files on any side.
    Uncached,
    /// An access log to a file on each side.
    AccessLog,
    /// Compression on the fly, gzip at level 6.
    Compress,
    /// Precompressed `.gz` beside the file.
    Sidecar,
    /// A fixed answer of the config instead of a file.
    Respond,
    /// The files lie in an image layer: containers only.
    ImageLayer,
    /// One server, asked in its own network, over Docker's bridge and through a published port: containers
    /// only.
    Network,
    /// The request goes on to the lab's own backend.
    Proxy,
    /// The page cache is emptied of the file again and again while the load runs.
    Cold,
}

impl Protocol {
    /// Whether it is asked over TLS.
    #[must_use]
    pub fn is_tls(self) -> bool {
        !matches!(self, Protocol::Http1 | Protocol::Http1Fresh)
    }
}

impl Setup {
    /// Why a row needs containers.
    #[must_use]
    pub fn reason_against_the_host(self) -> Option<&'static str> {
        match self {
            Setup::ImageLayer => Some("files lie in an image layer in a container only (--docker)"),
            Setup::Network => Some("there is a network of Docker's in containers only (--docker)"),
            _ => None,
        }
    }
}

/// Connections of every row that does not say otherwise.
pub const CONNECTIONS: u32 = 64;
/// The text of `respond`, the same for all servers.
pub const RESPOND_TEXT: &str = "pong\n";

const GZIP: &str = "Accept-Encoding: gzip\r\n";

const fn file(name: &'static str, target: &'static str, body: &'static str, what: &'static str) -> Scenario {
    Scenario {
        name,
        protocol: Protocol::Http1,
        target,
        fields: "",
        status: 200,
        body: Body::File(body),
        setup: Setup::Usual,
        what,
    }
}

const fn over(name: &'static str, protocol: Protocol, of: Scenario, what: &'static str) -> Scenario {
    Scenario { name, protocol, what, ..of }
}

const STATIC_1K: Scenario = file("static-1k", "/1k.bin", "1k.bin", "1,024 bytes");
const STATIC_1M: Scenario = file("static-1m", "/1m.bin", "1m.bin", "1 MiB");

/// Every scenario, in the order of the tables.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        setup: Setup::Respond,
        body: Body::Text(RESPOND_TEXT),
        ..file("respond", "/ping", "", "a fixed answer of five bytes")
    },
    file("static-small", "/small.txt", "small.txt", "47 bytes"),
    file("static-484", "/484.css", "484.css", "484 bytes"),
    file("static-index", "/docs/", "docs/index.html", "the index of a directory, 1,609 bytes"),
    STATIC_1K,
    file("static-10k", "/10k.bin", "10k.bin", "10 KiB"),
    file("static-14k", "/14k.svg", "14k.svg", "14,620 bytes: the first congestion window"),
    file("static-100k", "/100k.bin", "100k.bin", "100 KiB"),
    STATIC_1M,
    file("static-1m4", "/1m4.js", "1m4.js", "1,416,501 bytes"),
    Scenario {
        status: 304,
        body: Body::Nothing,
        fields: "If-None-Match: {etag}\r\n",
        ..file("not-modified", "/1k.bin", "1k.bin", "304 by the tag of the first answer")
    },
    Scenario {
        status: 206,
        body: Body::Part("100k.bin", 50_000, 51_024),
        fields: "Range: bytes=50000-51023\r\n",
        ..file("range", "/100k.bin", "100k.bin", "1,024 bytes out of 100 KiB")
    },
    Scenario { status: 404, body: Body::Any, ..file("not-found", "/none.txt", "", "404") },
    Scenario {
        fields: GZIP,
        body: Body::Gzip("app.js"),
        setup: Setup::Sidecar,
        ..file("sidecar", "/app.js", "app.js", "app.js.gz beside 26 KiB of JavaScript")
    },
    Scenario {
        fields: GZIP,
        setup: Setup::Sidecar,
        ..file("sidecar-miss", "/1k.bin", "1k.bin", "1 KiB without the sidecar that is looked for")
    },
    Scenario {
        fields: GZIP,
        body: Body::Gzip("app.js"),
        setup: Setup::Compress,
        ..file("gzip", "/app.js", "app.js", "26 KiB of JavaScript compressed on the fly, level 6")
    },
    Scenario {
        setup: Setup::AccessLog,
        ..file("access-log", "/1k.bin", "1k.bin", "1 KiB, each request logged to a file")
    },
    over("new-connection", Protocol::Http1Fresh, STATIC_1K, "1 KiB, a connection for each request"),
    Scenario {
        setup: Setup::Uncached,
        ..file("uncached", "/1k.bin", "1k.bin", "1 KiB without a cache of open files")
    },
    Scenario {
        setup: Setup::ImageLayer,
        ..file("image-layer", "/1k.bin", "1k.bin", "1 KiB out of an image layer")
    },
    Scenario {
        setup: Setup::Network,
        ..file("docker-network", "/1k.bin", "1k.bin", "1 KiB: own network, Docker's bridge, published port")
    },
    Scenario {
        setup: Setup::Cold,
        ..file("cold", "/1m.bin", "1m.bin", "1 MiB that leaves the page cache 20 times a second")
    },
    over("tls-1k", Protocol::Tls, STATIC_1K, "1 KiB over TLS 1.3"),
    over("tls-1m", Protocol::Tls, STATIC_1M, "1 MiB over TLS 1.3"),
    over("tls-full", Protocol::TlsFull, STATIC_1K, "a full handshake for each request"),
    over("tls-resumed", Protocol::TlsResumed, STATIC_1K, "a resumed handshake for each request"),
    over("h2-64x1", Protocol::H2(64, 1), STATIC_1K, "HTTP/2, 64 connections of 1 stream"),
    over("h2-8x32", Protocol::H2(8, 32), STATIC_1K, "HTTP/2, 8 connections of 32 streams"),
    over("h2-16x4", Protocol::H2(16, 4), STATIC_1K, "HTTP/2, 16 connections of 4 streams"),
    Scenario {
        setup: Setup::Proxy,
        ..file("proxy-1k", "/1k.bin", "1k.bin", "1 KiB through a reverse proxy")
    },
];

/// The scenario of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_bodies_are_in_the_fixture() {
        for scenario in SCENARIOS {
            assert_eq!(SCENARIOS.iter().filter(|other| other.name == scenario.name).count(), 1);
            if let Body::File(name) | Body::Part(name, ..) | Body::Gzip(name) = scenario.body {
                assert!(crate::fixture::FILES.iter().any(|(file, ..)| *file == name), "{name}");
            }
            assert!(scenario.fields.is_empty() || scenario.fields.ends_with("\r\n"), "{}", scenario.name);
        }
    }
}
