//! `docker compose up scalws` as the README shows it: healthy, hardened, and the page keeps its word.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::json;

use crate::support::{Project, get, request};

fn page() -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("site/index.html")).unwrap()
}

#[test]
fn up_is_healthy_and_serves_the_sample_site() {
    needs_docker!();
    let project = Project::up();
    let running = project.inspect();
    assert_eq!(running["State"]["Health"]["Status"], "healthy");
    is_hardened(&running["HostConfig"]);

    let address = project.published();
    let answer = get(address, "/").unwrap();
    assert_eq!((answer.status, answer.body == page()), (200, true), "{}", answer.head);
    every_local_link_works(address);
    the_page_keeps_its_word(address);
    assert!(!project.can_exec(&["sh", "-c", "true"]), "there must be no shell");
    assert!(project.can_exec(&["/usr/local/bin/scalws", "healthcheck"]));

    project.compose(&["stop", "scalws"]);
    let all = project.compose(&["ps", "--all", "--format", "json", "scalws"]);
    assert!(all.contains("\"ExitCode\":0"), "{all}");
}

fn is_hardened(host: &serde_json::Value) {
    assert_eq!(host["ReadonlyRootfs"], true);
    assert_eq!(host["CapDrop"], json!(["ALL"]));
    assert!(host["CapAdd"].is_null(), "{}", host["CapAdd"]);
    assert!(host["SecurityOpt"].to_string().contains("no-new-privileges"), "{}", host["SecurityOpt"]);
    assert_eq!(host["Privileged"], false);
}

/// Everything that the two pages link to or load is there.
fn every_local_link_works(address: SocketAddr) {
    let mut seen = 0;
    for from in ["/", "/docs/"] {
        let html = String::from_utf8(get(address, from).unwrap().body).unwrap();
        for attribute in ["href=\"", "src=\""] {
            for rest in html.split(attribute).skip(1) {
                let target = rest.split('"').next().unwrap();
                if target.starts_with('/') {
                    assert_eq!(get(address, target).map(|answer| answer.status), Some(200), "{target}");
                    seen += 1;
                }
            }
        }
    }
    assert!(seen >= 10, "only {seen} links found: has the page changed its form?");
}

/// The commands under "Try it", as bytes.
fn the_page_keeps_its_word(address: SocketAddr) {
    let redirect = get(address, "/docs?from=here").unwrap();
    assert_eq!((redirect.status, redirect.field("location")), (308, Some("/docs/?from=here")));

    let tag = get(address, "/").unwrap().field("etag").unwrap().to_owned();
    let condition = format!("GET / HTTP/1.1\r\nHost: t\r\nIf-None-Match: {tag}\r\nConnection: close\r\n\r\n");
    let unchanged = request(address, &condition).unwrap();
    assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));

    let upwards = get(address, "/../../etc/passwd").unwrap();
    assert!(matches!(upwards.status, 400 | 404), "{}", upwards.head);

    let delete = "DELETE /style.css HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
    let refused = request(address, delete).unwrap();
    assert_eq!(refused.status, 405);
    assert!(refused.field("allow").is_some_and(|methods| methods.contains("GET")), "{}", refused.head);

    assert_eq!(get(address, "/no/such/page").unwrap().status, 404);
}
