//! What is wrong or missing is said in one line, before anything is begun or when it happens.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use super::run::{Run, names, wait};
use super::{cannot_profile, scalws};

/// Runs to the end: exit code and the lines on standard error that are not the script's own progress.
fn ended(run: &Run, mut command: Command) -> (Option<i32>, Vec<String>) {
    let output = command.output().unwrap();
    run.assert_clean("at the end");
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.stdout, b"", "{text}");
    let progress = ["scalws: building the lab", "scalws: building the server"];
    (output.status.code(), text.lines().filter(|line| !progress.contains(line)).map(str::to_owned).collect())
}

#[track_caller]
fn check(script: &str, arguments: &[&str], code: i32, expected: &str) {
    let run = Run::new();
    let out = run.out().display().to_string();
    refused(&run, run.command(script, &[&["--out", &out], arguments].concat()), code, expected);
}

#[track_caller]
fn refused(run: &Run, command: Command, code: i32, expected: &str) {
    let (found, lines) = ended(run, command);
    assert_eq!((found, lines), (Some(code), vec![expected.to_owned()]));
    assert_eq!(names(&run.out()), Vec::<String>::new());
}

#[test]
fn wrong_arguments_of_a_profile_are_one_line() {
    let profile = |arguments: &[&str], expected: &str| check("profile.sh", arguments, 2, expected);
    profile(&["static-2k"], "profile: no scenario static-2k; `scalws-lab list` names them");
    profile(
        &["--compare", "scalws", "respond"],
        "profile: --compare scalws: that is the one it is compared with",
    );
    profile(
        &["--scalws", "/nowhere/scalws", "respond"],
        "profile: --scalws: there is no file /nowhere/scalws",
    );
    let run = Run::new();
    for wrong in [&["--seconds", "0", "respond"][..], &["--no-build", "respond"], &["--frob", "respond"], &[]]
    {
        let (code, lines) = ended(&run, run.command("profile.sh", wrong));
        assert_eq!(code, Some(2), "{lines:?}");
        assert!(lines[0].starts_with("error: "), "{lines:?}");
    }
}

#[test]
fn what_the_server_has_not_learned_is_named_with_its_milestone() {
    if cannot_profile() {
        return;
    }
    let scalws = scalws().display().to_string();
    let profile = |scenario: &str, reason: &str| {
        let expected = format!("profile: scalws cannot do {scenario}: {reason}");
        check("profile.sh", &["--scalws", &scalws, scenario], 1, &expected);
        // Without the script, which makes an engine and base images first where there are none.
        let run = Run::new();
        let out = run.out().display().to_string();
        let arguments = ["profile", "--docker", "--no-build", "--out", &out, scenario];
        refused(&run, run.lab(&arguments), 1, &expected);
    };
    profile("tls-1k", "no TLS yet (milestone M6)");
    profile("h2-8x32", "no TLS yet (milestone M6)");
}

/// PATH with what the scripts need and without one tool; apt-get is not among it.
fn path_without(run: &Run, tool: &str) -> String {
    let bare = run.directory.join("bare");
    let _ = std::fs::remove_dir_all(&bare);
    std::fs::create_dir_all(&bare).unwrap();
    let tools =
        ["bash", "sh", "dirname", "sleep", "setpriv", "timeout", "uname", "git", "perf", "cargo", "id"];
    for name in tools.iter().filter(|name| **name != tool) {
        let own = run.directory.join("bin").join(name);
        let places = ["/usr/bin", "/bin", "/usr/local/bin"].map(|place| Path::new(place).join(name));
        if let Some(found) = std::iter::once(own).chain(places).find(|path| path.exists()) {
            symlink(found, bare.join(name)).unwrap();
        }
    }
    bare.display().to_string()
}

