//! Large files on a plain socket: what they cost in system calls, that nothing is sent which the worker
//! would have to wait for, and that they leave room for others.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::net::Shutdown;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::support::trace::{Trace, name, returned};
use crate::support::{Server, Site, assert_same, noise};
use crate::waits::{evict, reads_without_waiting};

const MIB: usize = 1 << 20;
const WINDOW: u64 = 256 * 1024;
/// What a connection may send before the others of its worker have their turn.
const TURN: i64 = 512 * 1024;

/// Calls for one request without those that look the file up: what a kept connection needs for a body of
/// 1 MiB that many have asked for.
#[track_caller]
fn calls_for_a_mib(send_buffer: &str) -> Option<usize> {
    let site = Site::new();
    if !reads_without_waiting(&site) {
        skip_here("needs a file system with RWF_NOWAIT for Cargo's target directory");
        return None;
    }
    let content = noise(1, MIB);
    site.file("one", &content);
    let limits = format!("[limits]\nsend_buffer = {send_buffer}\n[log]\naccess = \"off\"\n");
    let server = Server::with(&site, "workers = 1", &format!("{limits}{}", site.route()));
    let mut client = server.client();
    for _ in 0..20 {
        assert_same(&client.get("/one").body, &content, "1 MiB");
    }
    let trace = match Trace::of_worker(&server, &site, "all") {
        Ok(trace) => trace,
        Err(why) => {
            skip_here(&why);
            return None;
        }
    };
    for _ in 0..50 {
        assert_same(&client.get("/one").body, &content, "1 MiB");
    }
    let calls = trace.end();
    let is_request = |call: &&String| name(call) == "recvfrom" && call.contains("GET /one");
    let starts: Vec<usize> = (0..calls.len()).filter(|at| is_request(&&calls[*at])).collect();
    assert!(starts.len() >= 40, "{} requests in the trace", starts.len());
    // `fcntl` is of the debug build of the standard library, before it closes.
    let of_lookup = ["openat2", "fstat", "newfstatat", "close", "fcntl", "epoll_wait", "epoll_pwait"];
    let requests = starts.windows(2).map(|ends| {
        let calls = &calls[ends[0]..ends[1]];
        calls.iter().filter(|call| !of_lookup.contains(&name(call))).collect::<Vec<_>>()
    });
    // The least: a client that the machine left no time for takes its body in smaller parts.
    let least = requests.min_by_key(Vec::len).unwrap();
    eprintln!("send_buffer {send_buffer}: {} calls\n{least:#?}", least.len());
    Some(least.len())
}

fn skip_here(why: &str) {
    crate::support::say_skipped(why);
}

/// recv, the head, and 512 KiB a turn: 4 calls, beside the `fstat` of a cached file. Asking for each window
/// with each request made 5 more.
#[test]
fn a_mib_takes_few_calls_with_the_buffer_of_the_kernel() {
    if let Some(calls) = calls_for_a_mib("0") {
        assert!(calls <= 5, "{calls} calls");
    }
}

#[test]
fn a_mib_takes_few_calls_with_a_buffer_of_ours() {
    if let Some(calls) = calls_for_a_mib("\"256KiB\"") {
        assert!(calls <= 19, "{calls} calls");
    }
}

/// A memory cgroup of a test's own (version 1 or 2), removed when dropped.
struct Memory(PathBuf);

