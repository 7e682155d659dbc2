//! Where commands run that look at the server: here, or in the container that shares its processes.
//! Each is bounded in time and ends with the lab, whatever ends the lab.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Refusal;

/// Bytes of a tool's output that are read: two seconds of a million switches fit.
const TEXT_MAX: u64 = 256 << 20;
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A child process that does not outlive its owner.
#[derive(Debug)]
pub struct Guarded(Child);

impl Guarded {
    /// Starts it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command) -> Result<Guarded, Refusal> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.spawn().map(Guarded).map_err(|error| Refusal::new(format!("cannot start {name}: {error}")))
    }

    /// Waits for its end and says whether it went well.
    ///
    /// # Errors
    /// It takes longer than `most`, or the run was interrupted and it is none to be waited for; it is ended
    /// then.
    fn wait(&mut self, most: Duration, is_whole: bool) -> Result<bool, Refusal> {
        let end = Instant::now() + most;
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status.success());
            }
            if !is_whole {
                super::stop_if_interrupted()?;
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
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = self.0.kill();
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

    fn command(&self, words: &[&str]) -> Command {
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
        self.collect(self.command(words), input, most, false)
    }

    /// Runs a command that no Ctrl-C ends half-way: the terminal's does not reach its group, and it is
    /// waited for. What it asks a daemon for would be made after it had gone.
    ///
    /// # Errors
    /// As of `run`.
    pub fn run_whole(&self, words: &[&str], most: Duration) -> Result<Text, Refusal> {
        let mut command = self.command(words);
        command.process_group(0);
        self.collect(command, None, most, true)
    }

    fn collect(
        &self,
        mut command: Command,
        input: Option<&str>,
        most: Duration,
        is_whole: bool,
    ) -> Result<Text, Refusal> {
        let file = |ending: &str| {
            let thread = format!("{:?}", std::thread::current().id());
            let digits: String = thread.chars().filter(char::is_ascii_digit).collect();
            self.scratch.join(format!("{digits}.{ending}"))
        };
        let (out, err) = (file("out"), file("err"));
        let at = |error: std::io::Error| Refusal::new(format!("{}: {error}", self.scratch.display()));
        command.stdout(File::create(&out).map_err(at)?).stderr(File::create(&err).map_err(at)?);
        if let Some(input) = input {
            let path = file("in");
            fs::write(&path, input).map_err(at)?;
            command.stdin(File::open(path)?);
        }
        let is_good = Guarded::start(&mut command)?.wait(most, is_whole)?;
        // A tool that prints to a full disk may end well: half of its output would look whole.
        if super::folder::room(&self.scratch) == Some(0) {
            return Err(Refusal::new(format!("{}: no space left", self.scratch.display())));
        }
        Ok(Text { out: read(&out)?, err: read(&err)?, is_good })
    }

    /// Runs a command that has to go well.
    ///
    /// # Errors
    /// It does not; the last line that it wrote says why.
    pub fn need(&self, words: &[&str], most: Duration) -> Result<Text, Refusal> {
        self.run(words, most)?.good(words)
    }
}

impl Text {
    /// Itself, of a command that went well.
    ///
    /// # Errors
    /// It did not; the last line that it wrote says why.
    pub fn good(self, words: &[&str]) -> Result<Text, Refusal> {
        let text = self;
        if text.is_good {
            return Ok(text);
        }
        let mut lines = text.err.lines().chain(text.out.lines()).filter(|line| !line.trim().is_empty());
        let why =
            lines.clone().find(|line| line.to_lowercase().contains("error")).or_else(|| lines.next_back());
        let shown = words.iter().take(3).copied().collect::<Vec<_>>().join(" ");
        Err(Refusal::new(format!("`{shown}` failed: {}", why.unwrap_or("it said nothing").trim())))
    }
}

fn read(path: &Path) -> Result<String, Refusal> {
    let file = File::open(path)?;
    if file.metadata()?.len() > TEXT_MAX {
        return Err(Refusal::new(format!("a tool wrote more than {} MiB", TEXT_MAX >> 20)));
    }
    let mut bytes = Vec::new();
    file.take(TEXT_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
