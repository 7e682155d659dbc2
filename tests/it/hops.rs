//! Trips to the pool, counted by the line that the server leaves at its end, and as `explain` has them.

use std::fs::File;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::OnceLock;

use rustix::process::Signal;

use crate::support::fuse_files::Remote;
use crate::support::{Mounted, Server, Site, assert_same, is_root, noise, run};
use crate::waits::{evict, reads_without_waiting};

pub const MIB: usize = 1 << 20;
pub const LARGE: usize = 100 * MIB;

/// One of 1 MiB and one of 100, made once for all tests.
pub fn files() -> (&'static [u8], &'static [u8]) {
    static CONTENT: OnceLock<Vec<u8>> = OnceLock::new();
    let large = CONTENT.get_or_init(|| noise(7, LARGE));
    (&large[1..=MIB], large)
}

/// Trips to open, read and close files, from the first request to the end of the process.
#[track_caller]
pub fn counted(mut server: Server) -> u64 {
    server.signal(Signal::TERM);
    assert_eq!(server.wait_exit().code(), Some(0));
    let line: serde_json::Value = serde_json::from_str(&server.errors.containing("\"stopped\"")).unwrap();
    assert_eq!(line["offload"]["refused"], 0, "{line}");
    assert!(line["offload"]["jobs"].as_u64() >= line["offload"]["of_files"].as_u64(), "{line}");
    line["offload"]["of_files"].as_u64().unwrap_or_else(|| panic!("no count in {line}"))
}

/// Downloads a file once, as fast as it comes, and compares the trips that took with `expected` and with
/// what `explain` has about its body.
///
/// A window counts as warm for a second: on a machine that is busy for longer its file takes a trip more,
/// which says nothing. So one of three tries has to do.
#[track_caller]
pub fn check(
    site: &Site,
    root: &Path,
    (target, content): (&str, &[u8]),
    expected: RangeInclusive<u64>,
    explained: &str,
) {
    let tables = format!("[[route]]\npath = \"/\"\nstatic = {{ root = '{}' }}\n", root.display());
    let mut seen = Vec::new();
    for _ in 0..3 {
        let server = Server::with(site, "workers = 1", &tables);
        assert_same(&server.get(target).body, content, target);
        let hops = counted(server);
        seen.push(hops);
        if expected.contains(&hops) {
            break;
        }
    }
    assert!(expected.contains(seen.last().unwrap()), "{target}: {seen:?} trips instead of {expected:?}");
    let config = site.directory().join("scalws.toml").display().to_string();
    let told = run(&["explain", "--config", &config, "GET", target]).stdout;
    assert!(told.contains(&format!("\nbody      {explained}")), "{told}");
}

/// A remote file system: a chunk of 256 KiB, the most that is read without being kept, was a trip.
#[test]
fn a_mib_of_a_remote_file_takes_one_hop() {
    if !is_root() {
        skip!("needs root for a FUSE mount");
    }
    let site = Site::new();
    let (one, large) = files();
    let remote = match Remote::mount(&site.root(), vec![("one", one.to_vec()), ("large", large.to_vec())]) {
        Ok(remote) => remote,
        Err(why) => skip!("needs FUSE: {why}"),
    };
    let says =
        |hops: &str, bytes| format!("read in the pool, at most 1 hop per MiB: {hops} for {bytes} bytes;");
    // One to open, one to close.
    check(&site, &site.root(), ("/one", one), 3..=3, &says("1 hop", MIB));
    check(&site, &site.root(), ("/large", large), 102..=102, &says("100 hops", LARGE));
    drop(remote);
}

#[test]
fn tmpfs_takes_no_hop() {
    if !is_root() {
        skip!("needs root for a tmpfs");
    }
    let site = Site::new();
    let disk = match Mounted::small_disk(&site, 110 * 1024) {
        Ok(disk) => disk,
        Err(why) => skip!("needs tmpfs: {why}"),
    };
    let (one, large) = files();
    std::fs::write(disk.path().join("one"), one).unwrap();
    std::fs::write(disk.path().join("large"), large).unwrap();
    let says = "read on the worker, always in memory: no hop to the pool";
    check(&site, disk.path(), ("/one", one), 0..=0, says);
    check(&site, disk.path(), ("/large", large), 0..=0, says);
}

#[test]
fn a_local_file_takes_hops_only_while_it_is_cold() {
    let site = Site::new();
    if !reads_without_waiting(&site) {
        skip!("needs a file system with RWF_NOWAIT for Cargo's target directory");
    }
    let (one, large) = files();
    site.file("one", one);
    let cold = File::open(site.file("large", large)).unwrap();
    let says = |hops: &str, bytes| {
        format!(
            "read on the worker, no hop to the pool while it is in the kernel's cache; \
             what is not takes at most 1 per 256 KiB: {hops} for {bytes} bytes;"
        )
    };
    check(&site, &site.root(), ("/one", one), 0..=1, &says("4 hops", MIB));
    evict(&cold);
    check(&site, &site.root(), ("/large", large), 0..=401, &says("400 hops", LARGE));
}
