//! The tables of the page: a row for each thing that was counted, a column for each server.

use std::fmt::Write as _;

use super::page::escape;
use crate::load::Latency;
use crate::profile::result::{Document, Profile};

/// A count with thin groups: `1 234 567`.
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn a_request(times: u64, requests: u64) -> String {
    format!("{} ({:.4} a request)", count(times), times as f64 / requests.max(1) as f64)
}

/// Microseconds, from ten thousand on in milliseconds.
#[must_use]
pub fn micros(microseconds: u64) -> String {
    match microseconds {
        0..10_000 => format!("{} µs", count(microseconds)),
        more => format!("{:.1} ms", more as f64 / 1_000.0),
    }
}

/// The few numbers to look at first.
#[must_use]
pub fn tiles(document: &Document) -> String {
    let mut html = String::from("<div class=\"tiles\">");
    let mut tile = |value: String, what: String| {
        let _ = write!(html, "<div class=\"tile\"><b>{value}</b><small>{}</small></div>", escape(&what));
    };
    for subject in &document.subjects {
        tile(format!("{:.2} µs", subject.plain.cpu_us), format!("{}: CPU a request", subject.name));
        tile(count(subject.plain.rate.round() as u64), format!("{}: requests a second", subject.name));
        tile(micros(subject.open.latency_us.p99), format!("{}: 99th percentile at half load", subject.name));
    }
    if let [ours, other] = document.subjects.as_slice() {
        let ratio = ours.plain.cpu_us / other.plain.cpu_us;
        tile(
            format!("{ratio:.2}"),
            format!("CPU a request, {} / {} (one window each)", ours.name, other.name),
        );
    }
    html + "</div>\n"
}

/// A table whose first column names the row.
struct Table {
    html: String,
    columns: usize,
}

impl Table {
    fn new<'a>(heads: impl Iterator<Item = &'a str>) -> Table {
        let heads: Vec<String> =
            heads.map(|head| format!("<th class=\"number\">{}</th>", escape(head))).collect();
        let html = format!(
            "<div class=\"scroll\"><table><thead><tr><th></th>{}</tr></thead><tbody>",
            heads.concat()
        );
        Table { html, columns: heads.len() + 1 }
    }

    fn group(&mut self, name: &str) {
        let _ = write!(self.html, "<tr class=\"group\"><th colspan=\"{}\">{name}</th></tr>", self.columns);
    }

    fn row(&mut self, name: &str, cells: impl Iterator<Item = String>) {
        let _ = write!(self.html, "<tr><td>{}</td>", escape(name));
        for cell in cells {
            let _ = write!(self.html, "<td class=\"number\">{}</td>", escape(&cell));
        }
        self.html.push_str("</tr>");
    }

    fn end(self) -> String {
        self.html + "</tbody></table></div>"
    }
}

