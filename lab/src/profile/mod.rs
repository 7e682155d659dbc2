//! Looks into a server: what a request costs, what it calls, where its time goes, on one page.
//!
//! `preflight` says what is missing, `subject` is a server under the lens (`docker` one in its container),
//! `windows` measures it in separate windows, `traced` follows single requests, `record` runs perf in a `place`, `stacks`, `switches` and
//! `counts` read what perf prints, `flame` draws, `result` is what is kept, in a `folder`.

pub mod counts;
pub mod date;
pub mod docker;
pub mod flame;
mod folder;
pub mod oha;
pub mod preflight;
pub mod record;
pub mod result;
pub mod stacks;
pub mod subject;
pub mod switches;
pub mod traced;
pub mod windows;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use self::folder::Folder;
use self::record::Walk;
use self::result::{Document, Profile, Window};
use self::subject::{Beside, Subject};
use self::traced::{Seen, Traces};
use self::windows::Course;
use crate::cold::Chill;
use crate::cpus::{self, Cpus};
use crate::fixture::Fixture;
use crate::load::{Plan, Until};
use crate::place::{Place, Scratch};
use crate::report::page::UNKNOWN_PERCENT_MAX;
use crate::scenario::{self, CONNECTIONS, Scenario, Setup};
use crate::servers::machine::Machine;
use crate::servers::{self, Launch, Running, Server, Started};
use crate::traces::{Keep, Receiver, Spans};
use crate::{Refusal, interrupt};

/// Longest window: a recording of an hour is read by nobody.
const SECONDS_MAX: u32 = 60;
/// What a shell says of a process that INT ended.
const INTERRUPTED: u8 = 130;
/// As clap says it of a wrong argument.
const WRONG_ARGUMENT: u8 = 2;

/// `scalws-lab profile`
#[derive(Debug, Args)]
pub struct Arguments {
    /// Row of the matrix; `scalws-lab list` names them.
    scenario: String,
    /// The server in its image without capabilities, perf and load in containers beside it.
    #[arg(long)]
    docker: bool,
    /// With --docker: the images scalws:profiling and scalws-lab:local are there and are taken as they are.
    #[arg(long, requires = "docker")]
    no_build: bool,
    /// Follows single requests too: ours is started once more with all of them sampled, its spans are taken, and the
    /// page has the slowest, a histogram for each phase, and a flamegraph of their time.
    #[arg(long)]
    traces: bool,
    /// Profiles this server the same way and lays both side by side.
    #[arg(long, value_name = "SERVER")]
    compare: Option<String>,
    /// Length of the plain window; the others follow it.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=i64::from(SECONDS_MAX)))]
    seconds: u32,
    /// How stacks are walked on the CPU and off it. Without it: tables on it, off it frame pointers where
    /// the server was built with them.
    #[arg(long, value_enum)]
    walk: Option<Walk>,
    /// Parent of the folder that is left.
    #[arg(long, default_value = "profiles", value_name = "DIRECTORY")]
    out: PathBuf,
    /// A server that was built before, instead of building one: with frame pointers and line tables.
    #[arg(long, value_name = "FILE")]
    scalws: Option<PathBuf>,
}

/// How the server is built for a profile, as the page says it.
pub const BUILD: &str =
    "profile `profiling` (release, thin LTO, line tables), RUSTFLAGS=-C force-frame-pointers=yes";

fn say(line: &str) {
    eprintln!("profile: {line}");
}

/// The command: says where the folder is, or the one line why there is none. 2 for a wrong argument, 130
/// after Ctrl-C, 1 for all else.
#[must_use]
pub fn run(arguments: &Arguments) -> ExitCode {
    let checked = match checked(arguments) {
        Ok(checked) => checked,
        Err(refusal) => {
            say(&refusal.to_string());
            return ExitCode::from(WRONG_ARGUMENT);
        }
    };
    match profile(arguments, checked) {
        Ok(folder) => {
            println!("{}", folder.join("report.html").display());
            ExitCode::SUCCESS
        }
        // Ctrl-C ends the tools of the moment too: what they say of it is no reason.
        Err(_) if interrupt::requested() => {
            say(&interrupt::refusal().to_string());
            ExitCode::from(INTERRUPTED)
        }
        Err(refusal) => {
            say(&refusal.to_string());
            ExitCode::FAILURE
        }
    }
}

