//! Start: where it may bind, and what it says about a bad config (H02, H06).

use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;

use crate::support::{Finished, Launch, Server, Site, address_of, has_program, is_root, run, run_with};

/// Exit code 1 and, beside what was done until then, one line on stderr that has every one of `parts`.
#[track_caller]
fn check_one_line(finished: &Finished, parts: &[&str]) {
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    let is_progress = |line: &&str| line.contains("\"level\":\"info\"");
    let lines: Vec<_> = finished.stderr.lines().filter(|line| !is_progress(line)).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    for part in parts {
        assert!(lines[0].contains(part), "no {part:?} in {}", lines[0]);
    }
}

/// Case H02. A taken port is one clear line, not a stack of debug output; and with SO_REUSEPORT a
/// second instance must not bind silently beside the first and take half of its connections.
#[test]
fn a_taken_port_is_one_line() {
    let site = Site::sample();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let root = site.root().to_str().unwrap().to_owned();
    let finished = run(&["serve", &root, "--listen", &address, "--admin", "off"]);
    check_one_line(&finished, &[&address]);
    let first = Server::of(&site);
    let address = first.address.to_string();
    let finished = run(&["serve", &root, "--listen", &address, "--admin", "off"]);
    check_one_line(&finished, &[&address]);
    let admin = first.admin.unwrap().to_string();
    let finished = run(&["serve", &root, "--listen", "127.0.0.1:0", "--admin", &admin]);
    check_one_line(&finished, &[&admin]);
}

/// Case H02. A privileged port without the privilege: the line names the address and what to do.
#[test]
fn a_privileged_port_is_one_line_with_a_hint() {
    if !is_root() {
        skip!("needs root to become a user without privileges");
    }
    let first_free = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap();
    if first_free.trim() != "1024" {
        skip!("here ports from {} on need no privilege", first_free.trim());
    }
    let site = Site::sample();
    let mut launch =
        Launch::new(&site, "listen = [\"127.0.0.1:81\"]\nadmin = \"off\"", &site.route()).unprivileged();
    launch.command.current_dir("/");
    check_one_line(&run_with(launch.command), &["127.0.0.1:81", "1024"]);
}

/// Case H02. Where IPv6 is switched off, the default `[::]` serves IPv4 all the same: "address family
/// not supported" must not end the start. Seen from inside a network of its own, by the health check.
#[test]
fn without_ipv6_the_fallback_listens() {
    if !is_root() || !["unshare", "nsenter", "ip"].into_iter().all(has_program) {
        skip!("needs root, unshare, nsenter and ip for a network of its own");
    }
    let site = Site::sample();
    let text = format!("[server]\nlisten = [\"[::]:8080\"]\nadmin = \"off\"\n{}", site.route());
    let config = site.config(&text);
    let script = "ip link set lo up && echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6 && \
        exec \"$0\" serve --config \"$1\"";
    let mut launch = Launch::with_config(&config, false);
    launch.command = Command::new("unshare");
    launch.command.args(["--net", "sh", "-c", script, env!("CARGO_BIN_EXE_scalws")]).arg(&config);
    launch.command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let server = launch.start();
    let mut inside = Command::new("nsenter");
    inside.args(["--net", "--target", &server.pid().as_raw_nonzero().to_string()]);
    inside.args([env!("CARGO_BIN_EXE_scalws"), "healthcheck", "--config"]).arg(&config);
    let finished = run_with(inside);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
}

/// Several listeners are several doors to the same site; port 0 finds a free one for each.
#[test]
fn every_listener_serves() {
    let site = Site::sample();
    let listen = "listen = [\"127.0.0.1:0\", \"127.0.0.2:0\"]\n";
    let server = Server::with(&site, listen, &site.route());
    let addresses = server.errors.wait_for("second listener", |lines| {
        let found: Vec<_> = lines.iter().filter_map(|line| address_of(line, "listening")).collect();
        (found.len() == 2).then_some(found)
    });
    for address in addresses {
        assert_eq!(crate::support::Client::connect(address).get("/x.txt").status, 200, "{address}");
    }
}

