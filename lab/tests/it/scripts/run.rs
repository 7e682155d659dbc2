//! Runs a script of the repository as a terminal does: in a process group of its own, which Ctrl-C reaches
//! as a whole. Cargo is a stand-in, the lab that these tests were built with is in its place: what the
//! script lines up is real, and nothing is compiled.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs};

use rustix::process::{Pid, Signal, kill_process_group};

/// One run at a time: each wants a CPU for its server and one for itself.
pub static TURN: Mutex<()> = Mutex::new(());

/// A test that waits longer fails instead of holding the gate.
const PATIENCE: Duration = Duration::from_secs(300);

/// A directory of its own to run in, gone with it. Its name is the mark by which processes of the run are
/// known: in their environment, their command line, or as where they are.
pub struct Run {
    pub directory: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Run {
    pub fn new() -> Run {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = env::temp_dir().join(format!("scalws-lab-scripts-{}-{number}", std::process::id()));
        for name in ["bin", "target/release", "tmp", "small"] {
            fs::create_dir_all(directory.join(name)).unwrap();
        }
        let cargo = directory.join("bin/cargo");
        // Long enough for Ctrl-C to meet it.
        fs::write(&cargo, "#!/bin/sh\nexec sleep 0.2\n").unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
        let lab = directory.join("target/release/scalws-lab");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_scalws-lab"), lab).unwrap();
        Run { directory, _turn: turn }
    }

    pub fn script(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts").join(name)
    }

    /// What a run leaves goes to `out`, its scratch to `tmp`.
    pub fn command(&self, script: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("bash");
        command.arg(Run::script(script)).args(arguments);
        self.set_up(&mut command);
        command
    }

    /// The lab without a script.
    pub fn lab(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scalws-lab"));
        command.args(arguments);
        self.set_up(&mut command);
        command
    }

    /// The same as `command` with a file system of so many KiB at `small`. It is mounted in a namespace of its own,
    /// which ends with its last process. Afterwards what is left in it goes to standard output.
    pub fn command_beside_a_small_disk(&self, kib: u32, script: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        let lines = "mount -t tmpfs -o size=\"$1\"k none \"$2\" || exit 99\nsmall=\"$2\"\nshift 2\n\
                     code=0\n\"$@\" || code=$?\necho \"left:\" $(ls -A \"$small\")\nexit \"$code\"";
        command.args(["--mount", "--propagation", "private", "bash", "-c", lines, "bash"]);
        command.arg(kib.to_string()).arg(self.small()).arg("bash").arg(Run::script(script)).args(arguments);
        self.set_up(&mut command);
        command
    }

    fn set_up(&self, command: &mut Command) {
        let mut path = vec![self.directory.join("bin")];
        path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
        command.env("PATH", env::join_paths(path).unwrap());
        command.env("CARGO_TARGET_DIR", self.directory.join("target"));
        command.env("TMPDIR", self.directory.join("tmp"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    }

    pub fn out(&self) -> PathBuf {
        self.directory.join("out")
    }

    pub fn small(&self) -> PathBuf {
        self.directory.join("small")
    }

    /// Processes that work for it.
    pub fn left(&self) -> Vec<String> {
        let mark = self.directory.to_string_lossy().into_owned();
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter_map(|pid| {
            let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
            let (line, environment) = (read("cmdline"), read("environ"));
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let place = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
            let is_its = line.contains(&mark)
                || String::from_utf8_lossy(&environment).contains(&mark)
                || place.starts_with(&self.directory);
            is_its.then(|| format!("{pid} {line}"))
        })
        .collect()
    }

    /// No process, no file of the scratch.
    #[track_caller]
    pub fn assert_clean(&self, when: &str) {
        assert_eq!(self.left(), Vec::<String>::new(), "{when}");
        assert_eq!(names(&self.directory.join("tmp")), Vec::<String>::new(), "{when}");
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

pub fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

/// As the terminal does it.
pub fn press_ctrl_c(child: &Child) {
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    let _ = kill_process_group(group, Signal::INT); // it may have ended by itself
}

/// Waits for a child that may hang only because something is wrong.
#[track_caller]
pub fn wait(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            let group = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
            let _ = kill_process_group(group, Signal::KILL);
            panic!("still there after {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Ended by Ctrl-C: before the lab watches for the signal it ends the shell as any other process.
pub fn is_interrupted(status: ExitStatus) -> bool {
    status.code() == Some(130) || status.signal() == Some(2)
}

/// Fractions of a run at which it is interrupted: others each time. `SEED=…` repeats them.
pub fn moments() -> [f64; 5] {
    let given = env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let clock = || rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_nsec.unsigned_abs();
    let seed: u64 = given.unwrap_or_else(clock);
    println!("SEED={seed}");
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    [(); 5].map(|()| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    })
}
