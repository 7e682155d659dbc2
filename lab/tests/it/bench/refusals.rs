//! Never a number without its checks: whatever is wrong is named, has no number in any table, and is the
//! exit code.

use std::time::{Duration, Instant};

use super::{Bench, Ended, good, odd};

/// A test that waits longer fails instead of holding the gate.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a bad server beside nobody, and looks that nothing of it is in a table.
#[track_caller]
fn refused(bench: &Bench, server: &str, reasons: &[&str]) -> Ended {
    let ended = bench.run(&["--servers", server, "static-1k"]);
    let name = server.split('=').next().unwrap();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let row = bench.results().cases[0].rows[0].clone();
    let refusal = row.refused.clone().unwrap_or_else(|| panic!("not refused: {}", ended.stderr));
    assert!(!refusal.contains('\n'), "{refusal}");
    for reason in reasons {
        assert!(refusal.contains(reason), "\"{reason}\" is not in: {refusal}");
    }
    let told = format!("scalws-lab: refused: static-1k, {name}: {refusal}");
    assert!(ended.stderr.lines().any(|line| line == told), "{}", ended.stderr);
    let line = format!("| {name} | refused |{}", " - |".repeat(12));
    assert!(ended.stdout.lines().any(|found| found == line), "{}", ended.stdout);
    assert!(ended.stdout.contains(&format!("- {name}: **refused**, {refusal}")), "{}", ended.stdout);
    ended
}

#[track_caller]
fn check(mode: &str, reasons: &[&str]) {
    refused(&Bench::new(), &odd("bad", mode), reasons);
}

#[test]
fn the_first_answer_is_another() {
    check("status", &["first answer: ", "404"]);
    check("length", &["first answer: ", "1023"]);
    check("hash", &["first answer: "]);
}

/// Early enough for the warm-up of the first round, which is checked like a window.
#[test]
fn an_answer_under_load_is_another() {
    check("status 40", &["round 1, ", "404"]);
    check("length 40", &["round 1, ", "1023"]);
    check("drop 40", &["round 1, "]);
    check("cut 40", &["round 1, "]);
}

/// Status and length of every answer are right; the bytes are not. Only the hash at an edge tells: of the
/// first round, or where a slow machine sends less, of a later one.
#[test]
fn a_wrong_hash_at_an_edge() {
    check("hash 40", &["round ", " window: "]);
}

#[test]
fn a_server_that_dies_says_why() {
    check("die 40", &["round 1, ", "the server is dead, its last words: ", "I cannot go on"]);
}

#[test]
fn a_server_that_is_killed_in_a_window() {
    use std::io::{BufRead as _, BufReader, Read as _};
    let bench = Bench::new();
    let mut lab = bench.command(&["--servers", &good("a"), "--seconds", "20", "static-1k"]).spawn().unwrap();
    // One that has worked for longer than any start takes: in the warm-up, or in the window of 20 s.
    let has_worked = |pid: &u32| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let cost = scalws_lab::measure::Counters::of_tree(*pid).map_or(0, |counters| counters.cpu_ns);
        *pid != lab.id() && line.contains("odd_server.py") && cost > 500_000_000
    };
    let deadline = Instant::now() + PATIENCE;
    let server = loop {
        assert!(Instant::now() < deadline, "no server has work");
        if let Some(pid) = scalws_lab::measure::tree(lab.id()).into_iter().find(has_worked) {
            break pid;
        }
        std::thread::yield_now();
    };
    let pid = rustix::process::Pid::from_raw(i32::try_from(server).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let mut stderr = BufReader::new(lab.stderr.take().unwrap());
    let mut line = String::new();
    while stderr.read_line(&mut line).unwrap() > 0 && !line.contains("refused, ") {
        line.clear();
    }
    assert!(line.contains("round 1/3, static-1k, a: refused, round 1, "), "{line}");
    assert!(line.contains("the server is dead"), "{line}");
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert_eq!(lab.wait().unwrap().code(), Some(1), "{rest}");
}

