//! Results as tables to be read: one line a scenario first, then everything that was measured, with the
//! reason for each `-` and each mark below its table.

use std::fmt::Write as _;

use crate::bench::record::{BUSY_MIN, Case, ROUNDS_MIN, Results, Row, Window};
use crate::bench::statistics::Spread;

/// The whole page.
#[must_use]
pub fn page(results: &Results) -> String {
    let mut page = String::new();
    let conditions = &results.conditions;
    push(&mut page, &format!("# Benchmark of {}\n", results.started));
    push(
        &mut page,
        &format!(
            "CPU of the server's whole process tree per request, by the scheduler's clock. Medians of {} \
             interleaved, rotated rounds of {} s (warm-up {} s, thrown away) with (min–max); ratios are \
             medians of the ratios of each round, and a tie where 1 is within their spread. Latency is that \
             of a closed loop unless the table says open loop: a slow answer delays the next request, so \
             that it understates queues.\n",
            conditions.rounds, conditions.seconds, conditions.warmup_seconds
        ),
    );
    push(&mut page, &format!("- Command: `{}`", results.command_line));
    push(&mut page, &format!("- CPUs: server {}; {}", cpus(&conditions.server_cpus), lab(results)));
    if conditions.is_docker {
        push(
            &mut page,
            "- Place: a container for each server, and one for its generator in the server's network; no published port but where a row is about it",
        );
    }
    machine(&mut page, results);
    page.push('\n');
    if results.is_interrupted {
        push(&mut page, "**Interrupted**: only what had been measured by then is here.\n");
    }
    summary(&mut page, results);
    for case in &results.cases {
        details(&mut page, results, case);
    }
    configurations(&mut page, results);
    page
}

fn push(page: &mut String, line: &str) {
    page.push_str(line);
    page.push('\n');
}

fn cpus(cpus: &[usize]) -> String {
    crate::cpus::list(cpus)
}

fn lab(results: &Results) -> String {
    if results.conditions.is_shared {
        "**shared** with the generator, as there is no other".to_owned()
    } else {
        format!("generator {}", cpus(&results.conditions.lab_cpus))
    }
}

/// Whatever is known of it, one line each.
fn machine(page: &mut String, results: &Results) {
    let Some(facts) = results.machine.as_object() else { return };
    for (name, value) in facts {
        let value = match value {
            serde_json::Value::Null => continue,
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Object(pairs) => {
                let pairs = pairs.iter().map(|(name, value)| match value.as_str() {
                    Some(text) => format!("{name}: {text}"),
                    None => format!("{name}: {value}"),
                });
                pairs.collect::<Vec<_>>().join("; ")
            }
            serde_json::Value::Array(values) => {
                let texts =
                    values.iter().map(|value| value.as_str().map_or(value.to_string(), str::to_owned));
                texts.collect::<Vec<_>>().join(", ")
            }
            other => other.to_string(),
        };
        push(page, &format!("- {}: {}", name.replace('_', " "), value.replace('\n', " ")));
    }
}

/// One line a case, by the first reference.
fn summary(page: &mut String, results: &Results) {
    // A row with a reference of its own has its ratios in its table.
    let cases = || results.cases.iter().filter(|case| case.references.is_empty());
    if cases().next().is_none() && !results.cases.is_empty() {
        return;
    }
    let mut servers: Vec<&str> = Vec::new();
    for row in cases().flat_map(|case| &case.rows) {
        if !servers.contains(&row.server.as_str()) {
            servers.push(&row.server);
        }
    }
    let Some(reference) = results.conditions.references.first() else { return };
    servers.retain(|server| server != reference);
    push(page, &format!("## CPU per request relative to {reference}\n"));
    push(page, &format!("| scenario | {reference} µs | {} |", servers.join(" | ")));
    push(page, &format!("|---|---|{}", "---|".repeat(servers.len())));
    let mut has_star = false;
    for case in cases() {
        let divisor = case.row(reference);
        let cost = divisor.and_then(|row| row.spread(|window| window.cpu_us_per_request()));
        let mut line = format!("| {} | {} |", title(case), cost.map_or("-".into(), number));
        for server in &servers {
            let ratio = case.row(server).and_then(|row| row.ratio_to(divisor?));
            let is_marked = case.row(server).is_some_and(|row| mark(results, case, row).is_some());
            let star = if ratio.is_some() && is_marked { " \\*" } else { "" };
            has_star |= !star.is_empty();
            let _ = write!(line, " {}{star} |", ratio.map_or("-".into(), relation));
        }
        push(page, &line);
    }
    page.push('\n');
    if has_star {
        push(page, "\\* generator-bound or shared: see below its table.\n");
    }
}

