//! The command line of `bench`, checked before anything starts: each mistake is one line.

use std::path::PathBuf;

use super::assertion::Assertion;
use super::record::ROUNDS_MIN;
use crate::scenario::{self, Body, Protocol, Scenario, Setup};
use crate::servers::Server;
use crate::{Refusal, fixture};

/// Rounds beyond this are a typing mistake: a night of them for one row.
const ROUNDS_MAX: u32 = 1_000;
/// The same for one window, in seconds.
const SECONDS_MAX: f64 = 600.0;
/// One generator thread and the descriptors of one process: PERFORMANCE.md measures to 1,000.
const CONNECTIONS_MAX: u32 = 10_000;
/// Beyond what one generator thread can send.
const RATE_MAX: f64 = 10_000_000.0;
/// From here on the size of the socket's buffer decides (PERFORMANCE.md).
const BUFFERED_BYTES_MIN: usize = 100 * 1024;
/// What runs where nothing is named: these are quick, and every server can do them.
const SCENARIOS: [&str; 3] = ["respond", "static-1k", "static-1m"];
const SERVERS: [&str; 4] = ["scalws", "nginx", "nginx-uncached", "nginx-buffer"];

/// Numbers are taken as text, so that their mistakes are told like all others.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Each server in a container of its own, its generator in another that shares its network
    #[arg(long)]
    pub docker: bool,
    /// With --docker: the images that compose.yaml names are there and are taken as they are
    #[arg(long, requires = "docker")]
    pub no_build: bool,
    /// Who is compared: scalws, scalws-spans-1, scalws-spans-100, scalws-spans-down, nginx, nginx-uncached,
    /// nginx-buffer, lighttpd, h2o, haproxy, caddy, or NAME=COMMAND, which is the last of its list
    #[arg(long, value_name = "LIST")]
    pub servers: Vec<String>,
    /// Rounds: in each, every server has one window
    #[arg(long, default_value = "5")]
    pub rounds: String,
    /// Length of a window in seconds
    #[arg(long, default_value = "3")]
    pub seconds: String,
    /// Load before each window in seconds, thrown away
    #[arg(long, default_value = "1")]
    pub warmup: String,
    /// Builds scalws of this git reference too and runs it in the same rounds
    #[arg(long, value_name = "REF")]
    pub base: Option<String>,
    /// Compares a server with itself: what is noise
    #[arg(long = "self")]
    pub is_self: bool,
    /// Fails unless the median ratio is so: 'static-1k:scalws/nginx<=1.0'
    #[arg(long = "assert", value_name = "EXPR")]
    pub assertions: Vec<String>,
    /// Sweeps numbers of connections: 10,100,500
    #[arg(long, value_name = "LIST")]
    pub connections: Option<String>,
    /// Sweeps rates of an open loop, in requests a second: 1000,10000
    #[arg(long, value_name = "LIST")]
    pub rates: Option<String>,
    /// The scalws to measure, in place of building this tree
    #[arg(long, value_name = "BINARY")]
    pub scalws: Option<PathBuf>,
    /// Where the results go; without it a dated folder beneath .local/lab/bench
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// What is measured: `scalws-lab list` names them
    #[arg(value_name = "SCENARIO")]
    pub scenarios: Vec<String>,
}

/// One of those who are compared.
#[derive(Debug)]
pub struct Contestant {
    /// Unique in the run.
    pub label: String,
    /// Who it is.
    pub server: Server,
    /// Nobody named it: it is left out, with the reason, where it would only repeat another.
    pub is_extra: bool,
}

/// A scenario with its load.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// What is asked.
    pub scenario: &'static Scenario,
    /// At once.
    pub connections: u32,
    /// Of an open loop.
    pub rate: Option<f64>,
    /// Beside the rows that assertions are about.
    pub is_sweep: bool,
}

/// A command line that can be run.
#[derive(Debug)]
pub struct Wanted {
    /// Without the one of `base`, which has to be built.
    pub contestants: Vec<Contestant>,
    /// Labels.
    pub references: Vec<String>,
    /// In order.
    pub loads: Vec<Load>,
    /// At least `ROUNDS_MIN`.
    pub rounds: u32,
    /// Of a window.
    pub seconds: f64,
    /// Before it.
    pub warmup_seconds: f64,
    /// A git reference.
    pub base: Option<String>,
    /// Claims.
    pub assertions: Vec<Assertion>,
}

