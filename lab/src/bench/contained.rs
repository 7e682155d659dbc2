//! A server of a row in a container of its own, and beside it one with the generator, in its network.
//! What it costs is read from this machine's /proc, where containers are processes like all others.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::case::Way;
use super::order::Order;
use super::record::Row;
use crate::Refusal;
use crate::containers::words::{ended, said, served};
use crate::containers::{LOOK_AGAIN, PORT, Project, QUICK, READY, processes};
use crate::load::{self, Expect, Plan};
use crate::measure::Counters;
use crate::place::{Place, Text};
use crate::scenario::Scenario;
use crate::servers::scalws;

/// See the module.
pub struct Contained {
    first: OwnedFd,
    pid: u32,
    proxies: Vec<u32>,
    address: SocketAddr,
    load: Option<Place>,
    id: String,
    project: Project,
}

/// A container that runs.
struct State {
    first: OwnedFd,
    pid: u32,
    image: String,
}

impl State {
    fn of(here: &Place, id: &str, service: &str) -> Result<State, Refusal> {
        let format = "{{.State.Pid}} {{.Image}}";
        let text = here.need(&["docker", "inspect", "--format", format, id], QUICK)?;
        let (pid, image) = text.out.trim().split_once(' ').unwrap_or_default();
        let gone = || ended(here, id, service).unwrap_or_else(|| foreign(service));
        let number: i32 = pid.parse().map_err(|_| gone())?;
        let process = Pid::from_raw(number).ok_or_else(gone)?;
        let first = pidfd_open(process, PidfdFlags::empty()).map_err(|_| gone())?;
        // The engine may number the processes of another machine.
        let groups = fs::read_to_string(format!("/proc/{number}/cgroup")).unwrap_or_default();
        if !groups.contains(id) {
            return Err(gone());
        }
        let image = image.get(..19).unwrap_or(image).to_owned();
        Ok(State { first, pid: u32::try_from(number).unwrap_or(0), image })
    }
}

fn foreign(service: &str) -> Refusal {
    Refusal::new(format!(
        "the processes of the container {service} are not to be seen here: does Docker run in a virtual machine?"
    ))
}

impl Contained {
    /// Starts the containers and looks at the first answer.
    ///
    /// # Errors
    /// One does not start or ends, or the answer is another.
    pub fn start(order: &Order<'_>, row: &mut Row) -> Result<(Contained, String, Expect), Refusal> {
        let deployment = order.deployment();
        let project = deployment.project()?;
        let (service, is_own) = (deployment.service(), order.way == Way::Own);
        let up = if is_own { project.up(&[service, "load"]) } else { project.up(&[service]) };
        if let Err(refusal) = up {
            // Whoever ended at once lets nobody join its network: its own words say more.
            let here = project.here();
            let id = project.container(service).ok().filter(|id| !said(&here, id).trim().is_empty());
            return Err(id.and_then(|id| ended(&here, &id, service)).unwrap_or(refusal));
        }
        let id = project.container(service)?;
        let state = State::of(&project.here(), &id, service)?;
        let (pid, features) = match service {
            "scalws" => {
                let words = ["docker", "exec", &id, "/usr/local/bin/scalws", "--version"];
                row.version = project.here().need(&words, QUICK)?.out.trim().to_owned();
                row.config = deployment.config()?;
                (state.pid, scalws::features(order.load.scenario.setup).to_string())
            }
            _ => {
                let served = served(&project.here(), &id, service)?;
                (row.version, row.config) = (served.version, served.config);
                let pid = processes::numbered(state.pid, served.pid);
                let gone = || Refusal::new(format!("{service} is not among its container's processes"));
                (pid.ok_or_else(gone)?, served.features)
            }
        };
        row.version = format!("{}, image {}", row.version, state.image);
        let address = address(order.way, &project, &id)?;
        let proxies = match order.way {
            Way::Published => processes::proxies(address.port()),
            Way::Own | Way::Bridge => Vec::new(),
        };
        row.features = format!("{features}; files: {}{}", order.files(pid), order.way.note(proxies.len()));
        let load = if is_own { Some(project.within("load")?) } else { None };
        let first = state.first;
        let mut contained = Contained { first, pid, proxies, address, load, id, project };
        let (request, expect) = contained.probe(order)?;
        Ok((contained, request, expect))
    }

