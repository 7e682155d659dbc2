//! The servers under test: found, configured alike, pinned, started, ended by their process.
//!
//! Each family has a file with its config; `running` starts and ends processes, `keeper` is the thread
//! that is their parent, `port` finds free ports and who holds taken ones, `build` builds this server from
//! the tree or from another commit, `machine` says what all of it ran on. What a server cannot do is
//! [`Started::Lacks`] with the reason; what spoils the run is a [`Refusal`].

mod build;
mod caddy;
mod command;
mod files;
mod h2o;
mod haproxy;
mod keeper;
mod lighttpd;
pub mod machine;
mod nginx;
pub mod port;
mod recipe;
mod running;
mod sampled;
pub mod scalws;
mod tls;
mod tool;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::Refusal;
use crate::fixture::Fixture;
use crate::scenario::{Scenario, Setup};

pub use build::build;
pub use files::with_sidecars;
pub use recipe::Features;
pub use running::Running;
pub use sampled::Sampled;
pub use tls::{Certificate, SUITE, certificate};

/// A server that can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// The one that this is about, from [`Launch::scalws`].
    Scalws,
    /// The same from another binary, such as that of another commit.
    Build {
        /// In tables: `scalws@REF`.
        name: String,
        /// What is started.
        binary: PathBuf,
    },
    /// The one that this is about, with spans; where they go is among [`Launch::variables`].
    Sampled(Sampled),
    /// nginx as one sets it up for files: sendfile, tcp_nopush, a cache of open files valid for 1 s.
    Nginx,
    /// The same without that cache.
    NginxUncached,
    /// The same with a send buffer of 128 KiB and without tcp_nopush: equal sockets for large files.
    NginxBuffer,
    /// lighttpd.
    Lighttpd,
    /// h2o.
    H2o,
    /// HAProxy: fixed answers and the proxy, as it serves no files.
    Haproxy,
    /// Caddy.
    Caddy,
    /// Any other, by a command line without a shell.
    Command {
        /// In tables.
        name: String,
        /// Words with `{port}`, `{root}`, `{backend}`, `{certificate}`, `{key}`, `{setup}`, `{workers}`.
        command: String,
    },
}

const NAMES: [(&str, Server); 11] = [
    ("scalws", Server::Scalws),
    ("scalws-spans-1", Server::Sampled(Sampled::Percent)),
    ("scalws-spans-100", Server::Sampled(Sampled::All)),
    ("scalws-spans-down", Server::Sampled(Sampled::Down)),
    ("nginx", Server::Nginx),
    ("nginx-uncached", Server::NginxUncached),
    ("nginx-buffer", Server::NginxBuffer),
    ("lighttpd", Server::Lighttpd),
    ("h2o", Server::H2o),
    ("haproxy", Server::Haproxy),
    ("caddy", Server::Caddy),
];

impl FromStr for Server {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Server, Refusal> {
        if let Some((_, server)) = NAMES.iter().find(|(name, _)| *name == text) {
            return Ok(server.clone());
        }
        let names = NAMES.map(|(name, _)| name).join(", ");
        match text.split_once('=') {
            Some((name, _)) if NAMES.iter().any(|(taken, _)| *taken == name) => {
                Err(Refusal::new(format!("the name {name} is taken: call the command something else")))
            }
            Some((name, command)) if is_plain(name) && !command.trim().is_empty() => {
                Ok(Server::Command { name: name.to_owned(), command: command.to_owned() })
            }
            Some(_) => Err(Refusal::new(format!(
                "{text}: expected NAME=COMMAND, the name of letters, digits, '-', '_', '.' or '@'"
            ))),
            None if text.starts_with("scalws@") => {
                Err(Refusal::new(format!("{text}: another commit is named by --base")))
            }
            None => Err(Refusal::new(format!("no server {text}; there are {names} and NAME=COMMAND"))),
        }
    }
}

/// Names are parts of file names and of tables.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 64
        && !name.starts_with(['.', '-'])
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte))
}

impl fmt::Display for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Server::Build { name, .. } | Server::Command { name, .. } => name,
            named => NAMES.iter().find(|(_, server)| server == named).map_or("?", |(name, _)| name),
        })
    }
}

