//! The parts of `docs/observability.md` that are made from the tables that the code itself reads.

use crate::offload::Why;
use crate::telemetry::families::{self, Family};
use crate::telemetry::kinds::{Doing, Ended, Limited, Lost, Source};
use crate::telemetry::spans::{ATTRIBUTES, EVENTS};

/// The families of metrics.
#[must_use]
pub fn metrics() -> String {
    let mut text = String::from("| Metric | Kind | Labels | What it counts |\n|---|---|---|---|\n");
    for family in families::ALL {
        let Family { kind, labels, help, .. } = family;
        let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
        let row = [format!("`{}`", family.sample_name()), kind.name().to_owned(), labels.join(" ")];
        text.push_str(&format!("| {} | {help} |\n", row.join(" | ")));
    }
    text
}

/// The words of labels.
#[must_use]
pub fn words() -> String {
    let words = |names: Vec<&str>| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" ");
    let rows = [
        ("`state` of a connection", Doing::ALL.iter().map(|kind| kind.name()).collect()),
        ("`how` it ended", Ended::ALL.iter().map(|kind| kind.name()).collect()),
        ("`source` of an answer", Source::ALL.iter().map(|kind| kind.name()).collect()),
        ("`cause` of a span that was dropped", Lost::ALL.iter().map(|kind| kind.name()).collect()),
        (
            "`limit` of a refusal",
            Limited::ALL.iter().map(|kind| kind.name()).chain(["offload_queue"]).collect::<Vec<_>>(),
        ),
    ];
    let mut text = String::from("| Label | Words |\n|---|---|\n");
    for (label, names) in rows {
        text.push_str(&format!("| {label} | {} |\n", words(names)));
    }
    text.push_str("\n| `cause` of a trip to the pool | What it means |\n|---|---|\n");
    for why in Why::ALL {
        text.push_str(&format!("| `{}` | {} |\n", why.name(), why.meaning()));
    }
    text
}

/// Attributes and events of the spans.
#[must_use]
pub fn spans() -> String {
    let table = |title: &str, rows: &[(&str, &str)]| {
        let rows: Vec<_> = rows.iter().map(|(name, what)| format!("| `{name}` | {what} |\n")).collect();
        format!("| {title} | What it holds |\n|---|---|\n{}", rows.concat())
    };
    format!("{}\n{}", table("Attribute", ATTRIBUTES), table("Event of the request's span", EVENTS))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page with the text between the marks of a part replaced.
    fn with(page: &str, part: &str, text: &str) -> String {
        let (start, end) = (format!("<!-- {part}: generated -->\n"), format!("<!-- {part}: end -->"));
        let (before, rest) = page.split_once(&start).unwrap_or_else(|| panic!("no mark {start}"));
        let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("no mark {end}"));
        format!("{before}{start}\n{text}\n{end}{after}")
    }

    #[test]
    fn the_page_is_what_the_tables_say() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/observability.md");
        let page = std::fs::read_to_string(&path).unwrap();
        let mut expected = page.clone();
        for (part, text) in [("metrics", metrics()), ("words", words()), ("spans", spans())] {
            expected = with(&expected, part, &text);
        }
        if std::env::var_os("RECORD").is_some() {
            std::fs::write(&path, &expected).unwrap();
        }
        let page = std::fs::read_to_string(&path).unwrap();
        assert!(
            page == expected,
            "docs/observability.md is out of date: run `RECORD=1 cargo test --lib telemetry::docs`"
        );
    }
}