#[test]
fn a_missing_tool_is_named_with_how_to_get_it() {
    let run = Run::new();
    let without = |tool: &str, script: &str| {
        let mut command = run.command(script, &["--scalws", "/bin/true", "static-small"]);
        command.env("PATH", path_without(&run, tool)).env("HOME", &run.directory);
        let (code, lines) = ended(&run, command);
        assert_eq!(code, Some(1), "{lines:?}");
        lines
    };
    for script in ["profile.sh", "bench.sh"] {
        let lines = without("cargo", script);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with("scalws: cargo is missing: install Rust from "), "{lines:?}");
    }
    let lines = without("perf", "profile.sh");
    let [installs, script, missing, .., last] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!(installs, "scalws: installing linux-perf");
    assert!(script.ends_with("could not be installed: apt-get install linux-perf"), "{script}");
    assert!(missing.starts_with("missing: perf is not installed: `apt-get install linux-perf`"), "{missing}");
    assert!(last.starts_with("profile: cannot profile here: "), "{last}");
}

/// nginx is looked for beside PATH too: only a namespace in which it is not there can show this.
#[test]
fn a_comparison_without_nginx_says_so() {
    // By its path: PATH is that of the run.
    const UNSHARE: &str = "/usr/bin/unshare";
    if !Command::new(UNSHARE).args(["--mount", "true"]).status().is_ok_and(|status| status.success()) {
        println!("SKIPPED: no mount namespace here, so nginx cannot be hidden");
        return;
    }
    let run = Run::new();
    let hide = "for place in /usr/sbin/nginx /usr/local/sbin/nginx /sbin/nginx; do \
                [ ! -e \"$place\" ] || /bin/mount --bind /dev/null \"$place\" || exit 99; done; exec bash \"$@\"";
    let script = Run::script("bench.sh").display().to_string();
    let mut command = Command::new(UNSHARE);
    command.args([
        "--mount",
        "--propagation",
        "private",
        "/bin/bash",
        "-c",
        hide,
        "bash",
        &script,
        "static-1k",
    ]);
    let usual = run.command("bench.sh", &[]);
    command.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
    // Without apt-get it cannot be installed.
    command.env("PATH", path_without(&run, "nginx"));
    let (code, lines) = ended(&run, command);
    let last = "scalws: nginx is missing and could not be installed: apt-get install nginx-light";
    assert_eq!((code, lines.last().map(String::as_str)), (Some(1), Some(last)), "{lines:?}");
}

/// A server that ends at its start, and one that is killed under load.
#[test]
fn a_dead_server_ends_a_profile_with_one_line() {
    if cannot_profile() {
        return;
    }
    let start = ["--scalws", "/bin/false", "--seconds", "1", "static-small"];
    check("profile.sh", &start, 1, "profile: scalws ended at its start: nothing was said");
    let run = Run::new();
    let (out, scalws) = (run.out().display().to_string(), scalws().display().to_string());
    let arguments = ["--scalws", &scalws, "--seconds", "20", "--out", &out, "static-small"];
    let mut lab = run.command("profile.sh", &arguments).spawn().unwrap();
    let mut lines = Vec::new();
    for line in BufReader::new(lab.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        if line.contains(": plain, ") {
            let line = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let tree = scalws_lab::measure::tree(lab.id());
            let server = tree.into_iter().find(|pid| line(*pid).starts_with(&scalws)).unwrap();
            kill_process(Pid::from_raw(i32::try_from(server).unwrap()).unwrap(), Signal::KILL).unwrap();
        }
        lines.push(line);
    }
    assert_eq!(wait(&mut lab).code(), Some(1), "{lines:?}");
    let after: Vec<&String> = lines.iter().skip_while(|line| !line.contains(": plain, ")).skip(1).collect();
    assert_eq!(after.len(), 1, "{lines:?}");
    assert!(after[0].starts_with("profile: "), "{after:?}");
    run.assert_clean("after the server's death");
    assert_eq!(names(&run.out()), Vec::<String>::new());
}
