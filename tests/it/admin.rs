//! The admin door: `/livez`, `/readyz`, and the health check that knocks there.

use std::process::Command;

use rustix::process::Signal;

use crate::support::{Client, Launch, Server, Site, run_with, until};

#[test]
fn alive_and_ready() {
    let site = Site::sample();
    let server = Server::of(&site);
    let mut client = Client::connect(server.admin.unwrap());
    for _ in 0..2 {
        for target in ["/livez", "/readyz", "/livez?verbose"] {
            client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
            let Some(answer) = client.next(false) else { panic!("closed instead of {target}") };
            assert_eq!(answer.status, 200, "{target}");
            if answer.closes() {
                client = Client::connect(server.admin.unwrap());
            }
        }
    }
    assert_eq!(server.admin_get("/").status, 404);
    assert_eq!(server.admin_get("/x.txt").status, 404, "the site is not behind this door");
    assert_eq!(server.get("/livez").status, 404, "and this door is not on the site");
}

/// A stranger that holds the admin port open must not make the orchestrator kill the server.
#[test]
fn silent_clients_do_not_block_the_probe() {
    let site = Site::sample();
    let server = Server::of(&site);
    let silent: Vec<_> = (0..50).map(|_| Client::connect(server.admin.unwrap())).collect();
    let mut half = Client::connect(server.admin.unwrap());
    half.send("GET /livez HTTP/1.1\r\nHost");
    for _ in 0..20 {
        assert_eq!(server.admin_get("/livez").status, 200);
    }
    drop(silent);
}

#[test]
fn bad_bytes_are_refused_at_the_admin_port_too() {
    let site = Site::sample();
    let server = Server::of(&site);
    let mut client = Client::connect(server.admin.unwrap());
    client.send(crate::support::noise(1, 4096));
    let heard = client.rest();
    assert!(heard.is_empty() || heard.starts_with(b"HTTP/1.1 4"), "{:?}", String::from_utf8_lossy(&heard));
    assert_eq!(server.admin_get("/livez").status, 200);
}

fn healthcheck(config: &std::path::Path) -> Option<i32> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scalws"));
    command.args(["healthcheck", "--config"]).arg(config);
    run_with(command).code
}

/// A port that nobody listens on right now. Another process may take it before the server does, so
/// only the tests that cannot do with port 0 use it.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The health check asks the very server that the config describes: through the admin port, or
/// through a listener where that is off. Nobody there, or a drain, is a failure.
#[test]
fn the_health_check_says_what_the_probe_says() {
    for with_admin in [true, false] {
        let site = Site::sample();
        let (admin, listen) = (free_port(), free_port());
        let admin = if with_admin { format!("127.0.0.1:{admin}") } else { "off".to_owned() };
        let config = site.config(&format!(
            "[server]\nlisten = [\"127.0.0.1:{listen}\"]\nadmin = \"{admin}\"\n\
             drain = {{ delay = \"600s\" }}\n{}",
            site.route()
        ));
        assert_eq!(healthcheck(&config), Some(1), "nobody is there");
        let server = Launch::with_config(&config, with_admin).start();
        assert_eq!(healthcheck(&config), Some(0), "admin = {admin}");
        server.signal(Signal::TERM);
        if with_admin {
            until("readiness to fail", || healthcheck(&config) == Some(1));
        }
        drop(server);
        assert_eq!(healthcheck(&config), Some(1), "nobody is there any more");
    }
}
