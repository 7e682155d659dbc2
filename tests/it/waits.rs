//! A worker never waits: hanging and cold file systems, and what is in a directory but no file.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Advice, CWD, FileType, Mode, fadvise, fsync, makedev, mknodat, statfs};
use rustix::process::Signal;

use crate::support::fuse::Hanging;
use crate::support::strace::{Trace, name_of};
use crate::support::{Server, Site, assert_same, has_program, is_root, noise, until};

/// Whether files of this site can be read without waiting when they are warm. On overlayfs and tmpfs
/// RWF_NOWAIT does not exist; there every read takes the pool, and these tests would prove nothing.
pub fn reads_without_waiting(site: &Site) -> bool {
    const EXT: i64 = 0xef53;
    const XFS: i64 = 0x5846_5342;
    const BTRFS: i64 = 0x9123_683e;
    [EXT, XFS, BTRFS].contains(&(statfs(site.root()).unwrap().f_type as i64))
}

/// Throws a file out of the page cache.
pub fn evict(file: &File) {
    fsync(file).unwrap();
    fadvise(file, 0, None, Advice::DontNeed).unwrap();
}

const BATCH: usize = 100;

/// Pipelined requests on one connection until `total` answers are right.
fn request_warm(server: &Server, target: &str, body: &[u8], total: usize) {
    let mut client = server.client();
    let batch = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").repeat(BATCH);
    for _ in 0..total / BATCH {
        client.send(&batch);
        for _ in 0..BATCH {
            let answer = client.response();
            assert_eq!((answer.status, answer.body.as_slice()), (200, body));
        }
    }
}

/// A network file system hangs. Each request to it takes a thread, soon all of them, or the only
/// worker itself: the whole site hangs, and the process cannot even be stopped. Here the lane of that
/// root is full of calls that never return, and everything else goes on, cold files too; the drain
/// ends on time.
#[test]
fn a_hanging_file_system_holds_up_its_own_route_alone() {
    if !is_root() {
        skip!("needs root for a FUSE mount");
    }
    let site = Site::sample();
    let content = noise(3, 1 << 20);
    let cold = File::open(site.file("cold", &content)).unwrap();
    let mountpoint = site.directory().join("fuse");
    std::fs::create_dir(&mountpoint).unwrap();
    let hanging = match Hanging::mount(&mountpoint) {
        Ok(hanging) => hanging,
        Err(why) => skip!("needs FUSE: {why}"),
    };
    let fuse = format!("[[route]]\npath = \"/fuse/\"\nstatic = {{ root = '{}' }}\n", mountpoint.display());
    let keys = "workers = 1\ndrain = { delay = \"0s\", timeout = \"2s\" }\n";
    let tables = format!("[limits]\noffload_threads = 4\n{}{fuse}{}", site.route(), Server::RESPOND);
    let mut server = Server::with(&site, keys, &tables);
    request_warm(&server, "/x.txt", b"x marks the spot\n", 100);

    let mut stuck: Vec<_> = (0..32).map(|_| server.client()).collect();
    for (number, client) in stuck.iter_mut().enumerate() {
        client.send(format!("GET /fuse/file-{number} HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
    // Three of four threads: a root's lane has no more.
    until("three calls that hang", || hanging.waiting() >= 3);
    evict(&cold);
    assert_same(&server.get("/cold").body, &content, "a cold file beside a file system that hangs");
    request_warm(&server, "/x.txt", b"x marks the spot\n", 5_000);
    request_warm(&server, "/healthz", b"ok\n", 5_000);
    assert_eq!(server.admin_get("/livez").status, 200);
    assert_eq!(hanging.waiting(), 3, "they still hang, and no more than the lane allows");
    server.signal(Signal::TERM);
    assert_eq!(server.wait_exit().code(), Some(0));
}

/// The same, and the hanging request has its own end: 503 when its time is up.
#[test]
fn a_request_that_waits_too_long_is_503() {
    if !is_root() {
        skip!("needs root for a FUSE mount");
    }
    let site = Site::sample();
    let mountpoint = site.directory().join("fuse");
    std::fs::create_dir(&mountpoint).unwrap();
    let hanging = match Hanging::mount(&mountpoint) {
        Ok(hanging) => hanging,
        Err(why) => skip!("needs FUSE: {why}"),
    };
    let fuse = format!("[[route]]\npath = \"/\"\nstatic = {{ root = '{}' }}\n", mountpoint.display());
    let server = Server::with(&site, "workers = 1", &format!("[limits]\nwait_timeout = \"1s\"\n{fuse}"));
    let mut client = server.client();
    client.send("GET /file HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().status, 503);
    assert!(hanging.waiting() >= 1);
}

/// What the kernel was asked for by the workers, from a trace: no open that may wait for a disk
/// (RESOLVE_CACHED), no read of a file that may (RWF_NOWAIT).
#[test]
fn the_trace_of_a_worker_shows_no_call_that_waits() {
    let site = Site::sample();
    if !reads_without_waiting(&site) {
        skip!("needs a file system with RWF_NOWAIT for Cargo's target directory");
    }
    let cold = File::open(site.file("cold", &noise(1, 4 << 20))).unwrap();
    let server = Server::with(&site, "workers = 1", &format!("{}{}", site.route(), Server::RESPOND));
    assert_eq!(server.get("/x.txt").status, 200);
    let calls = "open,openat,openat2,read,readv,pread64,preadv,preadv2,sendfile,fsync,stat,newfstatat";
    let trace = match Trace::of(&server, &site, calls) {
        Ok(trace) => trace,
        Err(why) => skip!("{why}"),
    };
    evict(&cold);
    assert_eq!(server.get("/cold").body.len(), 4 << 20);
    for number in 0..100 {
        let target = ["/x.txt", "/none", "/docs", "/docs/", "/healthz"][number % 5];
        assert!(server.get(target).status < 500);
        if number % 10 == 0 {
            evict(&cold);
            assert_eq!(server.get("/cold").status, 200);
        }
    }
    // Two rounds of whatever happens once a second.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    let workers: Vec<u32> = server
        .threads()
        .into_iter()
        .filter(|(_, name)| name.starts_with("worker-"))
        .map(|(id, _)| id)
        .collect();
    assert_eq!(workers.len(), 1);
    let mut calls = trace.end();
    calls.retain(|(thread, _)| *thread == workers[0]);
    assert!(calls.iter().any(|(_, call)| name_of(call) == "openat2"), "the worker opens files: {calls:#?}");
    let root = site.root().display().to_string();
    for (_, call) in calls {
        let waits = match name_of(&call) {
            "openat2" => !call.contains("RESOLVE_CACHED"),
            // Of an open descriptor, and so of an inode in memory; by name it may wait for a disk.
            "newfstatat" => !call.contains("AT_EMPTY_PATH"),
            "open" | "openat" | "fsync" | "stat" => true,
            "preadv2" => !call.contains("RWF_NOWAIT"),
            // Of what was looked at before: `large::a_file_larger_than_memory_is_looked_at_before_it_is_sent`.
            "sendfile" => false,
            // Pipes and event counters are read too.
            _ => call.contains(&root),
        };
        assert!(!waits, "a call that may wait, by a worker: {call}");
    }
}

/// A large file that is not in memory: while the disk works, one worker answers a thousand others,
/// and every byte of every answer is the right one.
#[test]
fn a_cold_file_is_awaited_while_others_are_served() {
    let site = Site::sample();
    let content = noise(2, 32 << 20);
    let small = noise(3, 10_000);
    site.file("small", &small);
    let cold = File::open(site.file("cold", &content)).unwrap();
    let server = Server::with(&site, "workers = 1", &site.route());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let downloads: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..3 {
                        evict(&cold);
                        assert_same(&server.get("/cold").body, &content, "the cold file");
                    }
                })
            })
            .collect();
        let visitors: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let (mut client, mut answered) = (server.client(), 0);
                    while answered < 1000 || !done.load(Ordering::Relaxed) {
                        let answer = client.get("/small");
                        assert_same(&answer.body, &small, "a small file");
                        answered += 1;
                    }
                })
            })
            .collect();
        let outcome: Vec<_> = downloads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        outcome.into_iter().for_each(|joined| joined.unwrap());
        visitors.into_iter().for_each(|joined| joined.join().unwrap());
    });
}

