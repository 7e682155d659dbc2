//! One row of the matrix: every server is started and probed, then they take turns, and all of them stay
//! up until the last round, so that none is fresher than another.

use std::net::SocketAddr;

use super::collector::Collector;
use super::contained::Contained;
use super::options::{Contestant, Load, Wanted};
use super::order::{self, Order};
use super::record::{Case, Results, Row};
use super::statistics::rotation;
use super::subject::{Subject, Target};
use super::window::{self, Frame};
use super::{Place, say};
use crate::cold::Chill;
use crate::scenario::Setup;
use crate::servers::{self, Launch, Running, Server, Started};
use crate::{Refusal, interrupt, load};

/// How a server in a container is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By a container in its own network.
    Own,
    /// From this machine by its address on Docker's bridge.
    Bridge,
    /// From this machine by the port that Docker publishes.
    Published,
}

impl Way {
    /// Behind the name of a server.
    fn label(self) -> &'static str {
        match self {
            Way::Own => "",
            Way::Bridge => ", bridge",
            Way::Published => ", published port",
        }
    }

    /// What its cost includes; `proxies` is how many processes of the engine carry the port.
    #[must_use]
    pub fn note(self, proxies: usize) -> String {
        match (self, proxies) {
            (Way::Own, _) => String::new(),
            (Way::Bridge, _) => "; asked from outside over Docker's bridge".to_owned(),
            (Way::Published, 0) => "; asked by a published port, which the kernel carries alone".to_owned(),
            (Way::Published, _) => {
                "; asked by a published port; the CPU of docker-proxy, which carries it on any CPU, is counted in"
                    .to_owned()
            }
        }
    }
}

/// A line of a row's table.
struct Entrant<'a> {
    label: String,
    contestant: &'a Contestant,
    way: Way,
}

/// One for each contestant; in a row about Docker's network one server by each way.
fn entrants<'a>(wanted: &'a Wanted, load: &Load, place: &Place) -> Vec<Entrant<'a>> {
    let mut ways = [Way::Own, Way::Bridge, Way::Published].as_slice();
    if place.images.is_none() || load.scenario.setup != Setup::Network {
        ways = &[];
    }
    let mut entrants = Vec::new();
    for contestant in &wanted.contestants {
        let taken = if contestant.server == Server::Scalws { std::mem::take(&mut ways) } else { &[] };
        let label = &contestant.label;
        entrants.extend(taken.iter().map(|way| Entrant {
            label: format!("{label}{}", way.label()),
            contestant,
            way: *way,
        }));
        if taken.is_empty() {
            entrants.push(Entrant { label: label.clone(), contestant, way: Way::Own });
        }
    }
    entrants
}

/// Goes all rounds of a row and puts them into the results, which are saved after each. What one server
/// does wrong ends its row and no other.
///
/// # Errors
/// Nothing can be saved, the proxy's backend does not start, or what has to be cold stays warm.
pub fn run(wanted: &Wanted, load: &Load, place: &Place, results: &mut Results) -> Result<(), Refusal> {
    let scenario = load.scenario;
    results.cases.push(Case {
        scenario: scenario.name.to_owned(),
        what: scenario.what.to_owned(),
        connections: load.connections,
        rate: load.rate,
        is_sweep: load.is_sweep,
        references: Vec::new(),
        rows: Vec::new(),
    });
    let backend = backend(load, place)?;
    let _chill = Chill::begin(scenario, &place.fixture)?;
    let mut targets: Vec<Option<Target>> = Vec::new();
    let entrants = entrants(wanted, load, place);
    if let (Some(case), Some(of)) =
        (results.cases.last_mut(), entrants.iter().find(|one| one.way != Way::Own))
    {
        case.references.push(of.contestant.label.clone());
    }
    for entrant in &entrants {
        if interrupt::requested() {
            break;
        }
        let (row, target) = prepare(entrant, load, place, backend.as_ref().map(Running::address));
        rows(results).push(row);
        targets.push(target);
    }
    let frame = Frame {
        load,
        seconds: wanted.seconds,
        warmup_seconds: wanted.warmup_seconds,
        server_cpus: &place.cpus.server,
        lab_cpus: &place.cpus.lab,
    };
    for round in 1..=wanted.rounds {
        if interrupt::requested() || targets.iter().all(Option::is_none) {
            break;
        }
        take_turns(wanted, &frame, round, &mut targets, rows(results));
        place.save(results)?;
    }
    results.is_interrupted |= interrupt::requested();
    settle(targets, rows(results));
    place.save(results)
}

/// Ends the servers. Of one that had spans the row says what became of them, and is refused where that is not what it
/// is about.
fn settle(targets: Vec<Option<Target>>, rows: &mut [Row]) {
    for (target, row) in targets.into_iter().zip(rows) {
        let Some(Target { mut subject, collector: Some(collector), .. }) = target else { continue };
        match collector.judge(&subject.stop()) {
            Ok(told) => row.features = format!("{}; spans of all windows: {told}", row.features),
            Err(_) if interrupt::requested() => {}
            Err(refusal) => {
                say(&format!("{}: refused, {refusal}", row.server));
                row.refused = Some(refusal.to_string());
            }
        }
    }
}

