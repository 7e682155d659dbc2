//! `scripts/profile.sh --docker`: a whole run leaves a whole folder, and Ctrl-C at any moment, a dead server
//! or a row of its own leave no container, no network and no image.
//! A machine with other work is refused by the profile itself: these want a quiet one (eight minutes on two cores).

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use scalws_lab::profile::preflight::Facts;
use scalws_lab::profile::result::Document;
use scalws_lab::report::page;

use super::run::{Run, is_interrupted, moments, names, press_ctrl_c, wait};
use super::support::{self, LAB_IMAGE, containers, docker, is_clean, of_service, profiling_images};

/// Where this machine has no profile, no container on it has; where it has, they must.
fn is_skipped() -> bool {
    let lacks = Facts::look(false).lacks();
    for reason in &lacks {
        eprintln!("SKIPPED: {reason}");
    }
    support::is_skipped() || !lacks.is_empty()
}

/// What is done while it runs.
enum Then<'a> {
    Waits,
    PressesAfter(Duration),
    /// Once a line with that text was said: with the containers of the run.
    At(&'a str, &'a dyn Fn(&[String])),
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
    profiling_images();
    let out = run.out().display().to_string();
    let all = [&["--docker", "--seconds", "1", "--out", &out], arguments].concat();
    let begun = Instant::now();
    let mut lab = run.command("profile.sh", &all).env(LAB_IMAGE.0, LAB_IMAGE.1).spawn().unwrap();
    // The script ends in an exec: the lab has its number.
    let number = lab.id();
    if let Then::PressesAfter(after) = then {
        std::thread::sleep(*after);
        press_ctrl_c(&lab);
    }
    let mut lines = Vec::new();
    for line in BufReader::new(lab.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        match then {
            Then::At(text, act) if line.contains(text) => act(&containers(number)),
            _ => {}
        }
        lines.push(line);
    }
    let status = wait(&mut lab);
    let took = begun.elapsed();
    let when = format!("{status}: {lines:?}");
    run.assert_clean(&when);
    is_clean(number, &[], &[]);
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

/// A whole run first, which builds, too; another says how long one is without that.
#[test]
fn whatever_ends_a_profile_nothing_is_left() {
    if is_skipped() {
        return;
    }
    let whole = profile(&["static-small"], &Then::Waits);
    assert!(whole.document.is_some(), "{:?}", whole.lines);
    let whole = profile(&["--no-build", "static-small"], &Then::Waits);
    eprintln!("a whole run: {:?}", whole.took);
    for moment in moments() {
        let after = whole.took.mul_f64(moment);
        let ended = profile(&["--no-build", "static-small"], &Then::PressesAfter(after));
        eprintln!("after {after:?}: {}, {:?} in all", ended.status, ended.took);
        assert!(ended.document.is_some() || is_interrupted(ended.status), "{:?}", ended.lines);
    }
    let kill = |all: &[String]| drop(docker(&["kill", &of_service(all, "scalws")]));
    let ended = profile(&["--no-build", "static-small"], &Then::At(": plain, ", &kill));
    let after: Vec<&String> = ended.lines.iter().skip_while(|line| !line.contains(": plain, ")).collect();
    assert_eq!((ended.status.code(), after.len()), (Some(1), 2), "{:?}", ended.lines);
}

/// Rows that need more than a config, against nginx where it has the same.
#[test]
fn rows_with_files_of_their_own_have_their_profiles() {
    if is_skipped() {
        return;
    }
    for row in ["sidecar", "access-log", "image-layer"] {
        let ended = profile(&["--no-build", "--compare", "nginx", row], &Then::Waits);
        let document = ended.document.unwrap_or_else(|| panic!("{row}: {:?}", ended.lines));
        assert_eq!(document.subjects.len(), 2, "{row}");
    }
}
