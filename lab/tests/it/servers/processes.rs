//! Processes: how they are started and how they end, and every reason to refuse them.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use scalws_lab::scenario::find;
use scalws_lab::servers::{Launch, Server, Started, build, port, start, start_at};
use scalws_lab::{cpus, measure};

use super::ask::check;
use super::{Scratch, assert_gone, begin, first_cpu, has_nginx, left, refused, running, scalws, server};

#[test]
fn an_access_log_has_a_line_for_each_request() {
    let scratch = Scratch::new("log");
    let one = running(begin(&scratch, &server("scalws"), "access-log"));
    check(&one, find("access-log").unwrap(), &scratch.fixture());
    let directory = scratch.0.join(format!("servers/scalws-access-log-{}", one.address().port()));
    drop(one); // what was batched is written at the end
    let log = std::fs::read_to_string(directory.join("access.log")).unwrap();
    // One of the start, two of the check.
    assert_eq!(log.lines().filter(|line| line.contains("GET /1k.bin")).count(), 3, "{log}");
}

#[test]
fn any_command_can_be_compared_and_all_that_it_starts_ends() {
    let scratch = Scratch::new("command");
    let scalws = scalws().display();
    // The sleeper leaves the process group, the shell ignores TERM.
    let text = format!(
        "own=sh -c 'trap \"\" TERM; setsid sleep 1000 & {scalws} serve --workers {{workers}} --listen 127.0.0.1:{{port}} {{root}}; true'"
    );
    let one = running(begin(&scratch, &server(&text), "static-1k"));
    assert_eq!((one.name(), one.version()), ("own", "unknown"));
    assert!(one.config().contains(&format!("127.0.0.1:{}", one.address().port())), "{}", one.config());
    check(&one, find("static-1k").unwrap(), &scratch.fixture());
    let tree = measure::tree(one.pid());
    assert_eq!(tree.len(), 3, "a shell, a sleeper, a server: {tree:?}");
    drop(one);
    assert_gone("own", &tree);
    match begin(&scratch, &server(&text), "gzip").unwrap() {
        Started::Lacks(reason) => assert!(reason.contains("takes no {setup}"), "{reason}"),
        Started::Running(_) => panic!("nothing says that it compresses"),
    }
}

#[test]
fn a_port_in_use_is_refused_with_its_holder() {
    let scratch = Scratch::new("port");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (fixture, cpus, server) = (scratch.fixture(), first_cpu(), Server::Scalws);
    let launch = Launch {
        server: &server,
        scenario: find("static-1k").unwrap(),
        fixture: &fixture,
        cpus: &cpus,
        scalws: scalws(),
        scratch: &scratch.0,
        backend: None,
        variables: &[],
    };
    let said = refused(start_at(&launch, port));
    assert!(said.starts_with(&format!("port {port} is in use by ")), "{said}");
    assert!(said.ends_with(&format!("(process {})", std::process::id())), "{said}");
    drop(listener);
    let one = running(start_at(&launch, port));
    assert_eq!(one.address().port(), port);
    assert_eq!(port::holders(port), [one.pid()]);
}

#[test]
fn a_server_that_dies_at_its_start_is_refused_with_its_last_line() {
    let scratch = Scratch::new("dead");
    let text = "dead=sh -c 'echo first; echo no such thing {port} >&2; exit 3'";
    let said = refused(begin(&scratch, &server(text), "static-1k"));
    assert!(said.starts_with("dead ended at its start: no such thing "), "{said}");
}

#[test]
fn a_server_that_dies_later_is_seen() {
    let scratch = Scratch::new("later");
    let mut one = running(begin(&scratch, &server("scalws"), "static-1k"));
    let tree = measure::tree(one.pid());
    assert!(Command::new("kill").args(["-KILL", &one.pid().to_string()]).status().unwrap().success());
    while one.is_alive() {
        std::thread::yield_now();
    }
    assert!(measure::Counters::of_tree(one.pid()).map_or(true, |counters| counters.threads <= 1));
    drop(one);
    assert_gone("scalws", &tree);
}

#[test]
fn a_thread_on_a_foreign_cpu_is_refused() {
    let all = cpus::allowed(None).unwrap();
    let [first, .., last] = all[..] else {
        eprintln!("NOT TRIED: a foreign CPU: there is but one");
        return;
    };
    let scratch = Scratch::new("stray");
    let scalws = scalws().display();
    let text = format!("stray=taskset -c {last} {scalws} serve --listen 127.0.0.1:{{port}} {{root}}");
    let said = refused(begin(&scratch, &server(&text), "static-1k"));
    assert!(said.contains(&format!("may run on CPUs {last}, not on {first} alone")), "{said}");
}