/// Plain window, open loop, memory, and what the kernel counted.
#[must_use]
pub fn numbers(document: &Document) -> String {
    let subjects = || document.subjects.iter();
    let mut table = Table::new(subjects().map(|subject| subject.name.as_str()));
    let row = |table: &mut Table, name: &str, cell: &dyn Fn(&Profile) -> String| {
        table.row(name, subjects().map(cell));
    };
    table.group("Plain window: closed loop, nothing looks");
    row(&mut table, "requests a second", &|p| count(p.plain.rate.round() as u64));
    row(&mut table, "requests, seconds", &|p| {
        format!("{} in {:.2} s", count(p.plain.requests), p.plain.seconds)
    });
    row(&mut table, "CPU a request", &|p| format!("{:.2} µs", p.plain.cpu_us));
    row(&mut table, "server's CPUs busy", &|p| format!("{:.1} %", p.plain.busy * 100.0));
    let counters = |p: &Profile| (p.plain.counters, p.plain.requests);
    row(&mut table, "voluntary context switches", &|p| {
        a_request(counters(p).0.voluntary_switches, counters(p).1)
    });
    row(&mut table, "involuntary context switches", &|p| {
        a_request(counters(p).0.involuntary_switches, counters(p).1)
    });
    row(&mut table, "page faults without a read", &|p| a_request(counters(p).0.minor_faults, counters(p).1));
    row(&mut table, "page faults with a read", &|p| a_request(counters(p).0.major_faults, counters(p).1));
    row(&mut table, "threads", &|p| count(p.plain.counters.threads));
    latencies(&mut table, document, "closed loop: what a saturated server makes its clients wait", |p| {
        &p.plain.latency_us
    });
    latencies(&mut table, document, "open loop: from the time each request was due", |p| &p.open.latency_us);
    row(&mut table, "rate asked for, reached", &|p| {
        format!("{}, {}", count(p.open.rate.round() as u64), count(p.open.reached.round() as u64))
    });
    row(&mut table, "driven by", &|p| p.open.tool.clone());
    table.group("Memory");
    row(&mut table, "highest PSS", &|p| {
        format!("{} ({} looks between windows)", mebibytes(p.memory.pss_peak_bytes), p.memory.looks)
    });
    if subjects().any(|p| p.memory.cgroup_peak_bytes.is_some()) {
        row(&mut table, "peak of the cgroup, page cache included", &|p| {
            p.memory.cgroup_peak_bytes.map_or_else(|| "-".to_owned(), mebibytes)
        });
    }
    table.group("perf stat: counted in the kernel in a window of its own");
    let events = document.subjects.first().map(|subject| subject.counted.as_slice()).unwrap_or_default();
    for (event, _) in events {
        row(&mut table, event, &|p| counted(p, event));
    }
    table.end()
}

fn latencies(table: &mut Table, document: &Document, name: &str, of: impl Fn(&Profile) -> &Latency) {
    table.group(&format!("Latency, {name}"));
    type Pick = fn(&Latency) -> u64;
    let picks: [(&str, Pick); 5] = [
        ("median", |l| l.p50),
        ("90th percentile", |l| l.p90),
        ("99th percentile", |l| l.p99),
        ("99.9th percentile", |l| l.p99_9),
        ("longest", |l| l.max),
    ];
    for (name, pick) in picks {
        table.row(name, document.subjects.iter().map(|subject| micros(pick(of(subject)))));
    }
}

fn counted(subject: &Profile, event: &str) -> String {
    match subject.counted.iter().find(|(name, _)| name == event) {
        Some((_, Some(value))) if event == "task-clock" => format!("{value:.0} ms"),
        Some((_, Some(value))) => a_request(value.round() as u64, subject.counted_requests),
        _ => "not countable on this machine".to_owned(),
    }
}

/// By name, over all servers.
#[must_use]
pub fn calls(document: &Document) -> String {
    let mut names: Vec<(&str, f64)> = Vec::new();
    for subject in &document.subjects {
        for call in &subject.calls.rows {
            let rate = call.calls as f64 / subject.calls.requests.max(1) as f64;
            match names.iter_mut().find(|(name, _)| *name == call.name) {
                Some(entry) => entry.1 = entry.1.max(rate),
                None => names.push((&call.name, rate)),
            }
        }
    }
    names.sort_by(|a, b| b.1.total_cmp(&a.1));
    let heads: Vec<String> = document
        .subjects
        .iter()
        .flat_map(|p| [format!("{}: a request", p.name), "calls".to_owned(), "failed".to_owned()])
        .collect();
    let mut table = Table::new(heads.iter().map(String::as_str));
    let cells = |name: &str| -> Vec<String> {
        let cell = |subject: &Profile| match subject.calls.rows.iter().find(|call| call.name == name) {
            Some(call) => [
                format!("{:.4}", call.calls as f64 / subject.calls.requests.max(1) as f64),
                count(call.calls),
                count(call.errors),
            ],
            None => ["-".to_owned(), "-".to_owned(), "-".to_owned()],
        };
        document.subjects.iter().flat_map(cell).collect()
    };
    for (name, _) in &names {
        table.row(name, cells(name).into_iter());
    }
    let totals = document.subjects.iter().flat_map(|subject| {
        let total: u64 = subject.calls.rows.iter().map(|call| call.calls).sum();
        let failed = subject.calls.rows.iter().map(|call| call.errors).sum();
        [format!("{:.4}", total as f64 / subject.calls.requests.max(1) as f64), count(total), count(failed)]
    });
    table.row("all", totals.collect::<Vec<_>>().into_iter());
    let tools: Vec<String> =
        document.subjects.iter().map(|p| format!("{}: {}", p.name, p.calls.tool)).collect();
    format!(
        "<p class=\"dim\">Counted by {}; EAGAIN counts as failed. The exact number of all calls stands above as \
         <code>raw_syscalls:sys_enter</code>.</p>{}",
        escape(&tools.join(", ")),
        table.end()
    )
}

