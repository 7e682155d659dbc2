//! `docs/limits.md` and `docs/config.md`, rendered from the tables that the code itself reads.

use super::keys::{self, Key, Kind, State};
use super::{examples, overrides, units};
use crate::limits::{self, Unit};

const GENERATED: &str =
    "<!-- Generated from the source; re-record with `RECORD=1 cargo test --lib config`. -->\n";

/// The page about `[limits]`.
#[must_use]
pub fn limits_markdown() -> String {
    let mut page = format!("{GENERATED}\n# Limits\n\n");
    page.push_str(
        "Everything has a bound. These can be set under `[limits]`, each for the whole process.\n\n",
    );
    page.push_str("| Key | Default | From | To | What happens there, and why |\n|---|---|---|---|---|\n");
    for limit in limits::TABLE {
        let show = |value| match limit.unit {
            Unit::Count => format!("{value}"),
            _ => keys::show_limit(limit.unit, value).replace('"', ""),
        };
        page.push_str(&format!(
            "| `{}` | {} | {} | {} | {} |\n",
            limit.key,
            show(limit.default),
            show(limit.min),
            show(limit.max),
            limit.reason
        ));
    }
    page
}

/// The page about every key.
#[must_use]
pub fn keys_markdown() -> String {
    let mut page = format!("{GENERATED}\n# Configuration\n\n");
    page.push_str(INTRODUCTION);
    for table in keys::tables() {
        let title = match table {
            "" => "Top level".to_owned(),
            "route" => "`[[route]]`".to_owned(),
            _ => format!("`{table}`"),
        };
        page.push_str(&format!("\n## {title}\n\n| Key | Value | Default | Meaning |\n|---|---|---|---|\n"));
        for key in keys::of(table) {
            page.push_str(&row(key));
        }
        for example in examples::ALL.iter().filter(|example| example.table == table) {
            page.push_str(&format!("\n{}:\n\n```toml\n{}```\n", example.title, example.toml));
        }
    }
    page
}

const INTRODUCTION: &str = "\
The file is TOML; `scalws check` shows every mistake in it at once. A flag wins over a variable, a \
variable over the file, the file over the default.

- Durations have a unit: `\"250ms\"`, `\"30s\"`, `\"5m\"`, `\"1h\"`. Sizes too: `\"64KiB\"`, `\"10KB\"`; an integer is bytes.
- `${env:NAME}` inside a string is the variable `NAME`, which must be set; `${env:NAME:-default}` need not, \
and an empty variable gives the default too. `$$` is a dollar sign.
- `SCALWS_SERVER__WORKERS=2` overrides `workers` in `[server]`, and so on for every key outside of routes: \
the name has two underscores wherever the key has a dot. Lists are written with commas. Other variables that \
begin with `SCALWS_` are ignored, but for `SCALWS_CONFIG`, the file.
- Beneath each table is an example, a whole config that a test serves. Without a `[[route]]` it is one for \
`scalws serve DIR`.
";

fn row(key: &Key) -> String {
    let default = match &*key.default {
        "" => String::new(),
        default => format!("`{default}`"),
    };
    let state = match key.state {
        State::Works => "",
        State::NotBuilt => "(Not built yet: an error.) ",
    };
    let variable = overrides::variable(key).filter(|_| key.table != "limits" && key.state == State::Works);
    let variable = variable.map(|name| format!(" `{name}`")).unwrap_or_default();
    // A pipe would end the cell.
    let value = value(key.kind).replace('|', "\\|");
    format!("| `{}` | {value} | {default} | {state}{}{variable} |\n", key.name, key.doc)
}

fn value(kind: Kind) -> String {
    let words =
        |words: &[&str]| words.iter().map(|word| format!("`{word:?}`")).collect::<Vec<_>>().join(", ");
    match kind {
        Kind::Table(_) => "table".to_owned(),
        Kind::Tables(_) => "tables".to_owned(),
        Kind::Boolean => "`true`, `false`".to_owned(),
        Kind::BooleanOrTable(_) => "`true`, `false`, or a table".to_owned(),
        Kind::Size(_, max) => format!("size up to {}", units::show_bytes(max)),
        Kind::Integer(min, max) => format!("{min} to {max}"),
        Kind::WordOrInteger(word, min, max) => format!("`{word:?}`, or {min} to {max}"),
        Kind::Numbers(numbers) => numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
        Kind::Duration(max) => format!("duration up to {}", units::show_ms(max)),
        Kind::Limit(limit) => match limit.unit {
            Unit::Count => format!("{} to {}", limit.min, limit.max),
            Unit::Bytes => "size".to_owned(),
            Unit::Milliseconds => "duration".to_owned(),
        },
        Kind::Text => "string".to_owned(),
        Kind::AddressOrOff => "address with port, or `\"off\"`".to_owned(),
        Kind::Texts => "list of strings".to_owned(),
        Kind::Word(list) => words(list),
        Kind::WordOrTable(list, _) => format!("{}, or a table", words(list)),
        Kind::Fields => "table of strings".to_owned(),
        Kind::Pages => "table of paths by status".to_owned(),
        Kind::Json => "table or list".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn golden(name: &str, expected: &str) {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
        if std::env::var_os("RECORD").is_some() {
            std::fs::write(&path, expected).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == expected, "docs/{name} is out of date: run `RECORD=1 cargo test --lib config`");
    }

    #[test]
    fn the_pages_are_what_the_tables_say() {
        golden("limits.md", &limits_markdown());
        golden("config.md", &keys_markdown());
    }
}