/// `serve DIR` is enough; the flags win over the config file.
#[test]
fn a_directory_and_flags_are_enough() {
    let site = Site::sample();
    let mut launch =
        Launch::new(&site, "listen = [\"127.0.0.1:1\"]\nadmin = \"127.0.0.1:1\"\nworkers = 1", "");
    let mut command = Command::new(env!("CARGO_BIN_EXE_scalws"));
    command.arg("serve").arg(site.root()).args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    command.args(["--workers", "3", "--config"]).arg(site.directory().join("scalws.toml"));
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    launch.command = command;
    let server = launch.start();
    assert_eq!(server.get("/x.txt").status, 200);
    assert_eq!(server.admin_get("/readyz").status, 200);
    assert_eq!(server.workers(), 3);
}

/// Lines that begin with `FILE:LINE:COLUMN: `.
fn placed<'a>(finished: &'a Finished, file: &str) -> Vec<&'a str> {
    let is_number = |text: Option<&str>| text.is_some_and(|text| text.parse::<u32>().is_ok());
    let fits = |line: &&str| {
        line.strip_prefix(file).and_then(|rest| rest.strip_prefix(':')).is_some_and(|rest| {
            let mut parts = rest.splitn(3, ':');
            is_number(parts.next())
                && is_number(parts.next())
                && parts.next().is_some_and(|rest| rest.starts_with(' '))
        })
    };
    finished.lines().into_iter().filter(fits).collect()
}

fn check_config(text: &str, verb: &str) -> (Finished, String) {
    let site = Site::sample();
    let config = site.config(&text.replace("ROOT", site.root().to_str().unwrap()));
    let file = config.to_str().unwrap().to_owned();
    (run(&[verb, "--config", &file]), file)
}

/// Case H06. A key with a typo is ignored and the default is used in silence. Here all mistakes are
/// told at once, each with its place, `check` and `serve` alike, and nothing is started.
#[test]
fn five_mistakes_are_five_lines() {
    let text = "[server]\nlisten = \"8080\"\nworkerz = 2\ndrain = { timeout = \"10\" }\n\
        [[route]]\npath = \"/\"\nstatic = { rooot = \"ROOT\", root = \"ROOT\" }\n\
        [[route]]\nexact = \"/v\"\nrespond = { status = 9, body = \"\" }\n";
    for verb in ["check", "serve"] {
        let (finished, file) = check_config(text, verb);
        assert_eq!(finished.code, Some(78), "{verb}: {}", finished.stderr);
        let lines = placed(&finished, &file);
        assert_eq!(lines.len(), 5, "{verb}: {:?}", finished.lines());
        assert!(
            lines.iter().any(|line| line.contains("did you mean") && line.contains("root")),
            "{verb}: {lines:?}"
        );
        for line in [2, 3, 4, 7, 10] {
            let place = format!("{file}:{line}:");
            assert!(lines.iter().any(|found| found.starts_with(&place)), "{verb}: no {place} in {lines:?}");
        }
    }
}