#[test]
fn cpus_that_are_not_there_are_refused() {
    let scratch = Scratch::new("cpus");
    let (fixture, server) = (scratch.fixture(), Server::Scalws);
    for (cpus, expected) in [(vec![first_cpu()[0], 1_000], "are to be had"), (vec![], "no CPU for scalws")] {
        let launch = Launch {
            server: &server,
            scenario: find("static-1k").unwrap(),
            fixture: &fixture,
            cpus: &cpus,
            scalws: scalws(),
            scratch: &scratch.0,
            backend: None,
            variables: &[],
        };
        let said = refused(start(&launch));
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn missing_programs_are_refused() {
    let scratch = Scratch::new("missing");
    let said = refused(begin(&scratch, &server("mine=no-such-program {port}"), "static-1k"));
    assert_eq!(said, "mine: there is no program no-such-program");
    let said = refused(begin(&scratch, &server("mine=sh -c true"), "static-1k"));
    assert_eq!(said, "mine: the command needs {port}");
    let missing = Server::Build { name: "scalws@old".into(), binary: "/no/such/scalws".into() };
    let said = refused(begin(&scratch, &missing, "static-1k"));
    assert!(said.starts_with("no scalws at /no/such/scalws: cargo build"), "{said}");
    if has_nginx() {
        let said = refused(begin(&scratch, &server("nginx"), "proxy-1k"));
        assert!(said.contains("address of a backend"), "{said}");
    }
}

#[test]
fn what_does_not_build_is_refused_with_its_first_error() {
    let said = build(Some("no-such-reference"), "release").unwrap_err().to_string();
    assert!(said.starts_with("there is no commit no-such-reference in "), "{said}");
    let said = build(Some("--help"), "release").unwrap_err().to_string();
    assert!(said.starts_with("there is no commit --help in "), "{said}");
    let said = build(None, "no-such-profile").unwrap_err().to_string();
    assert!(
        said.starts_with("this tree does not build (no-such-profile): error: profile `no-such-profile`"),
        "{said}"
    );
}

/// 1. The lab is killed: its destructors do not run.
/// 2. Its servers would run on, and the next run would share their CPU with them.
#[test]
fn a_lab_that_is_killed_leaves_no_server() {
    for text in ["scalws", "nginx"] {
        if text == "nginx" && !has_nginx() {
            eprintln!("NOT TRIED: nginx is not installed (apt-get install nginx-light)");
            continue;
        }
        scalws(); // built before, not by the other half
        let scratch = Scratch::new(&format!("killed-{text}"));
        let mut lab = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "servers::processes::held_until_killed", "--ignored", "--nocapture"])
            .env("LAB_TEST_SERVER", text)
            .env("LAB_TEST_SCRATCH", &scratch.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(lab.stdout.take().unwrap()).lines();
        let tree: Vec<u32> = lines
            .map(Result::unwrap)
            .find_map(|line| line.split_once("TREE ").map(|(_, pids)| pids.to_owned()))
            .expect("it started")
            .split(' ')
            .map(|pid| pid.parse().unwrap())
            .collect();
        lab.kill().unwrap(); // SIGKILL
        lab.wait().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while !left(&tree).is_empty() && Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_gone(text, &tree);
    }
}

/// The other half of the test above: run by it in a process of its own.
#[test]
#[ignore = "run by a_lab_that_is_killed_leaves_no_server"]
fn held_until_killed() {
    let (Ok(text), Ok(scratch)) = (std::env::var("LAB_TEST_SERVER"), std::env::var("LAB_TEST_SCRATCH"))
    else {
        return;
    };
    let scratch = Scratch(scratch.into()); // removed by the first half: this one is killed
    let one = running(begin(&scratch, &server(&text), "static-1k"));
    let tree: Vec<String> = measure::tree(one.pid()).iter().map(u32::to_string).collect();
    println!("TREE {}", tree.join(" "));
    let _ = std::io::stdin().read(&mut [0]); // nobody writes: until the end of the other half
}

#[test]
#[ignore = "builds the server twice: minutes"]
fn a_commit_and_a_profile_are_built() {
    let scratch = Scratch::new("built");
    let old = build(Some("HEAD"), "dev").unwrap();
    assert!(old.to_str().unwrap().contains(".local/lab/builds/"), "{}", old.display());
    assert_eq!(build(Some("HEAD"), "dev").unwrap(), old, "the second time it is there");
    let one =
        running(begin(&scratch, &Server::Build { name: "scalws@HEAD".into(), binary: old }, "static-1k"));
    assert_eq!(one.name(), "scalws@HEAD");
    check(&one, find("static-1k").unwrap(), &scratch.fixture());
    let profiled = build(None, "profiling").unwrap();
    assert!(profiled.ends_with("profiling/scalws"), "{}", profiled.display());
}
