//! What the lab's own containers are asked: looks at a server from within its namespaces. Prints JSON.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use serde::Serialize;

use super::preflight::Facts;
use super::subject::Look;
use crate::cpus::{self, Cpus};
use crate::fixture::Fixture;
use crate::load::{self, Plan};
use crate::scenario::Setup;
use crate::servers::{self, Launch, Server, Started};
use crate::{Refusal, interrupt, scenario};

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

/// Prints the answer, or why there is none.
#[must_use]
pub fn run(inside: &Inside) -> ExitCode {
    let result = match inside {
        Inside::Facts => print(&Facts::look(true)),
        Inside::Look { pid } => Look::at(*pid).and_then(|look| print(&look)),
        Inside::Probe { scenario, address, fixture } => probe(scenario, *address, fixture),
        Inside::Check => check(),
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

fn row(name: &str) -> Result<&'static scenario::Scenario, Refusal> {
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

fn serve(server: &str, name: &str, port: u16, fixture: &Path, workers: usize) -> Result<(), Refusal> {
    interrupt::watch()?;
    // The container's cpuset is the server's: all of it.
    let all = cpus::allowed(None)?;
    let cpus =
        Cpus { server: all.into_iter().take(workers.max(1)).collect(), lab: Vec::new(), is_shared: false };
    let server: Server = server.parse()?;
    let scratch = super::place::Scratch::new()?;
    let fixture = Fixture::lay_out(fixture)?;
    let mut scenario = *row(name)?;
    if scenario.setup == Setup::ImageLayer {
        // Here the fixture lies in one: nothing else is different.
        scenario.setup = Setup::Usual;
    }
    let launch = Launch {
        server: &server,
        scenario: &scenario,
        fixture: &fixture,
        cpus: &cpus.server,
        scalws: Path::new(""),
        scratch: scratch.path(),
        backend: None,
    };
    let running = match servers::start_at(&launch, port)? {
        Started::Running(running) => running,
        Started::Lacks(reason) => return Err(Refusal::new(format!("{server} cannot do {name}: {reason}"))),
    };
    print(&(running.pid(), running.version(), running.config()))?;
    while !interrupt::requested() {
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
