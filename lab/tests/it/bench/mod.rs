//! `scalws-lab bench` by its real command line: what it measures, and what it refuses to.

mod docker;
mod interrupted;
mod refusals;
mod rounds;
mod wrong_arguments;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{MutexGuard, PoisonError};

use scalws_lab::bench::record::Results;

use crate::scripts::run::TURN;

/// A directory of its own to run in, gone with it.
struct Bench {
    directory: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Bench {
    fn new() -> Bench {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let name =
            format!("scalws-lab-bench-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        Bench { directory, _turn: turn }
    }

    /// With windows as short as they can be, which other arguments may override.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scalws-lab"));
        command.arg("bench").args(["--out", "out"]);
        for (option, value) in [("--rounds", "3"), ("--seconds", "0.2"), ("--warmup", "0.1")] {
            if !arguments.contains(&option) {
                command.args([option, value]);
            }
        }
        command.args(arguments).current_dir(&self.directory);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(self.command(arguments).output().unwrap())
    }

    fn out(&self) -> PathBuf {
        self.directory.join("out")
    }

    fn results(&self) -> Results {
        scalws_lab::report::json::read(&self.out().join("results.json")).unwrap()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// What a run said.
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ended {
    fn of(output: Output) -> Ended {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// One clear line and nothing else.
    #[track_caller]
    fn is_one_line(&self, code: i32, expected: &str) {
        assert_eq!(self.stderr.trim_end(), format!("scalws-lab: {expected}"));
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""));
    }
}

/// The server of tests/data that does one thing wrong, as `--servers` takes it.
fn odd(name: &str, mode: &str) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/odd_server.py");
    format!("{name}=python3 {} {{port}} {{root}} {mode}", script.display())
}

fn good(name: &str) -> String {
    odd(name, "good")
}
