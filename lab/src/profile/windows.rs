//! The windows of one profile, each for one thing: numbers come from the one in which nothing looks, and
//! pictures from those in which perf does. None of them is both.

use std::path::Path;
use std::time::{Duration, Instant};

use super::record::{self, Counted, Perf, Recording, Walk};
use super::result::{Calls, Memory, OffCpu, OnCpu, Open, Plain, Profile, Window};
use super::stacks::{self, Folded, Record};
use super::subject::{Driver, Look, Subject};
use super::{flame, oha, switches};
use crate::Refusal;
use crate::load::{Outcome, Plan, Until};
use crate::place::Place;

/// Before anything is measured: connections, caches, the branch predictor.
pub(super) const WARM_UP_SECONDS: f64 = 1.0;
/// For the load to run before perf records.
const SETTLE: Duration = Duration::from_millis(500);
/// For perf to open its events on every thread before the load begins: the first try, and on a busy machine
/// the others.
const SETTLES: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(20)];
/// Seconds that the load lasts longer than a recording: first try, second try.
const MARGINS: [f64; 2] = [3.0, 20.0];
const TOO_BUSY: &str =
    "perf took so long that not all of the load was seen: the machine is too busy for a profile";
/// A million switches a second make gigabytes: this is enough to see a pattern.
const OFF_CPU_SECONDS_MAX: f64 = 2.0;
/// Rate of the open loop, of the closed loop's.
const OPEN_SHARE: f64 = 0.5;
/// For a driver to connect and to end.
const GRACE: Duration = Duration::from_secs(30);

/// What holds for every window of a subject.
pub struct Course<'a> {
    /// The server.
    pub subject: &'a dyn Subject,
    /// Its plan; `until` and `rate` are each window's.
    pub plan: Plan,
    /// CPUs that the server has.
    pub cpus: usize,
    /// Seconds of the plain window.
    pub seconds: f64,
    /// How stacks are walked, where the person said so.
    pub walk: Option<Walk>,
    /// Where pictures go.
    pub folder: &'a Path,
    /// Progress, for the person who waits.
    pub say: &'a dyn Fn(&str),
    windows: Vec<Window>,
    pss_peak: u64,
    looks: u32,
}

