//! Where commands run that look at the server: here, or in the container that shares its processes.
//! Each is bounded in time and ends with the lab, whatever ends the lab.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::{Refusal, interrupt};

/// Bytes of a tool's output that are read: two seconds of a million switches fit.
const TEXT_MAX: u64 = 256 << 20;
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// From TERM to KILL: a build that is broken off removes its containers first.
const END_MAX: Duration = Duration::from_secs(10);

/// A child process that does not outlive its owner, in a group of its own: a terminal's Ctrl-C reaches the
/// lab alone, which ends what it started in an order that leaves nothing behind.
#[derive(Debug)]
pub struct Guarded(Child);

impl Guarded {
    /// Starts it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command) -> Result<Guarded, Refusal> {
        let name = command.get_program().to_string_lossy().into_owned();
        command
            .process_group(0)
            .spawn()
            .map(Guarded)
            .map_err(|error| Refusal::new(format!("cannot start {name}: {error}")))
    }

    /// Its ends of pipes, for a command that has three.
    pub fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout, ChildStderr)> {
        Some((self.0.stdin.take()?, self.0.stdout.take()?, self.0.stderr.take()?))
    }

    /// Waits for its end and says whether it went well.
    ///
    /// # Errors
    /// It takes longer than `most`, or the run was interrupted; it is ended then.
    pub fn wait(&mut self, most: Duration) -> Result<bool, Refusal> {
        self.wait_unless(most, interrupt::requested)
    }

    /// The same, through Ctrl-C too: for what must not stop half way, as nobody could take it back then.
    ///
    /// # Errors
    /// It takes longer than `most`.
    pub fn finish(&mut self, most: Duration) -> Result<bool, Refusal> {
        self.wait_unless(most, || false)
    }

    fn wait_unless(&mut self, most: Duration, stop: fn() -> bool) -> Result<bool, Refusal> {
        let end = Instant::now() + most;
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status.success());
            }
            if stop() {
                return Err(interrupt::refusal());
            }
            if Instant::now() >= end {
                return Err(Refusal::new(format!("a tool took longer than {} s", most.as_secs())));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(None)) {
            return;
        }
        // Not reaped yet: the number of its group cannot be anybody else's.
        let group = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        let signal = |signal| group.map(|group| kill_process_group(group, signal));
        signal(Signal::TERM);
        if self.finish(END_MAX).is_err() {
            signal(Signal::KILL);
            let _ = self.0.wait();
        }
    }
}

