//! What perf and strace count, read: the tables of `perf trace -s` and `strace -c`, and the lines of
//! `perf stat -x,`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A system call and how often it was made, over all threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Its name.
    pub name: String,
    /// How often.
    pub calls: u64,
    /// How often it failed; EAGAIN counts.
    pub errors: u64,
    /// Time inside, tracing included.
    pub microseconds: u64,
}

/// `perf trace -s`: a table for each thread, summed by name; the most frequent first.
#[must_use]
pub fn perf_trace(text: &str) -> Vec<Call> {
    sum(text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        // name calls errors total min avg max stddev; the errors' breakdown below has other shapes.
        let [name, calls, errors, total, ..] = words.as_slice() else { return None };
        if !(7..=8).contains(&words.len()) {
            return None;
        }
        let milliseconds: f64 = total.parse().ok()?;
        Some(call(name, calls.parse().ok()?, errors.parse().ok()?, milliseconds * 1_000.0))
    }))
}

/// Events that perf says it lost: `LOST 12 events!` on stderr.
#[must_use]
pub fn lost(text: &str) -> u64 {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    words.windows(2).filter(|pair| pair[0] == "LOST").filter_map(|pair| pair[1].parse::<u64>().ok()).sum()
}

/// `strace -f -c`: `% time, seconds, usecs/call, calls, [errors,] syscall`.
#[must_use]
pub fn strace(text: &str) -> Vec<Call> {
    sum(text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (seconds, calls, errors, name) = match words.as_slice() {
            [_, seconds, _, calls, name] => (seconds, calls, "0", name),
            [_, seconds, _, calls, errors, name] => (seconds, calls, *errors, name),
            _ => return None,
        };
        let seconds: f64 = seconds.parse().ok()?;
        (*name != "total").then_some(call(
            name,
            calls.parse().ok()?,
            errors.parse().ok()?,
            seconds * 1_000_000.0,
        ))
    }))
}

fn call(name: &str, calls: u64, errors: u64, microseconds: f64) -> Call {
    Call { name: name.to_owned(), calls, errors, microseconds: microseconds.round() as u64 }
}

fn sum(rows: impl Iterator<Item = Call>) -> Vec<Call> {
    let mut by_name: BTreeMap<String, Call> = BTreeMap::new();
    for row in rows {
        let entry = by_name
            .entry(row.name.clone())
            .or_insert_with(|| Call { name: row.name.clone(), ..Call::default() });
        entry.calls += row.calls;
        entry.errors += row.errors;
        entry.microseconds += row.microseconds;
    }
    let mut rows: Vec<Call> = by_name.into_values().collect();
    rows.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.name.cmp(&b.name)));
    rows
}

/// `perf stat -x,`: event → value; `None` where the machine does not count it.
#[must_use]
pub fn perf_stat(text: &str) -> BTreeMap<String, Option<f64>> {
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(',').collect();
        let [value, _unit, event, _ran_ns, ..] = fields.as_slice() else { continue };
        match (value.parse::<f64>(), value.starts_with('<')) {
            (Ok(number), _) => counts.insert((*event).to_owned(), Some(number)),
            (Err(_), true) => counts.insert((*event).to_owned(), None),
            (Err(_), false) => continue,
        };
    }
    counts
}