/// The label of another commit's build.
#[must_use]
pub fn base_label(reference: &str) -> String {
    format!("scalws@{reference}")
}

impl Wanted {
    /// Checks all of it.
    ///
    /// # Errors
    /// The first mistake.
    pub fn check(arguments: &Arguments) -> Result<Wanted, Refusal> {
        let contestants = contestants(arguments)?;
        if arguments.docker {
            fits_in_containers(arguments, &contestants)?;
        }
        let mut labels: Vec<String> = contestants.iter().map(|one| one.label.clone()).collect();
        labels.extend(arguments.base.as_deref().map(base_label));
        let mut references = vec![reference(&labels, arguments.is_self)];
        references.extend(arguments.base.as_deref().map(base_label));
        let loads = loads(arguments)?;
        let steady: Vec<&str> =
            loads.iter().filter(|load| !load.is_sweep).map(|load| load.scenario.name).collect();
        let assertions = arguments.assertions.iter();
        let assertions = assertions.map(|text| Assertion::parse(text, &steady, &labels));
        let rounds: u32 = number("--rounds", &arguments.rounds, f64::from(ROUNDS_MIN), f64::from(ROUNDS_MAX))
            .and_then(|rounds| whole("--rounds", rounds))?;
        Ok(Wanted {
            contestants,
            references,
            loads,
            rounds,
            seconds: number("--seconds", &arguments.seconds, 0.01, SECONDS_MAX)?,
            warmup_seconds: number("--warmup", &arguments.warmup, 0.01, SECONDS_MAX)?,
            base: arguments.base.clone(),
            assertions: assertions.collect::<Result<_, _>>()?,
        })
    }
}

/// What a run in containers has no place for is said at once: it would not be what was asked for.
fn fits_in_containers(arguments: &Arguments, contestants: &[Contestant]) -> Result<(), Refusal> {
    let is_command = |one: &&Contestant| matches!(one.server, Server::Command { .. });
    let why = if arguments.scalws.is_some() {
        "--scalws: with --docker the image is built from this tree; leave one of them out".to_owned()
    } else if arguments.base.is_some() {
        "--base: there is no image of another commit yet; leave --docker out".to_owned()
    } else if let Some(one) = contestants.iter().find(is_command) {
        format!(
            "--servers: {} is a command of this machine, not of a container; leave --docker out",
            one.label
        )
    } else {
        return Ok(());
    };
    Err(Refusal::new(why))
}

/// nginx where it takes part, else the last of those that were named.
fn reference(labels: &[String], is_self: bool) -> String {
    let nginx = labels.iter().find(|label| *label == "nginx" && !is_self);
    let other = if is_self { labels.first() } else { labels.iter().rev().find(|label| !label.contains('@')) };
    nginx.or(other).cloned().unwrap_or_default()
}

fn number(option: &str, text: &str, min: f64, max: f64) -> Result<f64, Refusal> {
    let number = text.trim().parse().ok().filter(|number: &f64| (min..=max).contains(number));
    number.ok_or_else(|| {
        Refusal::new(format!(
            "{option}: expected a number from {min} to {max} without a unit, found \"{text}\""
        ))
    })
}

fn whole(option: &str, number: f64) -> Result<u32, Refusal> {
    if number.fract() != 0.0 || !(0.0..=f64::from(u32::MAX)).contains(&number) {
        return Err(Refusal::new(format!("{option}: expected a whole number, found \"{number}\"")));
    }
    // Within its range and whole: nothing is cut off.
    Ok(number as u32)
}

