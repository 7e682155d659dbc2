//! One window: checked, warmed, counted, checked again. Whatever is wrong is a refusal, never a number.

use std::thread;
use std::time::{Duration, Instant};

use super::generator::Generator;
use super::options::Load;
use super::record::Window;
use super::subject::{Subject, Target};
use crate::load::{Plan, Until};
use crate::{Refusal, cpus, interrupt, measure};

/// A server that has broken a connection because it ends is gone by then.
const DYING: Duration = Duration::from_millis(500);
/// Of a dead server's last words.
const LOG_CHARACTERS_MAX: usize = 300;

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
        let because = if is_dying(&mut target.subject) { last_words(&target.subject) } else { String::new() };
        Refusal::new(format!("round {round}, {refusal}{because}"))
    })
}

/// A process that ends closes its sockets before it can be waited for: an error on one of them may be the
/// first sign.
fn is_dying(subject: &mut Subject) -> bool {
    let end = Instant::now() + DYING;
    while subject.is_alive() {
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(DYING / 50);
    }
    true
}

fn last_words(subject: &Subject) -> String {
    let log = subject.log();
    let log = log.trim();
    let from = log.char_indices().rev().nth(LOG_CHARACTERS_MAX).map_or(0, |(at, _)| at);
    let said = if log.is_empty() { "nothing".to_owned() } else { format!("\"{}\"", &log[from..]) };
    format!("; the server is dead, its last words: {said}")
}

fn steps(target: &mut Target, frame: &Frame<'_>, round: u32) -> Result<Window, Refusal> {
    let subject = &mut target.subject;
    let pid = subject.pid();
    let plan = |seconds: f64| Plan {
        address: subject.address(),
        protocol: frame.load.scenario.protocol,
        connections: frame.load.connections,
        request: target.request.clone(),
        expect: target.expect.clone(),
        until: Until::Seconds(seconds),
        rate: frame.load.rate,
    };
    let (warmup, window) = (plan(frame.warmup_seconds), plan(frame.seconds));
    subject.check(&window).map_err(|refusal| within("before the window", &refusal))?;
    stray(pid, frame.server_cpus)?;
    Generator::connect(warmup, subject.load(), frame.lab_cpus)
        .and_then(Generator::run)
        .map_err(|refusal| within("warming up", &refusal))?;
    let generator = Generator::connect(window.clone(), subject.load(), frame.lab_cpus)
        .map_err(|refusal| within("in the window", &refusal))?;
    // Connections and handshakes are made: from here on there are requests only.
    let before = subject.cost()?;
    let started = Instant::now();
    let outcome = generator.run().map_err(|refusal| within("in the window", &refusal))?;
    let after = subject.cost()?;
    let counted_seconds = started.elapsed().as_secs_f64();
    let pss_bytes = measure::pss_bytes(pid).ok();
    subject.check(&window).map_err(|refusal| within("after the window", &refusal))?;
    stray(pid, frame.server_cpus)?;
    if !subject.is_alive() {
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
