//! The containers of one run: what compose.yaml says of them, what the row adds to it, and that all of
//! them go with their owner, however the run ends.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::place::{Place, Text};
use super::{Session, oha, say};
use crate::scenario::Setup;
use crate::{Refusal, cpus, servers};

/// In every container's own network.
pub const PORT: u16 = 8080;
/// For what the engine answers at once.
pub const QUICK: Duration = Duration::from_secs(30);
/// For containers to start or to go, on a busy machine.
const MOVE_TIME: Duration = Duration::from_secs(120);
/// Looks after the end: what the engine was still making by the first is there by the second.
const ENDS_MAX: u32 = 3;
/// What Compose writes on everything that it makes.
const LABEL: &str = "label=com.docker.compose.project";
/// Where an image layer has the site; a volume may hide what lies in /srv.
const LAYER: &str = "/layer";
/// Where the site, the log and the config are for a server in its container.
const SITE: &str = "/srv";
const LOGS: &str = "/log";

/// See the module.
pub struct Project<'a> {
    place: Place,
    name: String,
    /// Images that are this run's alone.
    layers: Vec<String>,
    config: String,
    has_oha: bool,
    session: &'a Session<'a>,
}

impl Drop for Project<'_> {
    fn drop(&mut self) {
        for _ in 0..ENDS_MAX {
            // A container that sleeps has nothing to finish.
            let _ = self.place.run_whole(&["down", "--volumes", "--timeout", "3"], MOVE_TIME);
            if !self.is_left() {
                break;
            }
        }
        for image in &self.layers {
            let here = Place::here(self.session.scratch.path());
            let _ = here.run_whole(&["docker", "image", "rm", "--force", image], QUICK);
        }
    }
}

impl<'a> Project<'a> {
    /// Writes down what this run adds to compose.yaml; starts nothing.
    ///
    /// # Errors
    /// The disk says so, or the row's site cannot be made.
    pub fn new(session: &'a Session<'a>, profiled: &str) -> Result<Project<'a>, Refusal> {
        let scratch = session.scratch.path();
        let is_layer = session.scenario.setup == Setup::ImageLayer;
        let name = format!("scalws-lab-{}", std::process::id());
        let root = Path::new(if is_layer { LAYER } else { SITE });
        let at = (PORT, session.cpus.server.len().max(1));
        let config = servers::scalws::config_in_container(session.scenario, at, root, &log())?;
        let more = scratch.join("compose.lab.yaml");
        fs::write(scratch.join("scalws.toml"), &config)?;
        fs::write(&more, addition(session, &name)?)?;
        let scalws = if is_layer { layer(&name, "scalws") } else { "scalws:profiling".to_owned() };
        let variables = [
            ("SCALWS_IMAGE", scalws),
            ("BUILD_PROFILE", "profiling".to_owned()),
            // Nobody measures through it, and no two runs shall want the same.
            ("SCALWS_PORT", "0".to_owned()),
            ("SCALWS_CPUS", cpus::list(&session.cpus.server)),
            ("SCALWS_WORKERS", session.cpus.server.len().to_string()),
            ("LAB_CPUS", cpus::list(&session.cpus.lab)),
            ("LAB_FIXTURE", session.fixture.root().display().to_string()),
            ("SCENARIO", session.scenario.name.to_owned()),
            ("PROFILED", profiled.to_owned()),
        ];
        let mut words = vec!["env".to_owned()];
        words.extend(variables.iter().map(|(name, value)| format!("{name}={value}")));
        words.extend(["docker", "compose", "--project-name"].map(str::to_owned));
        words.push(name.clone());
        // Beside .env, which names the images of a machine without a registry.
        words.extend(["--file".to_owned(), "compose.yaml".to_owned()]);
        words.extend(["--file".to_owned(), more.display().to_string()]);
        // All always: a service of a profile that is off is not there for others to join.
        let profiles = ["bench", "profile", "oha"];
        words.extend(profiles.iter().flat_map(|name| ["--profile".to_owned(), (*name).to_owned()]));
        let place = Place::behind(words, scratch);
        let has_oha = oha::is_image_here(scratch);
        Ok(Project { place, name, layers: Vec::new(), config, has_oha, session })
    }

    /// The session that it belongs to.
    pub fn session(&self) -> &Session<'a> {
        self.session
    }

    /// Whether oha is among its containers.
    pub fn has_oha(&self) -> bool {
        self.has_oha
    }

    /// The config of our server.
    pub fn config(&self) -> &str {
        &self.config
    }

    /// Builds images; Ctrl-C ends it.
    ///
    /// # Errors
    /// They do not build.
    pub fn build(&self, most: Duration) -> Result<(), Refusal> {
        self.place.need(&["build", "scalws", "perf"], most).map(drop)
    }

    /// Starts the server with what looks at it and what asks it. To its end whatever happens: a container
    /// that the engine was asked for appears after whoever asked has gone.
    ///
    /// # Errors
    /// The engine says so.
    pub fn up(&mut self, service: &str) -> Result<(), Refusal> {
        if self.session.scenario.setup == Setup::ImageLayer {
            self.build_layer(service)?;
        }
        let mut words = vec!["up", "--detach", "--no-build", service, "perf", "load"];
        words.extend(self.has_oha.then_some("oha"));
        self.place.run_whole(&words, MOVE_TIME)?.good(&words)?;
        super::stop_if_interrupted()
    }

    /// The site as a layer above the server's image, or above the lab's, in which nginx is.
    fn build_layer(&mut self, service: &str) -> Result<(), Refusal> {
        let scratch = self.session.scratch.path();
        let base = if service == "scalws" { "scalws:profiling".to_owned() } else { lab_image() };
        let recipe = scratch.join("layer.Dockerfile");
        fs::write(&recipe, format!("FROM {base}\nCOPY . {LAYER}\n"))?;
        let (tag, recipe) = (layer(&self.name, service), recipe.display().to_string());
        let site = self.session.fixture.root().display().to_string();
        let words = ["docker", "build", "--quiet", "--tag", &tag, "--file", &recipe, &site];
        self.layers.push(tag.clone());
        Place::here(scratch).need(&words, MOVE_TIME).map(drop)
    }

    /// Whether the engine still has anything of it.
    fn is_left(&self) -> bool {
        let here = Place::here(self.session.scratch.path());
        let filter = format!("{LABEL}={}", self.name);
        let lists: [&[&str]; 2] = [&["ps", "--all"], &["network", "ls"]];
        lists.iter().any(|list| {
            let words = [&["docker"], *list, &["--quiet", "--filter", &filter]].concat();
            here.run_whole(&words, QUICK).map_or(true, |text| !text.out.trim().is_empty())
        })
    }

    /// The id of a service's container.
    ///
    /// # Errors
    /// There is none.
    pub fn container(&self, service: &str) -> Result<String, Refusal> {
        let text: Text = self.place.need(&["ps", "--quiet", service], QUICK)?;
        match text.out.lines().next().map(str::trim) {
            Some(id) if !id.is_empty() => Ok(id.to_owned()),
            _ => Err(Refusal::new(format!("the container {service} is not there"))),
        }
    }

    /// A place within a container.
    ///
    /// # Errors
    /// There is none.
    pub fn within(&self, service: &str) -> Result<Place, Refusal> {
        let words = ["docker", "exec", "--interactive"].map(str::to_owned);
        let words = words.into_iter().chain([self.container(service)?]).collect();
        Ok(Place::behind(words, self.session.scratch.path()))
    }
}

