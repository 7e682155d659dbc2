//! What a server cost, read from the kernel: the scheduler's clock, context switches, page faults,
//! memory. Of its whole process tree, and of nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use nix::time::ClockId;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::Refusal;

/// Counts since the start of the processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Nanoseconds on a CPU (sum_exec_runtime: not sampled by ticks; threads that ended included).
    pub cpu_ns: u64,
    /// Switches because the thread had to wait; of threads that live.
    pub voluntary_switches: u64,
    /// Switches because another thread was due.
    pub involuntary_switches: u64,
    /// Page faults without a read.
    pub minor_faults: u64,
    /// Page faults with one.
    pub major_faults: u64,
    /// Threads now.
    pub threads: u64,
}

impl Counters {
    /// Of a process and all of its descendants.
    ///
    /// # Errors
    /// It is gone.
    pub fn of_tree(root: u32) -> Result<Counters, Refusal> {
        let mut sum = Counters::default();
        for pid in tree(root) {
            // A child may end between the list and the look.
            let Some(one) = Counters::of(pid) else {
                if pid == root {
                    return Err(Refusal::new(format!("the server (process {root}) is gone")));
                }
                continue;
            };
            sum = sum.and(&one);
        }
        Ok(sum)
    }

    fn of(pid: u32) -> Option<Counters> {
        let process = i32::try_from(pid).ok()?;
        let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(process)).ok()?.now().ok()?;
        let seconds = u64::try_from(clock.tv_sec()).ok()?;
        let cpu_ns = seconds * 1_000_000_000 + u64::try_from(clock.tv_nsec()).ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Behind the name, which may hold anything: field 3 of proc_pid_stat(5) is the first here.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse().ok();
        let mut counters =
            Counters { cpu_ns, minor_faults: number(10)?, major_faults: number(12)?, ..Counters::default() };
        for thread in threads(pid) {
            let Ok(status) = fs::read_to_string(thread.join("status")) else { continue };
            counters.threads += 1;
            counters.voluntary_switches += field(&status, "voluntary_ctxt_switches:").unwrap_or(0);
            counters.involuntary_switches += field(&status, "nonvoluntary_ctxt_switches:").unwrap_or(0);
        }
        Some(counters)
    }

    /// Both together.
    #[must_use]
    pub fn and(&self, other: &Counters) -> Counters {
        Counters {
            cpu_ns: self.cpu_ns + other.cpu_ns,
            voluntary_switches: self.voluntary_switches + other.voluntary_switches,
            involuntary_switches: self.involuntary_switches + other.involuntary_switches,
            minor_faults: self.minor_faults + other.minor_faults,
            major_faults: self.major_faults + other.major_faults,
            threads: self.threads + other.threads,
        }
    }

    /// From `before` until these.
    #[must_use]
    pub fn since(&self, before: &Counters) -> Counters {
        Counters {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            voluntary_switches: self.voluntary_switches.saturating_sub(before.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(before.involuntary_switches),
            minor_faults: self.minor_faults.saturating_sub(before.minor_faults),
            major_faults: self.major_faults.saturating_sub(before.major_faults),
            threads: self.threads,
        }
    }
}

/// A process and its descendants.
#[must_use]
pub fn tree(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut at = 0;
    while let Some(pid) = found.get(at).copied() {
        at += 1;
        for thread in threads(pid) {
            let children = fs::read_to_string(thread.join("children")).unwrap_or_default();
            found.extend(children.split_ascii_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    found
}

fn threads(pid: u32) -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("task"));
    entries.map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
}

fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Memory of a tree in bytes, shared pages counted once (PSS of smaps_rollup).
///
/// # Errors
/// This user may not look, or the process is gone.
pub fn pss_bytes(root: u32) -> Result<u64, Refusal> {
    let mut sum = 0;
    for pid in tree(root) {
        let rollup = match fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) {
            Ok(rollup) => rollup,
            // A child may end between the list and the look, or wait for its parent to notice.
            Err(_) if pid != root => continue,
            Err(error) => return Err(Refusal::new(format!("memory of process {pid}: {error}"))),
        };
        sum += field(&rollup, "Pss:").unwrap_or(0) * 1024;
    }
    Ok(sum)
}

/// The first thread of a tree that may run where it should not: `(thread, its CPUs)`.
#[must_use]
pub fn stray_thread(root: u32, cpus: &[usize]) -> Option<(u32, String)> {
    tree(root).into_iter().flat_map(threads).find_map(|thread| {
        let number: u32 = thread.file_name()?.to_str()?.parse().ok()?;
        let allowed = crate::cpus::allowed(Some(number)).ok()?;
        (!allowed.iter().all(|cpu| cpus.contains(cpu))).then(|| (number, crate::cpus::list(&allowed)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_costs_something_and_a_dead_one_is_refused() {
        let before = Counters::of_tree(std::process::id()).unwrap();
        let mut word = 1_u64;
        while Counters::of_tree(std::process::id()).unwrap().since(&before).cpu_ns < 5_000_000 {
            word = std::hint::black_box(word.wrapping_mul(3));
        }
        assert!(before.threads >= 1 && pss_bytes(std::process::id()).unwrap() > 100_000);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(tree(std::process::id()).contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(Counters::of_tree(child.id()).unwrap_err().to_string().contains("is gone"));
    }

    #[test]
    fn a_thread_elsewhere_is_found() {
        let all = crate::cpus::allowed(None).unwrap();
        assert_eq!(stray_thread(std::process::id(), &all), None);
        assert!(stray_thread(std::process::id(), &[]).is_some());
    }
}
