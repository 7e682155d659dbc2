//! Profiles in containers: the server in its image without capabilities, perf beside it in its pid
//! namespace, the load in its network namespace. compose.yaml says what they may do and where they run.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use super::record::Walk;
use super::result::Profile;
use super::subject::{Driver, Look, Subject};
use super::traced::Traces;
use super::{Session, oha, say, windows};
use crate::containers::words::{said, served};
use crate::containers::{
    COLLECTOR_PORT, Collector, Deployment, Images, LOOK_AGAIN, PORT, Project, QUICK, READY, engine,
};
use crate::fixture::Fixture;
use crate::load::{Expect, Plan};
use crate::place::{Place, Text};
use crate::scenario::{Scenario, Setup};
use crate::servers::{self, Server};
use crate::traces::Spans;
use crate::{Refusal, interrupt};

/// How the image's server is built.
const BUILD: &str =
    "docker/Dockerfile with BUILD_PROFILE=profiling: static, line tables, frame pointers; no capabilities";

/// From TERM to KILL: a second to drain, one for the last spans, and one to spare.
const STOP_SECONDS: &str = "5";

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
    if scenario.setup == Setup::Network {
        return Err(Refusal::new(format!(
            "{} compares ways to one server, and a profile looks at one: scripts/bench.sh --docker",
            scenario.name
        )));
    }
    engine::preflight()
}

/// Ours, then the other, one after another, each with containers of its own.
///
/// # Errors
/// An image does not build, a container does not start, or what [`super::Course`] refuses.
pub fn profiles(session: &Session<'_>, compare: Option<Server>) -> Result<Vec<Profile>, Refusal> {
    let images = Images::profiling();
    if !session.arguments.no_build {
        say("building the images (the first time takes some minutes)");
        images.build(session.scratch.path())?;
    }
    let has_oha = oha::is_image_here(session.scratch.path());
    let mut profiles = Vec::new();
    let containers = Containers { session, images: &images, has_oha };
    for server in std::iter::once(Server::Scalws).chain(compare) {
        interrupt::stop_if_requested()?;
        let mut profile = {
            let (_project, contained) = containers.start(&server, &[])?;
            session.course(&contained)?.run()?
        };
        if session.arguments.traces && server == Server::Scalws {
            let traces = containers.traces(&server, profile.plain.rate)?;
            session.add(&mut profile, traces);
        }
        profiles.push(profile);
    }
    Ok(profiles)
}

/// What holds for all that are started.
struct Containers<'a> {
    session: &'a Session<'a>,
    images: &'a Images,
    has_oha: bool,
}

impl Containers<'_> {
    /// They go with the project.
    fn start(
        &self,
        server: &Server,
        variables: &[(&'static str, String)],
    ) -> Result<(Project, Contained), Refusal> {
        let session = self.session;
        let deployment = Deployment {
            server,
            scenario: session.scenario,
            images: self.images,
            cpus: &session.cpus,
            fixture: &session.fixture,
            run: session.scratch.path(),
            variables,
        };
        let (project, service) = (deployment.project()?, deployment.service());
        say(&format!("starting {service}, perf and load in containers"));
        let mut services = vec![service, "perf", "load"];
        services.extend(self.has_oha.then_some("oha"));
        project.up(&services)?;
        let contained = Contained::new(&project, &deployment, self.has_oha)?;
        windows::preflight(&contained.perf)?;
        Ok((project, contained))
    }

    /// The window with spans: the collector runs where the load does, in the server's network.
    fn traces(&self, server: &Server, reached: f64) -> Result<Traces, Refusal> {
        let collector = SocketAddr::from((Ipv4Addr::LOCALHOST, COLLECTOR_PORT));
        let (project, contained) = self.start(server, &Spans { collector, ratio: 1.0 }.variables())?;
        let collector = Collector::start(&contained.load)?;
        let seen = self.session.look(&contained, reached)?;
        // Its last spans come with its end.
        let (here, id) = (project.here(), project.container("scalws")?);
        here.finish(&["docker", "stop", "--time", STOP_SECONDS, &id], QUICK)?;
        seen.finish(&collector.finish()?, &said(&here, &id), self.session.folder)
    }
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
    fn new(project: &Project, deployment: &Deployment<'_>, has_oha: bool) -> Result<Contained, Refusal> {
        let service = deployment.service();
        let id = project.container(service)?;
        let here = project.here();
        let text = here.need(&["docker", "inspect", "--format", "{{.State.Pid}} {{.Image}}", &id], QUICK)?;
        let (pid, image) = text.out.trim().split_once(' ').unwrap_or_default();
        let (load, perf) = (project.within("load")?, project.within("perf")?);
        let oha = if has_oha { Some(project.within("oha")?) } else { None };
        let (root, version, config) = match service {
            "scalws" => {
                let words = ["docker", "exec", &id, "/usr/local/bin/scalws", "--version"];
                (1, here.need(&words, QUICK)?.out.trim().to_owned(), deployment.config()?)
            }
            _ => {
                let served = served(&here, &id, service)?;
                (served.pid, served.version, served.config)
            }
        };
        let version = format!("{version}, image {}", image.get(..19).unwrap_or(image));
        let pid = pid.parse().map_err(|_| Refusal::new(format!("the container {service} ended")))?;
        Ok(Contained { name: service.to_owned(), perf, load, oha, version, config, pid, root })
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
            std::thread::sleep(LOOK_AGAIN);
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