/// Symbols with the most samples of their own.
#[must_use]
pub fn hottest(subject: &Profile) -> String {
    let mut html = String::from(
        "<div class=\"scroll\"><table><thead><tr><th class=\"number\">own</th><th></th><th class=\"number\">with callees</th>\
         <th>symbol</th><th>object</th></tr></thead><tbody>",
    );
    let most = subject.on_cpu.hottest.first().map_or(1.0, |symbol| symbol.self_percent.max(0.01));
    for symbol in &subject.on_cpu.hottest {
        let _ = write!(
            html,
            "<tr><td class=\"number\">{:.2} %</td><td><span class=\"bar\" style=\"width:{:.1}px\"></span></td>\
             <td class=\"number\">{:.2} %</td><td class=\"code\">{}</td><td class=\"code\">{}</td></tr>",
            symbol.self_percent,
            symbol.self_percent / most * 70.0,
            symbol.total_percent,
            escape(&symbol.symbol),
            escape(symbol.object.trim_matches(['[', ']']))
        );
    }
    html + "</tbody></table></div>"
}

/// What ran when.
#[must_use]
pub fn windows(subject: &Profile) -> String {
    let mut html = String::from("<table><tbody>");
    for window in &subject.windows {
        let _ = write!(
            html,
            "<tr><td>{}</td><td class=\"number\">{:.1} s</td><td>{}</td></tr>",
            escape(&window.name),
            window.seconds,
            escape(&window.what)
        );
    }
    html + "</tbody></table>"
}

/// The machine's facts and what holds for all servers.
#[must_use]
pub fn machine(document: &Document) -> String {
    let mut html = String::from("<table><tbody>");
    let mut row = |name: &str, value: &str| {
        let _ =
            write!(html, "<tr><td>{}</td><td>{}</td></tr>", escape(&name.replace('_', " ")), escape(value));
    };
    for (name, value) in &document.setup {
        row(name, value);
    }
    if let Some(facts) = document.machine.as_object() {
        for (name, value) in facts {
            match value {
                serde_json::Value::Null => row(name, "-"),
                serde_json::Value::String(text) => row(name, text),
                serde_json::Value::Object(facts) => {
                    let facts = facts
                        .iter()
                        .map(|(name, value)| format!("{name}: {}", value.as_str().unwrap_or("-")));
                    row(name, &facts.collect::<Vec<_>>().join("; "));
                }
                other => row(name, &other.to_string()),
            }
        }
    }
    html + "</tbody></table>"
}

/// Version, flags, configuration.
#[must_use]
pub fn config(subject: &Profile) -> String {
    format!(
        "<table><tbody><tr><td>version</td><td>{}</td></tr><tr><td>build</td><td>{}</td></tr></tbody></table><pre>{}</pre>",
        escape(&subject.version),
        escape(&subject.flags),
        escape(&subject.config)
    )
}