/// A fifo blocks whoever opens it until a writer comes; a device does whatever it likes. Only
/// regular files are files; the rest is not there.
#[test]
fn what_is_no_regular_file_is_a_miss() {
    let site = Site::sample();
    let make = |name: &str, kind: FileType, device: u64| {
        mknodat(CWD, site.root().join(name), kind, Mode::from_raw_mode(0o666), device)
    };
    make("fifo", FileType::Fifo, 0).unwrap();
    make("socket", FileType::Socket, 0).unwrap();
    site.link("to-fifo", "fifo");
    let mut names = vec!["/fifo", "/socket", "/to-fifo", "/fifo/", "/fifo/x"];
    if make("null", FileType::CharacterDevice, makedev(1, 3)).is_ok() {
        make("zero", FileType::CharacterDevice, makedev(1, 5)).unwrap();
        names.extend(["/null", "/zero"]);
    } else {
        crate::support::say_skipped("needs root for its device nodes; the rest ran");
    }
    let server = Server::with(&site, "workers = 1", &site.route());
    for name in names {
        // More often than the pool has threads.
        for _ in 0..10 {
            assert_eq!(server.get(name).status, 404, "{name}");
        }
    }
    assert_eq!(server.get("/docs").status, 308);
    std::fs::remove_file(site.root().join("index.html")).unwrap();
    make("index.html", FileType::Fifo, 0).unwrap();
    until("that the index is a fifo", || server.get("/").status == 404);
    assert_eq!(server.get("/x.txt").status, 200);
}

/// Somebody holds a write lease on a file (fcntl(2)): opening it is EAGAIN, also without
/// RESOLVE_CACHED, until the holder lets go. A resolver that tries again until it works keeps a
/// thread of the pool for each request; one that takes EAGAIN for a miss says 404 of a file that is
/// there. Here it is 503 with Retry-After, after a bounded number of tries, and 200 afterwards.
#[test]
fn a_leased_file_is_503_and_comes_back() {
    const HOLDER: &str = "import fcntl, signal, sys\n\
        signal.signal(signal.SIGIO, signal.SIG_IGN)\n\
        file = open(sys.argv[1], 'r+b')\n\
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)\n\
        print('held', flush=True)\n\
        sys.stdin.read()\n";
    if !has_program("python3") {
        skip!("needs python3 to hold a lease");
    }
    let site = Site::sample();
    let path = site.file("leased.txt", b"leased\n");
    let server = Server::with(&site, "workers = 1", &site.route());
    let mut holder = Command::new("python3")
        .args(["-c", HOLDER])
        .arg(&path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line != "held\n" {
        holder.wait().unwrap();
        skip!("needs a file system with leases");
    }
    for _ in 0..3 {
        let answer = server.get("/leased.txt");
        assert_eq!((answer.status, answer.field("retry-after")), (503, Some("1")));
        assert_eq!(server.get("/x.txt").status, 200);
    }
    drop(holder.stdin.take());
    holder.wait().unwrap();
    let answer = server.get("/leased.txt");
    assert_eq!((answer.status, answer.body.as_slice()), (200, b"leased\n".as_slice()));
}