/// A directory that goes when its owner goes.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one beneath the directory for temporary files.
    ///
    /// # Errors
    /// The disk says so.
    pub fn new() -> Result<Scratch, Refusal> {
        let path = std::env::temp_dir().join(format!("scalws-profile-{}", std::process::id()));
        fs::create_dir_all(&path).map_err(|error| Refusal::new(format!("{}: {error}", path.display())))?;
        Ok(Scratch(path))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a command wrote.
#[derive(Debug, Default)]
pub struct Text {
    /// To standard output.
    pub out: String,
    /// To standard error.
    pub err: String,
    /// Its exit code was 0.
    pub is_good: bool,
}

impl Text {
    /// Of a command that failed: its first line with an error, else its last.
    #[must_use]
    pub fn why(&self) -> &str {
        let mut lines = self.err.lines().chain(self.out.lines()).filter(|line| !line.trim().is_empty());
        let error = lines.clone().find(|line| line.to_lowercase().contains("error"));
        error.or_else(|| lines.next_back()).unwrap_or("it said nothing").trim()
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Place {
    prefix: Vec<String>,
    /// Directory for recordings, as commands there name it.
    pub recordings: String,
    /// Directory here for what commands print.
    scratch: PathBuf,
}

impl Place {
    /// This machine.
    #[must_use]
    pub fn here(scratch: &Path) -> Place {
        let recordings = scratch.display().to_string();
        Place { prefix: Vec::new(), recordings, scratch: scratch.to_owned() }
    }

    /// Behind a prefix such as `docker exec NAME`; recordings go into that container's `/tmp`.
    #[must_use]
    pub fn behind(prefix: Vec<String>, scratch: &Path) -> Place {
        Place { prefix, recordings: "/tmp".to_owned(), scratch: scratch.to_owned() }
    }

    /// Whether it is a container.
    #[must_use]
    pub fn is_container(&self) -> bool {
        !self.prefix.is_empty()
    }

    /// A command there that is not started yet.
    #[must_use]
    pub fn command(&self, words: &[&str]) -> Command {
        let mut all = self.prefix.iter().map(String::as_str).chain(words.iter().copied());
        let mut command = Command::new(all.next().unwrap_or("false"));
        // C: `perf stat -x,` would write 1,5 for 1.5 elsewhere.
        command.args(all).env("LC_ALL", "C").stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    /// It cannot be started, takes longer than `most`, or writes more than can be read.
    pub fn run(&self, words: &[&str], most: Duration) -> Result<Text, Refusal> {
        self.run_with(words, None, most)
    }

    /// The same with a standard input.
    ///
    /// # Errors
    /// As above.
    pub fn run_with(&self, words: &[&str], input: Option<&str>, most: Duration) -> Result<Text, Refusal> {
        self.read(words, input, |tool| tool.wait(most))
    }

    /// The same as [`Place::run`], through Ctrl-C too.
    ///
    /// # Errors
    /// As above.
    pub fn finish(&self, words: &[&str], most: Duration) -> Result<Text, Refusal> {
        self.read(words, None, |tool| tool.finish(most))
    }

    fn read(
        &self,
        words: &[&str],
        input: Option<&str>,
        wait: impl FnOnce(&mut Guarded) -> Result<bool, Refusal>,
    ) -> Result<Text, Refusal> {
        let file = |ending: &str| {
            let thread = format!("{:?}", std::thread::current().id());
            let digits: String = thread.chars().filter(char::is_ascii_digit).collect();
            self.scratch.join(format!("{digits}.{ending}"))
        };
        let (out, err) = (file("out"), file("err"));
        let at = |error: std::io::Error| Refusal::new(format!("{}: {error}", self.scratch.display()));
        let mut command = self.command(words);
        command.stdout(File::create(&out).map_err(at)?).stderr(File::create(&err).map_err(at)?);
        if let Some(input) = input {
            let path = file("in");
            fs::write(&path, input).map_err(at)?;
            command.stdin(File::open(path)?);
        }
        let is_good = wait(&mut Guarded::start(&mut command)?)?;
        // A tool that prints to a full disk may end well: half of its output would look whole.
        if room(&self.scratch) == Some(0) {
            return Err(Refusal::new(format!("{}: no space left", self.scratch.display())));
        }
        Ok(Text { out: text(&out)?, err: text(&err)?, is_good })
    }

    /// Runs a command that has to go well.
    ///
    /// # Errors
    /// It does not; the last line that it wrote says why.
    pub fn need(&self, words: &[&str], most: Duration) -> Result<Text, Refusal> {
        let text = self.run(words, most)?;
        if text.is_good {
            return Ok(text);
        }
        let shown = words.iter().take(3).copied().collect::<Vec<_>>().join(" ");
        Err(Refusal::new(format!("`{shown}` failed: {}", text.why())))
    }
}

fn text(path: &Path) -> Result<String, Refusal> {
    let file = File::open(path)?;
    if file.metadata()?.len() > TEXT_MAX {
        return Err(Refusal::new(format!("a tool wrote more than {} MiB", TEXT_MAX >> 20)));
    }
    let mut bytes = Vec::new();
    file.take(TEXT_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Bytes that this user may still write there; `None`: the file system does not say.
pub fn room(path: &Path) -> Option<u64> {
    let facts = rustix::fs::statvfs(path).ok()?;
    // Some network file systems know no size at all.
    (facts.f_blocks > 0).then(|| facts.f_bavail.saturating_mul(facts.f_frsize))
}