/// Why a row is not what it seems: on shared CPUs, or of a server that waited.
fn mark(results: &Results, case: &Case, row: &Row) -> Option<String> {
    if results.conditions.is_shared {
        return Some("**shared**, server and generator run on the same CPU".to_owned());
    }
    let busy = row.spread(|window| window.busy(results.conditions.server_cpus.len()))?;
    (case.rate.is_none() && busy.median < BUSY_MIN).then(|| {
        let percent = busy.median * 100.0;
        format!("**generator-bound**, {percent:.0} % busy: it waited for requests, and an idle server pays more wake-ups")
    })
}

fn title(case: &Case) -> String {
    match (case.is_sweep, case.rate) {
        (_, Some(rate)) => format!("{}, {rate} req/s offered", case.scenario),
        (true, None) => format!("{}, {} connections", case.scenario, case.connections),
        (false, None) => case.scenario.clone(),
    }
}

fn details(page: &mut String, results: &Results, case: &Case) {
    let references = case.references(&results.conditions);
    let kind = if case.rate.is_some() { "open loop" } else { "closed loop" };
    push(page, &format!("## {}\n", title(case)));
    push(page, &format!("{}; {} connections, {kind}.\n", case.what, case.connections));
    let mut header = "| server | CPU µs/request |".to_owned();
    for reference in references {
        let _ = write!(header, " ÷ {reference} |");
    }
    let rest = [
        "req/s",
        "server busy %",
        "voluntary switches/request",
        "involuntary",
        "threads",
        "PSS MiB",
        "p50 µs",
        "p90 µs",
        "p99 µs",
        "p99.9 µs",
        "max µs",
    ];
    push(page, &format!("{header} {} |", rest.join(" | ")));
    push(page, &format!("|{}", "---|".repeat(2 + references.len() + rest.len())));
    for row in &case.rows {
        push(page, &line(results, case, row));
    }
    page.push('\n');
    let features = case.rows.iter().filter(|row| row.is_sound() && !row.features.is_empty());
    let features = features.map(|row| format!("{} has {}.", row.server, row.features));
    let all: Vec<String> =
        case.rows.iter().flat_map(|row| notes(results, case, row)).chain(features).collect();
    all.iter().for_each(|note| push(page, &format!("- {note}")));
    if !all.is_empty() {
        page.push('\n');
    }
}

fn line(results: &Results, case: &Case, row: &Row) -> String {
    let references = case.references(&results.conditions);
    let mut line = format!("| {} |", row.server);
    if !row.is_sound() {
        let cell = if row.refused.is_some() { "refused" } else { "-" };
        let _ = write!(line, " {cell} |{}", " - |".repeat(references.len() + 11));
        return line;
    }
    let servers = results.conditions.server_cpus.len();
    let show = |value: Option<Spread>| value.map_or("-".to_owned(), number);
    let count = |of: fn(&Window) -> u64| row.spread(|window| of(window) as f64).map_or("-".to_owned(), whole);
    let _ = write!(line, " {} |", show(row.spread(|window| window.cpu_us_per_request())));
    for reference in references {
        let ratio = case.row(reference).and_then(|other| row.ratio_to(other));
        let cell = if *reference == row.server { "1".to_owned() } else { ratio.map_or("-".into(), relation) };
        let _ = write!(line, " {cell} |");
    }
    let per_request = |count: u64, requests: u64| count as f64 / requests as f64;
    let pss =
        row.windows.iter().filter_map(|window| window.pss_bytes).map(|bytes| bytes as f64 / 1_048_576.0);
    let cells = [
        row.spread(|window| window.requests_per_second()),
        row.spread(|window| window.busy(servers) * 100.0),
        row.spread(|window| per_request(window.cost.voluntary_switches, window.requests)),
        row.spread(|window| per_request(window.cost.involuntary_switches, window.requests)),
    ];
    let cells = cells.into_iter().map(show).chain([
        count(|window| window.cost.threads),
        show(Spread::of(pss)),
        count(|window| window.latency_us.p50),
        count(|window| window.latency_us.p90),
        count(|window| window.latency_us.p99),
        count(|window| window.latency_us.p99_9),
        count(|window| window.latency_us.max),
    ]);
    for cell in cells {
        let _ = write!(line, " {cell} |");
    }
    line
}

