//! HTTPS against curl, openssl and a client of rustls: versions, names, sessions, and the same bytes as without.

mod files;
mod handshakes;
mod material;
mod rotation;

use std::process::{Command, Output, Stdio};

use rustls::version::{TLS12, TLS13};
use rustls::{ALL_VERSIONS, HandshakeKind};

use crate::support::secure::{Authority, Ended, Secure, Secured, start, table};
use crate::support::{Launch, Scrape, Server, Site, assert_same, has_program, noise, until};

/// The program's output with these arguments; `None` where it is not installed.
fn ran(program: &str, arguments: &[&str]) -> Option<Output> {
    has_program(program).then(|| {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).output().unwrap()
    })
}

/// curl trusts the authority, speaks both versions, and gets every byte; where it asks for HTTP/2 too it gets
/// HTTP/1.1, and is told by ALPN.
#[test]
fn curl_gets_every_byte_over_both_versions() {
    let site = Site::sample();
    let content = noise(1, 20_000_003);
    site.file("big", &content);
    let secured = Secured::of(&site, "workers = 2", "");
    let authority = site.beside("authority.pem", secured.authority.pem().as_bytes());
    let out = site.directory().join("out");
    let port = secured.address.port();
    for (version, arguments) in [("1.2", ["--tls-max", "1.2"]), ("1.3", ["--tlsv1.3", "--http2"])] {
        let url = format!("https://localhost:{port}/big");
        let resolve = format!("localhost:{port}:127.0.0.1");
        let mut all = vec!["-sS", "--cacert", authority.to_str().unwrap(), "--resolve", &resolve];
        all.extend(arguments);
        let wanted = "%{http_code} %{http_version} %{ssl_verify_result}";
        all.extend(["-o", out.to_str().unwrap(), "-w", wanted, &url]);
        let Some(output) = ran("curl", &all) else { skip!("curl is not installed") };
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert_eq!(said, "200 1.1 0", "{version}");
        assert_same(&std::fs::read(&out).unwrap(), &content, version);
    }
}

/// Exact before wildcard, the first for all others, by the certificates themselves. A client that asks for no
/// name, as openssl can, gets the first too.
#[test]
fn certificates_are_chosen_by_name() {
    let site = Site::sample();
    let authority = Authority::new();
    let made = [&["localhost", "one.example.com"][..], &["*.example.com"], &["two.example.com"]];
    let made = made.map(|names| authority.sign(names, |_| {}));
    let mut tables = String::new();
    for (number, made) in made.iter().enumerate() {
        let (certificate, key) = made.write(&site, &format!("tls{number}"));
        tables += &match number {
            0 => table(&certificate, &key),
            _ => format!(
                "[[tls.certificates]]\ncertificate = '{}'\nkey = '{}'\n",
                certificate.display(),
                key.display()
            ),
        };
    }
    let (_server, address) = start(Launch::new(&site, "", &format!("{tables}{}", Server::RESPOND)));
    let config = authority.client(ALL_VERSIONS);
    for (name, number) in
        [("localhost", 0), ("one.example.com", 0), ("two.example.com", 2), ("x.example.com", 1)]
    {
        let stream = std::net::TcpStream::connect(address).unwrap();
        let mut client = Secure::on(stream, &config, name);
        assert_eq!(client.get("/healthz").status, 200);
        assert!(client.certificate() == made[number].der, "{name}");
    }
    let connect = address.to_string();
    for name in [&["-noservername"][..], &["-servername", "nobody.test"]] {
        let arguments = [&["s_client", "-showcerts", "-connect", &connect], name].concat();
        let Some(output) = ran("openssl", &arguments) else { skip!("openssl is not installed") };
        let said = String::from_utf8_lossy(&output.stdout).replace(['\n', '\r'], "");
        let first = made[0].chain.split("-----END").next().unwrap().replace('\n', "");
        assert!(said.contains(&first), "{name:?}: {said}");
    }
}

/// Asks eight times, each time on a connection of its own; how the handshakes went.
fn kinds(secured: &Secured, config: &std::sync::Arc<rustls::ClientConfig>) -> Vec<HandshakeKind> {
    let ask = |_| {
        let mut client = Secure::connect(secured.address, config);
        assert_eq!(client.get("/x.txt").text(), "x marks the spot\n");
        client.kind()
    };
    (0..8).map(ask).collect()
}

