//! Single requests: the slowest with their phases as bars, a histogram for each phase. On the page of a profile, and
//! on one of its own for whoever looks at a running server.

use std::fmt::Write as _;

use super::page::{STYLE, escape};
use super::rows::{count, micros};
use crate::profile::traced::{Cut, SLOWEST, Traces};
use crate::traces::phases::{self, Histogram, Phase};
use crate::traces::{Request, Taken};

/// Widths are of a hundred; what is thinner would not be seen.
const WIDTH_MIN: f64 = 0.3;

/// What the colours mean.
fn legend() -> String {
    let mut html = String::from("<p class=\"legend\">");
    for phase in Phase::ALL {
        let _ = write!(html, "<span><i class=\"{}\"></i>{}</span>", class(phase), phase.name());
    }
    html + "</p>"
}

fn class(phase: Phase) -> String {
    format!("phase{}", phase as usize)
}

/// A row each: how long, what was asked, its phases over trips to the pool, and why it had to go there. Bars are as wide
/// as the longest request of the table.
#[must_use]
pub fn table(requests: &[&Request]) -> String {
    let longest = requests.iter().map(|one| one.us).max().unwrap_or(0);
    let mut html = legend();
    html.push_str(
        "<div class=\"scroll\"><table class=\"requests\"><thead><tr><th class=\"number\">took</th><th>request</th>\
         <th class=\"number\">status</th><th class=\"line\">phases, and trips to the pool beneath</th><th>waited for</th>\
         <th>answer from</th><th>trace</th></tr></thead><tbody>",
    );
    for request in requests {
        let _ = write!(
            html,
            "<tr><td class=\"number\">{}</td><td class=\"code\">{}<br><span class=\"dim\">{}</span></td>\
             <td class=\"number\">{}</td><td class=\"line\">{}</td><td>{}</td><td>{}</td>\
             <td class=\"code\">{}</td></tr>",
            micros(request.us),
            escape(&request.name),
            escape(&request.path),
            if request.status == 0 { "-".to_owned() } else { request.status.to_string() },
            line(request, longest),
            waits(request),
            escape(&facts(request)),
            escape(&request.trace),
        );
    }
    html + "</tbody></table></div>"
}

/// The phases of a request as bars on a line, trips on a second one.
fn line(request: &Request, longest_us: u64) -> String {
    let mut html = String::from("<div class=\"bars\">");
    let percent = |us: u64| us as f64 * 100.0 / longest_us.max(1) as f64;
    for (phase, from_us, us) in phases::of(request) {
        let row = if phase.is_hop() { " hop" } else { "" };
        let _ = write!(
            html,
            "<i class=\"{}{row}\" style=\"left:{:.2}%;width:{:.2}%\" title=\"{}: {}\"></i>",
            class(phase),
            percent(from_us),
            percent(us).max(WIDTH_MIN),
            phase.name(),
            micros(us)
        );
    }
    html + "</div>"
}

fn waits(request: &Request) -> String {
    let hops = request.hops.iter().map(|hop| {
        let trips = if hop.trips > 1 { format!(" in {} trips", hop.trips) } else { String::new() };
        format!("<b>{}</b>: {}, {}{trips}", escape(&hop.cause), escape(&hop.name), micros(hop.us))
    });
    let mut lines: Vec<String> = hops.collect();
    if !request.error.is_empty() {
        lines.push(format!("<b>{}</b>", escape(&request.error)));
    }
    if lines.is_empty() { "-".to_owned() } else { lines.join("<br>") }
}

fn facts(request: &Request) -> String {
    let named = [("", &request.source), ("cache ", &request.cache), ("lookup ", &request.lookup)];
    let named = named.iter().filter(|(_, word)| !word.is_empty());
    named.map(|(name, word)| format!("{name}{word}")).collect::<Vec<_>>().join(", ")
}

