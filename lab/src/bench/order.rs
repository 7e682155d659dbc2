//! What a row wants of its containers: images, the server's config, what is mounted and who listens where.
//! compose.yaml has all that is the same for every row.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use super::Place as Bench;
use super::case::Way;
use super::options::Load;
use crate::containers::{Layer, PORT, Project, layer};
use crate::scenario::{Scenario, Setup};
use crate::servers::machine::mounted;
use crate::servers::{Server, scalws, with_sidecars};
use crate::{Refusal, cpus};

/// A directory on the disk for each server: logs, and what nginx wants to write.
const WORK: &str = "/work";

/// What is to be started.
#[derive(Clone, Copy)]
pub struct Order<'a> {
    /// Which.
    pub server: &'a Server,
    /// For which row.
    pub load: &'a Load,
    /// How it is asked.
    pub way: Way,
    /// What the run has at hand.
    pub bench: &'a Bench,
    /// The images of the server and the lab.
    pub images: &'a Images,
}

/// Names as the engine knows them.
#[derive(Clone, Debug)]
pub struct Images {
    /// Of the server.
    pub scalws: String,
    /// With nginx and the generator.
    pub lab: String,
}

impl Images {
    /// As compose.yaml has them.
    #[must_use]
    pub fn named() -> Images {
        let named = |name: &str, usual: &str| std::env::var(name).unwrap_or_else(|_| usual.to_owned());
        Images { scalws: named("SCALWS_IMAGE", "scalws:local"), lab: named("LAB_IMAGE", "scalws-lab:local") }
    }

    /// Builds both.
    ///
    /// # Errors
    /// One does not build.
    pub fn build(&self, scratch: &Path) -> Result<(), Refusal> {
        let variables = [("SCALWS_IMAGE", self.scalws.clone()), ("LAB_IMAGE", self.lab.clone())];
        Project::new(&name(), scratch, &variables, "services: {}\n")?.build(&["scalws", "load"])
    }
}

/// Of a project: another for each server of each row.
pub(super) fn name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("scalws-lab-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Why a server cannot do a row in a container.
#[must_use]
pub fn reason_against(server: &Server, scenario: &Scenario) -> Option<String> {
    match server {
        Server::Scalws | Server::Nginx | Server::NginxUncached | Server::NginxBuffer => {}
        other => return Some(format!("the lab's image has no {other}: leave --docker out")),
    }
    if scenario.protocol.is_tls() {
        return Some("no certificate is made in containers yet: leave --docker out".to_owned());
    }
    (scenario.setup == Setup::Proxy)
        .then(|| "the backend has no container of its own yet: leave --docker out".to_owned())
}

impl Order<'_> {
    pub(super) fn service(&self) -> &'static str {
        if *self.server == Server::Scalws { "scalws" } else { "nginx" }
    }

    /// Where the files are for the server.
    pub(super) fn root(&self) -> &'static str {
        match (self.load.scenario.setup, self.service()) {
            (Setup::ImageLayer, _) => layer::ROOT,
            (_, "scalws") => "/srv",
            _ => "/fixture",
        }
    }

    pub(super) fn config(&self) -> Result<String, Refusal> {
        let setup = self.load.scenario.setup;
        let log = Path::new(WORK).join("access.log");
        scalws::config(&scalws::Site {
            // The bridge and the port lead to the container's own address.
            listen: match setup {
                Setup::Network => SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)),
                _ => SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)),
            },
            workers: self.bench.cpus.server.len(),
            setup,
            root: Path::new(self.root()),
            access_log: (setup == Setup::AccessLog).then_some(log.as_path()),
        })
    }

    pub(super) fn layer(&self, name: &str, scratch: &Path) -> Result<Option<Layer>, Refusal> {
        if self.load.scenario.setup != Setup::ImageLayer {
            return Ok(None);
        }
        let base = if self.service() == "scalws" { &self.images.scalws } else { &self.images.lab };
        let image = format!("scalws-lab-layer:{}", name.trim_start_matches("scalws-lab-"));
        Layer::over(base, &image, self.bench.fixture.root(), scratch).map(Some)
    }

    /// The variables of compose.yaml, and what only this row adds to it.
    pub(super) fn project(
        &self,
        name: &str,
        scratch: &Path,
        layer: Option<&Layer>,
    ) -> Result<Project, Refusal> {
        let work = scratch.join("work");
        fs::create_dir_all(&work)?;
        // Servers are another user there.
        fs::set_permissions(&work, fs::Permissions::from_mode(0o777))?;
        let config = scratch.join("scalws.toml");
        fs::write(&config, self.config()?)?;
        let files = match self.load.scenario.setup {
            Setup::Sidecar => with_sidecars(self.bench.scratch.path())?,
            _ => self.bench.fixture.root().to_owned(),
        };
        let more = more(&files, &config, &work)?;
        let image = |usual: &String, service| match layer {
            Some(layer) if self.service() == service => layer.image().to_owned(),
            _ => usual.clone(),
        };
        let variables = [
            ("SCALWS_IMAGE", image(&self.images.scalws, "scalws")),
            ("LAB_IMAGE", image(&self.images.lab, "nginx")),
            // One row goes through it, from this machine; no two runs shall want the same.
            ("SCALWS_PORT", "127.0.0.1:0".to_owned()),
            ("SCALWS_CPUS", cpus::list(&self.bench.cpus.server)),
            ("SCALWS_WORKERS", self.bench.cpus.server.len().to_string()),
            ("LAB_CPUS", cpus::list(&self.bench.cpus.lab)),
            ("LAB_FIXTURE", self.bench.fixture.root().display().to_string()),
            ("LAB_SERVER", self.server.to_string()),
            ("LAB_ROOT", self.root().to_owned()),
            ("SCENARIO", self.load.scenario.name.to_owned()),
            ("PROFILED", self.service().to_owned()),
        ];
        Project::new(name, scratch, &variables, &more)
    }

    /// What they lie on, by the server's own table of mounts.
    pub(super) fn files(&self, pid: u32) -> String {
        let mounts = fs::read_to_string(format!("/proc/{pid}/mounts")).unwrap_or_default();
        let kind = mounted(&mounts, Path::new(self.root())).unwrap_or_else(|| "unknown".to_owned());
        match self.load.scenario.setup {
            Setup::ImageLayer => format!("in a layer of the image, on {kind}"),
            _ => format!("mounted, on {kind}"),
        }
    }
}

/// Paths of this machine go into YAML and into Compose's `from:to`: only those that mean themselves there.
fn plain(path: &Path) -> Result<String, Refusal> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-_.+@ ".contains(c);
    match path.to_str() {
        Some(text) if text.chars().all(is_plain) => Ok(text.to_owned()),
        _ => Err(Refusal::new(format!("{}: the lab needs a plainer path", path.display()))),
    }
}

/// No health check: it would run on the server's CPUs, and nginx has none.
fn more(files: &Path, config: &Path, work: &Path) -> Result<String, Refusal> {
    let (files, config, work) = (plain(files)?, plain(config)?, plain(work)?);
    Ok(format!(
        "services:
  scalws:
    command: [\"serve\", \"--config\", \"/etc/scalws.toml\"]
    healthcheck:
      disable: true
    volumes:
      - \"{files}:/srv:ro\"
      - \"{config}:/etc/scalws.toml:ro\"
      - \"{work}:{WORK}\"
  nginx:
    environment:
      TMPDIR: {WORK}
    volumes:
      - \"{work}:{WORK}\"
"
    ))
}
