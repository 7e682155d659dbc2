//! What the image is: small, without a shell, labelled, and nobody's root.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Container, Folder, docker, image, say};

const BYTES_MAX: u64 = 15_000_000;

fn inspected() -> Value {
    let all: Value = serde_json::from_str(&docker(&["image", "inspect", image()])).unwrap();
    all[0].clone()
}

#[test]
fn is_small() {
    needs_docker!();
    let bytes = inspected()["Size"].as_u64().unwrap();
    say(&format!("the image has {bytes} bytes"));
    assert!(bytes < BYTES_MAX, "{bytes}");
}

#[test]
fn runs_as_a_number_and_asks_itself_for_its_health() {
    needs_docker!();
    let config = inspected()["Config"].clone();
    assert_eq!(config["User"], "65532:65532");
    assert_eq!(config["Entrypoint"], json!(["/usr/local/bin/scalws"]));
    assert_eq!(config["Cmd"], json!(["serve"]));
    assert_eq!(config["Healthcheck"]["Test"], json!(["CMD", "/usr/local/bin/scalws", "healthcheck"]));
    assert_eq!(config["ExposedPorts"], json!({ "8080/tcp": {} }));
    // Compose keeps anonymous volumes across a recreate: yesterday's site would be served.
    assert!(config["Volumes"].is_null(), "{}", config["Volumes"]);
}

#[test]
fn is_labelled() {
    needs_docker!();
    let labels = inspected()["Config"]["Labels"].clone();
    let label = |name: &str| labels[format!("org.opencontainers.image.{name}")].clone();
    assert_eq!(label("title"), "scalws");
    assert_eq!(label("version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(label("licenses"), env!("CARGO_PKG_LICENSE"));
    assert_eq!(label("description"), env!("CARGO_PKG_DESCRIPTION"));
    for name in ["revision", "source"] {
        assert!(label(name).as_str().is_some_and(|value| !value.is_empty()), "{name}: {labels}");
    }
}

#[test]
fn holds_the_server_and_the_ca_bundle_and_nothing_else() {
    needs_docker!();
    let container = Container::created();
    let mut export =
        Command::new("docker").args(["export", container.name()]).stdout(Stdio::piped()).spawn().unwrap();
    let archive = export.stdout.take().unwrap();
    let listing = Command::new("tar").arg("--list").stdin(archive).output().unwrap();
    assert!(export.wait().unwrap().success() && listing.status.success());
    let names = String::from_utf8(listing.stdout).unwrap();
    // The engine's own mount points stand in every export.
    let engines = [".dockerenv", "dev/console", "etc/hostname", "etc/hosts", "etc/mtab", "etc/resolv.conf"];
    let ours: Vec<_> = names.lines().filter(|name| !name.ends_with('/') && !engines.contains(name)).collect();
    assert_eq!(ours, ["etc/ssl/certs/ca-certificates.crt", "usr/local/bin/scalws"]);
}

#[test]
fn the_binary_tells_nothing_of_where_it_was_built() {
    needs_docker!();
    let container = Container::created();
    let folder = Folder::new();
    let copy = folder.path().join("scalws");
    container.copy_out("/usr/local/bin/scalws", &copy);
    let binary = std::fs::read(copy).unwrap();
    for path in ["/usr/local/cargo", "/build/src", "/registry/src/"] {
        let found = binary.windows(path.len()).position(|window| window == path.as_bytes());
        let around =
            found.map(|at| String::from_utf8_lossy(&binary[at..(at + 80).min(binary.len())]).into_owned());
        assert_eq!(around, None, "{path}");
    }
    let certificates = folder.path().join("ca.crt");
    container.copy_out("/etc/ssl/certs/ca-certificates.crt", &certificates);
    assert!(std::fs::read_to_string(certificates).unwrap().contains("BEGIN CERTIFICATE"));
}

#[test]
fn says_its_version() {
    needs_docker!();
    let end = Container::start(&["--network", "none"], &["--version"]).finished();
    assert_eq!(end.code, 0);
    assert!(end.output.contains(env!("CARGO_PKG_VERSION")), "{end:?}");
}
