//! A run of compose.yaml under a name of its own: its containers and its network go with it, however it ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::{Layer, QUICK, UP};
use crate::place::{Guarded, Place, Text};
use crate::{Refusal, interrupt};

/// Two images from nothing on a busy machine.
const BUILD_TIME: Duration = Duration::from_secs(3_600);
/// Nothing is measured any more when containers go, and no server needs to drain.
const STOP_SECONDS: &str = "1";
/// What the engine was still making at the first is there at the second.
const DOWNS_MAX: u32 = 3;
/// What Compose writes on everything that it makes.
const LABEL: &str = "label=com.docker.compose.project";

/// See the module.
#[derive(Debug)]
pub struct Project {
    name: String,
    place: Place,
    scratch: PathBuf,
    /// The image that its containers are of goes after them: `drop` runs before those of the fields.
    layer: Option<Layer>,
}

impl Drop for Project {
    /// Not broken off by a second Ctrl-C: it has a group of its own and is waited for.
    fn drop(&mut self) {
        for _ in 0..DOWNS_MAX {
            if self.is_down() && !self.is_left() {
                return;
            }
        }
        let name = &self.name;
        eprintln!("scalws-lab: Docker did not remove {name}: docker compose --project-name {name} down");
    }
}

impl Project {
    /// The names of compose.yaml's variables with their values, and what only this run adds to it, as YAML.
    /// Nothing starts yet.
    ///
    /// # Errors
    /// The disk says so.
    pub fn new(
        name: &str,
        scratch: &Path,
        variables: &[(&str, String)],
        more: &str,
    ) -> Result<Project, Refusal> {
        fs::create_dir_all(scratch)?;
        let file = scratch.join("compose.lab.yaml");
        fs::write(&file, more)?;
        let mut words = vec!["env".to_owned()];
        words.extend(variables.iter().map(|(name, value)| format!("{name}={value}")));
        words.extend(["docker", "compose", "--project-name", name].map(str::to_owned));
        // Beside .env, which names the images of a machine without a registry.
        words.extend(["--file".to_owned(), "compose.yaml".to_owned()]);
        words.extend(["--file".to_owned(), file.display().to_string()]);
        // All always: a service of a profile that is off is not there for others to join.
        words.extend(["--profile", "bench", "--profile", "profile", "--profile", "oha"].map(str::to_owned));
        let place = Place::behind(words, scratch);
        Ok(Project { name: name.to_owned(), place, scratch: scratch.to_owned(), layer: None })
    }

    /// The same with an image that goes when its containers have gone.
    #[must_use]
    pub fn above(mut self, layer: Option<Layer>) -> Project {
        self.layer = layer;
        self
    }

    /// Takes all of it down; its words go nowhere, as the disk may be full.
    fn is_down(&self) -> bool {
        let mut down = self.place.command(&["down", "--volumes", "--timeout", STOP_SECONDS]);
        down.stdout(Stdio::null()).stderr(Stdio::null());
        Guarded::start(&mut down).and_then(|mut down| down.finish(UP)).unwrap_or(false)
    }

    /// Whether the engine still has anything of it; where nobody can say, Compose's word counts.
    fn is_left(&self) -> bool {
        let filter = format!("{LABEL}={}", self.name);
        let lists: [&[&str]; 2] = [&["ps", "--all"], &["network", "ls"]];
        lists.iter().any(|list| {
            let words = [&["docker"], *list, &["--quiet", "--filter", &filter]].concat();
            self.here().finish(&words, QUICK).is_ok_and(|text| !text.out.trim().is_empty())
        })
    }

    /// Builds images, those of dependencies first.
    ///
    /// # Errors
    /// One does not build: with the first line that says why.
    pub fn build(&self, services: &[&str]) -> Result<(), Refusal> {
        let words = [&["build"], services].concat();
        let before = self.builders();
        let text = match self.place.run(&words, BUILD_TIME) {
            Err(refusal) if interrupt::requested() => {
                self.wait_for_builders(&before);
                return Err(refusal);
            }
            other => other?,
        };
        let and = services.join(" or ");
        if text.is_good { Ok(()) } else { Err(Refusal::new(format!("no image of {and}: {}", text.why()))) }
    }

    /// Containers of the classic builder, which carry no label: by the script that they run.
    fn builders(&self) -> Vec<String> {
        let words = ["docker", "ps", "--all", "--no-trunc", "--format", "{{.ID}} {{.Command}}"];
        let text = self.here().finish(&words, QUICK).unwrap_or_default();
        let own = text.out.lines().filter(|line| line.contains("build-scalws"));
        own.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
    }

    /// The engine removes the container of a build that is broken off, seconds after its client has ended.
    fn wait_for_builders(&self, before: &[String]) {
        let end = Instant::now() + QUICK;
        while self.builders().iter().any(|id| !before.contains(id)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Starts services. Ctrl-C is heard when it is done: an engine that was asked for a container makes it
    /// even if nobody waits, and what is not there yet cannot be removed.
    ///
    /// # Errors
    /// One does not start.
    pub fn up(&self, services: &[&str]) -> Result<(), Refusal> {
        let words = [&["up", "--detach", "--no-build"], services].concat();
        let text = self.place.finish(&words, UP)?;
        interrupt::stop_if_requested()?;
        if text.is_good {
            return Ok(());
        }
        Err(Refusal::new(format!("{} did not start: {}", services.join(", "), text.why())))
    }

    /// Asks Compose something else.
    ///
    /// # Errors
    /// It fails.
    pub fn compose(&self, words: &[&str]) -> Result<Text, Refusal> {
        self.place.need(words, QUICK)
    }

    /// The container of a service, one that ended too.
    ///
    /// # Errors
    /// There is none.
    pub fn container(&self, service: &str) -> Result<String, Refusal> {
        let text = self.compose(&["ps", "--all", "--quiet", service])?;
        match text.out.lines().next().map(str::trim) {
            Some(id) if !id.is_empty() => Ok(id.to_owned()),
            _ => Err(Refusal::new(format!("the container {service} is not there"))),
        }
    }

    /// A place within a container.
    ///
    /// # Errors
    /// There is no such container.
    pub fn within(&self, service: &str) -> Result<Place, Refusal> {
        let words = ["docker", "exec", "--interactive"].map(str::to_owned);
        let words = words.into_iter().chain([self.container(service)?]).collect();
        Ok(Place::behind(words, &self.scratch))
    }

    /// This machine, with this run's directory.
    #[must_use]
    pub fn here(&self) -> Place {
        Place::here(&self.scratch)
    }
}
