//! Which CPUs the servers have and which the lab has: never the same one where there are two.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::Refusal;

/// CPUs of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// For the server under test, and for nothing else.
    pub server: Vec<usize>,
    /// For the generator, the backend and whatever else the lab runs.
    pub lab: Vec<usize>,
    /// They share one, as the machine has too few: every row has to say so.
    pub is_shared: bool,
}

impl Cpus {
    /// Divides the CPUs that this process may use: the first half for the server.
    ///
    /// # Errors
    /// The kernel does not say which those are.
    pub fn divide() -> Result<Cpus, Refusal> {
        Ok(Cpus::of(&allowed(None)?))
    }

    fn of(all: &[usize]) -> Cpus {
        match all {
            [] => Cpus { server: vec![0], lab: vec![0], is_shared: true },
            [only] => Cpus { server: vec![*only], lab: vec![*only], is_shared: true },
            all => {
                let (server, lab) = all.split_at(all.len() / 2);
                Cpus { server: server.to_vec(), lab: lab.to_vec(), is_shared: false }
            }
        }
    }
}

/// The CPUs that a thread may run on; `None`: the calling one.
///
/// # Errors
/// There is no such thread.
pub fn allowed(thread: Option<u32>) -> Result<Vec<usize>, Refusal> {
    let set = sched_getaffinity(pid(thread))
        .map_err(|error| Refusal::new(format!("sched_getaffinity: {error}")))?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// Pins a thread; `None`: the calling one and those that it starts.
///
/// # Errors
/// The kernel refuses.
pub fn pin(thread: Option<u32>, cpus: &[usize]) -> Result<(), Refusal> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    sched_setaffinity(pid(thread), &set)
        .map_err(|error| Refusal::new(format!("cannot pin to CPUs {}: {error}", list(cpus))))
}

fn pid(thread: Option<u32>) -> Option<Pid> {
    thread.and_then(|thread| i32::try_from(thread).ok()).and_then(Pid::from_raw)
}

/// As taskset(1) and cpusets write it: `0,1`.
#[must_use]
pub fn list(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_and_lab_share_no_cpu_unless_there_is_but_one() {
        let two = Cpus::of(&[0, 1]);
        assert_eq!((two.server, two.lab, two.is_shared), (vec![0], vec![1], false));
        let five = Cpus::of(&[2, 3, 5, 8, 9]);
        assert_eq!((five.server, five.lab), (vec![2, 3], vec![5, 8, 9]));
        assert!(Cpus::of(&[4]).is_shared);
        assert!(!allowed(None).unwrap().is_empty());
    }
}