/// What is to be started, for which row, where.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Which.
    pub server: &'a Server,
    /// The row: its setup and protocol decide the config.
    pub scenario: &'a Scenario,
    /// What is served.
    pub fixture: &'a Fixture,
    /// Where it may run: as many workers as these.
    pub cpus: &'a [usize],
    /// The binary of [`Server::Scalws`] and [`Server::Sampled`].
    pub scalws: &'a Path,
    /// For configs, logs, sockets and certificates; the caller removes it.
    pub scratch: &'a Path,
    /// Who answers behind the proxy: see [`backend`].
    pub backend: Option<SocketAddr>,
    /// Of the environment of scalws, such as where its spans go.
    pub variables: &'a [(&'static str, String)],
}

/// What came of it.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one a server and row, moved twice")]
pub enum Started {
    /// It answers.
    Running(Running),
    /// It cannot do that: the reason for the `-` of its row.
    Lacks(String),
}

/// Starts a server and waits until it answers. It is pinned before its first instruction, ends with the
/// returned value, and with this process however that ends.
///
/// # Errors
/// No number may come of it: the server died, a thread of it may run elsewhere, its port is taken, or one
/// of the two that have to be there (scalws, nginx) is not.
pub fn start(launch: &Launch<'_>) -> Result<Started, Refusal> {
    start_at(launch, port::free()?)
}

/// The same at a port of the caller's choice, on 127.0.0.1.
///
/// # Errors
/// As [`start`].
pub fn start_at(launch: &Launch<'_>, port: u16) -> Result<Started, Refusal> {
    running::start(launch, port)
}

/// The server behind the proxy: nginx with the fixture, on `cpus`, which are the lab's. The same for every
/// proxy, and its CPU is not theirs.
///
/// # Errors
/// As [`start`].
pub fn backend(fixture: &Fixture, cpus: &[usize], scratch: &Path) -> Result<Running, Refusal> {
    let scenario = crate::scenario::find("static-1k").ok_or_else(|| Refusal::new("no scenario static-1k"))?;
    let scratch = &scratch.join("backend");
    let (server, scalws) = (&Server::Nginx, Path::new(""));
    match start(&Launch { server, scenario, fixture, cpus, scalws, scratch, backend: None, variables: &[] })?
    {
        Started::Running(running) => Ok(running),
        Started::Lacks(reason) => Err(Refusal::new(format!("no backend for the proxy: {reason}"))),
    }
}

/// As `{setup}` gives it to commands.
fn setup_word(setup: Setup) -> &'static str {
    match setup {
        Setup::Usual => "usual",
        Setup::Uncached => "uncached",
        Setup::AccessLog => "access-log",
        Setup::Compress => "compress",
        Setup::Sidecar => "sidecar",
        Setup::Respond => "respond",
        Setup::ImageLayer => "image-layer",
        Setup::Network => "docker-network",
        Setup::Proxy => "proxy",
        Setup::Cold => "cold",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for (name, server) in NAMES {
            assert_eq!(name.parse::<Server>().unwrap(), server);
            assert_eq!(server.to_string(), name);
        }
        let own: Server = "mine=./mine --port {port}".parse().unwrap();
        assert_eq!(own, Server::Command { name: "mine".into(), command: "./mine --port {port}".into() });
        assert_eq!(own.to_string(), "mine");
        let built = Server::Build { name: "scalws@main".into(), binary: "x".into() };
        assert_eq!(built.to_string(), "scalws@main");
    }

    #[test]
    fn wrong_names_are_refused_with_what_there_is() {
        let check = |text: &str, expected: &str| {
            let refusal = text.parse::<Server>().unwrap_err().to_string();
            assert!(refusal.contains(expected), "{text}: {refusal}");
        };
        check("apache", "there are scalws, scalws-spans-1, scalws-spans-100, scalws-spans-down, nginx, ");
        check("scalws@main", "by --base");
        check("nginx=./nginx", "the name nginx is taken");
        check("a/b=x", "expected NAME=COMMAND");
        check("mine=", "expected NAME=COMMAND");
        check("=x", "expected NAME=COMMAND");
    }
}