impl<'a> Course<'a> {
    /// Before the first window.
    pub fn new(subject: &'a dyn Subject, plan: Plan, folder: &'a Path, say: &'a dyn Fn(&str)) -> Course<'a> {
        Course {
            subject,
            plan,
            cpus: 1,
            seconds: 5.0,
            walk: None,
            folder,
            say,
            windows: Vec::new(),
            pss_peak: 0,
            looks: 0,
        }
    }

    /// Runs all windows.
    ///
    /// # Errors
    /// An answer is wrong, the server is gone, or perf fails.
    pub fn run(mut self) -> Result<Profile, Refusal> {
        let (seconds, looking) = (self.seconds, (self.seconds * 0.6).round().max(1.0));
        self.edge()?;
        self.load(WARM_UP_SECONDS, None)?;
        let plain = self.plain(seconds)?;
        let open = self.open(seconds, (plain.rate * OPEN_SHARE).max(1.0))?;
        let (counted, counted_requests) = self.counted(looking)?;
        let calls = self.calls(looking)?;
        let on_cpu = self.on_cpu(seconds)?;
        let off_cpu = self.off_cpu(looking.min(OFF_CPU_SECONDS_MAX))?;
        self.look()?;
        let subject = self.subject;
        Ok(Profile {
            name: subject.name(),
            version: subject.version(),
            flags: subject.flags(),
            config: subject.config(),
            windows: self.windows,
            plain,
            open,
            memory: Memory {
                pss_peak_bytes: self.pss_peak,
                looks: self.looks,
                cgroup_peak_bytes: subject.cgroup_peak(),
            },
            counted,
            counted_requests,
            calls,
            on_cpu,
            off_cpu,
            traces: None,
        })
    }

    fn window(&mut self, name: &str, seconds: f64, what: &str) {
        (self.say)(&format!("{}: {name}, {seconds} s", self.subject.name()));
        self.windows.push(Window { name: name.to_owned(), seconds, what: what.to_owned() });
    }

    /// A look at the edge of a window, where it disturbs nothing.
    fn look(&mut self) -> Result<Look, Refusal> {
        crate::interrupt::stop_if_requested()?;
        let look = self.subject.look()?;
        self.pss_peak = self.pss_peak.max(look.pss_bytes);
        self.looks += 1;
        Ok(look)
    }

    pub(super) fn edge(&self) -> Result<(), Refusal> {
        self.subject.check(&self.plan)
    }

    fn planned(&self, seconds: f64, rate: Option<f64>) -> Plan {
        Plan { until: Until::Seconds(seconds), rate, ..self.plan.clone() }
    }

    pub(super) fn load(&self, seconds: f64, rate: Option<f64>) -> Result<Outcome, Refusal> {
        run(&self.subject.driver(), &self.planned(seconds, rate))
    }

    fn plain(&mut self, seconds: f64) -> Result<Plain, Refusal> {
        self.window("plain", seconds, "closed loop, nothing looks: requests a second, CPU, switches, faults");
        self.edge()?;
        let before = self.look()?;
        let outcome = self.load(seconds, None)?;
        let after = self.look()?;
        self.edge()?;
        if outcome.requests == 0 || outcome.seconds <= 0.0 {
            return Err(Refusal::new(format!("{} answered nothing", self.subject.name())));
        }
        let counters = after.counters.since(&before.counters);
        let cpu_us = counters.cpu_ns as f64 / 1_000.0;
        Ok(Plain {
            requests: outcome.requests,
            seconds: outcome.seconds,
            rate: outcome.requests as f64 / outcome.seconds,
            cpu_us: cpu_us / outcome.requests as f64,
            busy: cpu_us / 1e6 / outcome.seconds / self.cpus.max(1) as f64,
            counters,
            latency_us: outcome.latency_us,
        })
    }

    fn open(&mut self, seconds: f64, rate: f64) -> Result<Open, Refusal> {
        self.window(
            "open loop",
            seconds,
            "half of the plain window's rate, latency from the time each request was due",
        );
        let oha = self.subject.oha().and_then(|place| Some((place, oha::find(place, &self.plan)?)));
        let open = match oha {
            Some((place, version)) => oha::run(place, &version, &self.plan, seconds, rate)?,
            None => {
                let outcome = self.load(seconds, Some(rate))?;
                Open {
                    rate,
                    reached: outcome.requests as f64 / outcome.seconds.max(0.001),
                    tool: "the lab's own generator (no oha where the load runs)".to_owned(),
                    latency_us: outcome.latency_us,
                }
            }
        };
        self.look()?;
        Ok(open)
    }

    /// perf first, then the load, which ends before it: each of its requests is counted. Where perf is slow
    /// to begin it once more with more time; counts of a part of the load would be wrong and look right.
    fn around<T: Send>(
        &mut self,
        seconds: f64,
        tool: impl Fn(&Perf<'_>, f64) -> Result<T, Refusal> + Sync,
    ) -> Result<(T, Outcome), Refusal> {
        let pids = pids(&self.look()?);
        let (driver, plan) = (self.subject.driver(), self.planned(seconds, None));
        let perf = Perf { place: self.subject.place(), pids };
        for settle in SETTLES {
            let long = Duration::from_secs_f64(seconds) + settle.mul_f64(2.5);
            let begun = Instant::now();
            let (told, ended, outcome, loading, loaded) = std::thread::scope(|scope| {
                let tool = scope.spawn(|| (tool(&perf, long.as_secs_f64()), Instant::now()));
                std::thread::sleep(settle);
                let loading = Instant::now();
                let outcome = run(&driver, &plan);
                let loaded = Instant::now();
                let panicked = |_| (Err(Refusal::new("a thread of the lab panicked")), loaded);
                let (told, ended) = tool.join().unwrap_or_else(panicked);
                (told, ended, outcome, loading, loaded)
            });
            let (told, outcome) = (told?, outcome?);
            // It counts for `long` and ends then: so it began by `ended - long`, and not before `begun`.
            if ended <= loading + long && loaded <= begun + long {
                return Ok((told, outcome));
            }
        }
        Err(Refusal::new(TOO_BUSY))
    }

    /// The load first, then perf, which ends before it: a picture of the middle. Where perf is slow to
    /// begin it once more with longer load; a picture of an idle server would be wrong and look right.
    pub(super) fn within(
        &mut self,
        seconds: f64,
        rate: Option<f64>,
        tool: impl Fn(&Perf<'_>) -> Result<Recording, Refusal>,
    ) -> Result<(Vec<Record>, u64), Refusal> {
        let pids = pids(&self.look()?);
        let perf = Perf { place: self.subject.place(), pids };
        for margin in MARGINS {
            let (driver, plan) = (self.subject.driver(), self.planned(seconds + margin, rate));
            let (recording, recorded, outcome, loaded) = std::thread::scope(|scope| {
                let load = scope.spawn(|| (run(&driver, &plan), Instant::now()));
                std::thread::sleep(SETTLE);
                let recording = tool(&perf);
                let recorded = Instant::now();
                let panicked = |_| (Err(Refusal::new("a thread of the lab panicked")), recorded);
                let (outcome, loaded) = load.join().unwrap_or_else(panicked);
                (recording, recorded, outcome, loaded)
            });
            let outcome = outcome?;
            if recorded < loaded {
                let share = seconds / outcome.seconds.max(seconds);
                return Ok((perf.read(&recording?)?, (outcome.requests as f64 * share).round() as u64));
            }
            recording?;
        }
        Err(Refusal::new(TOO_BUSY))
    }

    fn counted(&mut self, seconds: f64) -> Result<(Counted, u64), Refusal> {
        self.window("perf stat", seconds, "events counted in the kernel; not for requests a second");
        let (counted, outcome) = self.around(seconds, |perf, long| perf.count(long))?;
        Ok((counted, outcome.requests))
    }

    fn calls(&mut self, seconds: f64) -> Result<Calls, Refusal> {
        self.window("system calls", seconds, "each call traced by name; slower by it, so only counts");
        let ((lost, rows), outcome) = self.around(seconds, |perf, long| perf.trace(long))?;
        if !rows.is_empty() {
            return Ok(Calls { tool: "perf trace -s".to_owned(), requests: outcome.requests, lost, rows });
        }
        // With a load of its own: that of perf trace is over.
        let (rows, outcome) = self.around(seconds, |perf, long| perf.strace(long))?;
        let tool = "strace -c (perf trace gave no table; strace slows each call down)".to_owned();
        Ok(Calls { tool, requests: outcome.requests, lost: 0, rows })
    }

    fn on_cpu(&mut self, seconds: f64) -> Result<OnCpu, Refusal> {
        let event = record::event(self.subject.place())?;
        self.window("on CPU", seconds, "stacks sampled under closed-loop load: a picture, no numbers");
        let walk = self.walk.unwrap_or(Walk::Tables);
        let (records, _) = self.within(seconds, None, |perf| perf.on_cpu(event, walk, seconds))?;
        let samples = Folded::of(&records);
        let title = format!("{}: on CPU ({event}, {} Hz)", self.subject.name(), record::FREQUENCY);
        Ok(OnCpu {
            event: event.to_owned(),
            walk: walk.argument().to_owned(),
            samples: samples.total(),
            unknown_percent: stacks::unknown_percent(&records),
            rootless_percent: stacks::rootless_percent(&records),
            hottest: stacks::hottest(&records),
            files: picture(self.folder, &self.subject.name(), "on-cpu", &samples, (&title, "samples"))?,
        })
    }

    fn off_cpu(&mut self, seconds: f64) -> Result<OffCpu, Refusal> {
        self.window("off CPU", seconds, "every switch with its stack under closed-loop load: a picture");
        // Each switch would copy 32 KiB of stack: only where there are no frame pointers to follow.
        let walk = self.walk.unwrap_or(self.subject.walk());
        let (records, requests) = self.within(seconds, None, |perf| perf.off_cpu(walk, seconds))?;
        let off = switches::pair(&records);
        let title = format!("{}: off CPU, blocked or preempted", self.subject.name());
        Ok(OffCpu {
            blocked: off.blocked,
            preempted: off.preempted,
            unpaired: off.unpaired,
            requests,
            unknown_percent: stacks::unknown_percent(&records),
            rootless_percent: stacks::rootless_percent(&records),
            files: picture(self.folder, &self.subject.name(), "off-cpu", &off.folded, (&title, "µs"))?,
        })
    }
}

/// Writes the two files; with no stack at all both are empty and the page says so. Over the drawing stands its title,
/// and what its widths are.
pub(super) fn picture(
    folder: &Path,
    name: &str,
    kind: &str,
    folded: &Folded,
    (title, unit): (&str, &str),
) -> Result<(String, String), Refusal> {
    let names = (format!("{name}-{kind}.svg"), format!("{name}-{kind}.folded"));
    let lines: String = folded.lines().map(|line| line + "\n").collect();
    let svg = if folded.total() == 0 { String::new() } else { flame::draw(folded, title, unit)? };
    for (name, content) in [(&names.0, svg), (&names.1, lines)] {
        let path = folder.join(name);
        std::fs::write(&path, content)
            .map_err(|error| Refusal::new(format!("{}: {error}", path.display())))?;
    }
    Ok(names)
}

fn run(driver: &Driver, plan: &Plan) -> Result<Outcome, Refusal> {
    let seconds = match plan.until {
        Until::Seconds(seconds) => seconds,
        Until::Requests(_) => 60.0,
    };
    driver.run(plan, Duration::from_secs_f64(seconds) + GRACE)
}

fn pids(look: &Look) -> String {
    look.pids.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// Where a preflight looks: the same facts, read there.
///
/// # Errors
/// They cannot be read, or something is missing.
pub fn preflight(place: &Place) -> Result<(), Refusal> {
    if !place.is_container() {
        return super::preflight::Facts::look(false).check();
    }
    let text = place.need(&["scalws-lab", "inside", "facts"], GRACE)?;
    let facts: super::preflight::Facts = serde_json::from_str(&text.out)
        .map_err(|error| Refusal::new(format!("the container's facts: {error}")))?;
    facts.check()
}