    /// The server, as this machine numbers it.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// For whoever asks.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The container that asks; `None`: this machine does.
    pub fn load(&self) -> Option<&Place> {
        self.load.as_ref()
    }

    /// The end of what the container said.
    pub fn log(&self) -> String {
        said(&self.project.here(), &self.id)
    }

    /// Whether the container's first process runs.
    pub fn is_alive(&self) -> bool {
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut ends = [PollFd::new(&self.first, PollFlags::IN)];
        matches!(poll(&mut ends, Some(&none)), Ok(0))
    }

    /// Of the server, and of whoever carries its port.
    ///
    /// # Errors
    /// It is gone.
    pub fn cost(&self) -> Result<Counters, Refusal> {
        let mut sum = Counters::of_tree(self.pid)?;
        for proxy in &self.proxies {
            sum = sum.and(&Counters::of_tree(*proxy)?);
        }
        Ok(sum)
    }

    fn probe(&mut self, order: &Order<'_>) -> Result<(String, Expect), Refusal> {
        let scenario = order.load.scenario;
        let end = Instant::now() + READY;
        loop {
            let found = match &self.load {
                None => load::probe(self.address, scenario, &order.bench.fixture),
                Some(load) => asked(load, scenario, self.address),
            };
            let refusal = match found {
                Ok(found) => return Ok(found),
                Err(refusal) => refusal,
            };
            if !self.is_alive() {
                return Err(
                    ended(&self.project.here(), &self.id, order.deployment().service()).unwrap_or(refusal)
                );
            }
            // Not before it listens; any other answer is the one that it gives.
            if !refusal.to_string().contains("refuses connections") || Instant::now() >= end {
                return Err(Refusal::new(format!("first answer: {refusal}")));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// One request at the edge of a window, from where the others come.
    ///
    /// # Errors
    /// The answer is another, or there is none.
    pub fn check(&self, plan: &Plan) -> Result<(), Refusal> {
        let Some(place) = &self.load else {
            return load::check(plan.address, plan.protocol, &plan.request, &plan.expect);
        };
        let plan = serde_json::to_string(plan).map_err(|error| Refusal::new(error.to_string()))?;
        let text = place.run_with(&["scalws-lab", "inside", "check"], Some(&plan), QUICK)?;
        if text.is_good { Ok(()) } else { Err(last(&text)) }
    }
}

fn asked(load: &Place, scenario: &Scenario, address: SocketAddr) -> Result<(String, Expect), Refusal> {
    let address = address.to_string();
    let words = ["scalws-lab", "inside", "probe", scenario.name, &address, "/fixture"];
    let text = load.run(&words, QUICK)?;
    serde_json::from_str(&text.out).map_err(|_| last(&text))
}

fn last(text: &Text) -> Refusal {
    Refusal::new(text.err.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing"))
}

/// Where it is asked.
fn address(way: Way, project: &Project, id: &str) -> Result<SocketAddr, Refusal> {
    let ask = |words: &[&str]| {
        let text = project.here().need(words, QUICK)?;
        Ok::<String, Refusal>(text.out.lines().next().unwrap_or_default().trim().to_owned())
    };
    let wrong = |said: &str| Refusal::new(format!("Docker names no address of the container: \"{said}\""));
    match way {
        Way::Own => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))),
        Way::Bridge => {
            let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
            let said = ask(&["docker", "inspect", "--format", format, id])?;
            said.parse().map(|ip: Ipv4Addr| (ip, PORT).into()).map_err(|_| wrong(&said))
        }
        Way::Published => {
            let said = ask(&["docker", "port", id, &PORT.to_string()])?;
            said.parse().map_err(|_| wrong(&said))
        }
    }
}
