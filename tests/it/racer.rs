//! A writer beneath the root races against the resolver: links flip between inside and outside,
//! directories are renamed, files are replaced. No byte from outside, no 5xx, ever.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::support::{Client, Server, Site};

const INSIDE: &[u8] = b"inside\n";
const SECRET: &[u8] = b"secret\n";

/// Requests of one run: a few seconds here, ten million once by `scripts/long.sh racer`.
fn requests() -> u64 {
    std::env::var("RACER_REQUESTS").ok().and_then(|requests| requests.parse().ok()).unwrap_or(10_000)
}

/// Writers that go on until they are told to stop, also when the test fails.
struct Writers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<u64>>,
}

impl Writers {
    fn start(&mut self, mut turn: impl FnMut(u64) + Send + 'static) {
        let stop = Arc::clone(&self.stop);
        self.threads.push(std::thread::spawn(move || {
            let mut turns = 0;
            while !stop.load(Ordering::Relaxed) {
                turn(turns);
                turns += 1;
            }
            turns
        }));
    }

    fn finish(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).map(|thread| thread.join().expect("a writer failed")).min().unwrap_or(0)
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Puts a link in place of whatever bears the name, in one step.
fn flip(directory: &Path, name: &str, to: &Path) {
    let fresh = directory.join(format!("{name}.new"));
    symlink(to, &fresh).unwrap();
    fs::rename(fresh, directory.join(name)).unwrap();
}

/// A check of the path before the open, however careful, is true for the moment of the check: a link
/// that is flipped in between leads the open outside (the bug class of every canonicalize-then-open
/// server). Here the kernel resolves beneath the root in one call, so there is no between.
#[test]
fn no_race_leads_out_of_the_root() {
    let site = Site::new();
    let root = site.root();
    let outside = site.directory().join("outside");
    for directory in [&outside, &root.join("real"), &root.join("a"), &root.join("deep/er")] {
        fs::create_dir_all(directory).unwrap();
    }
    fs::write(outside.join("file"), SECRET).unwrap();
    for file in ["real/file", "a/file", "deep/er/file", "file"] {
        site.file(file, INSIDE);
    }
    // Through `..`, which is where a rename makes the kernel answer EAGAIN.
    symlink("../../real/file", root.join("deep/er/up")).unwrap();
    flip(&root, "link", Path::new("real"));
    flip(&root, "hop", Path::new("file"));
    let server = Server::with(&site, "workers = 2", &site.route());

    let mut writers = Writers { stop: Arc::default(), threads: Vec::new() };
    let (base, out) = (root.clone(), outside.clone());
    writers.start(move |turn| {
        // Relative and absolute ways out, and a way in.
        let to = [Path::new("real"), Path::new("../outside"), &out, Path::new("a/../../outside")];
        flip(&base, "link", to[usize::try_from(turn % 4).unwrap()]);
        let to = [Path::new("file"), Path::new("../outside/file")];
        flip(&base, "hop", to[usize::try_from(turn % 2).unwrap()]);
    });
    let base = root.clone();
    writers.start(move |_| {
        for (from, to) in [("a", "b"), ("b", "a"), ("deep", "deeper"), ("deeper", "deep")] {
            fs::rename(base.join(from), base.join(to)).unwrap();
        }
    });
    let base = root.clone();
    writers.start(move |_| {
        fs::write(base.join("file.new"), INSIDE).unwrap();
        fs::rename(base.join("file.new"), base.join("file")).unwrap();
    });

    let targets = ["/link/file", "/hop", "/a/file", "/b/file", "/deep/er/up", "/deeper/er/up", "/file"];
    let counts = ask(&mut server.client(), &targets, requests());
    let turns = writers.finish();
    assert!(turns > 100, "the writers had no turn: {turns}");
    for (target, [found, missed]) in targets.iter().zip(counts) {
        assert!(found > 0, "{target} was never there");
        // What is replaced by a rename is always there.
        assert!(*target != "/file" || missed == 0, "/file was missing {missed} times");
    }
}

/// Asks for each target in turn; how often it was there, and how often not.
fn ask(client: &mut Client, targets: &[&str], requests: u64) -> Vec<[u64; 2]> {
    const BATCH: u64 = 70;
    let mut counts = vec![[0, 0]; targets.len()];
    let batch: String = (0..BATCH)
        .map(|at| targets[usize::try_from(at).unwrap() % targets.len()])
        .map(|target| format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"))
        .collect();
    for _ in 0..requests.div_ceil(BATCH) {
        client.send(&batch);
        for at in 0..usize::try_from(BATCH).unwrap() {
            let answer = client.response();
            let target = targets[at % targets.len()];
            match (answer.status, answer.body.as_slice()) {
                (200, INSIDE) => counts[at % targets.len()][0] += 1,
                (404, _) => counts[at % targets.len()][1] += 1,
                (status, body) => panic!("{target}: {status} {:?}", body.escape_ascii().to_string()),
            }
        }
    }
    counts
}
