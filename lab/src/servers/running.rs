//! A server that runs: from its first instruction to the last of its processes.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

use super::recipe::{Features, Place, Recipe};
use super::{Launch, Server, Started, certificate, files, keeper, port, recipe, tool};
use crate::scenario::Setup;
use crate::{Refusal, cpus, measure};

/// Until the first answer. Caddy takes 0.3 s here; a loaded machine takes many times that.
const READY_MAX: Duration = Duration::from_secs(20);
/// From TERM to KILL: nothing is measured any more, and no server needs to drain.
const END_MAX: Duration = Duration::from_secs(3);
/// Between two looks at something that gives no notice.
const LOOK: Duration = Duration::from_millis(5);
/// The end of a log that is read: an error is in its last lines.
const LOG_BYTES_MAX: u64 = 64 * 1024;

/// A running server. Dropping it ends all of its processes.
#[derive(Debug)]
pub struct Running {
    name: String,
    child: Child,
    address: SocketAddr,
    version: String,
    config: String,
    features: Features,
    root: PathBuf,
    log: PathBuf,
    has_ended: bool,
}

impl Running {
    /// As tables name it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The root of its tree.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// In its own words; `unknown` for commands.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Its config file, or its command line.
    #[must_use]
    pub fn config(&self) -> &str {
        &self.config
    }

    /// What is on and off.
    #[must_use]
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// The directory that it serves.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether the root of its tree still runs. It stays a zombie until the end, so that its number stays its.
    pub fn is_alive(&mut self) -> bool {
        process(self.pid()).is_some_and(has_not_ended)
    }

    /// The end of what it said.
    #[must_use]
    pub fn log(&self) -> String {
        tail(&self.log).unwrap_or_default()
    }

    /// Ends it; the end of what it said then.
    pub fn stop(&mut self) -> String {
        self.end();
        self.log()
    }

    /// Connects until it answers.
    fn wait_until_ready(&mut self, request: Option<&str>) -> Result<(), Refusal> {
        let deadline = Instant::now() + READY_MAX;
        loop {
            if !self.is_alive() {
                return Err(self.died());
            }
            if answers(self.address, request) {
                return Ok(());
            }
            if Instant::now() > deadline {
                let (name, log) = (&self.name, self.log());
                let seconds = READY_MAX.as_secs();
                let last = tool::last_line(&log);
                return Err(Refusal::new(format!("{name} did not answer within {seconds} s: {last}")));
            }
            std::thread::sleep(LOOK);
        }
    }

    fn died(&self) -> Refusal {
        let log = self.log();
        // Whoever took the port between our look and the server's bind is the better answer.
        let holder = port::holders(self.address.port());
        if !holder.is_empty() {
            return port::taken(self.address.port());
        }
        Refusal::new(format!("{} ended at its start: {}", self.name, tool::last_line(&log)))
    }

    /// That it is this server who answers, and that no thread of it may leave its CPUs.
    fn check(&self, allowed: &[usize]) -> Result<(), Refusal> {
        let tree = measure::tree(self.pid());
        let holders = port::holders(self.address.port());
        if !holders.iter().any(|pid| tree.contains(pid)) {
            return Err(port::taken(self.address.port()));
        }
        if let Some((thread, found)) = measure::stray_thread(self.pid(), allowed) {
            let (name, wanted) = (&self.name, cpus::list(allowed));
            return Err(Refusal::new(format!(
                "{name}: thread {thread} may run on CPUs {found}, not on {wanted} alone"
            )));
        }
        Ok(())
    }