/// Four workers, one key for tickets: a session goes on with whichever worker comes next. A key for each worker
/// would make three of four sessions full handshakes.
#[test]
fn sessions_go_on_with_any_worker() {
    let site = Site::sample();
    let secured = Secured::of(&site, "workers = 4", "");
    for (versions, label) in [(&[&TLS12], "1.2"), (&[&TLS13], "1.3")] {
        let kinds = kinds(&secured, &secured.authority.client(versions));
        assert_eq!(kinds[0], HandshakeKind::Full, "{label}");
        assert!(kinds[1..].iter().all(|kind| *kind == HandshakeKind::Resumed), "{label}: {kinds:?}");
        let page = Scrape::of(&secured.server);
        let count = |session: &str| {
            page.count(&format!("scalws_tls_handshakes_total{{version=\"{label}\",session=\"{session}\"}}"))
        };
        assert_eq!((count("full"), count("resumed")), (1, 7));
    }
    let connect = secured.address.to_string();
    let arguments = ["s_client", "-connect", &connect, "-reconnect", "-tls1_2"];
    let Some(output) = ran("openssl", &arguments) else { skip!("openssl is not installed") };
    let said = String::from_utf8_lossy(&output.stdout);
    let count = |what: &str| said.lines().filter(|line| line.starts_with(what)).count();
    assert_eq!((count("New, TLSv1.2"), count("Reused, TLSv1.2")), (1, 5), "{said}");
}

/// Requests in one record, in many, and a byte a record: the engine sees one stream.
#[test]
fn records_are_no_messages() {
    let site = Site::sample();
    let secured = Secured::of(&site, "workers = 1", "");
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut client = secured.client();
    client.send(["/x.txt", "/y.txt", "/healthz"].map(get).concat());
    let expected = ["x marks the spot\n", "why\n", "ok\n"];
    assert_eq!([(); 3].map(|()| client.response().text()), expected);
    for byte in ["/x.txt", "/y.txt", "/healthz"].map(get).concat().bytes() {
        client.send([byte]);
    }
    assert_eq!([(); 3].map(|()| client.response().text()), expected);
    client.send("POST /r/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000\r\n\r\n");
    client.send(vec![b'a'; 300_000]);
    assert_eq!(client.response().status, 200);
}

/// Who is told that nothing follows knows that he has it all: after an answer with `Connection: close`, after the
/// idle time, and after his own word.
#[test]
fn an_end_is_told() {
    let site = Site::sample();
    let secured = Secured::of(&site, "", "[limits]\nidle_timeout = \"1s\"\nhead_timeout = \"1s\"\n");
    let mut client = secured.client();
    client.send("GET /x.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(client.response().status, 200);
    assert_eq!(client.rest(), (vec![], Ended::Told));
    let mut idle = secured.client();
    assert_eq!(idle.get("/x.txt").status, 200);
    assert_eq!(idle.rest(), (vec![], Ended::Told));
    let mut done = secured.client();
    assert_eq!(done.get("/x.txt").status, 200);
    done.stream.conn.send_close_notify();
    done.stream.conn.write_tls(&mut done.stream.sock).unwrap();
    assert_eq!(done.rest(), (vec![], Ended::Told));
    let how = |how: &str| format!("scalws_connections_ended_total{{how=\"{how}\"}}");
    for (word, count) in [("answered", 1), ("idle_timeout", 1), ("client", 1)] {
        until(word, || Scrape::of(&secured.server).count(&how(word)) == count);
    }
}

/// For development: made at the start, and nobody can miss it.
#[test]
fn a_self_signed_certificate_is_said_loudly() {
    let site = Site::sample();
    let tls = "[tls]\nlisten = [\"127.0.0.1:0\"]\ncertificate = \"self-signed\"\n";
    let (server, address) = start(Launch::new(&site, "", &format!("{tls}{}", site.route())));
    let line = server.errors.containing("\"event\":\"self-signed certificate\"");
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["level"], "warn");
    let url = format!("https://{address}/x.txt");
    let Some(output) = ran("curl", &["-sSk", &url]) else { skip!("curl is not installed") };
    assert_eq!(output.stdout, b"x marks the spot\n");
    let output = ran("curl", &["-sS", &url]).unwrap();
    assert_eq!(output.status.code(), Some(60), "nobody trusts it");
}
