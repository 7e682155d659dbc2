//! Profiles in containers: the server in its image without capabilities, perf beside it in its pid
//! namespace, the load in its network namespace. compose.yaml says what they may do and where they run.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use super::record::Walk;
use super::result::Profile;
use super::subject::{Driver, Look, Subject};
use super::{Session, say, windows};
use crate::containers::inside::Served;
use crate::containers::{PORT, Project, QUICK, READY, engine};
use crate::fixture::Fixture;
use crate::load::{Expect, Plan};
use crate::place::{Place, Text};
use crate::scenario::{Scenario, Setup};
use crate::servers::{Server, scalws};
use crate::{Refusal, cpus, interrupt};

/// How the image's server is built.
const BUILD: &str =
    "docker/Dockerfile with BUILD_PROFILE=profiling: static, line tables, frame pointers; no capabilities";

/// Whether it can be done at all: said before anything is built.
///
/// # Errors
/// No engine, no Compose, or a server or row that containers do not have yet.
pub fn preflight(scenario: &Scenario, compare: Option<&Server>) -> Result<(), Refusal> {
    if let Some(server) = compare.filter(|server| **server != Server::Nginx) {
        return Err(Refusal::new(format!(
            "--docker has no container for {server}: nginx only, or leave --docker out"
        )));
    }
    if scenario.protocol.is_tls() || !is_plain(scenario.setup) {
        let name = scenario.name;
        return Err(Refusal::new(format!("--docker cannot set {name} up yet: leave --docker out")));
    }
    engine::preflight()
}

/// The server's config for a row, as its image reads it; `None`: the row needs more than a config.
fn config(session: &Session<'_>) -> Option<Result<String, Refusal>> {
    is_plain(session.scenario.setup).then(|| {
        scalws::config(&scalws::Site {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)),
            workers: session.cpus.server.len(),
            setup: session.scenario.setup,
            root: Path::new("/srv"),
            access_log: None,
        })
    })
}

/// Whether a config alone sets a row up.
fn is_plain(setup: Setup) -> bool {
    match setup {
        Setup::Usual | Setup::Respond | Setup::Uncached | Setup::Compress => true,
        Setup::AccessLog | Setup::Sidecar | Setup::ImageLayer | Setup::Network | Setup::Proxy => false,
    }
}

/// The variables of compose.yaml, and what only this run adds to it.
fn project(session: &Session<'_>, profiled: &str) -> Result<Project, Refusal> {
    let scratch = session.scratch.path();
    let fixture = session.fixture.root().display().to_string();
    let config = config(session).transpose()?.unwrap_or_default();
    fs::write(scratch.join("scalws.toml"), config)?;
    let more = format!(
        "services:\n  scalws:\n    command: [\"serve\", \"--config\", \"/etc/scalws.toml\"]\n    volumes:\n      \
         - {fixture}:/srv:ro\n      - {}:/etc/scalws.toml:ro\n",
        scratch.join("scalws.toml").display()
    );
    let variables = [
        ("SCALWS_IMAGE", "scalws:profiling".to_owned()),
        ("BUILD_PROFILE", "profiling".to_owned()),
        // Nobody measures through it, and no two runs shall want the same.
        ("SCALWS_PORT", "0".to_owned()),
        ("SCALWS_CPUS", cpus::list(&session.cpus.server)),
        ("SCALWS_WORKERS", session.cpus.server.len().to_string()),
        ("LAB_CPUS", cpus::list(&session.cpus.lab)),
        ("LAB_FIXTURE", fixture),
        ("SCENARIO", session.scenario.name.to_owned()),
        ("PROFILED", profiled.to_owned()),
    ];
    Project::new(&format!("scalws-lab-{}", std::process::id()), scratch, &variables, &more)
}

/// Ours, then the other, one after another, each with containers of its own.
///
/// # Errors
/// An image does not build, a container does not start, or what [`super::Course`] refuses.
pub fn profiles(session: &Session<'_>, compare: Option<Server>) -> Result<Vec<Profile>, Refusal> {
    if !session.arguments.no_build {
        say("building the images (the first time takes some minutes)");
        project(session, "scalws")?.build(&["scalws", "perf"])?;
    }
    let services = std::iter::once("scalws").chain(compare.map(|_| "nginx"));
    let mut profiles = Vec::new();
    for service in services {
        interrupt::stop_if_requested()?;
        let project = project(session, service)?;
        say(&format!("starting {service}, perf and load in containers"));
        project.up(&[service, "perf", "load"])?;
        let contained = Contained::new(&project, session, service)?;
        windows::preflight(&contained.perf)?;
        profiles.push(session.course(&contained)?);
    }
    Ok(profiles)
}

