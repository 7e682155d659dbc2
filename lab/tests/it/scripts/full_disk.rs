//! A disk that is full, or becomes full: one clear line, another exit code than 0, and nothing left.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command};

use super::run::{Run, wait};
use super::{cannot_profile, scalws};

/// Whether this user may mount a file system for a test.
fn cannot_mount() -> bool {
    let words =
        ["--mount", "--propagation", "private", "mount", "-t", "tmpfs", "-o", "size=4k", "none", "/mnt"];
    let tried = Command::new("unshare").args(words).output();
    if tried.as_ref().is_ok_and(|output| output.status.success()) {
        return false;
    }
    let why = tried.map(|output| String::from_utf8_lossy(&output.stderr).trim().to_owned());
    println!("SKIPPED: a small file system cannot be mounted here: {why:?}");
    true
}

struct Said {
    code: Option<i32>,
    /// Lines on standard error.
    lines: Vec<String>,
    /// What was left on the small disk.
    left: String,
}

/// Fills what is left of the small disk, seen as the run sees it.
fn fill(run: &Run, child: &Child) {
    let root = format!("/proc/{}/root", child.id());
    let small = run.small();
    let place = Path::new(&root).join(small.strip_prefix("/").unwrap());
    let mut file = File::create(place.join("filler")).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    while file.write_all(&[0]).is_ok() {}
}

/// Runs, fills the disk once a line with that text was said, and waits.
fn said(run: &Run, mut command: Command, fills_at: Option<&str>) -> Said {
    let mut child = command.spawn().unwrap();
    let mut lines = Vec::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        if fills_at.is_some_and(|text| line.contains(text)) && lines.iter().all(|old| *old != line) {
            fill(run, &child);
        }
        lines.push(line);
    }
    let mut stdout = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut stdout).unwrap();
    let code = wait(&mut child).code();
    run.assert_clean(&lines.join("\n"));
    let left = stdout.lines().last().unwrap_or_default().to_owned();
    Said { code, lines, left }
}

impl Said {
    /// Its last line, and that it is about room; before it only progress.
    #[track_caller]
    fn is_told(&self, beginning: &str, end: &str, left: &str) {
        let last = self.lines.last().unwrap();
        assert!(last.starts_with(beginning) && last.ends_with(end), "{:?}", self.lines);
        assert!(last.to_lowercase().contains("no space left"), "{last}");
        let about_room = |line: &&String| line.to_lowercase().contains("no space left");
        assert_eq!(self.lines.iter().filter(about_room).count(), 1, "{:?}", self.lines);
        assert_eq!((self.code, self.left.as_str()), (Some(1), left), "{:?}", self.lines);
    }
}

fn profile(run: &Run, kib: u32, out: &Path) -> Command {
    let (scalws, out) = (scalws().display().to_string(), out.display().to_string());
    let arguments = ["--scalws", &scalws, "--seconds", "1", "--out", &out, "static-small"];
    run.command_beside_a_small_disk(kib, "profile.sh", &arguments)
}

#[test]
fn a_profile_without_room_for_its_folder_ends_before_any_load() {
    if cannot_profile() || cannot_mount() {
        return;
    }
    let run = Run::new();
    let said = said(&run, profile(&run, 64, &run.small()), None);
    said.is_told("profile: ", "64 KiB free, a profile wants 16 MiB", "left:");
    assert!(said.lines.iter().all(|line| !line.contains("plain")), "{:?}", said.lines);
}

#[test]
fn a_profile_whose_disk_becomes_full_leaves_no_folder() {
    if cannot_profile() || cannot_mount() {
        return;
    }
    let run = Run::new();
    let said = said(&run, profile(&run, 17 * 1_024, &run.small()), Some(": plain, "));
    said.is_told("profile: ", "(os error 28)", "left: filler");
}

#[test]
fn a_profile_without_room_for_its_scratch_ends_with_one_line() {
    if cannot_profile() || cannot_mount() {
        return;
    }
    // Too small for the site of 2.5 MiB; too small for what perf records while it is served.
    for (kib, is_late) in [(64, false), (3 * 1_024, true)] {
        let run = Run::new();
        let mut command = profile(&run, kib, &run.out());
        command.env("TMPDIR", run.small());
        let said = said(&run, command, None);
        said.is_told("profile: ", "", "left:");
        let has_load = said.lines.iter().any(|line| line.contains(": plain, "));
        assert_eq!(has_load, is_late, "{:?}", said.lines);
        assert_eq!(super::run::names(&run.out()), Vec::<String>::new());
    }
}

fn bench(run: &Run, kib: u32) -> Command {
    let (out, scalws) = (run.small().display().to_string(), scalws().display().to_string());
    let short = ["--rounds", "3", "--seconds", "0.2", "--warmup", "0.1", "--servers", "scalws"];
    let arguments = [&short[..], &["--scalws", &scalws, "--out", &out, "static-1k"]].concat();
    run.command_beside_a_small_disk(kib, "bench.sh", &arguments)
}

#[test]
fn a_comparison_without_room_ends_before_any_load() {
    if cannot_mount() {
        return;
    }
    let run = Run::new();
    let said = said(&run, bench(&run, 4), None);
    said.is_told("scalws-lab: cannot save ", "(os error 28)", said.left.clone().as_str());
    assert!(said.lines.iter().all(|line| !line.contains("round ")), "{:?}", said.lines);
    assert!(!said.left.contains(".part"), "{}", said.left);
}

/// What was saved before stays whole.
#[test]
fn a_comparison_whose_disk_becomes_full_keeps_what_it_had() {
    if cannot_mount() {
        return;
    }
    let run = Run::new();
    let said = said(&run, bench(&run, 256), Some("round 1/3"));
    said.is_told("scalws-lab: cannot save ", "(os error 28)", "left: filler results.json results.md");
}
