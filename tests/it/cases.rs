//! `tests/cases.md` is complete and true: every case is there, and every test it names exists.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The ids of the list of cases; they have gaps on purpose.
const IDS: [&str; 50] = [
    "A01", "A02", "A03", "A04", "A08", "A09", "A11", "A12", "B01", "B03", "B05", "B06", "B07", "B08", "C01",
    "C04", "C05", "C06", "D02", "D03", "D06", "D07", "D09", "D10", "D11", "E02", "E05", "E06", "E07", "E08",
    "E09", "E10", "E11", "E13", "F01", "F03", "F04", "F05", "F07", "G01", "G03", "G05", "G06", "H01", "H02",
    "H03", "H05", "H06", "H07", "H09",
];

/// Cases of the first milestone: a test must hold them now, a promise is not enough.
const HELD_NOW: [&str; 22] = [
    "A01", "A02", "A03", "A04", "A08", "A09", "A11", "A12", "B07", "D02", "D03", "D06", "D07", "D09", "D10",
    "D11", "H01", "H02", "H03", "H05", "H06", "H09",
];

struct Row {
    id: String,
    part: String,
    held_by: String,
}

fn rows() -> Vec<Row> {
    let text = include_str!("../cases.md");
    let rows = text.lines().filter(|line| line.starts_with("| ")).filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [id, part, held_by] = cells.as_slice() else { panic!("three columns in {line}") };
        let is_id = id.len() == 3 && id.ends_with(|c: char| c.is_ascii_digit());
        is_id.then(|| Row { id: (*id).to_owned(), part: (*part).to_owned(), held_by: (*held_by).to_owned() })
    });
    rows.collect()
}

/// What stands between backticks.
fn tests_of(row: &Row) -> Vec<&str> {
    row.held_by.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_case_is_listed() {
    let listed: BTreeSet<String> = rows().into_iter().map(|row| row.id).collect();
    let known: BTreeSet<String> = IDS.iter().map(|id| (*id).to_owned()).collect();
    assert_eq!(listed, known);
}

#[test]
fn every_part_has_a_test_or_a_milestone() {
    let mut offences = Vec::new();
    for row in rows() {
        let promised = row.held_by.contains("milestone ");
        if tests_of(&row).is_empty() && !promised {
            offences.push(format!("{} {}", row.id, row.part));
        }
    }
    for id in HELD_NOW {
        if !rows().iter().any(|row| row.id == id && !tests_of(row).is_empty()) {
            offences.push(format!("{id} has no test at all"));
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

/// Where the function `module::function` may be: a module of this binary, of the container tests, or
/// the unit tests of a source file (`semantics::etag::tests::name`).
fn sources_of(path: &[&str]) -> Vec<PathBuf> {
    let house = Path::new(env!("CARGO_MANIFEST_DIR"));
    // `tests` is a part of most source files, and a directory of one room.
    let inner = path.iter().filter(|part| **part != "tests").collect::<PathBuf>();
    let modules = [inner, path.iter().collect()];
    let places = ["tests/it", "tests/container", "tests", "src"];
    let files = places.iter().flat_map(|place| modules.each_ref().map(|modules| (place, modules)));
    let files = files.flat_map(|(place, modules)| {
        let base = house.join(place).join(modules);
        [base.with_extension("rs"), base.join("mod.rs"), base.join("main.rs")]
    });
    files.filter(|file| file.is_file()).collect()
}

/// Whether a test is there that `module::function` names.
pub fn test_exists(test: &str) -> bool {
    let parts: Vec<&str> = test.split("::").collect();
    let Some((function, modules)) = parts.split_last().filter(|(_, modules)| !modules.is_empty()) else {
        return false;
    };
    let wanted = format!("fn {function}(");
    sources_of(modules).iter().any(|file| std::fs::read_to_string(file).unwrap().contains(&wanted))
}

#[test]
fn every_named_test_exists() {
    let mut offences = Vec::new();
    for row in rows() {
        for test in tests_of(&row).into_iter().filter(|test| !test_exists(test)) {
            offences.push(format!("{} names `{test}`, which does not exist with its module", row.id));
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}
