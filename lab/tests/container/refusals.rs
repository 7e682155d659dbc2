//! A container that dies, one that does not start, an image that does not build: a line each, and a clean
//! machine.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStderr};

use super::support::{Bench, containers, docker, is_clean, is_skipped, of_service, text};

/// Kills the container of a service in the second round, and gives the line that the lab then says.
fn killed(service: &str) -> String {
    let bench = Bench::new();
    let options = ["--no-build", "--rounds", "1000", "--servers", "scalws", "respond"];
    let mut lab = bench.command(&options).spawn().unwrap();
    let mut lines = BufReader::new(lab.stderr.take().unwrap()).lines();
    line_with(&mut lines, "round 1/1000, respond, scalws: ");
    let all = containers(lab.id());
    docker(&["kill", &of_service(&all, service)]);
    let line = line_with(&mut lines, "refused");
    assert_eq!(code(&mut lab), Some(1), "{line}");
    is_clean(lab.id(), &all, &[]);
    line
}

fn line_with(lines: &mut Lines<BufReader<ChildStderr>>, what: &str) -> String {
    let mut all = Vec::new();
    for line in lines {
        all.push(line.unwrap());
        if all.last().unwrap().contains(what) {
            return all.pop().unwrap();
        }
    }
    panic!("\"{what}\" is not in {all:#?}");
}

fn code(lab: &mut Child) -> Option<i32> {
    lab.wait().unwrap().code()
}

#[test]
fn a_dead_container_is_named() {
    if is_skipped() {
        return;
    }
    let line = killed("scalws");
    assert!(
        line.contains("respond, scalws: refused, round ") && line.contains("; the server is dead"),
        "{line}"
    );
    let line = killed("load");
    assert!(line.contains("respond, scalws: refused, round "), "{line}");
    assert!(!line.contains("the server is dead"), "{line}");
}

#[test]
fn what_does_not_start_or_build_is_one_line() {
    if is_skipped() {
        return;
    }
    let bench = Bench::new();
    let run = |arguments: &[&str], variable: (&str, &str)| {
        let lab = bench.command(arguments).env(variable.0, variable.1).spawn().unwrap();
        let number = lab.id();
        let output = lab.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        is_clean(number, &[], &[]);
        text(&output)
    };
    // The lab's image has no entry point: the server's words are no program there.
    let start = ["--no-build", "--rounds", "3", "--servers", "scalws", "respond"];
    let said = run(&start, ("SCALWS_IMAGE", "scalws-lab:test"));
    let refusals: Vec<&str> =
        said.lines().filter(|line| line.contains("refused: respond, scalws: ")).collect();
    assert_eq!(refusals.len(), 1, "{said}");
    assert!(refusals[0].contains("serve"), "{said}");
    // Nobody listens on that port: no base image comes from there.
    let build = ["--rounds", "3", "--servers", "scalws", "respond"];
    let said = run(&build, ("BUILDER_IMAGE", "127.0.0.1:1/none:none"));
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(said.lines().next_back().unwrap().contains("no image of scalws or load: "), "{said}");
}
