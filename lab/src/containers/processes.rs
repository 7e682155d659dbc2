//! Processes of containers and of the engine, as this machine sees them.

use std::fs;

use crate::measure;

/// The process beneath `first` that its container numbers `inside` (NSpid of proc_pid_status(5)).
#[must_use]
pub fn numbered(first: u32, inside: u32) -> Option<u32> {
    measure::tree(first).into_iter().find(|pid| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        innermost(&status) == Some(inside)
    })
}

fn innermost(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().next_back()?.parse().ok()
}

/// The processes of the engine that carry a published port, by their command lines, which everybody may
/// read. None: the kernel alone does.
#[must_use]
pub fn proxies(port: u16) -> Vec<u32> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        carries(&String::from_utf8_lossy(&line), port)
    })
    .collect()
}

fn carries(line: &str, port: u16) -> bool {
    let words: Vec<&str> = line.split('\0').collect();
    let is_proxy = words.first().is_some_and(|word| word.ends_with("docker-proxy"));
    let port = port.to_string();
    is_proxy && words.windows(2).any(|pair| pair[0].trim_start_matches('-') == "host-port" && pair[1] == port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_within_is_the_last() {
        assert_eq!(innermost("Name:\tnginx\nNSpid:\t4711\t9\nVmPeak: 1\n"), Some(9));
        assert_eq!(innermost("NSpid:\t4711\n"), Some(4_711));
        assert_eq!(innermost("Pid:\t4711\n"), None);
        let own = std::process::id();
        assert!(numbered(own, 0).is_none() && numbered(own, own).is_none_or(|found| found == own));
    }

    #[test]
    fn a_proxy_is_known_by_its_port() {
        let words =
            ["/usr/bin/docker-proxy", "-proto", "tcp", "-host-ip", "127.0.0.1", "-host-port", "49153"];
        let more = ["-container-ip", "172.18.0.2", "-container-port", "8080", ""];
        let line = [&words[..], &more[..]].concat().join("\0");
        assert!(carries(&line, 49_153));
        assert!(!carries(&line, 8_080) && !carries(&line, 49_154));
        assert!(!carries(&line.replace("docker-proxy", "other"), 49_153));
    }
}
