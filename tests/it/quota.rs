//! Workers: as many as the machine grants, not as many as it has (H03).

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Launch, Server, Site, has_program, is_root, until};

/// Starts the server through another program that ends in it.
fn start_through(program: &str, arguments: &[&str]) -> (Site, Server) {
    let site = Site::sample();
    let config =
        site.config(&format!("[server]\nlisten = [\"127.0.0.1:0\"]\nadmin = \"off\"\n{}", site.route()));
    let mut launch = Launch::with_config(&config, false);
    launch.command = Command::new(program);
    launch.command.args(arguments).args([env!("CARGO_BIN_EXE_scalws"), "serve", "--config"]).arg(&config);
    launch.command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let server = launch.start();
    (site, server)
}

/// Case H03. Cores that are seen are not cores that are granted: workers follow the affinity.
#[test]
fn workers_follow_the_affinity() {
    if !has_program("taskset") {
        skip!("needs taskset");
    }
    let (_site, server) = start_through("taskset", &["-c", "0"]);
    assert_eq!(server.workers(), 1);
}

/// A control group of this test's own below the root of the cpu controller, of either version.
struct Group {
    path: String,
    is_v2: bool,
}

impl Group {
    fn new() -> Result<Group, String> {
        let name = format!("scalws-it-{}", std::process::id());
        for (mount, file, is_v2) in
            [("/sys/fs/cgroup", "cpu.max", true), ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", false)]
        {
            if !Path::new(mount).join("cgroup.procs").exists() {
                continue;
            }
            let path = format!("{mount}/{name}");
            std::fs::create_dir(&path).map_err(|error| format!("{path}: {error}"))?;
            let group = Group { path, is_v2 };
            if Path::new(&group.path).join(file).exists() {
                std::fs::create_dir(group.nested()).map_err(|error| error.to_string())?;
                return Ok(group);
            }
        }
        Err("no control group with the cpu controller".to_owned())
    }

    fn nested(&self) -> String {
        format!("{}/nested", self.path)
    }

    /// In thousandths of a CPU; `None` for no bound.
    fn set_quota(&self, thousandths: Option<u32>) {
        let quota_us = thousandths.map(|thousandths| thousandths * 100);
        let (file, text) = match (self.is_v2, quota_us) {
            (true, Some(quota)) => ("cpu.max", format!("{quota} 100000")),
            (true, None) => ("cpu.max", "max 100000".to_owned()),
            (false, Some(quota)) => ("cpu.cfs_quota_us", quota.to_string()),
            (false, None) => ("cpu.cfs_quota_us", "-1".to_owned()),
        };
        std::fs::write(format!("{}/{file}", self.path), text).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A server that was killed just now may still be on its way out of the group.
        until("the empty groups", || {
            let _ = std::fs::remove_dir(self.nested());
            std::fs::remove_dir(&self.path).is_ok()
        });
    }
}

/// Case H03. And the quota of the control group, also when it stands further up: with half a core and
/// a worker for every core seen, each period is spent in a moment and the rest of it is a stall.
#[test]
fn workers_follow_the_quota_of_a_parent_group() {
    if !is_root() {
        skip!("needs root for a control group");
    }
    let group = match Group::new() {
        Ok(group) => group,
        Err(why) => skip!("needs a control group: {why}"),
    };
    let cores = std::thread::available_parallelism().unwrap().get();
    let join = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", group.nested());
    for (quota, expected) in [(Some(500), 1), (None, cores), (Some(1500), cores.min(2))] {
        group.set_quota(quota);
        let (_site, server) = start_through("sh", &["-c", &join, "sh"]);
        assert_eq!(server.workers(), expected, "{quota:?} thousandths of a CPU");
    }
}