    fn end(&mut self) {
        // Its number may be another's once it was waited for.
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        let Some(root) = process(self.pid()) else { return };
        // Whoever left the process group is known only as long as its parents live.
        let tree: BTreeMap<u32, String> =
            measure::tree(self.pid()).into_iter().filter_map(|pid| Some((pid, born(pid)?))).collect();
        let _ = kill_process(root, Signal::TERM);
        if !wait_unreaped(root, END_MAX) {
            let _ = kill_process(root, Signal::KILL);
            wait_unreaped(root, END_MAX);
        }
        // Not reaped yet: the number of its group cannot be anybody else's.
        let _ = kill_process_group(root, Signal::KILL);
        let _ = self.child.wait();
        let deadline = Instant::now() + END_MAX;
        for (pid, birth) in tree {
            // A number may be used again: only the very process that was in the tree.
            while born(pid).as_ref() == Some(&birth) && Instant::now() < deadline {
                if let Some(pid) = process(pid) {
                    let _ = kill_process(pid, Signal::KILL);
                }
                std::thread::sleep(LOOK);
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

fn process(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// Whether a child runs; it is not reaped.
fn has_not_ended(child: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::Pid(child), options), Ok(None))
}

/// Waits until a child ended, and leaves it a zombie. `false`: it did not.
fn wait_unreaped(child: Pid, most: Duration) -> bool {
    let deadline = Instant::now() + most;
    while has_not_ended(child) {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(LOOK);
    }
    true
}

/// When a process was started (field 22 of proc_pid_stat(5)); nothing for one that ended.
fn born(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let is_gone = matches!(fields.next()?, "Z" | "X");
    (!is_gone).then(|| fields.nth(18).map(str::to_owned))?
}

/// Whether somebody answers. Over TLS a connection is enough: the probe says the rest.
fn answers(address: SocketAddr, request: Option<&str>) -> bool {
    let second = Duration::from_secs(1);
    let Ok(mut stream) = TcpStream::connect_timeout(&address, second) else { return false };
    let Some(request) = request else { return true };
    let _ = stream.set_read_timeout(Some(second));
    stream.write_all(request.as_bytes()).is_ok() && stream.read(&mut [0; 64]).is_ok_and(|bytes| bytes > 0)
}

fn tail(path: &Path) -> std::io::Result<String> {
    let mut file = fs::File::open(path)?;
    let from = file.metadata()?.len().saturating_sub(LOG_BYTES_MAX);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Starts what is to be started.
pub(super) fn start(launch: &Launch<'_>, port: u16) -> Result<Started, Refusal> {
    if launch.cpus.is_empty() {
        return Err(Refusal::new(format!("no CPU for {}", launch.server)));
    }
    port::must_be_free(port)?;
    let (scratch, directory) = place(launch, port)?;
    let root = match launch.scenario.setup {
        Setup::Sidecar => files::with_sidecars(&scratch)?,
        _ => tool::whole(launch.fixture.root())?,
    };
    let is_tls = launch.scenario.protocol.is_tls();
    let certificate = if is_tls { Some(certificate(&scratch)?) } else { None };
    let place = Place { launch, port, directory, root, certificate };
    let recipe = match recipe::of(&place) {
        Ok(recipe) => recipe,
        Err(missing) => {
            let _ = fs::remove_dir(&place.directory); // nothing is in it
            return missing.started();
        }
    };
    let mut running = spawn(&place, recipe)?;
    let request = format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", launch.scenario.target);
    running.wait_until_ready((!is_tls).then_some(request.as_str()))?;
    running.check(launch.cpus)?;
    Ok(Started::Running(running))
}

/// The scratch directory as servers see it, and one of its own beneath.
fn place(launch: &Launch<'_>, port: u16) -> Result<(PathBuf, PathBuf), Refusal> {
    let at = |error: std::io::Error| Refusal::new(format!("{}: {error}", launch.scratch.display()));
    fs::create_dir_all(launch.scratch).map_err(at)?;
    let scratch = tool::whole(launch.scratch)?;
    let name = format!("{}-{}-{port}", launch.server, launch.scenario.name).replace('/', "_");
    let directory = scratch.join(name);
    fs::create_dir_all(&directory).map_err(at)?;
    Ok((scratch, directory))
}

fn spawn(place: &Place<'_>, recipe: Recipe) -> Result<Running, Refusal> {
    let write = |path: &Path, text: &str| {
        fs::write(path, text).map_err(|error| Refusal::new(format!("{}: {error}", path.display())))
    };
    if let Some(path) = &recipe.config_file {
        write(path, &recipe.config)?;
    }
    let version = recipe.version.map_or_else(
        || "unknown".to_owned(),
        |flag| tool::first_line(&tool::says(&recipe.program, &[flag])).to_owned(),
    );
    let log = place.file("log");
    write(&log, "")?;
    let open = fs::File::options().append(true).open(&log)?;
    let is_command = matches!(place.launch.server, Server::Command { .. });
    // A relative path in a command is the caller's; everything of ours is absolute.
    let directory = if is_command { std::env::current_dir()? } else { place.directory.clone() };
    let child = keeper::spawn(keeper::Order {
        program: tool::whole(&recipe.program)?,
        arguments: recipe.arguments,
        environment: recipe.environment,
        inherits: is_command,
        directory,
        log: open,
        cpus: place.launch.cpus.to_vec(),
    })?;
    Ok(Running {
        name: place.launch.server.to_string(),
        child,
        address: SocketAddr::from(([127, 0, 0, 1], place.port)),
        version,
        config: recipe.config,
        features: recipe.features,
        root: place.root.clone(),
        log,
        has_ended: false,
    })
}
