//! Ctrl-C at any moment: no container, network, process or cpuset is left.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::support::{Bench, containers, is_clean, is_skipped};

/// A run that goes for minutes.
fn begin(bench: &Bench) -> Child {
    let rows = ["docker-network", "image-layer", "respond"];
    let options = ["--no-build", "--rounds", "1000", "--servers", "scalws,nginx"];
    bench.command(&[&options[..], &rows[..]].concat()).spawn().unwrap()
}

/// Ends a run now, and says what it had by then.
fn end(mut lab: Child, when: &str) {
    let number = lab.id();
    let (children, before) = (scalws_lab::measure::tree(number), containers(number));
    let pid = Pid::from_raw(i32::try_from(number).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    // The impatient press twice.
    std::thread::sleep(Duration::from_millis(300));
    let _ = kill_process(pid, Signal::INT);
    let status = lab.wait().unwrap();
    // Before the lab watches for it, the signal ends it as any other process.
    assert!(status.code() == Some(130) || status.signal() == Some(2), "{when}: {status}");
    eprintln!("{when}: {} containers, {} processes", before.len(), children.len());
    is_clean(number, &before, &children);
}

/// While Compose is at it: a container is there, and another will be.
#[test]
fn nothing_is_left_in_the_middle_of_a_start() {
    if is_skipped() {
        return;
    }
    let bench = Bench::new();
    let mut lab = begin(&bench);
    while containers(lab.id()).is_empty() {
        assert!(lab.try_wait().unwrap().is_none(), "the run ended");
    }
    end(lab, "at the first container");
}

#[test]
fn what_was_measured_is_kept() {
    if is_skipped() {
        return;
    }
    let bench = Bench::new();
    let mut lab = begin(&bench);
    let mut lines = BufReader::new(lab.stderr.take().unwrap()).lines();
    while !lines.next().unwrap().unwrap().contains("round 2/1000, docker-network, ") {}
    end(lab, "in the second round");
    let results = bench.results();
    assert!(results.is_interrupted && results.cases.len() == 1);
    assert!(results.cases[0].rows.iter().any(|row| !row.windows.is_empty()));
    assert!(results.refusals().is_empty(), "{:?}", results.refusals());
}

/// The moments are taken from the clock: another five in each run of the tests, from before the first
/// container to some rounds.
#[test]
fn nothing_is_left_at_five_random_moments() {
    if is_skipped() {
        return;
    }
    let mut state =
        u64::from(Instant::now().elapsed().subsec_nanos()) ^ u64::from(std::process::id()) << 17 | 1;
    for _ in 0..5 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let delay = Duration::from_millis(state % 15_000);
        let bench = Bench::new();
        let lab = begin(&bench);
        std::thread::sleep(delay);
        end(lab, &format!("after {delay:?}"));
    }
}
