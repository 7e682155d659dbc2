//! Workers follow the quota and the affinity that the container got (case H03).

use crate::support::{Container, Folder, say};

#[track_caller]
fn workers(options: &[&str]) -> u64 {
    let site = Folder::site();
    let volume = site.mounted_at("/srv");
    let mut all = vec!["--volume", &volume];
    all.extend(options);
    let container = Container::start(&all, &[]);
    container.ready("/");
    let event = container.event("starting");
    let workers = &event["workers"];
    say(&format!("{options:?}: {workers} workers, from {}", event["workers_from"]));
    workers.as_u64().unwrap_or_else(|| panic!("not a number: {workers}"))
}

#[test]
fn half_a_cpu_is_one_worker() {
    needs_docker!();
    assert_eq!(workers(&["--cpus", "0.5"]), 1);
}

#[test]
fn a_quota_is_rounded_up() {
    needs_docker!();
    let cores = std::thread::available_parallelism().unwrap().get() as u64;
    let quota = if cores > 1 { "1.5" } else { "0.9" };
    assert_eq!(workers(&["--cpus", quota]), cores.min(2));
}

#[test]
fn one_allowed_core_is_one_worker() {
    needs_docker!();
    assert_eq!(workers(&["--cpuset-cpus", "0"]), 1);
}

#[test]
fn a_number_given_wins() {
    needs_docker!();
    assert_eq!(workers(&["--cpus", "0.5", "--env", "SCALWS_SERVER__WORKERS=3"]), 3);
}
