//! Where and how it starts in a container (case H02), and what it says when it cannot.

use std::net::TcpListener;

use crate::support::{Container, Folder, get, say};

#[test]
fn runs_hardened_on_8080() {
    needs_docker!();
    let site = Folder::site();
    let container = Container::start(&["--volume", &site.mounted_at("/srv")], &[]);
    assert_eq!(container.ready("/").body, b"<p>home</p>\n");
    // Measured by the process itself. The first 200 waits for the test's first request, too.
    for event in ["ready", "first 200"] {
        let after = container.event(event)["since_exec_ms"].clone();
        assert!(after.is_number(), "{event}: {after}");
        say(&format!("{event} {after} ms after exec"));
    }
}

#[test]
fn a_privileged_port_is_one_clear_line() {
    needs_docker!();
    let site = Folder::site();
    let volume = site.mounted_at("/srv");
    // Engines open all ports to everyone in the container's network: back to the kernel's own rule.
    let options = ["--volume", &volume, "--sysctl", "net.ipv4.ip_unprivileged_port_start=1024"];
    let end = Container::start(&options, &["serve", "/srv", "--listen", "0.0.0.0:80"]).finished();
    assert_eq!(end.code, 1, "{:?}", end.errors);
    let line = end.complaint();
    assert!(line.contains("0.0.0.0:80"), "{line}");
    say(line);
}

#[test]
fn a_taken_port_is_one_clear_line() {
    needs_docker!();
    let site = Folder::site();
    let volume = site.mounted_at("/srv");
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap().to_string();
    let options = ["--network", "host", "--volume", &volume, "--env", "SCALWS_SERVER__ADMIN=off"];
    let end = Container::start(&options, &["serve", "/srv", "--listen", &address]).finished();
    assert_eq!(end.code, 1, "{:?}", end.errors);
    let line = end.complaint();
    assert!(line.contains(&address), "{line}");
    say(line);
}

#[test]
fn works_where_ipv6_is_off() {
    needs_docker!();
    let site = Folder::site();
    let volume = site.mounted_at("/srv");
    let options = ["--volume", &volume, "--sysctl", "net.ipv6.conf.all.disable_ipv6=1"];
    let container = Container::start(&options, &[]);
    assert_eq!(container.ready("/").status, 200);
}

#[test]
fn a_forgotten_mount_is_one_clear_line() {
    needs_docker!();
    let end = Container::start(&[], &[]).finished();
    assert_ne!(end.code, 0);
    let line = end.complaint();
    assert!(line.contains("/srv"), "{line}");
    say(line);
}

#[test]
fn reads_the_mounted_config() {
    needs_docker!();
    let site = Folder::site();
    let config = Folder::new();
    config.file(
        "scalws.toml",
        b"[[route]]\npath = \"/\"\nstatic = { root = \"/srv\" }\n\
          [[route]]\nexact = \"/version\"\nrespond = { status = 200, body = \"1.0\\n\" }\n",
    );
    let volumes = [site.mounted_at("/srv"), config.mounted_at("/etc/scalws")];
    let container = Container::start(&["--volume", &volumes[0], "--volume", &volumes[1]], &[]);
    assert_eq!(container.ready("/version").body, b"1.0\n");
    assert_eq!(get(container.address(8080), "/").unwrap().body, b"<p>home</p>\n");
}

#[test]
fn a_bad_config_names_every_mistake() {
    needs_docker!();
    let config = Folder::new();
    config.file("scalws.toml", b"[server]\nlisen = [\"[::]:8080\"]\nworkers = \"many\"\n[log]\naccess = 7\n");
    let end = Container::start(&["--volume", &config.mounted_at("/etc/scalws")], &[]).finished();
    assert_eq!(end.code, 78, "{:?}", end.errors);
    let lines: Vec<_> = end.errors.iter().filter_map(|line| located(line)).collect();
    assert_eq!(lines, [2, 3, 5], "{:?}", end.errors);
    assert!(
        end.errors.iter().any(|line| line.contains("listen") && line.contains("lisen")),
        "{:?}",
        end.errors
    );
}

/// The line number of `/etc/scalws/scalws.toml:LINE:COLUMN: …`.
fn located(line: &str) -> Option<u32> {
    let mut parts = line.strip_prefix("/etc/scalws/scalws.toml:")?.splitn(3, ':');
    let (at_line, at_column) = (parts.next()?.parse().ok()?, parts.next()?.parse::<u32>().ok()?);
    (at_column > 0 && parts.next()?.starts_with(' ')).then_some(at_line)
}
