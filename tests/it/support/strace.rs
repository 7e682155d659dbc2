//! What the kernel is asked for: strace(1) on a running server.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{Server, Site, has_program};

/// A trace that is being written.
pub struct Trace {
    strace: Child,
    file: PathBuf,
    /// Its stderr, held open: it says so when a thread begins, and would end where nobody can hear it.
    _said: BufReader<ChildStderr>,
}

/// A call: the thread that made it, and the call as strace writes it.
pub type Call = (u32, String);

impl Trace {
    /// Follows all threads of `server`, of these calls (`-e trace=`); says why where that cannot be had.
    pub fn of(server: &Server, site: &Site, calls: &str) -> Result<Trace, String> {
        if !has_program("strace") {
            return Err("needs strace".to_owned());
        }
        let file = site.directory().join("trace");
        let mut strace = Command::new("strace");
        strace.args(["-f", "-y", "-e", &format!("trace={calls}"), "-o"]).arg(&file);
        strace.args(["-p", &server.pid().as_raw_nonzero().to_string()]).stderr(Stdio::piped());
        let mut strace = strace.spawn().map_err(|error| error.to_string())?;
        let (mut said, mut line) = (BufReader::new(strace.stderr.take().unwrap()), String::new());
        said.read_line(&mut line).unwrap();
        if line.contains("attached") {
            return Ok(Trace { strace, file, _said: said });
        }
        let _ = strace.wait();
        Err(format!("needs leave to trace: {}", line.trim()))
    }

    /// Ends the trace; every call of it, in the order in which they began.
    pub fn end(mut self) -> Vec<Call> {
        kill_process(Pid::from_child(&self.strace), Signal::INT).unwrap();
        self.strace.wait().unwrap();
        let text = std::fs::read_to_string(&self.file).unwrap();
        // `<... recvfrom resumed>` is the second half of a call, `+++` and `---` are none.
        let is_call = |line: &str| line.starts_with(|first: char| first.is_ascii_lowercase());
        let calls = text.lines().filter_map(|line| {
            let (thread, call) = line.split_once(' ')?;
            let call = call.trim_start();
            is_call(call).then(|| (thread.parse().unwrap(), call.to_owned()))
        });
        calls.collect()
    }
}

/// The name of a call.
pub fn name_of(call: &str) -> &str {
    call.split('(').next().unwrap_or_default()
}