/// Case H06, one by one: the line, and the words that help.
#[test]
fn each_mistake_is_named() {
    let route = "[[route]]\npath = \"/\"\nstatic = { root = \"ROOT\" }\n";
    for (text, line, words) in [
        ("[server]\nlisten = [\"8080\"]\n", 2, "8080"),
        ("[server]\ntimeout = \"10s\"\n", 2, "timeout"),
        ("[server]\nroot = \"ROOT\"\n", 2, "root"),
        ("[sever]\nworkers = 1\n", 1, "server"),
        ("[limits]\nidle_timeout = \"10\"\n", 2, "10"),
        ("[limits]\nbody_size = \"1 lightyear\"\n", 2, "lightyear"),
        ("[limits]\nidle_timeout = 5\nidle_timeout = 6\n", 3, "idle_timeout"),
        ("[log]\naccess = \"jsonn\"\n", 2, "json"),
        ("[[route]]\npath = \"/\"\nstatic = { root = \"ROOT/missing\" }\n", 3, "missing"),
        ("[[route]]\npath = \"/\"\nstatic = { root = \"ROOT/x.txt\" }\n", 3, "x.txt"),
        (
            "[[route]]\npath = \"/\"\nstatic = { root = \"ROOT\", error_pages = { 404 = \"/none.html\" } }\n",
            3,
            "none.html",
        ),
        ("[error_pages]\nroot = \"ROOT/missing\"\npages = { 5xx = \"/x.txt\" }\n", 2, "missing"),
        ("[[route]]\npath = \"/\"\n", 1, "respond"),
        ("[[route]]\npath = \"x\"\nrespond = { status = 200 }\n", 2, "/"),
        (
            "[[route]]\npath = \"/\"\nrespond = { status = 200, body = \"${env:NOT_SET_AT_ALL}\" }\n",
            3,
            "NOT_SET_AT_ALL",
        ),
        ("[[route]]\npath = \"/\"\nredirect = { to = \"/{rest\" }\n", 3, "rest"),
        ("[[route]]\npath = \"/\"\nredirect = { to = \"{rest}\" }\n", 3, "rest"),
        ("[[route]]\npath = \"/\"\nredirect = { to = \"https://{rest}\" }\n", 3, "rest"),
    ] {
        let (finished, file) = check_config(text, "check");
        assert_eq!(finished.code, Some(78), "{text:?}: {:?}", finished.lines());
        let place = format!("{file}:{line}:");
        let lines = placed(&finished, &file);
        let found = lines.iter().any(|found| found.starts_with(&place) && found.contains(words));
        assert!(found, "{text:?}: no {place} with {words:?} in {:?}", finished.lines());
    }
    // Two routes that match the same: the second one is told.
    let (finished, file) = check_config(&format!("{route}{route}"), "check");
    assert_eq!(finished.code, Some(78));
    assert!(!placed(&finished, &file).is_empty(), "{:?}", finished.lines());
}

/// Case H06. What only looks odd is taken: a BOM, CRLF, an empty file, `$$`, a default.
#[test]
fn what_only_looks_odd_is_taken() {
    for text in [
        "\u{feff}[server]\nworkers = 1\n",
        "[server]\r\nworkers = 1\r\n[[route]]\r\npath = \"/\"\r\nrespond = { status = 200 }\r\n",
        "",
        "# only a remark",
        "[[route]]\npath = \"/\"\nrespond = { status = 200, body = \"$$ ${env:NOT_SET_AT_ALL:-fallback}\" }\n",
    ] {
        let (finished, _) = check_config(text, "check");
        assert_eq!(finished.code, Some(0), "{text:?}: {:?}", finished.lines());
    }
    let site = Site::sample();
    let text = "[[route]]\npath = \"/\"\nrespond = { status = 200, body = \"$$ ${env:NOT_SET_AT_ALL:-fallback}\" }\n";
    assert_eq!(Server::with(&site, "", text).get("/").text(), "$ fallback");
}

/// Case H06. An override with an unknown name is a mistake too; what Kubernetes injects is not ours.
#[test]
fn environment_overrides_are_checked() {
    let site = Site::sample();
    let with = |name: &str, value: &str| {
        let mut command = Launch::new(&site, "", &site.route()).command;
        let config = site.directory().join("scalws.toml");
        command = {
            let mut check = Command::new(command.get_program());
            check.args(["check", "--config"]).arg(config).env(name, value);
            check
        };
        run_with(command)
    };
    let finished = with("SCALWS_SERVER__WORKERZ", "2");
    assert_eq!(finished.code, Some(78), "{:?}", finished.lines());
    assert!(
        finished.lines().iter().any(|line| line.contains("SCALWS_SERVER__WORKERZ")),
        "{:?}",
        finished.lines()
    );
    assert_eq!(with("SCALWS_SERVER__WORKERS", "two").code, Some(78));
    assert_eq!(with("SCALWS_SERVER__WORKERS", "2").code, Some(0));
    assert_eq!(with("SCALWS_SERVICE_HOST", "10.0.0.1").code, Some(0));
    assert_eq!(with("SCALWS_PORT", "tcp://10.0.0.1:8080").code, Some(0));
}

