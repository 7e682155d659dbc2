//! The generator of one window, here on a pinned thread or in the container that shares the server's
//! network. Connected first and let go after, so that connections and handshakes are nobody's requests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::containers::inside::Step;
use crate::load::{self, Bounds, Outcome, Plan, Until};
use crate::place::{Guarded, Place};
use crate::{Refusal, cpus, interrupt};

/// How often the waiting thread looks for Ctrl-C and at the server: ten times a second costs the
/// generator's CPU nothing that shows.
const LOOK: Duration = Duration::from_millis(100);
/// A generator that is not back by then hangs.
const GRACE: Duration = Duration::from_secs(30);

type Said = Result<Option<Outcome>, Refusal>;

/// After Ctrl-C nobody waits for it: its server is ended, and the process with it.
pub struct Generator {
    go: Sender<()>,
    /// `None` once it is connected, then the outcome.
    results: Receiver<Said>,
    deadline: Instant,
    /// Who speaks with its container; ended with it.
    _speaker: Option<Guarded>,
}

impl Generator {
    /// Connects, in a container where the server has one for it.
    ///
    /// # Errors
    /// The server refuses, or a handshake fails.
    pub fn connect(plan: Plan, load: Option<&Place>, lab_cpus: &[usize]) -> Result<Generator, Refusal> {
        let (sender, results) = mpsc::channel();
        let (go, going) = mpsc::channel();
        let seconds = if let Until::Seconds(seconds) = plan.until { seconds } else { 0.0 };
        let speaker = match load {
            Some(load) => Some(there(load, &plan, sender, going)?),
            None => {
                here(plan, lab_cpus.to_vec(), sender, going);
                None
            }
        };
        let deadline = Instant::now() + Duration::from_secs_f64(seconds) + GRACE;
        let generator = Generator { go, results, deadline, _speaker: speaker };
        generator.next().map(|_| generator)
    }

    /// The window itself.
    ///
    /// # Errors
    /// An answer is not what it has to be, or Ctrl-C.
    pub fn run(self) -> Result<Outcome, Refusal> {
        self.go.send(()).map_err(|_| silent())?;
        self.next()?.ok_or_else(silent)
    }

    fn next(&self) -> Said {
        loop {
            match self.results.recv_timeout(LOOK) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Disconnected) => return Err(silent()),
                Err(RecvTimeoutError::Timeout) if interrupt::requested() => return Err(interrupt::refusal()),
                Err(RecvTimeoutError::Timeout) if Instant::now() > self.deadline => {
                    return Err(Refusal::new(format!("the generator is {} s late", GRACE.as_secs())));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

fn silent() -> Refusal {
    Refusal::new("the generator ended without a result")
}

fn here(plan: Plan, cpus: Vec<usize>, sender: Sender<Said>, going: Receiver<()>) {
    thread::spawn(move || {
        let bounds = Bounds { stop: interrupt::requested, ..Bounds::default() };
        let ready = cpus::pin(None, &cpus).and_then(|()| load::connect(&plan, bounds));
        // Where nobody is left to hear it, the process is about to end.
        let _ = match ready {
            Err(refusal) => sender.send(Err(refusal)),
            Ok(ready) => sender.send(Ok(None)).and_then(|()| match going.recv() {
                Ok(()) => sender.send(ready.run().map(Some)),
                Err(_) => Ok(()),
            }),
        };
    });
}

/// By the lines of `inside window`.
fn there(load: &Place, plan: &Plan, sender: Sender<Said>, going: Receiver<()>) -> Result<Guarded, Refusal> {
    let plan = serde_json::to_string(plan).map_err(|error| Refusal::new(error.to_string()))?;
    let mut command = load.command(&["scalws-lab", "inside", "window"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut speaker = Guarded::start(&mut command)?;
    let (mut input, output, mut errors) = speaker.pipes().ok_or_else(silent)?;
    thread::spawn(move || {
        let mut lines = BufReader::new(output).lines();
        let mut next = || match lines.next().and_then(Result::ok) {
            Some(line) => match serde_json::from_str::<Step>(&line) {
                Ok(step) => step.map_err(Refusal::new),
                Err(_) => Err(Refusal::new(format!("the generator in its container: {line}"))),
            },
            None => {
                let mut text = String::new();
                let _ = errors.read_to_string(&mut text);
                let why = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
                Err(Refusal::new(format!("the generator in its container ended: {why}")))
            }
        };
        // A container that is gone shows in what it does not say.
        let _ = writeln!(input, "{plan}");
        let connected = next();
        let is_connected = connected.is_ok();
        if sender.send(connected).is_ok() && is_connected && going.recv().is_ok() {
            let _ = writeln!(input, "go");
            let _ = sender.send(next());
        }
    });
    Ok(speaker)
}
