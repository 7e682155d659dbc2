//! The servers under test, started for real. Those that are not installed are named loudly: a row that
//! was not tried is no proof. scalws has to be there, and is built where it is not.

mod ask;
mod processes;
mod rows;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use scalws_lab::fixture::Fixture;
use scalws_lab::scenario::find;
use scalws_lab::servers::{Launch, Running, Server, Started, build, start};
use scalws_lab::{Refusal, cpus};

/// A directory of its own for each test, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("scalws-lab-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn fixture(&self) -> Fixture {
        Fixture::lay_out(&self.0.join("fixture")).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn scalws() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| build(None, "dev").unwrap())
}

fn first_cpu() -> Vec<usize> {
    vec![cpus::allowed(None).unwrap()[0]]
}

fn server(text: &str) -> Server {
    text.parse().unwrap()
}

fn begin(scratch: &Scratch, server: &Server, scenario: &str) -> Result<Started, Refusal> {
    let (fixture, cpus) = (scratch.fixture(), first_cpu());
    let scenario = find(scenario).unwrap();
    let scratch = &scratch.0.join("servers");
    start(&Launch {
        server,
        scenario,
        fixture: &fixture,
        cpus: &cpus,
        scalws: scalws(),
        scratch,
        backend: None,
        variables: &[],
    })
}

fn running(started: Result<Started, Refusal>) -> Running {
    match started.unwrap() {
        Started::Running(running) => running,
        Started::Lacks(reason) => panic!("lacks: {reason}"),
    }
}

fn refused(started: Result<Started, Refusal>) -> String {
    match started {
        Err(refusal) => refusal.to_string(),
        Ok(Started::Running(running)) => panic!("{} runs", running.name()),
        Ok(Started::Lacks(reason)) => panic!("lacks: {reason}"),
    }
}

fn has_nginx() -> bool {
    ["/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/bin/nginx"].iter().any(|path| Path::new(path).exists())
}

/// Of processes, those that run; a zombie does not.
fn left(pids: &[u32]) -> Vec<u32> {
    let runs = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
    };
    pids.iter().copied().filter(runs).collect()
}

fn assert_gone(who: &str, pids: &[u32]) {
    let left = left(pids);
    assert!(left.is_empty(), "{who}: {left:?} are left of {pids:?}");
}
