//! `scripts/profile.sh --docker`: a whole run leaves a whole folder, and Ctrl-C at any moment, a dead server
//! or a row of its own leave no container, no network and no image. `scripts/check.sh container` runs it.
//! Needs an engine and fails without one; only `SKIP_DOCKER=1` leaves it out, and says so.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by where it stopped")]
#![allow(unreachable_pub, reason = "nothing is exported from a test binary")]

#[path = "../it/scripts/run.rs"]
#[expect(dead_code, reason = "the small disks are the other binary's")]
mod run;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use run::{Run, is_interrupted, moments, names, press_ctrl_c, wait};
use scalws_lab::profile::result::Document;
use scalws_lab::report::page;

/// Says something past the capture of the harness.
fn say(what: &str) {
    let _ = writeln!(std::io::stderr(), "{what}");
}

fn is_skipped() -> bool {
    let is_skipped = std::env::var("SKIP_DOCKER").is_ok_and(|value| value == "1");
    if is_skipped {
        say("SKIPPED, because SKIP_DOCKER=1: profiles in containers");
    }
    is_skipped
}

fn docker(words: &[&str]) -> String {
    let output = Command::new("docker").args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What the engine has of a project.
fn left(project: &str) -> Vec<String> {
    let filter = format!("label=com.docker.compose.project={project}");
    let of = |list: &[&str]| docker(&[list, &["--quiet", "--filter", &filter]].concat());
    let all = [of(&["ps", "--all"]), of(&["network", "ls"]), of(&["volume", "ls"])].concat();
    let layers = docker(&["images", "--quiet", &format!("{project}-*")]);
    (all + &layers).lines().map(str::to_owned).collect()
}

/// What is done while it runs.
enum Then<'a> {
    Waits,
    PressesAfter(Duration),
    /// Once a line with that text was said: with the name of the project.
    At(&'a str, &'a dyn Fn(&str)),
}

struct Ended {
    status: ExitStatus,
    lines: Vec<String>,
    took: Duration,
    document: Option<Document>,
}

/// Runs, and looks that nothing is left, neither here nor at the engine.
fn profile(arguments: &[&str], then: &Then<'_>) -> Ended {
    let run = Run::new();
    let out = run.out().display().to_string();
    let all = [&["--docker", "--seconds", "1", "--out", &out], arguments].concat();
    let begun = Instant::now();
    let mut lab = run.command("profile.sh", &all).spawn().unwrap();
    // The script ends in an exec: the lab has its number.
    let project = format!("scalws-lab-{}", lab.id());
    let stderr = BufReader::new(lab.stderr.take().unwrap());
    let reader = |then: &Then<'_>| -> Vec<String> {
        let mut lines = Vec::new();
        for line in stderr.lines() {
            let line = line.unwrap();
            match then {
                Then::At(text, act) if line.contains(text) => act(&project),
                _ => {}
            }
            lines.push(line);
        }
        lines
    };
    if let Then::PressesAfter(after) = then {
        std::thread::sleep(*after);
        press_ctrl_c(&lab);
    }
    let lines = reader(then);
    let status = wait(&mut lab);
    let took = begun.elapsed();
    let when = format!("{status}: {lines:?}");
    run.assert_clean(&when);
    assert_eq!(left(&project), Vec::<String>::new(), "{when}");
    let document = match names(&run.out()).as_slice() {
        [] => None,
        [name] => Some(whole(&run.out().join(name))),
        more => panic!("{more:?}, {when}"),
    };
    assert_eq!(document.is_some(), status.success(), "{when}");
    Ended { status, lines, took, document }
}

fn whole(folder: &Path) -> Document {
    assert!(!folder.to_string_lossy().ends_with(".part"));
    let html = std::fs::read_to_string(folder.join("report.html")).unwrap();
    assert_eq!(page::faults(&html), Vec::<String>::new());
    serde_json::from_str(&std::fs::read_to_string(folder.join("result.json")).unwrap()).unwrap()
}

/// A whole run first: it builds the images that the others take as they are.
#[test]
fn whatever_ends_it_nothing_is_left() {
    if is_skipped() {
        return;
    }
    let whole = profile(&["static-small"], &Then::Waits);
    assert!(whole.document.is_some(), "{:?}", whole.lines);
    let whole = profile(&["--no-build", "static-small"], &Then::Waits);
    say(&format!("a whole run: {:?}", whole.took));
    for moment in moments() {
        let after = whole.took.mul_f64(moment);
        let ended = profile(&["--no-build", "static-small"], &Then::PressesAfter(after));
        say(&format!("after {after:?}: {}, {:?} in all", ended.status, ended.took));
        assert!(ended.document.is_some() || is_interrupted(ended.status), "{:?}", ended.lines);
    }
    let kill = |project: &str| drop(docker(&["kill", &format!("{project}-scalws-1")]));
    let ended = profile(&["--no-build", "static-small"], &Then::At(": plain, ", &kill));
    let after: Vec<&String> = ended.lines.iter().skip_while(|line| !line.contains(": plain, ")).collect();
    assert_eq!((ended.status.code(), after.len()), (Some(1), 2), "{:?}", ended.lines);
    // Rows that need more than a config, against nginx where it has the same.
    for (row, with) in [("sidecar", "nginx"), ("access-log", "nginx"), ("image-layer", "nginx")] {
        let ended = profile(&["--no-build", "--compare", with, row], &Then::Waits);
        let document = ended.document.unwrap_or_else(|| panic!("{row}: {:?}", ended.lines));
        assert_eq!(document.subjects.len(), 2, "{row}");
    }
}
