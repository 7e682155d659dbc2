//! Every key has its example, and no example has a mistake.

use std::collections::BTreeSet;
use std::path::Path;

use super::super::keys::{self, Kind, State};
use super::super::raw::{self, Table, Value};
use super::super::report::Report;
use super::super::{Source, load_text};
use super::*;

/// The keys in a table and beneath it, by the table of `keys` that they stand in.
fn collect(table: &Table, name: &'static str, seen: &mut BTreeSet<(&'static str, &'static str)>) {
    for entry in &table.entries {
        let key = keys::find(name, &entry.name).unwrap_or_else(|| panic!("{name}.{}", entry.name));
        seen.insert((key.table, key.name));
        let (Kind::Table(below)
        | Kind::Tables(below)
        | Kind::WordOrTable(_, below)
        | Kind::BooleanOrTable(below)) = key.kind
        else {
            continue;
        };
        let list = match &entry.node.value {
            Value::List(list) => list.as_slice(),
            _ => std::slice::from_ref(&entry.node),
        };
        for node in list {
            if let Value::Table(table) = &node.value {
                collect(table, below, seen);
            }
        }
    }
}

#[test]
fn every_key_that_works_is_in_one() {
    let mut seen = BTreeSet::new();
    for example in ALL {
        collect(&raw::parse(example.toml, &mut Report::new("")), "", &mut seen);
    }
    let works = keys::all().iter().filter(|key| key.state == State::Works);
    let missing: Vec<_> = works.map(|key| (key.table, key.name)).filter(|key| !seen.contains(key)).collect();
    assert_eq!(missing, []);
}

#[test]
fn each_stands_beneath_a_table_whose_keys_it_shows() {
    for example in ALL {
        let mut seen = BTreeSet::new();
        collect(&raw::parse(example.toml, &mut Report::new("")), "", &mut seen);
        assert!(seen.iter().any(|(table, _)| *table == example.table), "{}", example.title);
    }
}

/// With its files in a directory of the test's own: a mistake or a warning in one would be copied.
#[test]
fn each_is_valid_and_earns_no_warning() {
    let place = std::env::temp_dir().join(format!("scalws-examples-{}", std::process::id()));
    for example in ALL {
        let _ = std::fs::remove_dir_all(&place);
        std::fs::create_dir_all(place.join("srv")).unwrap();
        for file in example.files {
            let path = place.join(file.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, file).unwrap();
        }
        let within = |start: &str| format!("\"{}{start}", place.display());
        let mut text = example.toml.to_owned();
        for start in ["/srv", "/etc/scalws", "/var/log/scalws"] {
            text = text.replace(&format!("\"{start}"), &within(start));
        }
        let directory = (!text.contains("[[route]]")).then(|| place.join(Path::new("srv")));
        let variables = example.variables.iter().map(|(name, value)| ((*name).to_owned(), value.into()));
        let source =
            Source { environment: variables.collect(), directory, walks_roots: true, ..Source::default() };
        let loaded = load_text(&source, "scalws.toml", &text);
        assert_eq!(
            loaded.map(|loaded| loaded.warnings).map_err(|problems| format!("{problems:?}")),
            Ok(vec![]),
            "{text}"
        );
    }
    let _ = std::fs::remove_dir_all(&place);
}
