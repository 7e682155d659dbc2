//! What perf needs before it shows anything: each thing that is missing by name, and how to grant it, in
//! one line.

use std::fs;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::Refusal;

/// Bits of capabilities(7).
const SYS_CHROOT: u32 = 18;
const SYS_PTRACE: u32 = 19;
const SYS_ADMIN: u32 = 21;
const SYSLOG: u32 = 34;
const PERFMON: u32 = 38;

/// How the place looks where perf shall run; read there, judged anywhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// `perf --version`; `None`: not installed.
    pub perf: Option<String>,
    /// `kernel.perf_event_paranoid`.
    pub paranoid: i32,
    /// `kernel.kptr_restrict`.
    pub kptr: i32,
    /// Effective capabilities.
    pub capabilities: u64,
    /// A seccomp filter is at work.
    pub is_filtered: bool,
    /// perf_event_open(2) works: `perf stat` counted a process of its own.
    pub opens: bool,
    /// The id of `sched:sched_switch` can be read.
    pub traces: bool,
    /// It is a container beside the server's.
    pub is_container: bool,
}

impl Facts {
    /// Of the place where this runs.
    #[must_use]
    pub fn look(is_container: bool) -> Facts {
        let number = |path: &str, otherwise| {
            fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(otherwise)
        };
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let output = |words: &[&str]| Command::new("perf").args(words).output().ok();
        let version = output(&["--version"]).filter(|output| output.status.success());
        Facts {
            perf: version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            paranoid: number("/proc/sys/kernel/perf_event_paranoid", 4),
            kptr: number("/proc/sys/kernel/kptr_restrict", 0),
            capabilities: field("CapEff:").and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(0),
            is_filtered: field("Seccomp:") == Some("2"),
            opens: output(&["stat", "-x,", "-e", "task-clock", "true"]).is_some_and(|output| {
                super::counts::perf_stat(&String::from_utf8_lossy(&output.stderr))
                    .get("task-clock")
                    .is_some_and(Option::is_some)
            }),
            traces: ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
                .iter()
                .any(|root| fs::read(format!("{root}/events/sched/sched_switch/id")).is_ok()),
            is_container,
        }
    }

    fn has(&self, bit: u32) -> bool {
        self.capabilities >> bit & 1 == 1
    }

    /// What is missing, each as one line.
    #[must_use]
    pub fn lacks(&self) -> Vec<String> {
        let mut lacks = Vec::new();
        let mut lack = |what: &str, grant: &str| lacks.push(format!("{what}: {grant}"));
        let may_see = self.has(PERFMON) || self.has(SYS_ADMIN);
        if self.perf.is_none() {
            lack(
                "perf is not installed",
                "`apt-get install linux-perf` (Debian) or `linux-tools-$(uname -r)` (Ubuntu)",
            );
        } else if !self.opens && may_see && self.is_filtered {
            lack(
                "a seccomp filter denies perf_event_open",
                "start the container with `--cap-add SYS_ADMIN` (PERFMON on Docker 24 or newer), to which \
                 Docker's default filter ties the call, or with a filter that allows it",
            );
        } else if !self.opens && !may_see {
            lack(
                "perf_event_open is denied and CAP_PERFMON is missing",
                "run as root, or `setcap cap_perfmon,cap_sys_ptrace,cap_syslog+ep $(command -v perf)`",
            );
        } else if !self.opens {
            lack("perf counts nothing", "`perf stat -e task-clock true` says why");
        }
        if self.paranoid > -1 && !may_see {
            lack(
                &format!("kernel.perf_event_paranoid is {} and CAP_PERFMON is missing", self.paranoid),
                "`sysctl -w kernel.perf_event_paranoid=-1`, or run as root",
            );
        }
        if self.kptr > 1 || self.kptr == 1 && !self.has(SYSLOG) {
            lack(
                &format!("kernel.kptr_restrict is {}: kernel functions would have no names", self.kptr),
                "`sysctl -w kernel.kptr_restrict=0`",
            );
        }
        if !self.traces {
            lack(
                "the events sched:sched_switch and raw_syscalls cannot be read",
                "`mount -t tracefs nodev /sys/kernel/tracing` as root, and mount it into the container read-only",
            );
        }
        for (bit, name, why) in [
            (SYS_PTRACE, "SYS_PTRACE", "perf may not look at another user's process"),
            (SYS_CHROOT, "SYS_CHROOT", "the server's functions would have no names"),
            (SYSLOG, "SYSLOG", "kernel functions would have no names"),
        ] {
            if self.is_container && !self.has(bit) {
                lack(&format!("CAP_{name} is missing, {why}"), &format!("`--cap-add {name}`"));
            }
        }
        lacks
    }

    /// Nothing, or all that is missing.
    ///
    /// # Errors
    /// The lines, joined.
    pub fn check(&self) -> Result<(), Refusal> {
        let lacks = self.lacks();
        for line in &lacks {
            eprintln!("missing: {line}");
        }
        match lacks.as_slice() {
            [] => Ok(()),
            [one] => Err(Refusal::new(format!("cannot profile here: {one}"))),
            more => {
                Err(Refusal::new(format!("cannot profile here: {} things are missing (above)", more.len())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> Facts {
        Facts {
            perf: Some("perf version 6.1".to_owned()),
            paranoid: 2,
            kptr: 0,
            capabilities: u64::MAX,
            is_filtered: false,
            opens: true,
            traces: true,
            is_container: false,
        }
    }

    fn lacks(change: impl FnOnce(&mut Facts)) -> String {
        let mut facts = root();
        change(&mut facts);
        facts.lacks().join("\n")
    }

    #[test]
    fn each_missing_thing_has_its_line() {
        assert_eq!(lacks(|_| ()), "");
        assert!(lacks(|facts| facts.perf = None).contains("apt-get install linux-perf"));
        let nobody = lacks(|facts| (facts.capabilities, facts.opens, facts.kptr) = (0, false, 1));
        assert!(nobody.contains("setcap cap_perfmon"), "{nobody}");
        assert!(nobody.contains("perf_event_paranoid is 2"), "{nobody}");
        assert!(nobody.contains("kptr_restrict is 1"), "{nobody}");
        assert!(lacks(|facts| facts.kptr = 2).contains("kptr_restrict is 2"));
        assert!(lacks(|facts| (facts.opens, facts.is_filtered) = (false, true)).contains("seccomp filter"));
        assert!(lacks(|facts| facts.traces = false).contains("tracefs"));
        let bare = lacks(|facts| {
            facts.is_container = true;
            facts.capabilities = 1 << SYS_ADMIN;
        });
        assert_eq!(bare.lines().filter(|line| line.contains("`--cap-add")).count(), 3, "{bare}");
        let mut facts = root();
        facts.traces = false;
        assert!(facts.check().unwrap_err().to_string().starts_with("cannot profile here: the events"));
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let facts = Facts::look(false);
        assert_eq!(facts.perf.is_none(), Command::new("perf").arg("--version").output().is_err());
    }
}