/// Of the case that is being measured: the last.
fn rows(results: &mut Results) -> &mut Vec<Row> {
    &mut results.cases.last_mut().expect("a case was begun").rows
}

fn take_turns(
    wanted: &Wanted,
    frame: &Frame<'_>,
    round: u32,
    targets: &mut [Option<Target>],
    rows: &mut [Row],
) {
    for place in rotation(round as usize - 1, targets.len()) {
        let Some(target) = &mut targets[place] else { continue };
        let row = &mut rows[place];
        let name = format!("round {round}/{}, {}, {}", wanted.rounds, frame.load.scenario.name, row.server);
        match window::measure(target, frame, round) {
            Ok(window) => {
                say(&format!(
                    "{name}: {:.2} µs/request, {:.0} req/s, {:.0} % busy",
                    window.cpu_us_per_request(),
                    window.requests_per_second(),
                    window.busy(frame.server_cpus.len()) * 100.0
                ));
                row.windows.push(window);
            }
            // No fault of the server's: the windows before stay.
            Err(_) if interrupt::requested() => {
                targets[place] = None;
                return;
            }
            Err(refusal) => {
                say(&format!("{name}: refused, {refusal}"));
                row.refused = Some(refusal.to_string());
                targets[place] = None;
            }
        }
    }
}

/// Starts a server and looks at its first answer.
fn prepare(
    entrant: &Entrant<'_>,
    load: &Load,
    place: &Place,
    backend: Option<SocketAddr>,
) -> (Row, Option<Target>) {
    let mut row = Row { server: entrant.label.clone(), ..Row::default() };
    row.lacks = reason_against(entrant, load, place);
    if row.lacks.is_some() {
        return (row, None);
    }
    let target = match &place.images {
        None => start(&entrant.contestant.server, load, place, backend, &mut row),
        Some(images) => {
            let server = &entrant.contestant.server;
            let order = Order { server, load, way: entrant.way, bench: place, images };
            Contained::start(&order, &mut row).map(|(contained, request, expect)| {
                Some(Target { subject: Subject::Container(contained), request, expect, collector: None })
            })
        }
    };
    match target {
        Ok(target) => (row, target),
        Err(refusal) => {
            if !interrupt::requested() {
                say(&format!("{}, {}: refused, {refusal}", load.scenario.name, row.server));
                row.refused = Some(refusal.to_string());
            }
            (row, None)
        }
    }
}

/// Why there is `-` before anything is started.
fn reason_against(entrant: &Entrant<'_>, load: &Load, place: &Place) -> Option<String> {
    let (scenario, contestant) = (load.scenario, entrant.contestant);
    let of_place = match &place.images {
        None => scenario.setup.reason_against_the_host().map(str::to_owned),
        Some(_) if scenario.setup == Setup::Network && contestant.server != Server::Scalws => {
            Some("this row is about Docker's network, and scalws shows it".to_owned())
        }
        Some(_) => order::reason_against(&contestant.server, scenario),
    };
    of_place.or_else(|| contestant.reason_to_leave_out(scenario).map(str::to_owned))
}

fn start(
    server: &Server,
    load: &Load,
    place: &Place,
    backend: Option<SocketAddr>,
    row: &mut Row,
) -> Result<Option<Target>, Refusal> {
    let scratch = place.scratch.path().join(row.server.replace(['/', ' '], "-"));
    std::fs::create_dir_all(&scratch)?;
    let collector = match server {
        Server::Sampled(sampled) => Some(Collector::start(*sampled)?),
        _ => None,
    };
    let variables = collector.as_ref().map(Collector::variables).unwrap_or_default();
    let launch = Launch {
        server,
        scenario: load.scenario,
        fixture: &place.fixture,
        cpus: &place.cpus.server,
        scalws: &place.scalws,
        scratch: &scratch,
        backend,
        variables: &variables,
    };
    let running = match servers::start(&launch)? {
        Started::Running(running) => running,
        Started::Lacks(reason) => {
            row.lacks = Some(reason);
            return Ok(None);
        }
    };
    row.version = running.version().to_owned();
    row.features = running.features().to_string();
    row.config = published(running.config(), place);
    let (request, expect) = load::probe(running.address(), load.scenario, &place.fixture)
        .map_err(|refusal| Refusal::new(format!("first answer: {refusal}")))?;
    Ok(Some(Target { subject: Subject::Process(running), request, expect, collector }))
}

/// A config without the paths of this machine.
fn published(config: &str, place: &Place) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let config = config.replace(&*place.scratch.path().to_string_lossy(), "SCRATCH");
    if here.as_os_str().len() > 1 { config.replace(&*here.to_string_lossy(), ".") } else { config }
}

/// The proxies' own: on the generator's CPUs, as it is no part of what is measured.
fn backend(load: &Load, place: &Place) -> Result<Option<Running>, Refusal> {
    if load.scenario.setup != Setup::Proxy || place.images.is_some() {
        return Ok(None);
    }
    servers::backend(&place.fixture, &place.cpus.lab, place.scratch.path()).map(Some)
}
