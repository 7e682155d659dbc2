//! What a number was measured on. A fact that cannot be had is `unknown`, never an error: a run on an odd
//! machine is still a run, and its reader sees what is not known.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{build, tool};

const UNKNOWN: &str = "unknown";

/// Facts of a machine, a tree and its tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Model of the CPU, of the first one.
    pub cpu: String,
    /// CPUs that are online.
    pub cores: u32,
    /// CPUs that this process may use.
    pub cpus_allowed: Vec<usize>,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Release and build of the kernel.
    pub kernel: String,
    /// The distribution.
    pub system: String,
    /// The hypervisor; `none` on bare metal.
    pub virtualisation: String,
    /// The container that the lab runs in; `none` outside of one.
    pub container: String,
    /// What each vulnerability costs: the files of /sys/devices/system/cpu/vulnerabilities.
    pub mitigations: BTreeMap<String, String>,
    /// Frequency governor.
    pub governor: String,
    /// Whether `sched_autogroup_enabled` is on: `nice` then protects nothing.
    pub autogroup: String,
    /// Version of the Docker engine.
    pub docker: String,
    /// File system of the directory that is served.
    pub file_system: String,
    /// The commit of the tree that the lab runs in.
    pub commit: String,
    /// Files of that tree differ from the commit; nothing where it is not known.
    pub is_dirty: Option<bool>,
    /// The compiler in that tree.
    pub rustc: String,
    /// Versions of the servers that are installed, by program.
    pub servers: BTreeMap<String, String>,
}

impl Machine {
    /// Looks at everything; `root` is what will be served.
    #[must_use]
    pub fn look(root: &Path) -> Machine {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let (commit, is_dirty) = commit();
        Machine {
            cpu: value(&cpuinfo, "model name", ':')
                .or_else(|| value(&cpuinfo, "CPU part", ':'))
                .unwrap_or_else(unknown),
            cores: u32::try_from(cpuinfo.lines().filter(|line| line.starts_with("processor")).count())
                .unwrap_or(0),
            cpus_allowed: crate::cpus::allowed(None).unwrap_or_default(),
            memory_bytes: memory_bytes(&fs::read_to_string("/proc/meminfo").unwrap_or_default()),
            kernel: kernel(),
            system: read("/etc/os-release")
                .and_then(|text| value(&text, "PRETTY_NAME", '='))
                .map_or_else(unknown, |name| name.trim_matches('"').to_owned()),
            virtualisation: virtualisation(&cpuinfo),
            container: detect("--container").unwrap_or_else(unknown),
            mitigations: mitigations(Path::new("/sys/devices/system/cpu/vulnerabilities")),
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").unwrap_or_else(unknown),
            autogroup: read("/proc/sys/kernel/sched_autogroup_enabled").unwrap_or_else(unknown),
            docker: tool::answers("docker", &["version", "--format", "{{.Server.Version}}"])
                .unwrap_or_else(unknown),
            file_system: root.to_str().map_or_else(unknown, file_system),
            commit,
            is_dirty,
            rustc: tool::answers("rustc", &["--version"]).unwrap_or_else(unknown),
            servers: servers(),
        }
    }
}

fn unknown() -> String {
    UNKNOWN.to_owned()
}

fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// The value of the first line `key <separator> value`.
fn value(text: &str, key: &str, separator: char) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(separator)?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

fn memory_bytes(meminfo: &str) -> u64 {
    let kilobytes = value(meminfo, "MemTotal", ':').and_then(|text| text.strip_suffix(" kB")?.parse().ok());
    kilobytes.unwrap_or(0_u64) * 1024
}

fn kernel() -> String {
    let name = rustix::system::uname();
    format!("{} {}", name.release().to_string_lossy(), name.version().to_string_lossy())
}

