//! The thread that is every server's parent.
//!
//! `PR_SET_PDEATHSIG` fires when the thread that forked ends, not the process (prctl(2)): so one thread
//! that never ends forks them all. It pins itself before, and a child inherits that: no instruction of a
//! server runs elsewhere. Setting the signal needs code between fork and exec, which is unsafe in Rust:
//! `setpriv --pdeathsig` of util-linux sets it and execs the program, which keeps the process id. Between
//! the fork and that call, about a millisecond, a killed lab leaves its child behind.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};

use crate::{Refusal, cpus};

/// A process to start.
pub(super) struct Order {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) environment: Vec<(&'static str, OsString)>,
    /// Whether the lab's own environment goes along.
    pub(super) inherits: bool,
    pub(super) directory: PathBuf,
    pub(super) log: std::fs::File,
    pub(super) cpus: Vec<usize>,
}

type Job = (Order, Sender<Result<Child, Refusal>>);

static KEEPER: OnceLock<Mutex<Sender<Job>>> = OnceLock::new();

/// Starts a process in a group of its own: a terminal's Ctrl-C reaches the lab, which cleans up.
pub(super) fn spawn(order: Order) -> Result<Child, Refusal> {
    let gone = || Refusal::new("the thread that starts servers is gone");
    let keeper = KEEPER.get_or_init(|| {
        let (sender, jobs) = channel::<Job>();
        std::thread::spawn(move || {
            for (order, reply) in jobs {
                // Nobody waits any more: dropping a `Child` would leave it running.
                if let Err(unwanted) = reply.send(fork(order))
                    && let Ok(mut child) = unwanted.0
                {
                    let _ = child.kill();
                    let _ = child.wait();
                }
            }
        });
        Mutex::new(sender)
    });
    let (reply, answer) = channel();
    keeper.lock().map_err(|_| gone())?.send((order, reply)).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}

fn fork(order: Order) -> Result<Child, Refusal> {
    cpus::pin(None, &order.cpus)?;
    // The kernel takes what there is of a set and leaves out the rest.
    let got = cpus::allowed(None)?;
    if !order.cpus.iter().all(|cpu| got.contains(cpu)) {
        let (wanted, got) = (cpus::list(&order.cpus), cpus::list(&got));
        return Err(Refusal::new(format!("CPUs {wanted} were asked for, and only {got} are to be had")));
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--"]).arg(&order.program).args(&order.arguments);
    if !order.inherits {
        // A variable of the shell must not configure one side.
        let path = std::env::var_os("PATH");
        command.env_clear().env("HOME", &order.directory).env("LC_ALL", "C");
        command.envs(path.map(|path| ("PATH", path)));
    }
    command.envs(order.environment).current_dir(&order.directory).process_group(0).stdin(Stdio::null());
    let error = order.log.try_clone()?;
    command.stdout(order.log).stderr(error);
    command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Refusal::new("setpriv is not installed: apt-get install util-linux"),
        _ => Refusal::new(format!("{}: {error}", order.program.display())),
    })
}
