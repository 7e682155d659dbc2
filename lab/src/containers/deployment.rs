//! A server of a row as containers have it: images, its config, what is mounted and who listens where.
//! compose.yaml has all that is the same for every row.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Layer, PORT, Project, layer};
use crate::cpus::Cpus;
use crate::fixture::Fixture;
use crate::scenario::{Scenario, Setup};
use crate::servers::{Server, scalws, with_sidecars};
use crate::{Refusal, cpus};

/// A directory on the disk for each server: logs, and what nginx wants to write.
const WORK: &str = "/work";

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Deployment<'a> {
    /// Which.
    pub server: &'a Server,
    /// For which row.
    pub scenario: &'a Scenario,
    /// Of the server and the lab.
    pub images: &'a Images,
    /// Who has which.
    pub cpus: &'a Cpus,
    /// What is served.
    pub fixture: &'a Fixture,
    /// The directory of the run.
    pub run: &'a Path,
    /// Of the environment of scalws, such as where its spans go.
    pub variables: &'a [(&'static str, String)],
}

/// Names as the engine knows them.
#[derive(Clone, Debug)]
pub struct Images {
    /// Of the server.
    pub scalws: String,
    /// With nginx and the generator.
    pub lab: String,
    /// How the server's is built (`BUILD_PROFILE`).
    profile: &'static str,
}

impl Images {
    /// As compose.yaml has them.
    #[must_use]
    pub fn named() -> Images {
        let named = |name: &str, usual: &str| std::env::var(name).unwrap_or_else(|_| usual.to_owned());
        Images {
            scalws: named("SCALWS_IMAGE", "scalws:local"),
            lab: named("LAB_IMAGE", "scalws-lab:local"),
            profile: "release",
        }
    }

    /// With a server that keeps what flamegraphs need.
    #[must_use]
    pub fn profiling() -> Images {
        Images { scalws: "scalws:profiling".to_owned(), profile: "profiling", ..Images::named() }
    }

    /// Builds both.
    ///
    /// # Errors
    /// One does not build.
    pub fn build(&self, scratch: &Path) -> Result<(), Refusal> {
        let variables = [
            ("SCALWS_IMAGE", self.scalws.clone()),
            ("LAB_IMAGE", self.lab.clone()),
            ("BUILD_PROFILE", self.profile.to_owned()),
        ];
        Project::new(&name(), scratch, &variables, "services: {}\n")?.build(&["scalws", "load"])
    }
}

/// Of a project: another for each server of each row.
fn name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("scalws-lab-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

impl Deployment<'_> {
    /// Its name in compose.yaml.
    #[must_use]
    pub fn service(&self) -> &'static str {
        if *self.server == Server::Scalws { "scalws" } else { "nginx" }
    }

    /// Where the files are for the server.
    #[must_use]
    pub fn root(&self) -> &'static str {
        match (self.scenario.setup, self.service()) {
            (Setup::ImageLayer, _) => layer::ROOT,
            (_, "scalws") => "/srv",
            _ => "/fixture",
        }
    }

    /// The config of ours.
    ///
    /// # Errors
    /// A path is not plain.
    pub fn config(&self) -> Result<String, Refusal> {
        let setup = self.scenario.setup;
        let log = Path::new(WORK).join("access.log");
        scalws::config(&scalws::Site {
            // The bridge and the port lead to the container's own address.
            listen: match setup {
                Setup::Network => SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)),
                _ => SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)),
            },
            workers: self.cpus.server.len(),
            setup,
            root: Path::new(self.root()),
            access_log: (setup == Setup::AccessLog).then_some(log.as_path()),
        })
    }

    /// The image of a row whose files are in one.
    fn layer(&self, name: &str, scratch: &Path) -> Result<Option<Layer>, Refusal> {
        if self.scenario.setup != Setup::ImageLayer {
            return Ok(None);
        }
        let base = if self.service() == "scalws" { &self.images.scalws } else { &self.images.lab };
        let image = format!("scalws-lab-layer:{}", name.trim_start_matches("scalws-lab-"));
        Layer::over(base, &image, self.fixture.root(), scratch).map(Some)
    }

    /// Its containers, which do not run yet, by the variables of compose.yaml and what only this row adds.
    ///
    /// # Errors
    /// The disk says so, a path is not plain, or the layer does not build.
    pub fn project(&self) -> Result<Project, Refusal> {
        let name = name();
        let scratch = self.run.join(&name);
        fs::create_dir_all(&scratch)?;
        let layer = self.layer(&name, &scratch)?;
        let work = scratch.join("work");
        fs::create_dir_all(&work)?;
        // Servers are another user there.
        fs::set_permissions(&work, fs::Permissions::from_mode(0o777))?;
        let config = scratch.join("scalws.toml");
        fs::write(&config, self.config()?)?;
        let files = match self.scenario.setup {
            Setup::Sidecar => with_sidecars(self.run)?,
            _ => self.fixture.root().to_owned(),
        };
        let more = more(&files, &config, &work, self.variables)?;
        let image = |usual: &String, service| match &layer {
            Some(layer) if self.service() == service => layer.image().to_owned(),
            _ => usual.clone(),
        };
        let variables = [
            ("SCALWS_IMAGE", image(&self.images.scalws, "scalws")),
            ("LAB_IMAGE", image(&self.images.lab, "nginx")),
            // One row goes through it, from this machine; no two runs shall want the same.
            ("SCALWS_PORT", "127.0.0.1:0".to_owned()),
            ("SCALWS_CPUS", cpus::list(&self.cpus.server)),
            ("SCALWS_WORKERS", self.cpus.server.len().to_string()),
            ("LAB_CPUS", cpus::list(&self.cpus.lab)),
            ("LAB_FIXTURE", self.fixture.root().display().to_string()),
            ("LAB_SERVER", self.server.to_string()),
            ("LAB_ROOT", self.root().to_owned()),
            ("SCENARIO", self.scenario.name.to_owned()),
            ("PROFILED", self.service().to_owned()),
        ];
        Ok(Project::new(&name, &scratch, &variables, &more)?.above(layer))
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
fn more(
    files: &Path,
    config: &Path,
    work: &Path,
    variables: &[(&'static str, String)],
) -> Result<String, Refusal> {
    let (files, config, work) = (plain(files)?, plain(config)?, plain(work)?);
    let lines = variables.iter().map(|(name, value)| format!("      {name}: \"{value}\"\n"));
    let environment = match lines.collect::<String>() {
        lines if lines.is_empty() => lines,
        lines => format!("    environment:\n{lines}"),
    };
    Ok(format!(
        "services:
  scalws:
    command: [\"serve\", \"--config\", \"/etc/scalws.toml\"]
    healthcheck:
      disable: true
{environment}    volumes:
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