/// Needs two CPUs: with one there is no foreign one.
#[test]
fn a_thread_on_a_foreign_cpu() {
    let all = scalws_lab::cpus::allowed(None).unwrap();
    if all.len() < 2 {
        eprintln!("SKIPPED: one CPU only, no thread can be on another");
        return;
    }
    check("stray 40", &["round 1, ", "may run on CPUs "]);
    let server = odd("bad", "good");
    let list = scalws_lab::cpus::list(&all);
    let server = server.replace("=python3", &format!("=taskset --all-tasks --cpu-list {list} python3"));
    refused(&Bench::new(), &server, &["CPUs "]);
}

#[test]
fn a_port_in_use() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let server = format!("{} {{port}}", odd("bad", "good").replace("{port}", &port));
    // 40 answers or the port that is free: both are the odd server's AFTER, which `good` ignores.
    refused(&Bench::new(), &server, &["ddress already in use"]);
}

#[test]
fn a_program_that_is_not_there() {
    refused(&Bench::new(), "bad=/nowhere/server --port {port}", &["/nowhere/server"]);
}

/// In a tree of its own, with a commit that is no program.
#[test]
fn a_build_that_fails_is_one_line() {
    let bench = Bench::new();
    let write = |name: &str, text: &str| {
        let path = bench.directory.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("Cargo.toml", "[package]\nname = \"scalws\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    write("Cargo.lock", "version = 4\n\n[[package]]\nname = \"scalws\"\nversion = \"0.1.0\"\n");
    write("lab/Cargo.toml", "");
    write("src/main.rs", "fn main( {}\n");
    let git = |arguments: &[&str]| {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        let mut git = std::process::Command::new("git");
        let ended = git.args(identity).args(arguments).current_dir(&bench.directory).output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
    };
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message", "broken"]);
    let fails = |reference: &str, expected: &str| {
        let ended = bench.run(&["--servers", &good("a"), "--base", reference, "static-1k"]);
        let lines: Vec<&str> = ended.stderr.lines().collect();
        assert_eq!((ended.code, lines.len()), (Some(1), 2), "{}", ended.stderr);
        assert_eq!(lines[0], format!("scalws-lab: building scalws of {reference}"));
        assert!(lines[1].starts_with("scalws-lab: ") && lines[1].contains(expected), "{}", ended.stderr);
        assert_eq!(ended.stdout, "", "no table");
    };
    fails("HEAD", "HEAD does not build (release): ");
    fails("no-such-reference", "there is no commit no-such-reference");
    let missing = bench.run(&["--scalws", "nowhere/scalws", "--servers", &good("a"), "static-1k"]);
    missing.is_one_line(1, "--scalws: there is no file nowhere/scalws");
}

/// The kernel says ENOSPC for each write to /dev/full.
#[test]
fn a_full_disk_is_one_line_before_any_load() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.out()).unwrap();
    std::os::unix::fs::symlink("/dev/full", bench.out().join("results.json.part")).unwrap();
    let ended = bench.run(&["--servers", &good("a"), "static-1k"]);
    ended.is_one_line(1, "cannot save out/results.json: No space left on device (os error 28)");
    assert!(!bench.directory.join(".local/lab/scratch").exists());
}

/// What was measured before stays in the raw data, and out of the tables. A round makes 130 connections:
/// 64 to warm up, 64 for the window, and one at each edge.
#[test]
fn a_row_that_is_refused_late_keeps_its_windows_to_itself() {
    let bench = Bench::new();
    let ended = refused(&bench, &odd("bad", "late 200"), &["round 2, ", "404"]);
    assert_eq!(bench.results().cases[0].rows[0].windows.len(), 1);
    assert!(ended.stdout.contains("| static-1k | - |"), "{}", ended.stdout);
}
