//! How many CPUs this process may use: the affinity mask and the CPU quota of its control groups,
//! both versions, with limits on parents (case H03).

use std::path::{Path, PathBuf};

/// CPUs that the process may use, and what said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// At least 1.
    pub count: usize,
    /// `affinity` or the control-group file that holds the quota.
    pub source: String,
}

/// min(affinity, ceil(quota)).
#[must_use]
pub fn available() -> Cpus {
    let affinity = affinity();
    let quota = quota(Path::new("/"), "self");
    match quota {
        Some((count, source)) if count < affinity => Cpus { count, source },
        _ => Cpus { count: affinity, source: "affinity".to_owned() },
    }
}

/// `int sched_getaffinity(pid_t pid, size_t cpusetsize, cpu_set_t *mask)`, sched_getaffinity(2).
fn affinity() -> usize {
    // 8,192 CPUs: the kernel's largest NR_CPUS, so the call cannot fail for size.
    let mut mask = [0u64; 128];
    // SAFETY: the pointer and the size describe the whole array; the mask type is plain bits.
    let result =
        unsafe { libc::sched_getaffinity(0, std::mem::size_of_val(&mask), mask.as_mut_ptr().cast()) };
    let count: u32 = mask.iter().map(|word| word.count_ones()).sum();
    if result == 0 { usize::try_from(count).unwrap_or(1).max(1) } else { 1 }
}

/// The smallest quota on the way from the process's control group to the root, rounded up.
/// `root` is `/` but in tests.
fn quota(root: &Path, process: &str) -> Option<(usize, String)> {
    let groups = std::fs::read_to_string(root.join("proc").join(process).join("cgroup")).ok()?;
    let mut smallest: Option<(usize, String)> = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let mounts: &[&str] = if controllers.is_empty() {
            &["sys/fs/cgroup", "sys/fs/cgroup/unified"]
        } else if controllers.split(',').any(|name| name == "cpu") {
            &["sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"]
        } else {
            continue;
        };
        for mount in mounts {
            let found = smallest_above(&root.join(mount), path);
            if found
                .as_ref()
                .is_some_and(|(count, _)| smallest.as_ref().is_none_or(|(least, _)| count < least))
            {
                smallest = found;
            }
        }
    }
    smallest
}

/// Walks from `mount/path` up to `mount`. In a container the path of the host is often not there,
/// and the mount itself is the container's group: missing levels are skipped.
fn smallest_above(mount: &Path, path: &str) -> Option<(usize, String)> {
    let mut level: PathBuf = mount.join(path.trim_start_matches('/'));
    let mut smallest: Option<(usize, String)> = None;
    loop {
        if let Some(count) = quota_of(&level)
            && smallest.as_ref().is_none_or(|(least, _)| count < *least)
        {
            smallest = Some((count, format!("CPU quota of {}", level.display())));
        }
        if level == mount || !level.pop() {
            return smallest;
        }
    }
}

fn quota_of(group: &Path) -> Option<usize> {
    let read = |name: &str| std::fs::read_to_string(group.join(name)).ok();
    let (quota, period) = match read("cpu.max") {
        Some(line) => {
            let (quota, period) = line.trim().split_once(' ')?;
            (quota.parse::<u64>().ok()?, period.parse::<u64>().ok()?)
        }
        None => (
            read("cpu.cfs_quota_us")?.trim().parse::<u64>().ok()?, // "-1" is no quota
            read("cpu.cfs_period_us")?.trim().parse::<u64>().ok()?,
        ),
    };
    (quota > 0 && period > 0).then(|| usize::try_from(quota.div_ceil(period)).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, files: &[(&str, &str)], expected: Option<usize>) {
        let root = std::env::temp_dir().join(format!("scalws-cpu-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        for (path, content) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("a file has a parent")).unwrap();
            std::fs::write(path, content).unwrap();
        }
        assert_eq!(quota(&root, "1").map(|(count, _)| count), expected, "{name}");
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn quotas_of_both_versions_are_rounded_up() {
        let v1 = ("proc/1/cgroup", "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n");
        let v2 = ("proc/1/cgroup", "0::/kube/pod/c\n");
        let period = "100000\n";
        check("none", &[], None);
        check("v2-half", &[v2, ("sys/fs/cgroup/kube/pod/c/cpu.max", "50000 100000\n")], Some(1));
        check("v2-max", &[v2, ("sys/fs/cgroup/kube/pod/c/cpu.max", "max 100000\n")], None);
        check(
            "v2-nested",
            &[
                v2,
                ("sys/fs/cgroup/kube/pod/c/cpu.max", "max 100000\n"),
                ("sys/fs/cgroup/kube/pod/cpu.max", "250000 100000\n"),
                ("sys/fs/cgroup/kube/cpu.max", "800000 100000\n"),
            ],
            Some(3),
        );
        check(
            "v2-namespace",
            &[("proc/1/cgroup", "0::/\n"), ("sys/fs/cgroup/cpu.max", "200000 100000\n")],
            Some(2),
        );
        let at = |quota| {
            [
                v1,
                ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota),
                ("sys/fs/cgroup/cpu/cpu.cfs_period_us", period),
            ]
        };
        check("v1-none", &at("-1\n"), None);
        check("v1-container", &at("250000\n"), Some(3));
        check(
            "v1-host",
            &[
                v1,
                ("sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us", "100000\n"),
                ("sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us", period),
            ],
            Some(1),
        );
    }

    #[test]
    fn this_process_has_a_cpu() {
        assert!(available().count >= 1);
    }
}
