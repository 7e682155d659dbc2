//! What the lab's own containers are asked: looks at a server from within its namespaces, load from within
//! its network. Prints JSON.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use serde::{Deserialize, Serialize};

use crate::cpus::{self, Cpus};
use crate::fixture::Fixture;
use crate::load::{self, Bounds, Outcome, Plan};
use crate::place::Scratch;
use crate::profile::preflight::Facts;
use crate::profile::subject::Look;
use crate::scenario::{Scenario, Setup};
use crate::servers::{self, Launch, Server, Started};
use crate::traces::{Keep, Receiver};
use crate::{Refusal, interrupt, scenario};

/// Requests of the page: some megabytes.
const LATEST: usize = 10_000;
/// Between two looks at the signal to stop.
const LOOK: Duration = Duration::from_millis(100);

/// `scalws-lab inside`
#[derive(Debug, Subcommand)]
pub enum Inside {
    /// What perf may do here.
    Facts,
    /// What a process and its descendants cost so far.
    Look {
        /// The process.
        pid: u32,
    },
    /// Asks once and holds the answer against the fixture.
    Probe {
        /// Row of the matrix.
        scenario: String,
        /// Who is asked.
        address: SocketAddr,
        /// Where the fixture lies.
        fixture: PathBuf,
    },
    /// Asks once as a plan says, which comes on standard input.
    Check,
    /// One window: reads a plan, connects, prints a [`Step`], and sends requests when another line comes.
    Window,
    /// Takes spans over OTLP/HTTP until a line comes on standard input, then prints them; with a page until the signal
    /// to stop.
    Collect {
        /// Where.
        address: SocketAddr,
        /// Shows the slowest and the latest requests at the same address.
        #[arg(long)]
        page: bool,
    },
    /// Runs a server until the signal to stop.
    Serve {
        /// Which.
        server: String,
        /// Row of the matrix.
        scenario: String,
        /// Its port on 127.0.0.1.
        port: u16,
        /// Where the fixture lies.
        fixture: PathBuf,
        /// CPUs: as many workers, each of them allowed all.
        cpus: usize,
    },
}

/// What a window prints, one line each: connected, then its outcome; or why not.
pub type Step = Result<Option<Outcome>, String>;

/// What `serve` prints of its server once that answers.
#[derive(Debug, Serialize, Deserialize)]
pub struct Served {
    /// As its container numbers it.
    pub pid: u32,
    /// In its own words.
    pub version: String,
    /// As it was written.
    pub config: String,
    /// What is on and off.
    pub features: String,
}

/// Prints the answer, or why there is none.
#[must_use]
pub fn run(inside: &Inside) -> ExitCode {
    let result = match inside {
        Inside::Facts => print(&Facts::look(true)),
        Inside::Look { pid } => Look::at(*pid).and_then(|look| print(&look)),
        Inside::Probe { scenario, address, fixture } => probe(scenario, *address, fixture),
        Inside::Check => check(),
        Inside::Window => window(),
        Inside::Collect { address, page: false } => collect(*address),
        Inside::Collect { address, page: true } => show(*address),
        Inside::Serve { server, scenario, port, fixture, cpus } => {
            serve(server, scenario, *port, fixture, *cpus)
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            eprintln!("{refusal}");
            ExitCode::FAILURE
        }
    }
}

fn print(value: &impl Serialize) -> Result<(), Refusal> {
    let text = serde_json::to_string(value).map_err(|error| Refusal::new(error.to_string()))?;
    println!("{text}");
    Ok(())
}

fn row(name: &str) -> Result<&'static Scenario, Refusal> {
    scenario::find(name).ok_or_else(|| Refusal::new(format!("no scenario {name}")))
}

fn probe(name: &str, address: SocketAddr, fixture: &Path) -> Result<(), Refusal> {
    print(&load::probe(address, row(name)?, &Fixture::lay_out(fixture)?)?)
}

fn check() -> Result<(), Refusal> {
    let plan: Plan = serde_json::from_reader(std::io::stdin())
        .map_err(|error| Refusal::new(format!("the plan: {error}")))?;
    load::check(plan.address, plan.protocol, &plan.request, &plan.expect)
}

/// A lost reader of its lines is the end of the lab: nothing is left to do.
fn window() -> Result<(), Refusal> {
    let mut lines = std::io::stdin().lines();
    let mut next = || lines.next().and_then(Result::ok);
    let ready = next()
        .ok_or_else(|| Refusal::new("the plan: there is none"))
        .and_then(|line| {
            serde_json::from_str(&line).map_err(|error| Refusal::new(format!("the plan: {error}")))
        })
        .and_then(|plan: Plan| load::connect(&plan, Bounds::default()));
    let told = |refusal: Refusal| refusal.to_string();
    let ready = match ready {
        Ok(ready) => ready,
        Err(refusal) => return print(&Step::Err(told(refusal))),
    };
    print(&Step::Ok(None))?;
    match next() {
        Some(_) => print(&ready.run().map(Some).map_err(told)),
        None => Ok(()),
    }
}

/// The end of its input is the end of the lab.
fn collect(address: SocketAddr) -> Result<(), Refusal> {
    let receiver = Receiver::start(address, Keep::First, None)?;
    println!("listens at {}", receiver.address());
    match std::io::stdin().lines().next() {
        Some(Ok(_)) => print(&receiver.taken().compact()),
        _ => Ok(()),
    }
}

/// For a person: a service of compose.yaml.
fn show(address: SocketAddr) -> Result<(), Refusal> {
    interrupt::watch()?;
    let receiver = Receiver::start(address, Keep::Latest(LATEST), Some(crate::report::traces::page))?;
    println!("listens at {}", receiver.address());
    while !interrupt::requested() {
        std::thread::sleep(LOOK);
    }
    Ok(())
}

fn serve(server: &str, name: &str, port: u16, fixture: &Path, workers: usize) -> Result<(), Refusal> {
    interrupt::watch()?;
    // The container's cpuset is the server's: all of it.
    let all = cpus::allowed(None)?;
    let cpus =
        Cpus { server: all.into_iter().take(workers.max(1)).collect(), lab: Vec::new(), is_shared: false };
    let server: Server = server.parse()?;
    let scratch = Scratch::new()?;
    let fixture = Fixture::lay_out(fixture)?;
    let scenario = in_a_container(row(name)?);
    let launch = Launch {
        server: &server,
        scenario: &scenario,
        fixture: &fixture,
        cpus: &cpus.server,
        scalws: Path::new(""),
        scratch: scratch.path(),
        backend: None,
        variables: &[],
    };
    let mut running = match servers::start_at(&launch, port)? {
        Started::Running(running) => running,
        Started::Lacks(reason) => return Err(Refusal::new(format!("{server} cannot do {name}: {reason}"))),
    };
    print(&Served {
        pid: running.pid(),
        version: running.version().to_owned(),
        config: running.config().to_owned(),
        features: running.features().to_string(),
    })?;
    while !interrupt::requested() {
        if !running.is_alive() {
            return Err(Refusal::new(format!("{server} ended: {}", running.log().trim())));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Here the files do lie where such rows want them: what is left of them is the usual.
fn in_a_container(scenario: &Scenario) -> Scenario {
    let setup = match scenario.setup {
        Setup::ImageLayer | Setup::Network => Setup::Usual,
        other => other,
    };
    Scenario { setup, ..*scenario }
}
