//! Instructions of the server's own code for each request, counted by callgrind: the same on each run, so
//! that a per cent is a change and not weather. Compared with the committed `lab/instructions.json`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::Refusal;
use crate::fixture::Fixture;

/// What is counted.
const ROWS: [&str; 5] = ["respond", "file", "kept", "unchanged", "missing"];
/// Two runs whose difference leaves the start of the program out.
const COUNTS: [u64; 2] = [500, 2_500];
/// Runs of each, of which the least counts: what happens once a second comes on top where a busy machine takes
/// longer for a run (1.4 % once in a file's), and nothing makes a run shorter.
const RUNS: usize = 3;
/// Bound in per cent: counts differ by less from run to run (by 0.01 here), and by more after a change.
const BOUND_PERCENT: f64 = 1.0;

fn baseline() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.json")
}

/// Counts, and compares with what is committed.
///
/// # Errors
/// A row is out of its bound, or nothing can be counted.
pub fn check() -> Result<String, Refusal> {
    let text = std::fs::read_to_string(baseline())
        .map_err(|error| Refusal::new(format!("lab/instructions.json: {error}; record it first")))?;
    let known = parse(&text)?;
    let (table, outside) = compare(&known, &count()?);
    if outside.is_empty() {
        Ok(table)
    } else {
        Err(Refusal::new(format!("{}: {}", outside.join(", "), flat(&table))))
    }
}

/// Counts, and commits it to the file; says what was there before.
///
/// # Errors
/// Nothing can be counted or written.
pub fn record() -> Result<String, Refusal> {
    let known =
        std::fs::read_to_string(baseline()).ok().and_then(|text| parse(&text).ok()).unwrap_or_default();
    let counted = count()?;
    let rows: serde_json::Map<String, Value> =
        counted.iter().map(|(row, count)| (row.clone(), json!(count))).collect();
    std::fs::write(baseline(), format!("{:#}\n", Value::Object(rows)))?;
    Ok(compare(&known, &counted).0)
}

fn parse(text: &str) -> Result<BTreeMap<String, f64>, Refusal> {
    serde_json::from_str(text).map_err(|error| Refusal::new(format!("lab/instructions.json: {error}")))
}

fn flat(table: &str) -> String {
    table.lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

/// A line a row with the old count, the new one and the change; and the rows out of their bound.
fn compare(known: &BTreeMap<String, f64>, counted: &BTreeMap<String, f64>) -> (String, Vec<String>) {
    let mut table = String::new();
    let mut outside = Vec::new();
    for (row, new) in counted {
        let Some(old) = known.get(row) else {
            let _ = writeln!(table, "{row:10} {:>9} → {new:9.1} instructions a request", "none");
            outside.push(format!("{row} has no recorded count"));
            continue;
        };
        let percent = (new / old - 1.0) * 100.0;
        let _ = writeln!(table, "{row:10} {old:9.1} → {new:9.1} instructions a request ({percent:+.2} %)");
        if percent.abs() > BOUND_PERCENT {
            outside.push(format!("{row} changed by {percent:+.2} %, the bound is {BOUND_PERCENT} %"));
        }
    }
    (table, outside)
}

fn count() -> Result<BTreeMap<String, f64>, Refusal> {
    let scratch = std::env::temp_dir().join(format!("scalws-instructions-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let counted = Fixture::lay_out(&scratch).and_then(|fixture| {
        ROWS.iter().map(|row| Ok(((*row).to_owned(), of_row(row, fixture.root())?))).collect()
    });
    std::fs::remove_dir_all(&scratch)?;
    counted
}

fn of_row(row: &str, directory: &Path) -> Result<f64, Refusal> {
    let [few, many] = COUNTS;
    let (first, second) = (least(row, few, directory)?, least(row, many, directory)?);
    #[expect(clippy::cast_precision_loss, reason = "counts of instructions stay far below 2^53")]
    let each = second.saturating_sub(first) as f64 / (many - few) as f64;
    // A tenth is what the file keeps.
    Ok((each * 10.0).round() / 10.0)
}

fn least(row: &str, count: u64, directory: &Path) -> Result<u64, Refusal> {
    let mut least = run(row, count, directory)?;
    for _ in 1..RUNS {
        least = least.min(run(row, count, directory)?);
    }
    Ok(least)
}

fn run(row: &str, count: u64, directory: &Path) -> Result<u64, Refusal> {
    let program = std::env::current_exe()?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([row, &count.to_string()])
        .arg(directory)
        .output()
        .map_err(|error| Refusal::new(format!("valgrind: {error}; apt-get install valgrind")))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let last = text.lines().last().unwrap_or("no word");
        return Err(Refusal::new(format!("valgrind ended with {}: {last}", output.status)));
    }
    collected(&text).ok_or_else(|| Refusal::new("valgrind printed no count (a line with \"Collected : \")"))
}

/// The count of callgrind's last line.
fn collected(text: &str) -> Option<u64> {
    text.lines().rev().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_and_nothing_else_is_taken_for_one() {
        let text =
            "==1== Events    : Ir\n==1== Collected : 1234567\n==1== \n==1== I   refs:      1,234,567\n";
        assert_eq!(collected(text), Some(1_234_567));
        assert_eq!(collected("==1== Collected : 12 34\n"), None);
        assert_eq!(collected(""), None);
    }

    #[test]
    fn a_change_beyond_the_bound_is_named() {
        let rows = |respond: f64| BTreeMap::from([("respond".to_owned(), respond)]);
        let (table, outside) = compare(&rows(1000.0), &rows(1009.0));
        assert_eq!(table, "respond       1000.0 →    1009.0 instructions a request (+0.90 %)\n");
        assert!(outside.is_empty());
        for (old, new) in [(1000.0, 1011.0), (1000.0, 989.0)] {
            assert_eq!(compare(&rows(old), &rows(new)).1.len(), 1, "{new}");
        }
        assert_eq!(compare(&BTreeMap::new(), &rows(1.0)).1, ["respond has no recorded count"]);
    }
}
