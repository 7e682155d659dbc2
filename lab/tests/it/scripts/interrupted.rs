//! Ctrl-C at any moment of a profile leaves no process, no file of its own, and no folder that looks like a
//! result.

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
        // No group of its own for anything: there is none that could be left.
        let group = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok();
        let foreign = |pid: &&u32| group(&pid.to_string()).is_some_and(|its| Some(its) != group("self"));
        assert_eq!(tree.iter().find(foreign), None, "in another cgroup");
        press_ctrl_c(&lab);
    }
    let status = wait(&mut lab);
    let took = begun.elapsed();
    let when = format!("after {after:?}: {status}");
    run.assert_clean(&when);
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
