//! How a server is started for a row: its program, its files, and what they switch on or off.

use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Certificate, Launch, Server, Started, caddy, command, h2o, haproxy, lighttpd, nginx, scalws};
use crate::Refusal;
use crate::scenario::{Protocol, Setup};

/// Requests that a kept connection may carry where a server wants a number: more than any window sends.
pub(super) const KEEP_ALIVE_REQUESTS_MAX: u32 = 1_000_000_000;
/// Clients at once, of servers that want a number: the sweep goes to 500.
pub(super) const CONNECTIONS_MAX: u32 = 4_096;

/// What a row's server has on and off: printed beside its numbers, as they compare nothing without it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Features {
    /// Of open files, and how long an entry is believed.
    pub cache: String,
    /// How files reach the socket.
    pub send: String,
    /// The access log.
    pub log: String,
    /// How long connections are kept.
    pub keep_alive: String,
    /// Codings.
    pub compression: String,
    /// Versions and ciphers.
    pub tls: String,
    /// What else differs.
    pub notes: String,
}

impl fmt::Display for Features {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            ("cache", &self.cache),
            ("send", &self.send),
            ("log", &self.log),
            ("keep-alive", &self.keep_alive),
            ("compression", &self.compression),
            ("TLS", &self.tls),
            ("note", &self.notes),
        ];
        let named: Vec<String> = all
            .iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(name, text)| format!("{name}: {text}"))
            .collect();
        formatter.write_str(&named.join("; "))
    }
}

/// Where a server is started, and what for.
pub(super) struct Place<'a> {
    pub(super) launch: &'a Launch<'a>,
    pub(super) port: u16,
    /// Its own.
    pub(super) directory: PathBuf,
    /// What it serves: the fixture, or a copy with sidecars.
    pub(super) root: PathBuf,
    pub(super) certificate: Option<Certificate>,
}

impl Place<'_> {
    pub(super) fn setup(&self) -> Setup {
        self.launch.scenario.setup
    }

    pub(super) fn workers(&self) -> usize {
        self.launch.cpus.len().max(1)
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(super) fn access_log(&self) -> Option<PathBuf> {
        (self.setup() == Setup::AccessLog).then(|| self.file("access.log"))
    }

    pub(super) fn is_h2(&self) -> bool {
        matches!(self.launch.scenario.protocol, Protocol::H2(..))
    }

    /// Who answers behind the proxy, where the row has one.
    pub(super) fn backend(&self) -> Result<Option<SocketAddr>, Missing> {
        match (self.setup(), self.launch.backend) {
            (Setup::Proxy, None) => Err(Refusal::new("the proxy needs the address of a backend").into()),
            (Setup::Proxy, backend) => Ok(backend),
            _ => Ok(None),
        }
    }
}

/// Why there is no recipe.
pub(super) enum Missing {
    /// The row shows `-`.
    Lacks(String),
    /// There is no run.
    Refused(Refusal),
}

impl From<Refusal> for Missing {
    fn from(refusal: Refusal) -> Missing {
        Missing::Refused(refusal)
    }
}

impl Missing {
    pub(super) fn lacks<T>(reason: impl Into<String>) -> Result<T, Missing> {
        Err(Missing::Lacks(reason.into()))
    }

    pub(super) fn started(self) -> Result<Started, Refusal> {
        match self {
            Missing::Lacks(reason) => Ok(Started::Lacks(reason)),
            Missing::Refused(refusal) => Err(refusal),
        }
    }
}

/// How to start it.
pub(super) struct Recipe {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    /// Its config as it is written down beside the numbers.
    pub(super) config: String,
    /// Where that has to lie; `None` where it is the command line.
    pub(super) config_file: Option<PathBuf>,
    pub(super) environment: Vec<(&'static str, OsString)>,
    /// Asks for its version; `None` where nobody knows how.
    pub(super) version: Option<&'static str>,
    pub(super) features: Features,
}

/// The recipe for a place.
pub(super) fn of(place: &Place<'_>) -> Result<Recipe, Missing> {
    if let Some(reason) = place.setup().reason_against_the_host() {
        return Missing::lacks(reason);
    }
    match place.launch.server {
        Server::Scalws | Server::Sampled(_) => scalws::recipe(place, place.launch.scalws),
        Server::Build { binary, .. } => scalws::recipe(place, binary),
        Server::Nginx => nginx::recipe(place, nginx::Kind::Usual),
        Server::NginxUncached => nginx::recipe(place, nginx::Kind::Uncached),
        Server::NginxBuffer => nginx::recipe(place, nginx::Kind::Buffer),
        Server::Lighttpd => lighttpd::recipe(place),
        Server::H2o => h2o::recipe(place),
        Server::Haproxy => haproxy::recipe(place),
        Server::Caddy => caddy::recipe(place),
        Server::Command { command, .. } => command::recipe(place, command),
    }
}

/// A path as text between double quotes: what no config format here reads as itself is refused.
pub(super) fn quoted(path: &Path) -> Result<String, Refusal> {
    let odd = |byte: &char| byte.is_control() || "\"'\\${}#*?`;%".contains(*byte);
    match path.to_str() {
        Some(text) if !text.chars().any(|byte| odd(&byte)) => Ok(format!("\"{text}\"")),
        _ => Err(Refusal::new(format!("{}: the lab needs a plainer path", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_go_into_configs_only_as_themselves() {
        assert_eq!(quoted(Path::new("/tmp/a b")).unwrap(), "\"/tmp/a b\"");
        for odd in ["/a\"b", "/a$b", "/a\nb", "/a{port}", "/a\\b"] {
            assert!(quoted(Path::new(odd)).is_err(), "{odd}");
        }
    }

    #[test]
    fn features_are_one_line() {
        let features = Features { cache: "none".into(), log: "off".into(), ..Features::default() };
        assert_eq!(features.to_string(), "cache: none; log: off");
    }
}
