//! The system calls of one thread of a server, by strace.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{Server, Site, has_program};

/// A strace of the only worker, attached until it is asked what it saw.
pub struct Trace {
    strace: Child,
    file: PathBuf,
}

impl Trace {
    /// `calls` as `strace -e trace=` takes them. The error says why it cannot be had here.
    pub fn of_worker(server: &Server, site: &Site, calls: &str) -> Result<Trace, String> {
        if !has_program("strace") {
            return Err("needs strace".to_owned());
        }
        assert_eq!(server.workers(), 1);
        let threads = server.threads();
        let (worker, _) = threads.iter().find(|(_, name)| name.starts_with("worker-")).unwrap();
        let file = site.directory().join("trace");
        let mut strace = Command::new("strace")
            .args(["-y", "-s", "64", "-e", &format!("trace={calls}"), "-p", &worker.to_string(), "-o"])
            .arg(&file)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(strace.stderr.take().unwrap()).read_line(&mut line).unwrap();
        if line.contains("attached") {
            return Ok(Trace { strace, file });
        }
        let _ = strace.wait();
        Err(format!("needs leave to trace: {}", line.trim()))
    }

    /// Lets the worker go; its calls in order, with what they returned.
    pub fn end(mut self) -> Vec<String> {
        kill_process(Pid::from_child(&self.strace), Signal::INT).unwrap();
        self.strace.wait().unwrap();
        let text = std::fs::read_to_string(&self.file).unwrap();
        text.lines().filter(|line| line.contains(" = ")).map(str::to_owned).collect()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = self.strace.kill();
        let _ = self.strace.wait();
    }
}

/// The call's name.
pub fn name(call: &str) -> &str {
    call.split('(').next().unwrap_or_default()
}

/// What the call returned, -1 for an error.
pub fn returned(call: &str) -> i64 {
    let text = call.rsplit(" = ").next().unwrap_or_default();
    text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(-1)
}
