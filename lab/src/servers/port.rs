//! Ports of 127.0.0.1: a free one, and who holds one.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Refusal;

/// Below Linux's ephemeral ports (32768 and up): the generator's own connections never sit on one.
const PORTS: std::ops::Range<u32> = 20_000..32_000;

/// A port that nobody listens on now.
///
/// # Errors
/// There is none.
pub fn free() -> Result<u16, Refusal> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let count = PORTS.end - PORTS.start;
    // Labs at the same time begin at different places.
    let offset = std::process::id().wrapping_mul(97);
    for _ in 0..count {
        let at = offset.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % count;
        let port = u16::try_from(PORTS.start + at).map_err(|error| Refusal::new(error.to_string()))?;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Refusal::new(format!("no port is free of {} to {}", PORTS.start, PORTS.end)))
}

/// Proves a port free, without SO_REUSEPORT: with it two servers share one and both look well.
///
/// # Errors
/// It is taken; the refusal says by whom.
pub fn must_be_free(port: u16) -> Result<(), Refusal> {
    match TcpListener::bind(("127.0.0.1", port)) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(taken(port)),
        Err(error) => Err(Refusal::new(format!("port {port}: {error}"))),
    }
}

/// That a port is in use, and by whom as far as /proc shows it.
pub(super) fn taken(port: u16) -> Refusal {
    let by = match holders(port).first() {
        Some(pid) => format!("{} (process {pid})", name(*pid)),
        None => "a process that this user may not see".to_owned(),
    };
    Refusal::new(format!("port {port} is in use by {by}"))
}

/// The processes that listen on a port of any address, of those that this user may look into.
#[must_use]
pub fn holders(port: u16) -> Vec<u32> {
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let wanted: HashSet<String> = tables
        .iter()
        .flat_map(|table| inodes(table, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<u32> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            descriptors
                .filter_map(|descriptor| fs::read_link(descriptor.path()).ok())
                .any(|target| target.to_str().is_some_and(|target| wanted.contains(target)))
        })
        .collect();
    found.sort_unstable();
    found
}

/// Inodes of the listening sockets (state 0A) of a port, out of a table of proc_net_tcp(5).
fn inodes(table: &str, port: u16) -> Vec<&str> {
    let local = format!(":{port:04X}");
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let is_it = fields.get(1)?.ends_with(&local) && *fields.get(3)? == "0A";
            is_it.then(|| fields.get(9).copied())?
        })
        .collect()
}

fn name(pid: u32) -> String {
    let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    if comm.trim().is_empty() { "unknown".to_owned() } else { comm.trim().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000000000000000 20 4 30 10 -1
   2: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0000000000000000 100 0 0 10 0
";

    #[test]
    fn only_listening_sockets_of_the_port_count() {
        assert_eq!(inodes(TABLE, 8080), ["4711"]);
        assert_eq!(inodes(TABLE, 80), ["4713"]);
        assert_eq!(inodes(TABLE, 54321), Vec::<&str>::new());
    }

    #[test]
    fn a_taken_port_names_who_took_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let refusal = must_be_free(port).unwrap_err().to_string();
        assert!(refusal.starts_with(&format!("port {port} is in use by ")), "{refusal}");
        assert!(refusal.ends_with(&format!("(process {})", std::process::id())), "{refusal}");
        let free = free().unwrap();
        assert!(must_be_free(free).is_ok() && PORTS.contains(&u32::from(free)));
    }
}
