//! The binary under test, started with a config of the test's own and ended with it.

use std::io::{BufRead as _, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use super::client::{Client, Heard, Response, Then, exchange};
use super::{DEADLINE, Site, until};

/// The lines of a stream as they come, collected by a thread of their own.
#[derive(Clone, Default)]
pub struct Lines(Arc<(Mutex<Collected>, Condvar)>);

#[derive(Default)]
struct Collected {
    lines: Vec<String>,
    ended: bool,
}

impl Lines {
    pub fn of(stream: impl Read + Send + 'static) -> Lines {
        let lines = Lines::default();
        let filled = lines.clone();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stream);
            let mut line = Vec::new();
            loop {
                line.clear();
                let ended = !reader.read_until(b'\n', &mut line).is_ok_and(|length| length > 0);
                let mut collected = filled.lock();
                if ended {
                    collected.ended = true;
                } else {
                    collected.lines.push(String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned());
                }
                filled.0.1.notify_all();
                if ended {
                    return;
                }
            }
        });
        lines
    }

    /// A test that failed while it looked at the lines still has them shown.
    fn lock(&self) -> MutexGuard<'_, Collected> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `find` sees in all lines so far what it looks for.
    #[track_caller]
    pub fn wait_for<T>(&self, what: &str, find: impl Fn(&[String]) -> Option<T>) -> T {
        let start = Instant::now();
        let mut collected = self.lock();
        loop {
            if let Some(found) = find(&collected.lines) {
                return found;
            }
            let left = DEADLINE.checked_sub(start.elapsed());
            let (Some(left), false) = (left, collected.ended) else {
                panic!("no {what} in:\n{}", collected.lines.join("\n"));
            };
            collected = self.0.1.wait_timeout(collected, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for the first line that contains `part`.
    #[track_caller]
    pub fn containing(&self, part: &str) -> String {
        self.wait_for(part, |lines| lines.iter().find(|line| line.contains(part)).cloned())
    }

    pub fn all(&self) -> Vec<String> {
        self.lock().lines.clone()
    }

    /// All lines once the stream has ended.
    pub fn to_end(&self) -> Vec<String> {
        until("the end of a stream", || self.lock().ended);
        self.all()
    }
}

/// A server about to start; `command` can still be changed.
pub struct Launch {
    pub command: Command,
    with_admin: bool,
}

impl Launch {
    /// `server` are further keys of `[server]`, `tables` everything after it.
    pub fn new(site: &Site, server: &str, tables: &str) -> Launch {
        let listen = if server.contains("listen =") { "" } else { "listen = [\"127.0.0.1:0\"]\n" };
        let admin = if server.contains("admin =") { "" } else { "admin = \"127.0.0.1:0\"\n" };
        let config = site.config(&format!("[server]\n{listen}{admin}{server}\n{tables}"));
        Self::with_config(&config, !server.contains("admin = \"off\""))
    }

    pub fn with_config(config: &Path, with_admin: bool) -> Launch {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scalws"));
        command.arg("serve").arg("--config").arg(config).current_dir(env!("CARGO_TARGET_TMPDIR"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Launch { command, with_admin }
    }

    /// As a user without any privilege; only root can.
    pub fn unprivileged(mut self) -> Launch {
        self.command.uid(65532).gid(65532);
        self
    }

    /// With so many descriptors from its start on, as `ulimit -n` says.
    pub fn with_descriptors(mut self, count: u32) -> Launch {
        let mut limited = Command::new("sh");
        limited.arg("-c").arg(format!("ulimit -n {count} && exec \"$0\" \"$@\""));
        limited.arg(self.command.get_program()).args(self.command.get_args());
        limited.current_dir(env!("CARGO_TARGET_TMPDIR"));
        limited.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.command = limited;
        self
    }

    #[track_caller]
    pub fn start(self) -> Server {
        let with_admin = self.with_admin;
        // Kills the child if it never says that it listens.
        let mut server = self.spawn();
        // The plain one where there is one, as it is said first.
        server.address = server.announced(&["listening", "listening with TLS"]);
        server.admin = with_admin.then(|| server.announced(&["admin listening"]));
        server
    }

    /// Only starts the process: for those that never come to listen.
    #[track_caller]
    pub fn spawn(mut self) -> Server {
        let mut child = self.command.spawn().unwrap();
        let errors = Lines::of(child.stderr.take().expect("stderr is a pipe"));
        let access = child.stdout.take().map(Lines::of).unwrap_or_default();
        Server { child, address: ([0, 0, 0, 0], 0).into(), admin: None, errors, access }
    }
}

/// A running server; killed when dropped.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    pub admin: Option<SocketAddr>,
    pub errors: Lines,
    pub access: Lines,
}

impl Server {
    /// The site at `/`, and `respond` routes at `/healthz` and below `/r/`.
    #[track_caller]
    pub fn of(site: &Site) -> Server {
        Self::with(site, "", &format!("{}{}", site.route(), Self::RESPOND))
    }

    #[track_caller]
    pub fn with(site: &Site, server: &str, tables: &str) -> Server {
        Launch::new(site, server, tables).start()
    }

    pub const RESPOND: &str = "[[route]]\nexact = \"/healthz\"\nrespond = { status = 200, body = \"ok\\n\" }\n\
        [[route]]\npath = \"/r/\"\nrespond = { status = 200, body = \"r\\n\" }\n";

    #[track_caller]
    fn announced(&self, events: &[&str]) -> SocketAddr {
        let find = |line: &String| events.iter().find_map(|event| address_of(line, event));
        self.errors.wait_for(events[0], |lines| lines.iter().find_map(find))
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// One GET on a connection of its own.
    #[track_caller]
    pub fn get(&self, target: &str) -> Response {
        self.client().get(target)
    }

    #[track_caller]
    pub fn admin_get(&self, target: &str) -> Response {
        Client::connect(self.admin.expect("an admin address")).get(target)
    }

    /// Sends bytes, half-closes and reads to the end.
    pub fn raw(&self, bytes: impl AsRef<[u8]>) -> Heard {
        exchange(self.address, bytes.as_ref(), Then::HalfClose)
    }

    /// Sends bytes and reads until the *server* ends the connection.
    pub fn raw_open(&self, bytes: impl AsRef<[u8]>) -> Heard {
        exchange(self.address, bytes.as_ref(), Then::Wait)
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    #[track_caller]
    pub fn wait_exit(&mut self) -> ExitStatus {
        let mut status = None;
        until("the end of the server", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    pub fn has_exited(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Sockets that the process holds.
    pub fn sockets(&self) -> usize {
        let links = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap();
        let links = links.filter_map(|link| std::fs::read_link(link.ok()?.path()).ok());
        links.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
    }

    /// Bytes that wait in the socket of the server's end of a connection, by the client's address.
    pub fn received(client: SocketAddr) -> usize {
        let queues = kernel_row(client).map(|row| row[4].clone()).unwrap_or_default();
        queues.split_once(':').map_or(0, |(_, received)| usize::from_str_radix(received, 16).unwrap())
    }

    /// Whether the kernel still has the server's end of a connection, closed or not.
    pub fn has_end_of(client: SocketAddr) -> bool {
        // TIME_WAIT holds nothing.
        kernel_row(client).is_some_and(|row| row[3] != "06")
    }

    /// Memory of the process, shared pages counted by their share.
    pub fn pss_bytes(&self) -> u64 {
        self.memory("Pss:")
    }

    /// The part of it that is no file: heap and stacks.
    pub fn anonymous_bytes(&self) -> u64 {
        self.memory("Pss_Anon:")
    }

    fn memory(&self, key: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", self.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(key)).expect("a line of that key");
        line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
    }

    /// Thread id and name of every thread.
    pub fn threads(&self) -> Vec<(u32, String)> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        tasks
            .filter_map(|task| {
                let task = task.ok()?;
                let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
                Some((task.file_name().to_str()?.parse().ok()?, name.trim_end().to_owned()))
            })
            .collect()
    }

    /// How many workers there are: as many as the log says, and threads of that name once all of them
    /// have taken it.
    pub fn workers(&self) -> usize {
        let line: serde_json::Value = serde_json::from_str(&self.errors.containing("\"starting\"")).unwrap();
        let said = usize::try_from(line["workers"].as_u64().unwrap()).unwrap();
        let found = || self.threads().iter().filter(|(_, name)| name.starts_with("worker-")).count();
        until("a thread for each worker", || found() >= said);
        found()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the server said:\n{}", self.errors.all().join("\n"));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The row of the kernel about the socket whose other end is `client`: number, local and remote
/// address, state, bytes to send and received (proc(5)).
fn kernel_row(client: SocketAddr) -> Option<Vec<String>> {
    let SocketAddr::V4(client) = client else { panic!("not IPv4: {client}") };
    let remote = format!("{:08X}:{:04X}", u32::from_ne_bytes(client.ip().octets()), client.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let rows = table.lines().map(|line| line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let mut rows = rows;
    rows.find(|row| row.len() > 4 && row[2] == remote)
}

/// The address in a start-up line of that event.
pub fn address_of(line: &str, event: &str) -> Option<SocketAddr> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    (line.get("event")?.as_str()? == event).then(|| line.get("address")?.as_str()?.parse().ok())?
}

/// A run of the binary that came to its end.
pub struct Finished {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    /// Both streams, line by line.
    pub fn lines(&self) -> Vec<&str> {
        self.stdout.lines().chain(self.stderr.lines()).collect()
    }
}

/// Runs the binary to its end.
#[track_caller]
pub fn run(arguments: &[&str]) -> Finished {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scalws"));
    command.args(arguments).current_dir(env!("CARGO_TARGET_TMPDIR"));
    run_with(command)
}

#[track_caller]
pub fn run_with(mut command: Command) -> Finished {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let stdout = Lines::of(child.stdout.take().unwrap());
    let stderr = Lines::of(child.stderr.take().unwrap());
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > DEADLINE {
            let _ = child.kill();
            let _ = child.wait();
            panic!("still running; it said:\n{}", stderr.all().join("\n"));
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    Finished { code: status.code(), stdout: stdout.to_end().join("\n"), stderr: stderr.to_end().join("\n") }
}