/// What has to be known before a line is believed.
fn notes(results: &Results, case: &Case, row: &Row) -> Vec<String> {
    let name = &row.server;
    if let Some(reason) = &row.lacks {
        return vec![format!("{name}: `-`, {reason}.")];
    }
    if let Some(reason) = &row.refused {
        return vec![format!("{name}: **refused**, {reason}")];
    }
    if row.windows.is_empty() {
        return vec![format!("{name}: `-`, the run ended before its first window.")];
    }
    let mut notes = Vec::new();
    if let Some(mark) = mark(results, case, row) {
        notes.push(format!("{name}: {mark}."));
    }
    if row.windows.len() < ROUNDS_MIN as usize {
        notes.push(format!("{name}: **{} of {ROUNDS_MIN} rounds** at least: no claim.", row.windows.len()));
    }
    notes
}

/// Three digits that count.
fn figure(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if value < 0.001 {
        return format!("{value:.1e}");
    }
    let decimals = match value {
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        value if value >= 0.9995 => 2,
        value if value >= 0.009_995 => 3,
        _ => 4,
    };
    let plain = format!("{value:.decimals$}");
    if decimals == 0 { grouped(&plain) } else { plain }
}

/// Thousands apart.
fn grouped(digits: &str) -> String {
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

fn number(spread: Spread) -> String {
    let (median, min, max) = (figure(spread.median), figure(spread.min), figure(spread.max));
    if min == max { median } else { format!("{median} ({min}–{max})") }
}

/// What is counted has no decimals, but for a median between two.
fn whole(spread: Spread) -> String {
    let one = |value: f64| if value.fract() == 0.0 { grouped(&format!("{value:.0}")) } else { figure(value) };
    let (median, min, max) = (one(spread.median), one(spread.min), one(spread.max));
    if min == max { median } else { format!("{median} ({min}–{max})") }
}

fn relation(ratio: Spread) -> String {
    let text = format!("{:.2} ({:.2}–{:.2})", ratio.median, ratio.min, ratio.max);
    if ratio.is_tie() { format!("tie, {text}") } else { text }
}

/// Once each: a server has mostly the same for many rows.
fn configurations(page: &mut String, results: &Results) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for case in &results.cases {
        for row in case.rows.iter().filter(|row| !row.config.is_empty()) {
            if seen.contains(&(&row.server, &row.config)) {
                continue;
            }
            if seen.is_empty() {
                push(page, "## Configurations\n");
            }
            seen.push((&row.server, &row.config));
            push(page, &format!("{} ({}), first used for {}:\n", row.server, row.version, title(case)));
            push(page, &format!("```text\n{}\n```\n", row.config.trim_end()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::samples;

    fn check(results: &Results, golden: &str) {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(golden);
        let page = page(results);
        if std::env::var_os("RECORD").is_some() {
            std::fs::write(&path, &page).unwrap();
        }
        assert_eq!(page, std::fs::read_to_string(&path).unwrap());
    }

    /// `RECORD=1 cargo test -p scalws-lab` writes both anew.
    #[test]
    fn pages_are_the_ones_that_are_written_down() {
        check(&samples::results(), "results.md");
        let mut other = samples::results();
        other.is_interrupted = true;
        other.conditions.is_shared = true;
        other.conditions.references = vec!["nginx".into(), "scalws".into()];
        other.cases[0].rate = Some(5_000.0);
        other.cases[0].rows.truncate(2);
        other.cases[0].rows[0].windows.truncate(2);
        let mut early = other.cases[0].clone();
        early.rate = None;
        early.is_sweep = true;
        early.rows[1].windows.clear();
        other.cases.push(early);
        check(&other, "results-interrupted.md");
    }

    #[test]
    fn figures_have_three_digits_that_count() {
        let shown = [0.0, 0.000_04, 0.001_234, 0.0123, 0.123_4, 1.0, 9.99, 9.999, 12.34, 99.99, 1_234_567.8];
        let expected =
            ["0", "4.0e-5", "0.0012", "0.012", "0.123", "1.00", "9.99", "10.0", "12.3", "100", "1,234,568"];
        assert_eq!(shown.map(figure), expected);
    }
}
