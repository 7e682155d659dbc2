//! `--docker` where Docker is not there, or does not do what it is asked: one clear line, and nothing left. A
//! script stands for the docker command here; real containers are in `tests/container`.

use std::os::unix::fs::PermissionsExt as _;

use super::{Bench, Ended};

/// Runs where `docker` is that shell script, or is not there at all.
fn run(bench: &Bench, docker: Option<&str>) -> Ended {
    let programs = bench.directory.join("programs");
    std::fs::create_dir_all(&programs).unwrap();
    let mut path = programs.display().to_string();
    if let Some(script) = docker {
        let file = programs.join("docker");
        std::fs::write(&file, format!("#!/bin/sh\necho \"$@\" >>asked\n{script}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.push_str(":/usr/bin:/bin");
    }
    let mut command = bench.command(&["--docker", "static-1k"]);
    Ended::of(command.env("PATH", path).output().unwrap())
}

#[test]
fn no_docker_is_one_line() {
    let bench = Bench::new();
    let expected = "Docker does not answer: start its daemon, or leave --docker out";
    run(&bench, None).is_one_line(1, expected);
    run(&bench, Some("exit 1")).is_one_line(1, expected);
    assert!(!bench.out().exists(), "nothing was begun");
}

#[test]
fn no_compose_is_one_line() {
    let bench = Bench::new();
    let script = "[ \"$1\" != compose ]";
    run(&bench, Some(script))
        .is_one_line(1, "Compose is missing: install the plugin `docker compose`, or leave --docker out");
    run(&bench, Some("exit 0")).is_one_line(1, "no compose.yaml here: --docker runs at the top of the tree");
}

/// And what Compose had begun is taken down.
#[test]
fn an_image_that_does_not_build_is_one_line() {
    let bench = Bench::new();
    std::fs::write(bench.directory.join("compose.yaml"), "services: {}\n").unwrap();
    let script =
        "case \"$*\" in *\" build \"*) echo one; echo 'error: it is broken' >&2; echo two >&2; exit 1;; esac";
    let ended = run(&bench, Some(script));
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let building = "scalws-lab: building the images (the first time takes some minutes)";
    assert_eq!(lines, [building, "scalws-lab: no image of scalws or load: error: it is broken"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    let asked = std::fs::read_to_string(bench.directory.join("asked")).unwrap();
    // And then looks that nothing is left.
    let last = asked.lines().rfind(|line| !line.starts_with("ps ") && !line.starts_with("network ")).unwrap();
    assert!(last.ends_with(" down --volumes --timeout 1"), "{asked}");
    assert!(!bench.directory.join(".local/lab/scratch").exists());
}

/// A row is refused, whatever the engine's reason.
#[test]
fn containers_that_do_not_start_are_a_refused_row() {
    let bench = Bench::new();
    std::fs::write(bench.directory.join("compose.yaml"), "services: {}\n").unwrap();
    let script =
        "case \"$*\" in *\" up \"*) echo 'Error response from daemon: no such cpuset' >&2; exit 1;; esac";
    let ended = run(&bench, Some(script));
    let refusal = "scalws, load did not start: Error response from daemon: no such cpuset";
    assert!(ended.stderr.contains(&format!("refused: static-1k, scalws: {refusal}\n")), "{}", ended.stderr);
    assert_eq!(ended.code, Some(1));
    assert!(bench.results().cases[0].rows.iter().all(|row| row.windows.is_empty()));
    let asked = std::fs::read_to_string(bench.directory.join("asked")).unwrap();
    let count = |what: &str| asked.lines().filter(|line| line.contains(what)).count();
    assert_eq!(count(" up "), count(" down ") - 1, "the build's project too: {asked}");
}
