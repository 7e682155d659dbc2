//! Ctrl-C at any moment: no process is left behind, and what was measured is kept.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{Bench, good};

fn interrupt(lab: &Child) {
    let pid = Pid::from_raw(i32::try_from(lab.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
}

/// Processes that work for a run: its directory is in their command line or is theirs.
fn left(bench: &Bench) -> Vec<u32> {
    let directory = bench.directory.to_string_lossy().into_owned();
    let numbers = std::fs::read_dir("/proc").unwrap().flatten();
    numbers
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let place = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&directory) || place.starts_with(&bench.directory)
        })
        .collect()
}

/// Ends a run that goes for a minute, after `delay`; gives the processes that it had by then.
fn ended_after(delay: Duration) -> usize {
    let bench = Bench::new();
    let (a, b) = (good("a"), good("b"));
    let servers = ["--servers", &a, "--servers", &b];
    let mut lab = bench.command(&[&servers[..], &["--rounds", "100", "static-1k"]].concat()).spawn().unwrap();
    std::thread::sleep(delay);
    let children = scalws_lab::measure::tree(lab.id());
    interrupt(&lab);
    let status = lab.wait().unwrap();
    // Before the lab watches for it, the signal ends it as any other process.
    let is_told = status.code() == Some(130) || status.signal() == Some(2);
    assert!(is_told, "after {delay:?}: {status}");
    for child in &children {
        let is_there = std::path::Path::new(&format!("/proc/{child}")).exists();
        assert!(!is_there, "after {delay:?}: process {child} of {children:?} is left");
    }
    assert_eq!(left(&bench), [0_u32; 0], "after {delay:?}");
    children.len() - 1
}

/// The moments are taken from the clock: another five in each run of the tests, between the start and
/// some rounds.
#[test]
fn nothing_is_left_at_five_random_moments() {
    let mut state =
        u64::from(Instant::now().elapsed().subsec_nanos()) ^ u64::from(std::process::id()) << 17 | 1;
    for _ in 0..5 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let delay = Duration::from_millis(state % 3_000);
        eprintln!("after {delay:?}: {} processes", ended_after(delay));
    }
}

#[test]
fn what_was_measured_is_kept() {
    let bench = Bench::new();
    let (a, b) = (good("a"), good("b"));
    let servers = ["--servers", &a, "--servers", &b];
    let claims = ["--rounds", "100", "--assert", "static-1k:a/b<=1000", "static-1k"];
    let mut lab = bench.command(&[&servers[..], &claims[..]].concat()).spawn().unwrap();
    let mut lines = BufReader::new(lab.stderr.take().unwrap()).lines();
    while !lines.next().unwrap().unwrap().contains("round 2/100, static-1k, b: ") {}
    assert!(left(&bench).len() >= 3, "lab and both servers run: {:?}", left(&bench));
    interrupt(&lab);
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    let output = lab.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{rest:?}");
    assert_eq!(rest.last().unwrap(), "scalws-lab: interrupted: what had been measured is kept");
    assert_eq!(left(&bench), [0_u32; 0]);
    assert!(!bench.directory.join(".local/lab/scratch").exists());
    let results = bench.results();
    assert!(results.is_interrupted);
    assert!(results.cases[0].rows.iter().all(|row| row.refused.is_none() && !row.windows.is_empty()));
    assert!(results.cases[0].rows[1].windows.len() >= 2);
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains("**Interrupted**"), "{page}");
}
