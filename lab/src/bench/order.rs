//! What a row of a comparison wants of its containers, and what those cannot do.

use std::fs;
use std::path::Path;

use super::Place as Bench;
use super::case::Way;
use super::options::Load;
use crate::containers::{Deployment, Images};
use crate::scenario::{Scenario, Setup};
use crate::servers::Server;
use crate::servers::machine::mounted;

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

/// Why a server cannot do a row in a container.
#[must_use]
pub fn reason_against(server: &Server, scenario: &Scenario) -> Option<String> {
    match server {
        Server::Scalws | Server::Nginx | Server::NginxUncached | Server::NginxBuffer => {}
        Server::Sampled(_) => {
            return Some("no collector is started in containers yet: leave --docker out".to_owned());
        }
        other => return Some(format!("the lab's image has no {other}: leave --docker out")),
    }
    if scenario.protocol.is_tls() {
        return Some("no certificate is made in containers yet: leave --docker out".to_owned());
    }
    (scenario.setup == Setup::Proxy)
        .then(|| "the backend has no container of its own yet: leave --docker out".to_owned())
}

impl Order<'_> {
    /// As containers have it.
    pub(super) fn deployment(&self) -> Deployment<'_> {
        Deployment {
            server: self.server,
            scenario: self.load.scenario,
            images: self.images,
            cpus: &self.bench.cpus,
            fixture: &self.bench.fixture,
            run: self.bench.scratch.path(),
            variables: &[],
        }
    }

    /// What they lie on, by the server's own table of mounts.
    pub(super) fn files(&self, pid: u32) -> String {
        let mounts = fs::read_to_string(format!("/proc/{pid}/mounts")).unwrap_or_default();
        let kind =
            mounted(&mounts, Path::new(self.deployment().root())).unwrap_or_else(|| "unknown".to_owned());
        match self.load.scenario.setup {
            Setup::ImageLayer => format!("in a layer of the image, on {kind}"),
            _ => format!("mounted, on {kind}"),
        }
    }
}
