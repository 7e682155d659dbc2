//! Each mistake on the command line is one line and exit code 2, before anything starts.

use super::Bench;

#[track_caller]
fn check(arguments: &[&str], expected: &str) {
    let bench = Bench::new();
    bench.run(arguments).is_one_line(2, expected);
    assert!(!bench.out().exists(), "nothing was begun");
}

#[test]
fn units_are_not_guessed() {
    let expected = "expected a number from 0.01 to 600 without a unit, found";
    check(&["--seconds", "3s"], &format!("--seconds: {expected} \"3s\""));
    check(&["--warmup", "500ms"], &format!("--warmup: {expected} \"500ms\""));
    check(&["--warmup", "0"], &format!("--warmup: {expected} \"0\""));
    check(&["--seconds", "NaN"], &format!("--seconds: {expected} \"NaN\""));
    let rate = "expected a number from 1 to 10000000 without a unit, found";
    check(&["--rates", "10k"], &format!("--rates: {rate} \"10k\""));
}

#[test]
fn numbers_are_within_their_bounds() {
    let rounds = "--rounds: expected a number from 3 to 1000 without a unit, found";
    check(&["--rounds", "2"], &format!("{rounds} \"2\""));
    check(&["--rounds", "3.5"], "--rounds: expected a whole number, found \"3.5\"");
    let connections = "--connections: expected a number from 1 to 10000 without a unit, found";
    check(&["--connections", "10,0"], &format!("{connections} \"0\""));
    check(&["--connections", "10,,20"], &format!("{connections} \"\""));
    check(&["--connections", "10", "h2-8x32"], "--connections: those of h2-8x32 are part of its name");
}

#[test]
fn names_are_known_and_once() {
    check(&["static-2k"], "there is no scenario \"static-2k\": `scalws-lab list` names them all");
    check(&["respond", "respond"], "scenario respond is there twice");
    check(
        &["--servers", "nginx,nginx"],
        "--servers: nginx is there twice; --self compares a server with itself",
    );
    let bench = Bench::new();
    let ended = bench.run(&["--servers", "scalws,apache"]);
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(2), 1), "{}", ended.stderr);
    assert!(ended.stderr.starts_with("scalws-lab: --servers: no server apache"), "{}", ended.stderr);
}

#[test]
fn assertions_are_read_before_an_hour_of_load() {
    check(
        &["--assert", "static-1k:scalws/nginx=1", "static-1k"],
        "--assert 'static-1k:scalws/nginx=1': expected SCENARIO:SERVER/SERVER<=NUMBER (or <, >=, >)",
    );
    check(
        &["--servers", "scalws,nginx", "--assert", "static-1k:h2o/nginx<=1", "static-1k"],
        "--assert 'static-1k:h2o/nginx<=1': no server \"h2o\" in this run; there are: scalws, nginx",
    );
    check(
        &["--assert", "respond:scalws/nginx<=1", "static-1k"],
        "--assert 'respond:scalws/nginx<=1': no scenario \"respond\" in this run; there are: static-1k",
    );
}

#[test]
fn what_is_not_there_is_not_done_in_silence() {
    check(
        &["--docker", "--base", "main"],
        "--base: there is no image of another commit yet; leave --docker out",
    );
    check(
        &["--docker", "--scalws", "x"],
        "--scalws: with --docker the image is built from this tree; leave one of them out",
    );
    check(
        &["--docker", "--servers", "mine=./mine {port}"],
        "--servers: mine is a command of this machine, not of a container; leave --docker out",
    );
    check(&["--self", "--servers", "scalws,nginx"], "--self compares one server with itself: name one");
    check(&["--self", "--base", "main"], "--self and --base ask for different things: leave one out");
}
