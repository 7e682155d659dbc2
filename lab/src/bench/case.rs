//! One row of the matrix: every server is started and probed, then they take turns, and all of them stay
//! up until the last round, so that none is fresher than another.

use std::net::SocketAddr;

use super::options::{Contestant, Load, Wanted};
use super::record::{Case, Results, Row};
use super::statistics::rotation;
use super::window::{self, Frame, Target};
use super::{Place, say};
use crate::scenario::Setup;
use crate::servers::{self, Launch, Running, Server, Started};
use crate::{Refusal, interrupt, load};

/// Goes all rounds of a row and puts them into the results, which are saved after each. What one server
/// does wrong ends its row and no other.
///
/// # Errors
/// Nothing can be saved, or the proxy's backend does not start.
pub fn run(wanted: &Wanted, load: &Load, place: &Place, results: &mut Results) -> Result<(), Refusal> {
    let scenario = load.scenario;
    results.cases.push(Case {
        scenario: scenario.name.to_owned(),
        what: scenario.what.to_owned(),
        connections: load.connections,
        rate: load.rate,
        is_sweep: load.is_sweep,
        rows: Vec::new(),
    });
    let backend = backend(load, place)?;
    let mut targets: Vec<Option<Target>> = Vec::new();
    for contestant in &wanted.contestants {
        if interrupt::requested() {
            break;
        }
        let (row, target) = prepare(contestant, load, place, backend.as_ref().map(Running::address));
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
    drop(targets);
    place.save(results)
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
    contestant: &Contestant,
    load: &Load,
    place: &Place,
    backend: Option<SocketAddr>,
) -> (Row, Option<Target>) {
    let mut row = Row { server: contestant.label.clone(), ..Row::default() };
    if load.scenario.setup == Setup::ImageLayer {
        row.lacks = Some("files lie in an image layer in a container only".to_owned());
        return (row, None);
    }
    if let Some(reason) = contestant.reason_to_leave_out(load.scenario) {
        row.lacks = Some(reason.to_owned());
        return (row, None);
    }
    let target = start(&contestant.server, load, place, backend, &mut row);
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

fn start(
    server: &Server,
    load: &Load,
    place: &Place,
    backend: Option<SocketAddr>,
    row: &mut Row,
) -> Result<Option<Target>, Refusal> {
    let scratch = place.scratch.path().join(row.server.replace(['/', ' '], "-"));
    std::fs::create_dir_all(&scratch)?;
    let launch = Launch {
        server,
        scenario: load.scenario,
        fixture: &place.fixture,
        cpus: &place.cpus.server,
        scalws: &place.scalws,
        scratch: &scratch,
        backend,
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
    Ok(Some(Target { running, request, expect }))
}

/// A config without the paths of this machine.
fn published(config: &str, place: &Place) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let config = config.replace(&*place.scratch.path().to_string_lossy(), "SCRATCH");
    if here.as_os_str().len() > 1 { config.replace(&*here.to_string_lossy(), ".") } else { config }
}

/// The proxies' own: on the generator's CPUs, as it is no part of what is measured.
fn backend(load: &Load, place: &Place) -> Result<Option<Running>, Refusal> {
    if load.scenario.setup != Setup::Proxy {
        return Ok(None);
    }
    servers::backend(&place.fixture, &place.cpus.lab, place.scratch.path()).map(Some)
}