type Checked = (&'static Scenario, Option<Server>);

/// What is wrong with the arguments, before anything is begun.
fn checked(arguments: &Arguments) -> Result<Checked, Refusal> {
    let scenario = scenario::find(&arguments.scenario).ok_or_else(|| {
        Refusal::new(format!("no scenario {}; `scalws-lab list` names them", arguments.scenario))
    })?;
    let compare: Option<Server> = arguments.compare.as_deref().map(str::parse).transpose()?;
    if compare == Some(Server::Scalws) {
        return Err(Refusal::new("--compare scalws: that is the one it is compared with"));
    }
    if let Some(binary) = arguments.scalws.as_ref().filter(|binary| !binary.is_file()) {
        return Err(Refusal::new(format!("--scalws: there is no file {}", binary.display())));
    }
    Ok((scenario, compare))
}

/// What all subjects of a run share.
pub struct Session<'a> {
    /// The row.
    pub scenario: &'a Scenario,
    /// What is served.
    pub fixture: Fixture,
    /// Who has which CPUs.
    pub cpus: Cpus,
    /// For files of the run.
    pub scratch: Scratch,
    arguments: &'a Arguments,
    folder: &'a Path,
}

fn profile(arguments: &Arguments, (scenario, compare): Checked) -> Result<PathBuf, Refusal> {
    interrupt::watch()?;
    let cpus = Cpus::divide()?;
    let scratch = Scratch::new()?;
    // Before anything is built: what is missing is said in a second.
    if arguments.docker {
        docker::preflight(scenario, compare.as_ref())?;
    } else {
        windows::preflight(&Place::here(scratch.path()))?;
    }
    // Before this process has fewer CPUs than the machine.
    let machine = serde_json::to_value(Machine::look(&std::env::current_dir()?))
        .map_err(|error| Refusal::new(error.to_string()))?;
    cpus::pin(None, &cpus.lab)?;
    let date = date::now();
    let name = format!("{}-{}", date.trim_end_matches('Z').replace(':', ""), scenario.name);
    let folder = Folder::begin(&arguments.out, &name)?;
    let fixture = Fixture::lay_out(&scratch.path().join("fixture"))?;
    let _chill = Chill::begin(scenario, &fixture)?;
    let session = Session { scenario, fixture, cpus, scratch, arguments, folder: folder.path() };
    let subjects =
        if arguments.docker { docker::profiles(&session, compare)? } else { session.beside(compare)? };
    let document = session.document(&date, machine, subjects);
    folder.write("result.json", &pretty(&document)?)?;
    folder.write("report.html", &crate::report::page::page(&document, folder.path())?)?;
    folder.finish()
}

fn pretty(document: &Document) -> Result<String, Refusal> {
    serde_json::to_string_pretty(document)
        .map(|text| text + "\n")
        .map_err(|error| Refusal::new(error.to_string()))
}