/// systemd-detect-virt exits with 1 beside `none`, so its exit code says nothing.
fn detect(kind: &str) -> Option<String> {
    let said = tool::says("systemd-detect-virt", &[kind]);
    let word = said.trim();
    (!word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'))
        .then(|| word.to_owned())
}

fn virtualisation(cpuinfo: &str) -> String {
    let is_guest =
        value(cpuinfo, "flags", ':').is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let product = read("/sys/class/dmi/id/product_name").filter(|_| is_guest);
    match detect("--vm") {
        // It looks at DMI and CPUID, and some hypervisors show it neither.
        Some(word) if word != "none" || !is_guest => word,
        _ if is_guest => product.unwrap_or_else(|| "a hypervisor (CPU flag)".to_owned()),
        _ => unknown(),
    }
}

fn mitigations(directory: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let state = fs::read_to_string(entry.path()).ok()?;
            Some((entry.file_name().into_string().ok()?, state.trim().to_owned()))
        })
        .collect()
}

/// The type of the mount that a path is on.
fn file_system(path: &str) -> String {
    let whole = tool::whole(Path::new(path)).ok();
    let mounts = read("/proc/self/mounts").unwrap_or_default();
    whole.and_then(|path| mounted(&mounts, &path)).unwrap_or_else(unknown)
}

/// The longest mount point above a path wins, and of equal ones the last, which covers the others.
#[must_use]
pub fn mounted(mounts: &str, path: &Path) -> Option<String> {
    let above = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (point, kind) = (fields.nth(1)?.replace("\\040", " "), fields.next()?);
        path.starts_with(&point).then(|| (point.len(), kind.to_owned()))
    });
    above.max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}

fn commit() -> (String, Option<bool>) {
    let Ok(tree) = build::source_tree() else { return (unknown(), None) };
    let Some(tree) = tree.to_str() else { return (unknown(), None) };
    let Some(commit) = tool::answers("git", &["-C", tree, "rev-parse", "HEAD"]) else {
        return (unknown(), None);
    };
    let status = tool::bounded(30, "git").args(["-C", tree, "status", "--porcelain"]).output();
    let is_dirty =
        status.ok().filter(|output| output.status.success()).map(|output| !output.stdout.is_empty());
    (commit, is_dirty)
}

/// Those that are installed.
fn servers() -> BTreeMap<String, String> {
    let asked = [("nginx", "-v"), ("lighttpd", "-v"), ("h2o", "-v"), ("haproxy", "-v"), ("caddy", "version")];
    let found = asked.into_iter().filter_map(|(program, flag)| {
        let path = tool::find(program)?;
        Some((program.to_owned(), tool::first_line(&tool::says(path, &[flag])).to_owned()))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_by_their_key() {
        let text = "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu hypervisor lm\n";
        assert_eq!(value(text, "model name", ':').unwrap(), "AMD EPYC");
        assert_eq!(value(text, "model", ':'), None);
        assert_eq!(memory_bytes("MemTotal:        2048 kB\n"), 2 << 20);
        assert_eq!(memory_bytes(""), 0);
    }

    #[test]
    fn the_nearest_mount_is_the_one_that_counts() {
        let mounts = "/dev/vda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\nover /tmp/a\\040b overlay rw 0 0\n\
                      /dev/vdb /tmp xfs rw 0 0\n";
        let check = |path: &str, kind: &str| assert_eq!(mounted(mounts, Path::new(path)).unwrap(), kind);
        check("/srv", "ext4");
        check("/tmp/x", "xfs");
        check("/tmpx", "ext4");
        check("/tmp/a b/c", "overlay");
    }

    #[test]
    fn this_machine_is_known_and_survives_json() {
        let machine = Machine::look(Path::new("/"));
        assert!(machine.cores >= 1 && machine.memory_bytes > 0 && !machine.cpus_allowed.is_empty());
        assert!(machine.kernel.contains('.') && machine.commit.len() >= 40, "{machine:?}");
        for fact in [&machine.cpu, &machine.file_system, &machine.rustc, &machine.virtualisation] {
            assert!(!fact.is_empty(), "{machine:?}");
        }
        let text = serde_json::to_string(&machine).unwrap();
        assert_eq!(serde_json::from_str::<Machine>(&text).unwrap(), machine);
    }

    #[test]
    fn what_is_not_there_is_unknown() {
        assert_eq!(file_system("/no/such/place"), UNKNOWN);
        assert!(mitigations(Path::new("/no/such/place")).is_empty());
        assert_eq!(read("/no/such/file"), None);
    }
}