fn contestants(arguments: &Arguments) -> Result<Vec<Contestant>, Refusal> {
    let is_extra = arguments.servers.is_empty();
    let mut names: Vec<String> = Vec::new();
    if is_extra {
        let number = if arguments.is_self { 1 } else { SERVERS.len() };
        names.extend(SERVERS.iter().take(number).map(|name| (*name).to_owned()));
    }
    for list in &arguments.servers {
        names.extend(split(list));
    }
    if arguments.is_self {
        let [name] = names.as_slice() else {
            return Err(Refusal::new("--self compares one server with itself: name one"));
        };
        if arguments.base.is_some() {
            return Err(Refusal::new("--self and --base ask for different things: leave one out"));
        }
        names.push(name.clone());
    }
    let mut found: Vec<Contestant> = Vec::new();
    for name in &names {
        let server: Server = name.parse().map_err(|error| Refusal::new(format!("--servers: {error}")))?;
        let mut label = server.to_string();
        if found.iter().any(|other| other.label == label) {
            if !arguments.is_self {
                return Err(Refusal::new(format!(
                    "--servers: {label} is there twice; --self compares a server with itself"
                )));
            }
            label.push_str("#2");
        }
        found.push(Contestant { is_extra: is_extra && name.starts_with("nginx-"), label, server });
    }
    Ok(found)
}

/// At commas; but a command, which begins at its `name=`, may have some of its own.
fn split(list: &str) -> Vec<String> {
    let (names, command) = match list.find('=') {
        None => (list, None),
        Some(sign) => match list[..sign].rfind(',') {
            None => ("", Some(list)),
            Some(comma) => (&list[..comma], Some(&list[comma + 1..])),
        },
    };
    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.chain(command.map(str::trim)).map(str::to_owned).collect()
}

fn loads(arguments: &Arguments) -> Result<Vec<Load>, Refusal> {
    let mut names: Vec<&str> = arguments.scenarios.iter().map(String::as_str).collect();
    if names.is_empty() {
        names.extend(SCENARIOS);
    }
    let sweep = |option: &str, list: &Option<String>, min: f64, max: f64| {
        let list = list.as_deref().map(|list| list.split(',').map(|text| number(option, text, min, max)));
        list.into_iter().flatten().collect::<Result<Vec<f64>, Refusal>>()
    };
    let connections = sweep("--connections", &arguments.connections, 1.0, f64::from(CONNECTIONS_MAX))?;
    let rates = sweep("--rates", &arguments.rates, 1.0, RATE_MAX)?;
    let mut loads: Vec<Load> = Vec::new();
    for name in names {
        let scenario = scenario::find(name).ok_or_else(|| {
            Refusal::new(format!("there is no scenario \"{name}\": `scalws-lab list` names them all"))
        })?;
        if loads.iter().any(|load| load.scenario.name == name) {
            return Err(Refusal::new(format!("scenario {name} is there twice")));
        }
        let usual = match scenario.protocol {
            Protocol::H2(connections, _) => connections,
            _ => scenario::CONNECTIONS,
        };
        let one = Load { scenario, connections: usual, rate: None, is_sweep: false };
        loads.push(one);
        if !connections.is_empty() && matches!(scenario.protocol, Protocol::H2(..)) {
            return Err(Refusal::new(format!("--connections: those of {name} are part of its name")));
        }
        for number in &connections {
            let connections = whole("--connections", *number)?;
            loads.push(Load { connections, is_sweep: true, ..one });
        }
        loads.extend(rates.iter().map(|rate| Load { rate: Some(*rate), is_sweep: true, ..one }));
    }
    Ok(loads)
}

impl Contestant {
    /// Why a server that nobody named is left out of a row.
    #[must_use]
    pub fn reason_to_leave_out(&self, scenario: &Scenario) -> Option<&'static str> {
        if !self.is_extra {
            return None;
        }
        let bytes = match scenario.body {
            Body::File(name) => {
                fixture::FILES.iter().find(|(file, ..)| *file == name).map_or(0, |file| file.1)
            }
            _ => 0,
        };
        match self.server {
            Server::NginxUncached if bytes == 0 || scenario.setup == Setup::Uncached => {
                Some("the same as nginx in this row")
            }
            Server::NginxBuffer if bytes < BUFFERED_BYTES_MIN => {
                Some("the socket's buffer matters for bodies of 100 KiB and more only")
            }
            _ => None,
        }
    }
}
