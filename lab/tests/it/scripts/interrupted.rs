//! Ctrl-C at any moment of a profile leaves no process, no file of its own, and no folder that looks like a
//! result.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use scalws_lab::report::page;

use super::run::{Run, is_interrupted, moments, names, press_ctrl_c, wait};
use super::{cannot_profile, scalws};

/// A run that goes to its end, or is interrupted after a while; how long it took and how many processes
/// it had by then.
fn profiled(after: Option<Duration>) -> (Duration, usize) {
    let run = Run::new();
    let out = run.out().display().to_string();
    let scalws = scalws().display().to_string();
    let arguments = ["--scalws", &scalws, "--seconds", "1", "--out", &out, "static-small"];
    let begun = Instant::now();
    let mut lab = run.command("profile.sh", &arguments).spawn().unwrap();
    let mut processes = 0;
    if let Some(after) = after {
        std::thread::sleep(after);
        let tree = scalws_lab::measure::tree(lab.id());
        processes = tree.len();
        press_ctrl_c(&lab);
    }
    let status = wait(&mut lab);
    let took = begun.elapsed();
    let mut said = String::new();
    lab.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let when = format!("after {after:?}: {status}\n{said}");
    run.assert_clean(&when);
    // Processes are pinned by their affinity, so that no cpuset could be left; this says if that changes.
    assert_eq!(groups(Path::new("/sys/fs/cgroup")), Vec::<PathBuf>::new(), "{when}");
    match names(&run.out()).as_slice() {
        [] => assert!(after.is_some() && is_interrupted(status), "{when}"),
        [name] => {
            // Too late to be stopped: then it is whole.
            assert!(status.success() && !name.ends_with(".part"), "{when}: {name}");
            let html = std::fs::read_to_string(run.out().join(name).join("report.html")).unwrap();
            assert_eq!(page::faults(&html), Vec::<String>::new());
            assert!(run.out().join(name).join("result.json").is_file());
        }
        more => panic!("{when}: {more:?}"),
    }
    (took, processes)
}

/// Groups of processes named after the lab or the server.
fn groups(place: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(place) else { return Vec::new() };
    let directories = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories
        .flat_map(|entry| {
            let is_ours = entry.file_name().to_string_lossy().contains("scalws");
            let own = is_ours.then(|| entry.path());
            own.into_iter().chain(groups(&entry.path()))
        })
        .collect()
}

#[test]
fn nothing_is_left_of_a_profile_at_five_random_moments() {
    if cannot_profile() {
        return;
    }
    let (whole, _) = profiled(None);
    println!("a whole run: {whole:?}");
    for moment in moments() {
        let after = whole.mul_f64(moment);
        println!("after {after:?}: {} processes", profiled(Some(after)).1);
    }
}
