//! What `perf script` prints, read: samples with their stacks, folded lines for flamegraphs, the
//! hottest symbols, and how much of it has no name.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Fields to ask `perf script` for; `--no-inline`, as looking inlined callers up takes minutes.
pub const SCRIPT_FIELDS: &[&str] = &["--ns", "--no-inline", "-F", "comm,tid,time,event,ip,sym,dso"];
/// Frames deeper than this are cut: `perf record` takes 127 by itself.
const DEPTH_MAX: usize = 160;
/// Rows of the table of symbols.
const HOTTEST: usize = 40;

/// One function in a stack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame {
    /// Its name; `[unknown]` where there is none.
    pub symbol: String,
    /// File name of the object that it lies in.
    pub object: String,
}

impl Frame {
    /// Whether it belongs to the kernel or a module of it.
    #[must_use]
    pub fn is_kernel(&self) -> bool {
        self.object.starts_with("[kernel") || self.object.starts_with("[guest.kernel") || self.object == "bpf"
    }

    /// Whether it has no name.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.symbol == "[unknown]"
    }

    /// As folded stacks have it: `_[k]` behind a function of the kernel.
    fn folded(&self) -> String {
        let name = self.symbol.replace([';', '\n'], ":");
        match (self.is_unknown(), self.is_kernel()) {
            (true, _) if self.object == "[unknown]" => name,
            (true, _) => format!("[unknown in {}]", self.object.trim_matches(['[', ']'])),
            (false, true) => format!("{name}_[k]"),
            (false, false) => name,
        }
    }
}

/// One record of `perf script`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Name of the thread.
    pub comm: String,
    /// Its number.
    pub thread: u32,
    /// Nanoseconds of perf's clock.
    pub at_ns: u64,
    /// What happened.
    pub what: What,
}

/// What a record is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// An event with its stack, innermost frame first.
    Sample(Vec<Frame>),
    /// The thread came onto a CPU.
    In,
    /// It left the CPU.
    Out {
        /// It could have gone on.
        is_preempted: bool,
    },
}

/// Reads the text. Lines of other kinds are passed over.
#[must_use]
pub fn read(text: &str) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    for line in text.lines() {
        if line.starts_with(['\t', ' ']) && !line.contains(": ") {
            let stack = records.last_mut().map(|record| &mut record.what);
            if let (Some(What::Sample(frames)), Some(frame)) = (stack, frame(line))
                && frames.len() < DEPTH_MAX
            {
                frames.push(frame);
            }
        } else if let Some(record) = head(line) {
            records.push(record);
        }
    }
    records
}

/// `comm tid seconds.nanoseconds: event:` or `…: PERF_RECORD_SWITCH OUT preempt`; comm may have spaces.
fn head(line: &str) -> Option<Record> {
    let (left, right) = line.split_once(": ")?;
    let (left, time) = left.trim_end().rsplit_once(' ')?;
    let (seconds, fraction) = time.split_once('.')?;
    let seconds: u64 = seconds.parse().ok()?;
    let nanos: u64 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    let (comm, thread) = left.trim().rsplit_once(' ')?;
    let right = right.trim();
    let what = match right.strip_prefix("PERF_RECORD_SWITCH ") {
        Some(way) if way.starts_with("IN") => What::In,
        Some(way) if way.starts_with("OUT") => What::Out { is_preempted: way.contains("preempt") },
        Some(_) => return None,
        None if right.starts_with("PERF_RECORD_") => return None,
        None => What::Sample(Vec::new()),
    };
    let at_ns = seconds.checked_mul(1_000_000_000)?.checked_add(nanos)?;
    Some(Record { comm: comm.trim().to_owned(), thread: thread.parse().ok()?, at_ns, what })
}

/// `  ffffffff81e2dc3e symbol name (object)`.
fn frame(line: &str) -> Option<Frame> {
    let (address, rest) = line.trim().split_once(' ')?;
    u64::from_str_radix(address, 16).ok()?;
    let (symbol, object) = rest.rsplit_once(" (")?;
    let object = object.strip_suffix(')')?.trim_end_matches(" (deleted)");
    let object = if object.starts_with('[') { object } else { object.rsplit('/').next()? };
    Some(Frame { symbol: tidy(symbol), object: object.to_owned() })
}

