//! What a run leaves when nothing is wrong.

use super::{Bench, good, odd};
use crate::servers::scalws;

#[test]
fn rounds_are_interleaved_and_rotated_and_everything_is_kept() {
    let bench = Bench::new();
    let (a, b, c) = (good("a"), good("b"), good("c"));
    let servers = ["--servers", &a, "--servers", &b, "--servers", &c];
    let ended = bench.run(&[&servers[..], &["--assert", "static-1k:a/b<=1000", "static-1k"]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let turns: Vec<&str> = ended
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix("scalws-lab: round "))
        .filter_map(|line| line.split(':').next())
        .collect();
    let order = "1 a, 1 b, 1 c, 2 b, 2 c, 2 a, 3 c, 3 a, 3 b";
    let expected: Vec<String> =
        order.split(", ").map(|turn| format!("{}/3, static-1k, {}", &turn[..1], &turn[2..])).collect();
    assert_eq!(turns, expected);
    let results = bench.results();
    assert_eq!(results.conditions.references, ["c"]);
    for row in &results.cases[0].rows {
        assert_eq!(row.windows.iter().map(|window| window.round).collect::<Vec<_>>(), [1, 2, 3]);
        for window in &row.windows {
            assert!(window.requests > 0 && window.cost.cpu_ns > 0, "{window:?}");
            assert_eq!(window.body_bytes, window.requests * 1_024);
        }
    }
    let page = std::fs::read_to_string(bench.out().join("results.md")).unwrap();
    assert_eq!(page, ended.stdout);
    assert!(!page.contains(&*bench.directory.to_string_lossy()), "no path of this machine: {page}");
    assert!(!bench.directory.join(".local/lab/scratch").exists());
    let mut files: Vec<_> =
        std::fs::read_dir(bench.out()).unwrap().map(|file| file.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["results.json", "results.md"]);
}

#[test]
fn an_assertion_that_fails_is_the_exit_code() {
    let bench = Bench::new();
    let (a, b) = (good("a"), good("b"));
    let servers = ["--servers", &a, "--servers", &b, "static-1k"];
    let claims = ["--assert", "static-1k:a/b<=1000", "--assert", "static-1k:a/b<0.001"];
    let ended = bench.run(&[&servers[..], &claims[..]].concat());
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("assertion static-1k:a/b<=1000: holds, "), "{}", ended.stderr);
    assert!(ended.stderr.contains("assertion static-1k:a/b<0.001: failed, "), "{}", ended.stderr);
}

#[test]
fn a_server_is_compared_with_itself() {
    let bench = Bench::new();
    let ended = bench.run(&["--self", "--servers", &good("a"), "static-small"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let names: Vec<String> = bench.results().cases[0].rows.iter().map(|row| row.server.clone()).collect();
    assert_eq!(names, ["a", "a#2"]);
    assert!(ended.stdout.contains("## CPU per request relative to a\n"), "{}", ended.stdout);
}

/// A row that one server lacks has its reason, and is no failure.
#[test]
fn what_a_server_lacks_is_a_dash_with_its_reason() {
    let bench = Bench::new();
    let ended = bench.run(&["--servers", &good("a"), "image-layer"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let reason = "- a: `-`, files lie in an image layer in a container only (--docker).";
    assert!(ended.stdout.contains(reason), "{}", ended.stdout);
}

#[test]
fn sweeps_are_rows_of_their_own() {
    let bench = Bench::new();
    let sweeps = ["--connections", "2,3", "--rates", "50"];
    let ended = bench.run(&[&["--servers", &good("a"), "static-small"][..], &sweeps[..]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let cases: Vec<(u32, Option<f64>, bool)> =
        bench.results().cases.iter().map(|case| (case.connections, case.rate, case.is_sweep)).collect();
    let expected = [(64, None, false), (2, None, true), (3, None, true), (64, Some(50.0), true)];
    assert_eq!(cases, expected);
    assert!(ended.stdout.contains("## static-small, 2 connections\n"), "{}", ended.stdout);
    assert!(ended.stdout.contains("## static-small, 50 req/s offered\n"), "{}", ended.stdout);
    assert!(ended.stdout.contains("64 connections, open loop"), "{}", ended.stdout);
}

/// What spans cost is measured beside the same server without them, and each row says what became of them. One of a
/// hundred is left out: a busy machine sends too few requests for that.
#[test]
fn rows_of_spans_say_what_became_of_them() {
    let bench = Bench::new();
    let scalws = scalws().display().to_string();
    let servers = "scalws-spans-100,scalws-spans-down,scalws";
    let ended = bench.run(&["--scalws", &scalws, "--servers", servers, "respond"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let results = bench.results();
    assert_eq!(results.conditions.references, ["scalws"]);
    let features: Vec<&str> = results.cases[0].rows.iter().map(|row| row.features.as_str()).collect();
    assert!(!features[0].contains(" made, 0 arrived") && features[0].contains(" arrived"), "{features:?}");
    assert!(features[1].contains(" made, 0 arrived, "), "{features:?}");
    assert!(features[1].contains("dropped (unreachable)"), "{features:?}");
    assert!(!features[2].contains("spans"), "{features:?}");
}

/// One refused row takes nothing from the others.
#[test]
fn the_other_rows_go_on() {
    let bench = Bench::new();
    let (bad, fine) = (odd("bad", "status 500"), good("fine"));
    let ended = bench.run(&["--servers", &bad, "--servers", &fine, "static-1k"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let results = bench.results();
    assert!(results.cases[0].rows[0].refused.is_some());
    assert_eq!(results.cases[0].rows[1].windows.len(), 3);
}