/// Usage mistakes are 2, as everywhere; a config file that is not there is named.
#[test]
fn usage_mistakes_are_two() {
    assert_eq!(run(&["serve", "--no-such-flag"]).code, Some(2));
    assert_eq!(run(&["no-such-command"]).code, Some(2));
    assert_eq!(run(&["--version"]).code, Some(0));
    let missing = run(&["serve", "--config", "/no/such/file.toml"]);
    assert_eq!(missing.code, Some(78), "{}", missing.stderr);
    assert!(missing.stderr.contains("/no/such/file.toml"));
}

/// An absolute link is a miss also where it points inside; whoever made it for another server learns
/// that from `check`, before the visitors do.
#[test]
fn check_warns_of_absolute_links() {
    let site = Site::sample();
    site.link("absolute", site.root().join("x.txt"));
    site.link("relative", "x.txt");
    let config = site.config(&site.route());
    let finished = run(&["check", "--config", config.to_str().unwrap()]);
    assert_eq!(finished.code, Some(0), "{:?}", finished.lines());
    let warnings: Vec<_> = finished.lines().into_iter().filter(|line| line.contains("warning")).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("absolute"), "{}", warnings[0]);
}

/// A log file on a volume that hangs (here a fifo without a reader) holds up the start, before anybody
/// listened for signals: PID 1 has no default action, so `docker stop` waited ten seconds and killed.
#[test]
fn a_signal_ends_a_start_that_hangs() {
    for signal in [Signal::TERM, Signal::INT] {
        let site = Site::sample();
        let fifo = site.directory().join("access.fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let log = format!("[log]\naccess = {{ format = \"json\", file = '{}' }}\n", fifo.display());
        let mut server = Launch::new(&site, "workers = 1", &format!("{log}{}", site.route())).spawn();
        // The last line before the log is opened.
        server.errors.containing("\"root\"");
        assert!(!server.has_exited());
        server.signal(signal);
        // Not by the default action of the signal: PID 1 has none.
        assert_eq!(server.wait_exit().code(), Some(0), "{signal:?}");
        assert!(!server.errors.to_end().iter().any(|line| line.contains("\"listening\"")));
    }
}

/// Where no thread may be started (a limit on processes), the runtime panics: a stack of Rust words,
/// or a server that starts and fails with its first cold file. It is one line, whichever thread it is.
#[test]
fn no_threads_to_be_had_is_one_line() {
    if !is_root() || !has_program("prlimit") {
        skip!("needs root and prlimit for a user with a limit on processes");
    }
    // The limit counts all processes of a user, so this is one that nobody else is.
    let user = 3_000_000 + std::process::id();
    for threads in 1..=4 {
        let site = Site::sample();
        let config = site.config(&format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\nadmin = \"off\"\nworkers = 2\n{}",
            site.route()
        ));
        let mut command = Command::new("prlimit");
        command.arg(format!("--nproc={threads}")).args([env!("CARGO_BIN_EXE_scalws"), "serve", "--config"]);
        command.arg(config).current_dir("/").uid(user).gid(user);
        let finished = run_with(command);
        assert!(!finished.stderr.contains("panicked"), "{threads}: {}", finished.stderr);
        assert!(!finished.stderr.contains("RUST_BACKTRACE"), "{threads}: {}", finished.stderr);
        check_one_line(&finished, &["scalws: "]);
    }
}
