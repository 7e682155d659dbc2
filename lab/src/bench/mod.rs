//! Interleaved, rotated rounds of several servers, and the ratios between them.
//!
//! `options` checks what is asked, `case` starts the servers of a row and goes its rounds, `window`
//! measures one `subject`, here or `contained` as its `order` says, by a `generator`; a `collector` takes its spans; `record` keeps it,
//! `statistics` and `assertion` judge; `report` writes it down.

pub mod assertion;
mod case;
mod collector;
mod contained;
mod generator;
mod options;
mod order;
pub mod record;
#[cfg(test)]
pub(crate) mod samples;
mod scratch;
pub mod statistics;
mod subject;
mod window;

pub use options::Arguments;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use self::options::{Contestant, Wanted, base_label};
use self::record::{Conditions, FORM, Results};
use self::scratch::Scratch;
use crate::containers::{Images, engine};
use crate::cpus::{self, Cpus};
use crate::fixture::Fixture;
use crate::report::{json, markdown};
use crate::servers::machine::Machine;
use crate::servers::{self, Server};
use crate::{Refusal, interrupt};

/// What a shell says of a process that INT ended.
const INTERRUPTED: u8 = 130;
/// As clap says it of a wrong argument.
const WRONG_ARGUMENT: u8 = 2;

/// Runs what the command line asks for and says what came of it: 0 where every number is sound and every
/// assertion holds, 1 where not, 2 for a wrong argument, 130 after Ctrl-C.
#[must_use]
pub fn run(arguments: &Arguments) -> ExitCode {
    let wanted = match Wanted::check(arguments) {
        Ok(wanted) => wanted,
        Err(refusal) => {
            say(&refusal.to_string());
            return ExitCode::from(WRONG_ARGUMENT);
        }
    };
    match compare(arguments, wanted) {
        Ok(code) => code,
        Err(refusal) => {
            say(&refusal.to_string());
            ExitCode::from(if interrupt::requested() { INTERRUPTED } else { 1 })
        }
    }
}

/// One line for the person who waits.
fn say(line: &str) {
    eprintln!("scalws-lab: {line}");
}

/// What a run has at hand.
struct Place {
    cpus: Cpus,
    fixture: Fixture,
    scratch: Scratch,
    scalws: PathBuf,
    /// Of a run in containers.
    images: Option<Images>,
    out: PathBuf,
}

impl Place {
    /// After each round, and before the first: a disk that is full says so before an hour of load.
    fn save(&self, results: &Results) -> Result<(), Refusal> {
        json::save(results, &self.out.join("results.json"))?;
        json::replace(&self.out.join("results.md"), markdown::page(results).as_bytes())
    }
}

fn compare(arguments: &Arguments, mut wanted: Wanted) -> Result<ExitCode, Refusal> {
    interrupt::watch()?;
    if arguments.docker {
        engine::preflight()?;
    }
    let cpus = Cpus::divide()?;
    let started = scratch::now();
    let out = out(arguments, &started)?;
    let scratch = Scratch::make()?;
    let fixture = Fixture::lay_out(&scratch.path().join("site"))?;
    let machine = serde_json::to_value(Machine::look(fixture.root()))
        .map_err(|error| Refusal::new(format!("facts of the machine: {error}")))?;
    let images = arguments.docker.then(Images::named);
    let scalws = match &images {
        None => build(arguments, &mut wanted)?,
        Some(images) => {
            if !arguments.no_build {
                say("building the images (the first time takes some minutes)");
                images.build(scratch.path())?;
            }
            PathBuf::new()
        }
    };
    interrupt::stop_if_requested()?;
    // Not before: the machine is all of it, and the compiler may have every CPU.
    cpus::pin(None, &cpus.lab)?;
    let place = Place { cpus, fixture, scratch, scalws, images, out };
    let mut results = begin(&wanted, &place, started, machine);
    place.save(&results)?;
    for load in &wanted.loads {
        case::run(&wanted, load, &place, &mut results)?;
        if results.is_interrupted {
            break;
        }
    }
    print!("{}", markdown::page(&results));
    Ok(verdict(&wanted, &results, &place.out))
}

fn out(arguments: &Arguments, started: &str) -> Result<PathBuf, Refusal> {
    let dated = || Path::new(".local/lab/bench").join(started.replace(" UTC", "").replace([' ', ':'], "-"));
    let out = arguments.out.clone().unwrap_or_else(dated);
    std::fs::create_dir_all(&out).map_err(|error| Refusal::new(format!("{}: {error}", out.display())))?;
    Ok(out)
}

/// Only what takes part is built.
fn build(arguments: &Arguments, wanted: &mut Wanted) -> Result<PathBuf, Refusal> {
    let is_ours = |one: &Contestant| matches!(one.server, Server::Scalws | Server::Sampled(_));
    let is_needed = wanted.contestants.iter().any(is_ours);
    let scalws = match &arguments.scalws {
        Some(binary) if binary.is_file() => std::path::absolute(binary)?,
        Some(binary) => return Err(Refusal::new(format!("--scalws: there is no file {}", binary.display()))),
        None if is_needed => {
            say("building scalws");
            servers::build(None, "release")?
        }
        None => PathBuf::from("scalws"),
    };
    if let Some(reference) = &wanted.base {
        say(&format!("building scalws of {reference}"));
        let binary = servers::build(Some(reference), "release")?;
        let label = base_label(reference);
        let server = Server::Build { name: label.clone(), binary };
        wanted.contestants.push(Contestant { label, server, is_extra: false });
    }
    Ok(scalws)
}

fn begin(wanted: &Wanted, place: &Place, started: String, machine: serde_json::Value) -> Results {
    let words: Vec<String> = std::env::args().skip(1).map(quoted).collect();
    Results {
        form: FORM,
        started,
        command_line: format!("scalws-lab {}", words.join(" ")),
        machine,
        conditions: Conditions {
            rounds: wanted.rounds,
            seconds: wanted.seconds,
            warmup_seconds: wanted.warmup_seconds,
            server_cpus: place.cpus.server.clone(),
            lab_cpus: place.cpus.lab.clone(),
            is_shared: place.cpus.is_shared,
            references: wanted.references.clone(),
            is_docker: place.images.is_some(),
        },
        cases: Vec::new(),
        is_interrupted: false,
    }
}

/// As a shell takes it.
fn quoted(word: String) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,/:@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn verdict(wanted: &Wanted, results: &Results, out: &Path) -> ExitCode {
    let refusals = results.refusals();
    for refusal in &refusals {
        say(&format!("refused: {refusal}"));
    }
    let judged: Vec<(bool, String)> = wanted.assertions.iter().map(|one| one.judge(results)).collect();
    for (_, line) in &judged {
        say(&format!("assertion {line}"));
    }
    say(&format!("{}/results.md and results.json are saved", out.display()));
    if results.is_interrupted {
        say("interrupted: what had been measured is kept");
        return ExitCode::from(INTERRUPTED);
    }
    if refusals.is_empty() && judged.iter().all(|(holds, _)| *holds) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
