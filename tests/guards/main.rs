//! Takes each guard of the table away, one at a time and in a copy of the tree, and wants its test to fail.
//! `scripts/guards.sh` lines it up.
//!
//! The copy and its build stay in `.local/guards`, so that the next run builds little. The test binaries are
//! built once, from the whole tree; of a guard of the server only the server is built again, as the
//! tests start it by its path. A build that fails proves nothing and is an error, like a test that
//! passes, was skipped, or did not run.
#![allow(clippy::unwrap_used, reason = "it says what went wrong by where it stopped")]
#![allow(unreachable_pub, reason = "nothing is exported from a test binary")]
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "this is a program for people and scripts")]

mod copy;
mod table;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use table::{Guard, guards};

/// No test of the table needs a tenth of it, with its guard or without.
const TEST_TIME: Duration = Duration::from_secs(150);
/// What a build and a test take on two busy cores, and more.
const SLOW: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let known = |name: &String| guards().any(|guard| guard.name == name);
    if let Some(unknown) = wanted.iter().find(|name| !known(name)) {
        let names: Vec<_> = guards().map(|guard| guard.name).collect();
        eprintln!("no guard '{unknown}'; there are: {}", names.join(" "));
        return ExitCode::from(2);
    }
    let chosen: Vec<_> =
        guards().filter(|guard| wanted.is_empty() || wanted.iter().any(|name| name == guard.name)).collect();
    let start = Instant::now();
    let outcome = Workshop::open().and_then(|workshop| {
        workshop.check_untouched(&chosen)?;
        let told = chosen.iter().filter(|guard| {
            let start = Instant::now();
            let is_good = workshop.tell(guard);
            if start.elapsed() > SLOW {
                eprintln!("guard {} took {} s: a quicker test?", guard.name, start.elapsed().as_secs());
            }
            !is_good
        });
        Ok(told.count())
    });
    let failed = match outcome {
        Ok(failed) => failed,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
    println!(
        "guards={} noticed={} seconds={}",
        chosen.len(),
        chosen.len() - failed,
        start.elapsed().as_secs()
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether a test is one of the library's own.
fn is_of_library(test: &str) -> bool {
    test.contains("::tests::")
}

/// The copy of the tree, with the test binaries that were built from it.
struct Workshop {
    tree: PathBuf,
    target: PathBuf,
    tests: PathBuf,
    /// Held to the end: two runs would change each other's copy.
    _lock: std::fs::File,
}

impl Workshop {
    fn open() -> Result<Workshop, String> {
        let house = Path::new(env!("CARGO_MANIFEST_DIR"));
        let place = house.join(".local/guards");
        std::fs::create_dir_all(&place).unwrap();
        let lock = std::fs::File::create(place.join("lock")).unwrap();
        lock.try_lock().map_err(|_| format!("another run works in {}", place.display()))?;
        let (tree, target) = (place.join("tree"), place.join("target"));
        copy::copy(house, &tree);
        let mut workshop = Workshop { tree, target, tests: PathBuf::new(), _lock: lock };
        workshop.cargo(&["build", "--bin", "scalws"])?;
        workshop.tests = workshop.executable(&["test", "--no-run", "--test", "it"], "it")?;
        // Which binary the tests start is decided by their path; it is the one of `cargo build` again.
        workshop.cargo(&["build", "--bin", "scalws"])?;
        Ok(workshop)
    }

    /// Every test has to pass as long as nothing is taken away.
    fn check_untouched(&self, chosen: &[&Guard]) -> Result<(), String> {
        let library = self.library()?;
        for (of_library, binary) in [(false, &self.tests), (true, &library)] {
            let mine = chosen.iter().filter(|guard| is_of_library(guard.test) == of_library);
            for test in mine.map(|guard| guard.test).collect::<BTreeSet<_>>() {
                match self.run(binary, test)? {
                    Verdict::Passed => {}
                    Verdict::Failed => return Err(format!("test {test} fails with every guard in place")),
                    Verdict::Skipped(why) => return Err(format!("test {test} cannot run here: {why}")),
                }
            }
        }
        Ok(())
    }

    /// Says on one line what came of it; whether that is good.
    fn tell(&self, guard: &Guard) -> bool {
        let Guard { name, test, .. } = guard;
        let trouble = match self.without(guard) {
            Ok(Verdict::Failed) => {
                println!("guard {name} removed: test {test} failed (good)");
                return true;
            }
            Ok(Verdict::Passed) => format!("test {test} still passes"),
            Ok(Verdict::Skipped(why)) => format!("test {test} cannot run here: {why}"),
            Err(why) => why,
        };
        println!("guard {name} removed: ERROR: {trouble}");
        false
    }

    /// What the guard's test says when it is gone.
    fn without(&self, guard: &Guard) -> Result<Verdict, String> {
        let path = self.tree.join(guard.file);
        let whole = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", guard.file))?;
        let count = whole.matches(guard.old).count();
        if count != 1 {
            return Err(format!("its text stands {count} times in {}", guard.file));
        }
        let back = PutBack { path: &path, whole: &whole };
        std::fs::write(&path, whole.replacen(guard.old, guard.new, 1)).unwrap();
        let verdict = if is_of_library(guard.test) {
            self.run(&self.library()?, guard.test)
        } else {
            self.cargo(&["build", "--bin", "scalws"])?;
            self.run(&self.tests, guard.test)
        };
        drop(back);
        verdict
    }

    fn library(&self) -> Result<PathBuf, String> {
        self.executable(&["test", "--no-run", "--lib"], "scalws")
    }

    /// The path of the test binary that a build made.
    fn executable(&self, build: &[&str], target: &str) -> Result<PathBuf, String> {
        let said = self.cargo(&[build, &["--message-format", "json-render-diagnostics"]].concat())?;
        let mut built = said.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let made = built.find(|line| {
            line["target"]["name"] == target
                && line["profile"]["test"] == true
                && line["executable"].is_string()
        });
        made.and_then(|line| Some(PathBuf::from(line["executable"].as_str()?)))
            .ok_or_else(|| format!("the build made no test binary {target}"))
    }

    fn cargo(&self, arguments: &[&str]) -> Result<String, String> {
        let mut cargo = Command::new(env!("CARGO"));
        // The lab has tests of the same name.
        cargo.args(arguments).args(["--package", "scalws", "--locked"]).current_dir(&self.tree);
        cargo.env("CARGO_TARGET_DIR", &self.target).env("CARGO_PROFILE_DEV_DEBUG", "0");
        let output = cargo.stdin(Stdio::null()).output().unwrap();
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let errors: Vec<_> = said.lines().skip_while(|line| !line.starts_with("error")).take(12).collect();
        Err(format!("the build failed, which proves nothing\n{}", errors.join("\n")))
    }

    fn run(&self, binary: &Path, test: &str) -> Result<Verdict, String> {
        let mut command = Command::new(binary);
        command.args(["--exact", test]).current_dir(&self.tree).env("RUST_BACKTRACE", "0");
        let log = self.target.with_file_name("log");
        let file = std::fs::File::create(&log).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", binary.display()))?;
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if start.elapsed() > TEST_TIME {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("test {test} had no end within {TEST_TIME:?}"));
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        if let Some(skipped) = said.lines().find(|line| line.starts_with("SKIPPED")) {
            return Ok(Verdict::Skipped(skipped.to_owned()));
        }
        // A binary that dies, or knows no such test, has not judged anything.
        let is_told = |verdict: &str| said.contains(&format!("test {test} ... {verdict}"));
        match status.code() {
            Some(0) if is_told("ok") => Ok(Verdict::Passed),
            Some(101) if is_told("FAILED") => Ok(Verdict::Failed),
            code => Err(format!("test {test} came to no verdict ({code:?}); see {}", log.display())),
        }
    }
}

enum Verdict {
    Passed,
    Failed,
    Skipped(String),
}

/// Puts a file back, whatever happens meanwhile.
struct PutBack<'a> {
    path: &'a Path,
    whole: &'a str,
}

impl Drop for PutBack<'_> {
    fn drop(&mut self) {
        std::fs::write(self.path, self.whole).unwrap();
    }
}