impl Memory {
    fn of(server: &Server, bytes: u64) -> Result<Memory, String> {
        let name = format!("scalws-it-{}", server.pid().as_raw_nonzero());
        let kinds = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        for (parent, limit) in kinds {
            let memory = Memory(PathBuf::from(parent).join(&name));
            if std::fs::create_dir(&memory.0).is_ok()
                && std::fs::write(memory.0.join(limit), bytes.to_string()).is_ok()
                && std::fs::write(memory.0.join("cgroup.procs"), server.pid().as_raw_nonzero().to_string())
                    .is_ok()
            {
                return Ok(memory);
            }
        }
        Err("needs a memory cgroup that may be written".to_owned())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // Its processes first, to the parent; what is left is charged to that.
        if let Ok(processes) = std::fs::read_to_string(self.0.join("cgroup.procs")) {
            for process in processes.lines() {
                let _ = std::fs::write(self.0.join("../cgroup.procs"), process);
            }
        }
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Fails for a window that was sent without a look at its first and its last byte before.
fn check_looks(calls: &[String], path: &str, size: u64) {
    let (mut seen, mut misses, mut sent) = (BTreeSet::new(), 0, 0);
    for call in calls.iter().filter(|call| call.contains(path)) {
        let count = returned(call);
        let mut words = call.split(") = ").next().unwrap().rsplit(", ");
        match name(call) {
            "preadv2" => {
                assert!(call.contains("RWF_NOWAIT"), "a worker reads: {call}");
                let offset: u64 = words.nth(1).unwrap().parse().unwrap();
                misses += u32::from(count < 0);
                seen.extend(offset..offset + u64::try_from(count).unwrap_or(0));
            }
            "sendfile" => {
                let asked: u64 = words.next().unwrap().parse().unwrap();
                // "[before] => [after]", or without the second.
                let before = words.next().unwrap().trim_start_matches('[').split(']').next().unwrap();
                let offset: u64 = before.parse().unwrap();
                let end = (offset + asked).min(size);
                for window in offset / WINDOW..end.div_ceil(WINDOW) {
                    let (start, window_end) = (window * WINDOW, (window + 1) * WINDOW);
                    let is_known = seen.range(start..=offset.max(start)).next().is_some()
                        && seen.range(end.min(window_end) - 1..window_end).next().is_some();
                    assert!(is_known, "window {window} was not looked at: {call}");
                }
                sent += count.max(0);
            }
            _ => {}
        }
    }
    assert!(misses > 0, "it was in memory: this test proves nothing");
    // The rest was dropped again before it could be sent, and came as a copy.
    eprintln!("{sent} bytes of {size} by sendfile, {misses} misses");
    assert!(sent > 0, "nothing by sendfile");
}

/// sendfile waits for the disk, also on a socket that never waits: one cold file, and the worker stands
/// still with all of its clients. The file here has four times the memory of the server, so nothing that
/// was once resident may be taken to be so still; and meanwhile others are served.
#[test]
fn a_file_larger_than_memory_is_looked_at_before_it_is_sent() {
    const SIZE: usize = 128 * MIB;
    let site = Site::sample();
    if !reads_without_waiting(&site) {
        skip!("needs a file system with RWF_NOWAIT for Cargo's target directory");
    }
    let content = noise(2, SIZE);
    let cold = File::open(site.file("cold", &content)).unwrap();
    let server = Server::with(&site, "workers = 1", &site.route());
    assert_eq!(server.get("/x.txt").status, 200);
    let memory = Memory::of(&server, 32 << 20);
    if let Err(why) = &memory {
        crate::support::say_skipped(&format!("{why}; only that it is looked at ran"));
    }
    evict(&cold);
    let trace = match Trace::of_worker(&server, &site, "preadv2,sendfile,pread64,read") {
        Ok(trace) => trace,
        Err(why) => skip!("{why}"),
    };
    let done = AtomicBool::new(false);
    let served = std::thread::scope(|scope| {
        let others = scope.spawn(|| {
            let (mut client, mut served) = (server.client(), 0);
            while !done.load(Ordering::Relaxed) {
                assert_eq!(client.get("/x.txt").status, 200);
                served += 1;
            }
            served
        });
        let download = scope.spawn(|| assert_same(&server.get("/cold").body, &content, "the cold file"));
        let outcome = download.join();
        done.store(true, Ordering::Relaxed);
        outcome.unwrap();
        others.join().unwrap()
    });
    let calls = trace.end();
    check_looks(&calls, "root/cold", SIZE as u64);
    eprintln!("{served} small answers meanwhile, {} calls", calls.len());
    assert!(served > 0);
    drop((server, memory));
}

/// Four clients that take all they can get, and one that wants little: an autotuned socket takes hundreds
/// of megabytes without a pause, so each of the four gives its turn away after 512 KiB. Between two looks
/// at what has come, no more than four such turns are sent.
#[test]
fn four_fast_readers_leave_turns_to_a_small_one() {
    const READERS: usize = 4;
    const SMALL: usize = 200;
    let site = Site::sample();
    File::create(site.root().join("sparse")).unwrap().set_len(1 << 30).unwrap();
    let tables = format!("[limits]\nsend_buffer = 0\n{}", site.route());
    let server = Server::with(&site, "workers = 1", &tables);
    let during = |work: &mut dyn FnMut()| {
        std::thread::scope(|scope| {
            let mut client = server.client();
            let readers: Vec<_> = (0..READERS).map(|_| server.client()).collect();
            for reader in &readers {
                let mut stream = reader.stream.try_clone().unwrap();
                stream.write_all(&b"GET /sparse HTTP/1.1\r\nHost: a\r\n\r\n".repeat(16)).unwrap();
                scope.spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
            }
            let mut times: Vec<_> = (0..SMALL)
                .map(|_| {
                    let start = Instant::now();
                    assert_eq!(client.get("/x.txt").status, 200);
                    start.elapsed()
                })
                .collect();
            work();
            for reader in &readers {
                reader.stream.shutdown(Shutdown::Both).unwrap();
            }
            times.sort();
            eprintln!("small answers: median {:?}, p99 {:?}", times[SMALL / 2], times[SMALL * 99 / 100]);
        });
    };
    during(&mut || {});
    let trace = match Trace::of_worker(&server, &site, "epoll_wait,epoll_pwait,sendfile,recvfrom") {
        Ok(trace) => trace,
        Err(why) => skip!("{why}"),
    };
    let mut calls = Vec::new();
    let mut trace = Some(trace);
    during(&mut || calls = trace.take().unwrap().end());
    let (mut most, mut since, mut small) = (0, 0, 0);
    for call in &calls {
        match name(call) {
            "sendfile" => since += returned(call).max(0),
            "recvfrom" => small += usize::from(call.contains("GET /x.txt")),
            _ => since = 0,
        }
        most = most.max(since);
    }
    assert!(small >= SMALL, "{small} small requests in the trace");
    assert!(most > 0 && most <= READERS as i64 * TURN, "{most} bytes between two looks at what has come");
}