impl Session<'_> {
    /// Ours, then the other, one after another: none runs while the other is looked at.
    fn beside(&self, compare: Option<Server>) -> Result<Vec<Profile>, Refusal> {
        let scalws = match &self.arguments.scalws {
            Some(binary) => binary.clone(),
            None => {
                say("building the server with frame pointers (the first time takes some minutes)");
                servers::build(None, "profiling")?
            }
        };
        let backend = match self.scenario.setup {
            Setup::Proxy => Some(servers::backend(&self.fixture, &self.cpus.lab, self.scratch.path())?),
            _ => None,
        };
        let mut profiles = Vec::new();
        for server in std::iter::once(Server::Scalws).chain(compare) {
            interrupt::stop_if_requested()?;
            let launch = Launch {
                server: &server,
                scenario: self.scenario,
                fixture: &self.fixture,
                cpus: &self.cpus.server,
                scalws: &scalws,
                scratch: self.scratch.path(),
                backend: backend.as_ref().map(Running::address),
                variables: &[],
            };
            let (flags, walk) = match server {
                Server::Scalws => (BUILD, Walk::FramePointers),
                _ => ("as its package has it, without frame pointers", Walk::Tables),
            };
            let place = || Place::here(self.scratch.path());
            let mut profile = {
                let subject = Beside::new(self.start(&launch)?, place(), flags, walk);
                self.course(&subject)?.run()?
            };
            if self.arguments.traces && server == Server::Scalws {
                let receiver = Receiver::start(SocketAddr::from(([127, 0, 0, 1], 0)), Keep::First, None)?;
                let variables = Spans { collector: receiver.address(), ratio: 1.0 }.variables();
                let launch = Launch { variables: &variables, ..launch };
                let mut subject = Beside::new(self.start(&launch)?, place(), flags, walk);
                let seen = self.look(&subject, profile.plain.rate)?;
                // Its last spans come with its end.
                let log = subject.stop();
                self.add(&mut profile, seen.finish(&receiver.taken().compact(), &log, self.folder)?);
            }
            profiles.push(profile);
        }
        Ok(profiles)
    }

    fn start(&self, launch: &Launch<'_>) -> Result<Running, Refusal> {
        match servers::start(launch)? {
            Started::Running(running) => Ok(running),
            Started::Lacks(reason) => {
                let (server, row) = (launch.server, self.scenario.name);
                Err(Refusal::new(format!("{server} cannot do {row}: {reason}")))
            }
        }
    }

    /// The window with spans.
    fn look(&self, subject: &dyn Subject, reached: f64) -> Result<Seen, Refusal> {
        interrupt::stop_if_requested()?;
        traced::look(&mut self.course(subject)?, traced::rate(reached))
    }

    fn add(&self, profile: &mut Profile, traces: Traces) {
        profile.windows.push(Window {
            name: "traces".to_owned(),
            seconds: traces.seconds,
            what: "a server of its own, all requests with spans, perf on the CPU: for single requests"
                .to_owned(),
        });
        profile.traces = Some(traces);
    }

    /// Checks the first answer: what holds for every window.
    fn course<'b>(&'b self, subject: &'b dyn Subject) -> Result<Course<'b>, Refusal> {
        let (request, expect) = subject.probe(self.scenario, &self.fixture)?;
        let plan = Plan {
            address: subject.address(),
            protocol: self.scenario.protocol,
            connections: CONNECTIONS,
            request,
            expect,
            until: Until::Seconds(1.0),
            rate: None,
        };
        let mut course = Course::new(subject, plan, self.folder, &say);
        course.cpus = self.cpus.server.len();
        course.seconds = f64::from(self.arguments.seconds);
        course.walk = self.arguments.walk;
        Ok(course)
    }

    fn document(&self, date: &str, machine: serde_json::Value, subjects: Vec<Profile>) -> Document {
        let command: Vec<String> = std::env::args().skip(1).collect();
        let setup = vec![
            ("CPUs of the server".to_owned(), cpus::list(&self.cpus.server)),
            ("CPUs of load and perf".to_owned(), cpus::list(&self.cpus.lab)),
            ("Connections".to_owned(), CONNECTIONS.to_string()),
            (
                "Load".to_owned(),
                "the lab's generator: one thread, each answer's status and length checked".to_owned(),
            ),
            (
                "Place".to_owned(),
                match self.arguments.docker {
                    true => {
                        "containers; the load in the server's network namespace, no published port".to_owned()
                    }
                    false => "processes of this machine, over 127.0.0.1".to_owned(),
                },
            ),
        ];
        Document {
            scenario: self.scenario.name.to_owned(),
            what: self.scenario.what.to_owned(),
            date: date.to_owned(),
            command: format!("scalws-lab {}", command.join(" ")),
            machine,
            setup,
            notes: notes(&self.cpus, &subjects),
            subjects,
        }
    }
}

/// What a reader has to know before the numbers.
fn notes(cpus: &Cpus, subjects: &[Profile]) -> Vec<String> {
    let mut notes = vec![
        "Numbers come from the plain window and the open loop, in which nothing looks. Windows with perf are \
         slower; they give counts for each request and pictures, never requests a second."
            .to_owned(),
    ];
    if cpus.is_shared {
        notes.push(
            "One CPU for server and load: they take it from each other, and no number here is the server's."
                .to_owned(),
        );
    }
    for profile in subjects {
        let name = &profile.name;
        if profile.on_cpu.event == "cpu-clock" {
            notes.push(format!(
                "{name}: no hardware counters here, so stacks are sampled by cpu-clock, a timer: what runs with \
                 interrupts off is charged to where they come on again."
            ));
        }
        if profile.plain.busy < 0.95 {
            notes.push(format!(
                "{name}: its CPUs were {:.0} % busy: generator-bound, and an idle server pays more wake-ups.",
                profile.plain.busy * 100.0
            ));
        }
        if let Some(traces) = &profile.traces {
            notes.push(format!(
                "{name}: single requests are those of a server of its own with spans for all of them, at {:.0} requests a \
                 second; every other window had no spans. Spans: {}.",
                traces.rate, traces.told
            ));
        }
        let unknown = profile.on_cpu.unknown_percent;
        if unknown >= UNKNOWN_PERCENT_MAX {
            notes.push(format!(
                "{name}: {unknown:.0} % of the frames on the CPU have no name: it was built without symbols for \
                 them, and its picture says less."
            ));
        }
        if profile.calls.lost > 0 {
            notes.push(format!(
                "{name}: perf trace lost {} events; calls by name are too few.",
                profile.calls.lost
            ));
        }
    }
    notes
}
