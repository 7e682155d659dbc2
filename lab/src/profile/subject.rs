//! A server under the lens, here or in a container: what it is, what it costs, who drives it.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::record::Walk;
use crate::fixture::Fixture;
use crate::load::{self, Bounds, Expect, Outcome, Plan};
use crate::measure::{self, Counters};
use crate::place::Place;
use crate::scenario::Scenario;
use crate::servers::Running;
use crate::{Refusal, interrupt};

/// What the kernel says of a process tree; `scalws-lab look` prints it in the container that sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Look {
    /// Counts since its start.
    pub counters: Counters,
    /// Memory now.
    pub pss_bytes: u64,
    /// Its processes.
    pub pids: Vec<u32>,
}

impl Look {
    /// At a process and its descendants.
    ///
    /// # Errors
    /// It is gone, or this user may not look.
    pub fn at(root: u32) -> Result<Look, Refusal> {
        Ok(Look { counters: Counters::of_tree(root)?, pss_bytes: measure::pss_bytes(root)?, pids: own(root) })
    }
}

/// The tree without what a container's first process inherits: a tool of the perf container whose parent
/// ended is its child, and it reaps none. Those see other files.
fn own(root: u32) -> Vec<u32> {
    let files = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let of_root = files(root);
    let is_own = |pid: &u32| *pid == root || of_root.is_some() && files(*pid) == of_root;
    measure::tree(root).into_iter().filter(is_own).collect()
}

/// Who sends the requests: this process, or one in a container in the server's network.
#[derive(Clone, Debug)]
pub enum Driver {
    /// A thread of this process; it inherits the CPUs that this one is pinned to.
    Here,
    /// `scalws-lab load` in that container.
    There(Place),
}

impl Driver {
    /// Runs a plan to its end.
    ///
    /// # Errors
    /// An answer is not what it has to be, or the server is gone.
    pub fn run(&self, plan: &Plan, most: Duration) -> Result<Outcome, Refusal> {
        let Driver::There(place) = self else {
            let bounds = Bounds { stop: interrupt::requested, ..Bounds::default() };
            return load::connect(plan, bounds)?.run();
        };
        let plan = serde_json::to_string(plan).map_err(|error| Refusal::new(error.to_string()))?;
        let text = place.run_with(&["scalws-lab", "load", "--plan", "-"], Some(&plan), most)?;
        serde_json::from_str(&text.out).map_err(|_| {
            let why = text.err.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
            Refusal::new(format!("the load in its container failed: {why}"))
        })
    }
}

/// See the module.
pub trait Subject {
    /// Its name in the matrix.
    fn name(&self) -> String;
    /// What it says of itself.
    fn version(&self) -> String;
    /// How it was built.
    fn flags(&self) -> String;
    /// Its configuration.
    fn config(&self) -> String;
    /// Where perf runs.
    fn place(&self) -> &Place;
    /// Who drives it.
    fn driver(&self) -> Driver;
    /// Where oha would run, in the network of the driver.
    fn oha(&self) -> Option<&Place>;
    /// Its address for the driver.
    fn address(&self) -> SocketAddr;
    /// How its stacks are walked.
    fn walk(&self) -> Walk;
    /// What it has cost so far.
    ///
    /// # Errors
    /// It is gone.
    fn look(&self) -> Result<Look, Refusal>;
    /// Peak of its cgroup, if it has one to itself.
    fn cgroup_peak(&self) -> Option<u64> {
        None
    }

    /// The first answer against the fixture: the request, and what every later answer has to have.
    ///
    /// # Errors
    /// The answer is another, or there is none.
    fn probe(&self, scenario: &Scenario, fixture: &Fixture) -> Result<(String, Expect), Refusal> {
        load::probe(self.address(), scenario, fixture)
    }

    /// One request at the edge of a window.
    ///
    /// # Errors
    /// The answer is another, or there is none.
    fn check(&self, plan: &Plan) -> Result<(), Refusal> {
        load::check(plan.address, plan.protocol, &plan.request, &plan.expect)
    }
}

/// A server that runs beside the lab.
#[derive(Debug)]
pub struct Beside {
    running: Running,
    place: Place,
    flags: String,
    walk: Walk,
}

impl Beside {
    /// With how it was built and how its stacks are walked.
    #[must_use]
    pub fn new(running: Running, place: Place, flags: &str, walk: Walk) -> Beside {
        Beside { running, place, flags: flags.to_owned(), walk }
    }

    /// Ends it; the end of what it said then.
    pub fn stop(&mut self) -> String {
        self.running.stop()
    }
}

impl Subject for Beside {
    fn name(&self) -> String {
        self.running.name().to_owned()
    }

    fn version(&self) -> String {
        self.running.version().to_owned()
    }

    fn flags(&self) -> String {
        self.flags.clone()
    }

    fn config(&self) -> String {
        self.running.config().to_owned()
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn driver(&self) -> Driver {
        Driver::Here
    }

    fn oha(&self) -> Option<&Place> {
        Some(&self.place)
    }

    fn address(&self) -> SocketAddr {
        self.running.address()
    }

    fn walk(&self) -> Walk {
        self.walk
    }

    fn look(&self) -> Result<Look, Refusal> {
        Look::at(self.running.pid())
    }
}