/// A server in a container.
struct Contained {
    name: String,
    perf: Place,
    load: Place,
    version: String,
    config: String,
    /// First process of its container, as this machine numbers it.
    pid: u32,
    /// First process of the server, as its container numbers it.
    root: u32,
}

impl Contained {
    fn new(project: &Project, session: &Session<'_>, service: &str) -> Result<Contained, Refusal> {
        let id = project.container(service)?;
        let here = project.here();
        let text = here.need(&["docker", "inspect", "--format", "{{.State.Pid}} {{.Image}}", &id], QUICK)?;
        let (pid, image) = text.out.trim().split_once(' ').unwrap_or_default();
        let (load, perf) = (project.within("load")?, project.within("perf")?);
        let (root, version, config) = match service {
            "scalws" => {
                let words = ["docker", "exec", &id, "/usr/local/bin/scalws", "--version"];
                let config = config(session).transpose()?.unwrap_or_default();
                (1, here.need(&words, QUICK)?.out.trim().to_owned(), config)
            }
            _ => {
                let served = served(&here, &id)?;
                (served.pid, served.version, served.config)
            }
        };
        let version = format!("{version}, image {}", image.get(..19).unwrap_or(image));
        let pid = pid.parse().map_err(|_| Refusal::new(format!("the container {service} ended")))?;
        Ok(Contained { name: service.to_owned(), perf, load, version, config, pid, root })
    }
}

/// What `inside serve` says of its server once that runs.
fn served(here: &Place, id: &str) -> Result<Served, Refusal> {
    let end = Instant::now() + READY;
    loop {
        let text = here.need(&["docker", "logs", id], QUICK)?;
        match text.out.lines().find_map(|line| serde_json::from_str(line).ok()) {
            Some(served) => return Ok(served),
            None if Instant::now() >= end => {
                let why = text.err.lines().last().unwrap_or("it said nothing").to_owned();
                return Err(Refusal::new(format!("the server in its container does not start: {why}")));
            }
            None => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn json<T: serde::de::DeserializeOwned>(text: &Text, what: &str) -> Result<T, Refusal> {
    serde_json::from_str(&text.out).map_err(|_| {
        let why = text.err.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        Refusal::new(format!("{what}: {why}"))
    })
}

impl Subject for Contained {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn version(&self) -> String {
        self.version.clone()
    }

    fn flags(&self) -> String {
        match self.name.as_str() {
            "scalws" => BUILD.to_owned(),
            _ => "as its package has it, in the lab's image".to_owned(),
        }
    }

    fn config(&self) -> String {
        self.config.clone()
    }

    fn place(&self) -> &Place {
        &self.perf
    }

    fn driver(&self) -> Driver {
        Driver::There(self.load.clone())
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))
    }

    fn walk(&self) -> Walk {
        if self.name == "scalws" { Walk::FramePointers } else { Walk::Tables }
    }

    fn look(&self) -> Result<Look, Refusal> {
        let root = self.root.to_string();
        json(&self.perf.run(&["scalws-lab", "inside", "look", &root], QUICK)?, "a look at the server")
    }

    /// Waits for its first answer.
    fn probe(&self, scenario: &Scenario, _fixture: &Fixture) -> Result<(String, Expect), Refusal> {
        let end = Instant::now() + READY;
        let address = self.address().to_string();
        let words = ["scalws-lab", "inside", "probe", scenario.name, &address, "/fixture"];
        loop {
            let text = self.load.run(&words, QUICK)?;
            if text.is_good || Instant::now() >= end {
                return json(&text, "the first request");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn check(&self, plan: &Plan) -> Result<(), Refusal> {
        let plan = serde_json::to_string(plan).map_err(|error| Refusal::new(error.to_string()))?;
        let text = self.load.run_with(&["scalws-lab", "inside", "check"], Some(&plan), QUICK)?;
        if text.is_good { Ok(()) } else { json(&text, "a request at the edge of a window") }
    }

    /// Of a container that holds nothing but the server.
    fn cgroup_peak(&self) -> Option<u64> {
        if self.root != 1 {
            return None;
        }
        let groups = fs::read_to_string(format!("/proc/{}/cgroup", self.pid)).ok()?;
        let file =
            groups.lines().find_map(|line| match line.splitn(3, ':').collect::<Vec<_>>().as_slice() {
                ["0", "", path] => Some(format!("/sys/fs/cgroup{path}/memory.peak")),
                [_, "memory", path] => Some(format!("/sys/fs/cgroup/memory{path}/memory.max_usage_in_bytes")),
                _ => None,
            })?;
        fs::read_to_string(file).ok()?.trim().parse().ok()
    }
}