fn layer(project: &str, service: &str) -> String {
    format!("{project}-{service}:layer")
}

/// As compose.yaml names it.
fn lab_image() -> String {
    std::env::var("LAB_IMAGE").unwrap_or_else(|_| "scalws-lab:local".to_owned())
}

fn log() -> PathBuf {
    Path::new(LOGS).join("access.log")
}

/// What only this row adds: its site, its config, and a directory for logs, of the same disk for both.
fn addition(session: &Session<'_>, name: &str) -> Result<String, Refusal> {
    let (scratch, scenario) = (session.scratch.path(), session.scenario);
    let logs = scratch.join("log");
    fs::create_dir_all(&logs)?;
    // The servers run as nobody in particular.
    fs::set_permissions(&logs, fs::Permissions::from_mode(0o777))?;
    let site = match scenario.setup {
        Setup::Sidecar => servers::with_sidecars(scratch)?,
        _ => session.fixture.root().to_owned(),
    };
    let (site, logs, config) = (site.display(), logs.display(), scratch.join("scalws.toml"));
    let mut text = format!(
        "services:\n  scalws:\n    command: [\"serve\", \"--config\", \"/etc/scalws.toml\"]\n    volumes:\n      \
         - {site}:{SITE}:ro\n      - {}:/etc/scalws.toml:ro\n      - {logs}:{LOGS}\n  nginx:\n    environment:\n      \
         TMPDIR: {LOGS}\n    volumes:\n      - {logs}:{LOGS}\n",
        config.display()
    );
    if scenario.setup == Setup::ImageLayer {
        let workers = session.cpus.server.len();
        text += &format!(
            "    image: {}\n    command: [\"scalws-lab\", \"inside\", \"serve\", \"nginx\", \"{}\", \"{PORT}\", \
             \"{LAYER}\", \"{workers}\"]\n",
            layer(name, "nginx"),
            scenario.name
        );
        say("the site goes into a layer of an image of its own");
    }
    Ok(text)
}
