//! The collector of a profile in containers: `inside collect` in the server's network, ended when its spans are
//! wanted.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::{PORT, QUICK};
use crate::place::{Guarded, Place};
use crate::traces::Compact;
use crate::{Refusal, interrupt};

/// Of the server's network, beside the server's own.
pub const COLLECTOR_PORT: u16 = PORT + 1;
const LOOK: Duration = Duration::from_millis(100);

/// See the module. Ends with its owner.
pub struct Collector {
    input: ChildStdin,
    lines: mpsc::Receiver<String>,
    _speaker: Guarded,
}

impl Collector {
    /// Starts it in a container and waits until it listens.
    ///
    /// # Errors
    /// It does not.
    pub fn start(place: &Place) -> Result<Collector, Refusal> {
        let mut command =
            place.command(&["scalws-lab", "inside", "collect", &format!("127.0.0.1:{COLLECTOR_PORT}")]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut speaker = Guarded::start(&mut command)?;
        let (input, output, errors) = speaker.pipes().ok_or_else(silent)?;
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            // What it complains of comes when its output has ended.
            for line in BufReader::new(output).lines().chain(BufReader::new(errors).lines()) {
                if line.is_ok_and(|line| sender.send(line).is_ok()) {
                    continue;
                }
                return;
            }
        });
        let collector = Collector { input, lines, _speaker: speaker };
        match collector.next()? {
            line if line.contains("listens") => Ok(collector),
            line => Err(Refusal::new(line)),
        }
    }

    /// Its spans.
    ///
    /// # Errors
    /// It has ended.
    pub fn finish(mut self) -> Result<Compact, Refusal> {
        writeln!(self.input, "end").map_err(|_| silent())?;
        let line = self.next()?;
        serde_json::from_str(&line).map_err(|_| Refusal::new(line))
    }

    fn next(&self) -> Result<String, Refusal> {
        let end = Instant::now() + QUICK;
        loop {
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => return Err(silent()),
                Err(RecvTimeoutError::Timeout) if interrupt::requested() => return Err(interrupt::refusal()),
                Err(RecvTimeoutError::Timeout) if Instant::now() > end => {
                    let late = format!("the collector in its container is {} s late", QUICK.as_secs());
                    return Err(Refusal::new(late));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

fn silent() -> Refusal {
    Refusal::new("the collector in its container ended without a word")
}