/// A column for each phase, a row for each power of two.
#[must_use]
pub fn histograms(histograms: &[Histogram]) -> String {
    let name = |one: &Histogram| one.phase.map_or("whole request", Phase::name);
    let mut html = String::from("<div class=\"scroll\"><table class=\"histograms\"><thead><tr><th></th>");
    for one in histograms {
        let _ = write!(html, "<th>{}</th>", name(one));
    }
    html.push_str("</tr></thead><tbody>");
    let places = histograms.iter().map(|one| one.buckets.len()).max().unwrap_or(0);
    for place in 0..places {
        let from = if place == 0 { 0 } else { 1_u64 << (place - 1) };
        let name = if place == 0 { "below 1 µs".to_owned() } else { format!("from {}", micros(from)) };
        let _ = write!(html, "<tr><td class=\"number\">{name}</td>");
        for one in histograms {
            let number = one.buckets.get(place).copied().unwrap_or(0);
            let most = one.buckets.iter().max().copied().unwrap_or(0).max(1);
            let _ = match number {
                0 => write!(html, "<td></td>"),
                _ => write!(
                    html,
                    "<td><span class=\"bar\" style=\"width:{:.1}px\"></span> {}</td>",
                    (number as f64 / most as f64 * 90.0).max(1.0),
                    count(number)
                ),
            };
        }
        html.push_str("</tr>");
    }
    type Cell = fn(&Histogram) -> String;
    let sums: [(&str, Cell); 3] = [
        ("requests", |one| count(one.requests)),
        ("mean", |one| format!("{:.1} µs", one.sum_us as f64 / one.requests.max(1) as f64)),
        ("longest", |one| micros(one.max_us)),
    ];
    for (name, cell) in sums {
        let cells: Vec<String> = histograms.iter().map(|one| format!("<td>{}</td>", cell(one))).collect();
        let _ = write!(html, "<tr><td class=\"number\"><b>{name}</b></td>{}</tr>", cells.concat());
    }
    html + "</tbody></table></div>"
}

/// The panel of a profile: what the table is about, and the table.
#[must_use]
pub fn slowest(traces: &Traces) -> String {
    let lost = match traces.told.lost() {
        0 => "none was dropped".to_owned(),
        lost => format!("<b>{} were dropped, and slow ones may be among them</b>", count(lost)),
    };
    let slowest: Vec<&Request> = traces.slowest.iter().collect();
    format!(
        "<p class=\"dim\">The {} slowest of {} requests that ran while perf recorded, at {:.0} requests a second; all of \
         them in <a href=\"{file}\">{file}</a>. Of {} spans of the whole run {lost}. Times are the server's: from the \
         complete head to the last byte into the kernel.</p>{}",
        slowest.len(),
        count(traces.requests),
        traces.rate,
        count(traces.told.made),
        table(&slowest),
        file = escape(&traces.file),
    )
}

/// What stands above the flamegraph of the slow ones.
#[must_use]
pub fn cut_facts(cut: &Cut) -> String {
    let mut html = format!(
        "<p class=\"dim\">Samples of all threads of the server in the time of the slowest {} requests: what ran while \
         they did, also for others. A request that waits in the pool or for the disk is not on a CPU.</p>\
         <table><tbody><tr><td>slow requests</td><td class=\"number\">{}, from {} on</td></tr>\
         <tr><td>their time together</td><td class=\"number\">{}</td></tr>\
         <tr><td>samples in it</td><td class=\"number\">{} of {}</td></tr>\
         <tr><td>requests with a sample</td><td class=\"number\">{} of {}</td></tr></tbody></table>",
        count(cut.requests),
        count(cut.requests),
        micros(cut.from_us),
        micros(cut.time_us),
        count(cut.samples),
        count(cut.samples_of),
        count(cut.seen),
        count(cut.requests),
    );
    if cut.samples > 0 {
        let folded = escape(&cut.files.1);
        let _ = write!(html, "<p>All stacks: <a href=\"{folded}\">{folded}</a></p>");
    } else {
        html.push_str(
            "<p><b>No sample fell into their time</b>: they were too short for the frequency of the samples, or the server \
             was off the CPU. There is nothing to draw; the trips to the pool above and the panel Off CPU say more.</p>",
        );
    }
    html
}

/// The page of a collector: the slowest and the latest requests that it keeps.
#[must_use]
pub fn page(taken: &Taken) -> String {
    let slowest = phases::slowest(&taken.requests, SLOWEST);
    let latest: Vec<&Request> = taken.requests.iter().rev().take(SLOWEST).collect();
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>Requests</title>\n\
         <style>\n{STYLE}</style></head><body>\n<h1>Requests</h1>\n\
         <p class=\"dim\">{} spans came, and the last {} requests are kept. Load the page again for newer ones.</p>\n",
        count(taken.spans),
        count(taken.requests.len() as u64),
    );
    if taken.requests.is_empty() {
        html.push_str(
            "<p><b>No request yet</b>: ask the server for something; its spans come a second later.</p>\n",
        );
    } else {
        let _ = write!(
            html,
            "<h2>The slowest of them</h2>\n{}\n<h2>The latest</h2>\n{}\n<h2>Phases</h2>\n{}\n",
            table(&slowest),
            table(&latest),
            histograms(&phases::histograms(&taken.requests))
        );
    }
    html + "</body></html>\n"
}
