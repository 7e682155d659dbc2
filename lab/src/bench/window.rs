//! One window: checked, warmed, counted, checked again. Whatever is wrong is a refusal, never a number.

use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::options::Load;
use super::record::Window;
use crate::load::{self, Bounds, Expect, Outcome, Plan, Until};
use crate::measure::{self, Counters};
use crate::servers::Running;
use crate::{Refusal, cpus, interrupt};

/// How often the waiting thread looks for Ctrl-C and at the server: ten times a second costs the
/// generator's CPU nothing that shows.
const LOOK: Duration = Duration::from_millis(100);
/// A generator that is not back by then hangs.
const GRACE: Duration = Duration::from_secs(30);
/// A server that has broken a connection because it ends is gone by then.
const DYING: Duration = Duration::from_millis(500);
/// Of a dead server's last words.
const LOG_CHARACTERS_MAX: usize = 300;

/// A server that answered the probe, and what every later answer has to be.
pub struct Target {
    /// The server.
    pub running: Running,
    /// What is sent.
    pub request: String,
    /// What has to come.
    pub expect: Expect,
}

/// What holds for every window of a case.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    /// What is asked and how.
    pub load: &'a Load,
    /// Of a window.
    pub seconds: f64,
    /// Before it.
    pub warmup_seconds: f64,
    /// Of the server.
    pub server_cpus: &'a [usize],
    /// Of the generator.
    pub lab_cpus: &'a [usize],
}

/// Measures one window.
///
/// # Errors
/// A check failed: in one line, with what the server said if it died.
pub fn measure(target: &mut Target, frame: &Frame<'_>, round: u32) -> Result<Window, Refusal> {
    steps(target, frame, round).map_err(|refusal| {
        if interrupt::requested() {
            return interrupt::refusal();
        }
        let because = if is_dying(&mut target.running) { last_words(&target.running) } else { String::new() };
        Refusal::new(format!("round {round}, {refusal}{because}"))
    })
}

/// A process that ends closes its sockets before it can be waited for: an error on one of them may be the
/// first sign.
fn is_dying(running: &mut Running) -> bool {
    let end = Instant::now() + DYING;
    while running.is_alive() {
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(DYING / 50);
    }
    true
}

fn last_words(running: &Running) -> String {
    let log = running.log();
    let log = log.trim();
    let from = log.char_indices().rev().nth(LOG_CHARACTERS_MAX).map_or(0, |(at, _)| at);
    let said = if log.is_empty() { "nothing".to_owned() } else { format!("\"{}\"", &log[from..]) };
    format!("; the server is dead, its last words: {said}")
}

fn steps(target: &mut Target, frame: &Frame<'_>, round: u32) -> Result<Window, Refusal> {
    let (pid, address) = (target.running.pid(), target.running.address());
    check(target, frame, address).map_err(|refusal| within("before the window", &refusal))?;
    stray(pid, frame.server_cpus)?;
    let plan = |seconds: f64| Plan {
        address,
        protocol: frame.load.scenario.protocol,
        connections: frame.load.connections,
        request: target.request.clone(),
        expect: target.expect.clone(),
        until: Until::Seconds(seconds),
        rate: frame.load.rate,
    };
    let (warmup, window) = (plan(frame.warmup_seconds), plan(frame.seconds));
    Generator::connect(warmup, frame)
        .and_then(Generator::run)
        .map_err(|refusal| within("warming up", &refusal))?;
    let generator = Generator::connect(window, frame).map_err(|refusal| within("in the window", &refusal))?;
    // Connections and handshakes are made: from here on there are requests only.
    let before = Counters::of_tree(pid)?;
    let started = Instant::now();
    let outcome = generator.run().map_err(|refusal| within("in the window", &refusal))?;
    let after = Counters::of_tree(pid)?;
    let counted_seconds = started.elapsed().as_secs_f64();
    let pss_bytes = measure::pss_bytes(pid).ok();
    check(target, frame, address).map_err(|refusal| within("after the window", &refusal))?;
    stray(pid, frame.server_cpus)?;
    if !target.running.is_alive() {
        return Err(Refusal::new("after the window"));
    }
    let cost = after.since(&before);
    if outcome.requests == 0 || cost.cpu_ns == 0 || outcome.seconds <= 0.0 {
        return Err(Refusal::new(format!(
            "in the window: {} requests for {} ns of CPU in {} s cannot be",
            outcome.requests, cost.cpu_ns, outcome.seconds
        )));
    }
    Ok(Window {
        round,
        requests: outcome.requests,
        seconds: outcome.seconds,
        counted_seconds,
        body_bytes: outcome.body_bytes,
        connects: outcome.connects,
        cost,
        pss_bytes,
        latency_us: outcome.latency_us,
    })
}

fn within(when: &str, refusal: &Refusal) -> Refusal {
    Refusal::new(format!("{when}: {refusal}"))
}

fn check(target: &Target, frame: &Frame<'_>, address: SocketAddr) -> Result<(), Refusal> {
    load::check(address, frame.load.scenario.protocol, &target.request, &target.expect)
}

/// # Errors
/// A thread of the server may run elsewhere: what it does there is done beside the measurement.
pub fn stray(pid: u32, server_cpus: &[usize]) -> Result<(), Refusal> {
    match measure::stray_thread(pid, server_cpus) {
        None => Ok(()),
        Some((thread, found)) => Err(Refusal::new(format!(
            "thread {thread} of the server may run on CPUs {found}, it has {} only",
            cpus::list(server_cpus)
        ))),
    }
}

/// The generator on its pinned thread, connected. After Ctrl-C nobody waits for it: its server is ended,
/// and the process with it.
struct Generator {
    go: Sender<()>,
    /// `None` once it is connected, then the outcome.
    results: Receiver<Result<Option<Outcome>, Refusal>>,
    deadline: Instant,
}

impl Generator {
    fn connect(plan: Plan, frame: &Frame<'_>) -> Result<Generator, Refusal> {
        let (sender, results) = mpsc::channel();
        let (go, going) = mpsc::channel();
        let (pinned, until) = (frame.lab_cpus.to_vec(), plan.until);
        thread::spawn(move || {
            let bounds = Bounds { stop: interrupt::requested, ..Bounds::default() };
            let ready = cpus::pin(None, &pinned).and_then(|()| load::connect(&plan, bounds));
            // Where nobody is left to hear it, the process is about to end.
            let _ = match ready {
                Err(refusal) => sender.send(Err(refusal)),
                Ok(ready) => sender.send(Ok(None)).and_then(|()| match going.recv() {
                    Ok(()) => sender.send(ready.run().map(Some)),
                    Err(_) => Ok(()),
                }),
            };
        });
        let seconds = if let Until::Seconds(seconds) = until { seconds } else { 0.0 };
        let deadline = Instant::now() + Duration::from_secs_f64(seconds) + GRACE;
        let generator = Generator { go, results, deadline };
        generator.next().map(|_| generator)
    }

    fn run(self) -> Result<Outcome, Refusal> {
        let silent = || Refusal::new("the generator ended without a result");
        self.go.send(()).map_err(|_| silent())?;
        self.next()?.ok_or_else(silent)
    }

    fn next(&self) -> Result<Option<Outcome>, Refusal> {
        loop {
            match self.results.recv_timeout(LOOK) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Refusal::new("the generator ended without a result"));
                }
                Err(RecvTimeoutError::Timeout) if interrupt::requested() => return Err(interrupt::refusal()),
                Err(RecvTimeoutError::Timeout) if Instant::now() > self.deadline => {
                    return Err(Refusal::new(format!("the generator is {} s late", GRACE.as_secs())));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}
