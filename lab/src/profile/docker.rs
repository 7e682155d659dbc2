//! Profiles in containers: the server in its image without capabilities, perf beside it in its pid
//! namespace, the load in its network namespace. compose.yaml says what they may do and where they run.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::place::{Place, Text};
use super::project::{PORT, Project, QUICK};
use super::record::Walk;
use super::result::Profile;
use super::subject::{Driver, Look, Subject};
use super::{Session, say, stop_if_interrupted, windows};
use crate::Refusal;
use crate::fixture::Fixture;
use crate::load::{Expect, Plan};
use crate::scenario::Scenario;
use crate::servers::{self, Server};

/// Two images from nothing on a busy machine.
const BUILD_TIME: Duration = Duration::from_secs(3_600);
/// From its start to its first answer.
const READY: Duration = Duration::from_secs(30);
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
    if let Some(reason) = servers::scalws::lacks(scenario) {
        return Err(Refusal::new(format!("scalws cannot do {}: {reason}", scenario.name)));
    }
    let answers = |words: &[&str]| {
        let mut command = Command::new("docker");
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !answers(&["version"]) {
        return Err(Refusal::new("Docker does not answer: start its daemon, or leave --docker out"));
    }
    if !answers(&["compose", "version"]) {
        return Err(Refusal::new(
            "Compose is missing: install the plugin `docker compose`, or leave --docker out",
        ));
    }
    Ok(())
}

/// Ours, then the other, one after another, each with containers of its own.
///
/// # Errors
/// An image does not build, a container does not start, or what [`super::Course`] refuses.
pub fn profiles(session: &Session<'_>, compare: Option<Server>) -> Result<Vec<Profile>, Refusal> {
    if !Path::new("compose.yaml").is_file() {
        return Err(Refusal::new("no compose.yaml here: --docker runs at the top of the tree"));
    }
    if !session.arguments.no_build {
        say("building the images (the first time takes some minutes)");
        Project::new(session, "scalws")?.build(BUILD_TIME)?;
    }
    let services = std::iter::once("scalws").chain(compare.map(|_| "nginx"));
    let mut profiles = Vec::new();
    for service in services {
        stop_if_interrupted()?;
        let mut project = Project::new(session, service)?;
        say(&format!("starting {service}, perf and load in containers"));
        project.up(service)?;
        let contained = Contained::new(&project, service)?;
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
    /// Where its image is.
    oha: Option<Place>,
    version: String,
    config: String,
    /// First process of its container, as this machine numbers it.
    pid: u32,
    /// First process of the server, as its container numbers it.
    root: u32,
}

impl Contained {
    fn new(project: &Project<'_>, service: &str) -> Result<Contained, Refusal> {
        let id = project.container(service)?;
        let here = Place::here(project.session().scratch.path());
        let text = here.need(&["docker", "inspect", "--format", "{{.State.Pid}} {{.Image}}", &id], QUICK)?;
        let (pid, image) = text.out.trim().split_once(' ').unwrap_or_default();
        let (load, perf) = (project.within("load")?, project.within("perf")?);
        let oha = if project.has_oha() { Some(project.within("oha")?) } else { None };
        let (root, version, config) = match service {
            "scalws" => {
                let words = ["docker", "exec", &id, "/usr/local/bin/scalws", "--version"];
                (1, here.need(&words, QUICK)?.out.trim().to_owned(), project.config().to_owned())
            }
            _ => served(&here, &id)?,
        };
        let version = format!("{version}, image {}", image.get(..19).unwrap_or(image));
        let pid = pid.parse().map_err(|_| Refusal::new(format!("the container {service} ended")))?;
        Ok(Contained { name: service.to_owned(), perf, load, oha, version, config, pid, root })
    }
}

/// What `inside serve` says of its server once that runs.
fn served(here: &Place, id: &str) -> Result<(u32, String, String), Refusal> {
    let end = Instant::now() + READY;
    loop {
        let text = here.need(&["docker", "logs", id], QUICK)?;
        let said: Option<(u32, String, String)> =
            text.out.lines().find_map(|line| serde_json::from_str(line).ok());
        match said {
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

    fn oha(&self) -> Option<&Place> {
        self.oha.as_ref()
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