/// Without the offset, and without the hash that older Rust symbols end in.
fn tidy(symbol: &str) -> String {
    let symbol = match symbol.rsplit_once("+0x") {
        Some((name, offset)) if offset.bytes().all(|byte| byte.is_ascii_hexdigit()) => name,
        _ => symbol,
    };
    // perf demangled it; what is left of a local copy's name means nothing to a reader.
    let name = symbol.split(".llvm.").next().unwrap_or(symbol);
    match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            path.to_owned()
        }
        _ => name.to_owned(),
    }
}

/// Stacks with their weights, outermost first, in the order of their text: two runs over the same
/// records give the same bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folded(BTreeMap<String, u64>);

impl Folded {
    /// Adds a stack beneath first frames of those names.
    pub fn add(&mut self, first: &[&str], frames: &[Frame], weight: u64) {
        let mut line = first.join("\n").replace([';', ' '], "_").replace('\n', ";");
        for frame in frames.iter().rev() {
            line.push(';');
            line.push_str(&frame.folded());
        }
        *self.0.entry(line).or_default() += weight;
    }

    /// Of all samples, one each.
    #[must_use]
    pub fn of(records: &[Record]) -> Folded {
        let mut folded = Folded::default();
        for record in records {
            if let What::Sample(frames) = &record.what {
                folded.add(&[&record.comm], frames, 1);
            }
        }
        folded
    }

    /// Lines as flamegraph tools read them.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().map(|(stack, weight)| format!("{stack} {weight}"))
    }

    /// Sum of all weights.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }
}

/// A row of the table of symbols.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Symbol {
    /// Name of the function.
    pub symbol: String,
    /// Object that it lies in.
    pub object: String,
    /// Samples in it, of a hundred.
    pub self_percent: f64,
    /// Samples in it or in what it called, of a hundred.
    pub total_percent: f64,
}

/// The symbols with the most samples of their own.
#[must_use]
pub fn hottest(records: &[Record]) -> Vec<Symbol> {
    let mut counts: BTreeMap<&Frame, (u64, u64)> = BTreeMap::new();
    let mut samples = 0_u64;
    for record in records {
        let What::Sample(frames) = &record.what else { continue };
        let Some(own) = frames.first() else { continue };
        samples += 1;
        counts.entry(own).or_default().0 += 1;
        for frame in frames.iter().collect::<BTreeSet<_>>() {
            counts.entry(frame).or_default().1 += 1;
        }
    }
    let mut rows: Vec<_> = counts.into_iter().collect();
    rows.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let row = |(frame, (own, total)): (&Frame, (u64, u64))| Symbol {
        symbol: frame.symbol.clone(),
        object: frame.object.clone(),
        self_percent: percent(own, samples),
        total_percent: percent(total, samples),
    };
    rows.into_iter().take(HOTTEST).filter(|(_, (own, _))| *own > 0).map(row).collect()
}

/// Of all frames of all samples, how many of a hundred have no name.
#[must_use]
pub fn unknown_percent(records: &[Record]) -> f64 {
    let (mut unknown, mut all) = (0, 0);
    for record in records {
        if let What::Sample(frames) = &record.what {
            all += frames.len() as u64;
            unknown += frames.iter().filter(|frame| frame.is_unknown()).count() as u64;
        }
    }
    percent(unknown, all)
}

/// Where the stack of a thread begins, as C libraries and the kernel name it.
const ROOTS: &[&str] = &[
    "start_thread",
    "clone",
    "clone3",
    "__clone",
    "__clone3",
    "_start",
    "main",
    "__libc_start_call_main",
    "ret_from_fork_asm",
];

/// Of all samples, how many of a hundred do not reach back to the start of their thread: the walk lost
/// its way, and their callers are not in the picture.
#[must_use]
pub fn rootless_percent(records: &[Record]) -> f64 {
    let (mut rootless, mut all) = (0, 0);
    for record in records {
        let What::Sample(frames) = &record.what else { continue };
        all += 1;
        rootless += u64::from(!frames.last().is_some_and(|frame| ROOTS.contains(&frame.symbol.as_str())));
    }
    percent(rootless, all)
}

/// Hundredths, to two places; nothing of nothing is 0.
#[must_use]
pub fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 * 10_000.0 / whole as f64).round() / 100.0 }
}
