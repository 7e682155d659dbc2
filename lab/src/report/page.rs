//! A profile on one page: everything inline, nothing fetched, readable in light and dark.

use std::fmt::Write as _;
use std::path::Path;

use crate::Refusal;
use crate::profile::flame::LEGEND;
use crate::profile::result::{Document, Profile};

use super::{rows, traces};

/// Stacks that stand on the page as text; all of them lie beside it.
const STACKS: usize = 25;
/// Above which frames without a name make a picture doubtful.
pub const UNKNOWN_PERCENT_MAX: f64 = 5.0;
pub(super) const STYLE: &str = include_str!("page.css");
/// Panels of every page.
const PANELS: [&str; 9] =
    ["numbers", "calls", "on-cpu", "off-cpu", "hottest", "stacks", "windows", "machine", "config"];
/// Those of a page whose command asked for them.
const TRACES: (&str, [&str; 3]) = (" --traces", ["traces", "phases", "slow-cpu"]);
const TRACES_LINKS: &str = "<a href=\"#traces\">Slowest requests</a><a href=\"#phases\">Phases</a>\
                            <a href=\"#slow-cpu\">On CPU while slow</a>";
/// A flamegraph notes its zoom in the address, which a frame without one refuses.
const FRAME: &str = "<!doctype html><meta charset=utf-8><style>body{margin:0}svg{display:block;width:100%}</style>\
                     <script>history.replaceState=function(){}</script>";

/// Text as it may stand anywhere in HTML.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// The whole page; flamegraphs and folded stacks are read from `folder`.
///
/// # Errors
/// One of them cannot be read.
pub fn page(document: &Document, folder: &Path) -> Result<String, Refusal> {
    let names: Vec<&str> = document.subjects.iter().map(|subject| subject.name.as_str()).collect();
    let title = format!("{}: {}", names.join(" and "), document.scenario);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title>\n\
         <style>\n{STYLE}</style></head><body>\n<h1>{title}</h1>\n\
         <p class=\"dim\">{} · {} · <code>{}</code></p>\n\
         <nav><a href=\"#numbers\">Numbers</a><a href=\"#calls\">System calls</a><a href=\"#on-cpu\">On CPU</a>\
         <a href=\"#off-cpu\">Off CPU</a>{traces}<a href=\"#hottest\">Hottest symbols</a><a href=\"#stacks\">Stacks</a>\
         <a href=\"#windows\">Windows</a><a href=\"#machine\">Machine</a><a href=\"#config\">Configuration</a></nav>\n",
        escape(&document.what),
        escape(&document.date),
        escape(&document.command),
        title = escape(&title),
        traces = if has_traces(document) { TRACES_LINKS } else { "" },
    );
    html.push_str("<ul class=\"notes\">");
    for note in &document.notes {
        let _ = write!(html, "<li>{}</li>", escape(note));
    }
    html.push_str("</ul>\n");
    html.push_str(&rows::tiles(document));
    html.push_str(&panel("numbers", "Numbers", &rows::numbers(document)));
    html.push_str(&panel("calls", "System calls a request", &rows::calls(document)));
    html.push_str(&panel("on-cpu", "On CPU", &on_cpu(document, folder)?));
    html.push_str(&panel("off-cpu", "Off CPU", &off_cpu(document, folder)?));
    if has_traces(document) {
        html.push_str(&requests(document, folder)?);
    }
    html.push_str(&panel(
        "hottest",
        "Hottest symbols",
        &sides(document, |subject| Ok(rows::hottest(subject)))?,
    ));
    html.push_str(&panel("stacks", "Folded stacks", &sides(document, |subject| stacks(subject, folder))?));
    html.push_str(&panel("windows", "Windows", &sides(document, |subject| Ok(rows::windows(subject)))?));
    html.push_str(&panel("machine", "Machine", &rows::machine(document)));
    html.push_str(&panel("config", "Configuration", &sides(document, |subject| Ok(rows::config(subject)))?));
    html.push_str("</body></html>\n");
    Ok(html)
}

fn has_traces(document: &Document) -> bool {
    document.subjects.iter().any(|subject| subject.traces.is_some())
}

/// The panels of those whose requests were followed.
fn requests(document: &Document, folder: &Path) -> Result<String, Refusal> {
    let (mut slowest, mut phases, mut cpu) = (String::new(), String::new(), String::new());
    for (subject, found) in
        document.subjects.iter().filter_map(|subject| Some((subject, subject.traces.as_ref()?)))
    {
        let head = format!("<h3>{}</h3>", escape(&subject.name));
        slowest += &(head.clone() + &traces::slowest(found));
        phases += &(head.clone() + &traces::histograms(&found.phases));
        cpu += &(head + &traces::cut_facts(&found.cut));
        if found.cut.samples > 0 {
            cpu += &picture(&read(folder, &found.cut.files.0)?);
        }
    }
    Ok(panel("traces", "Slowest requests", &slowest)
        + &panel("phases", "Phases", &phases)
        + &panel("slow-cpu", "On CPU while slow requests ran", &cpu))
}

fn panel(id: &str, title: &str, content: &str) -> String {
    format!("<section class=\"panel\" id=\"{id}\"><h2>{title}</h2>\n{content}</section>\n")
}

/// One block for each subject, beside one another where there is room.
fn sides(
    document: &Document,
    block: impl Fn(&Profile) -> Result<String, Refusal>,
) -> Result<String, Refusal> {
    let two = if document.subjects.len() > 1 { " two" } else { "" };
    let mut html = format!("<div class=\"sides{two}\">");
    for subject in &document.subjects {
        let _ = write!(html, "<div><h3>{}</h3>{}</div>", escape(&subject.name), block(subject)?);
    }
    html.push_str("</div>");
    Ok(html)
}

fn read(folder: &Path, name: &str) -> Result<String, Refusal> {
    std::fs::read_to_string(folder.join(name)).map_err(|error| Refusal::new(format!("{name}: {error}")))
}

fn on_cpu(document: &Document, folder: &Path) -> Result<String, Refusal> {
    let mut html = format!(
        "<p class=\"dim\">Width is the share of samples. Click to zoom, Ctrl-F to search. {LEGEND}.</p>"
    );
    html.push_str(&sides(document, |subject| {
        let on = &subject.on_cpu;
        let facts = format!(
            "<p class=\"dim\">{} samples of <code>{}</code>, stacks by <code>{}</code>; {:.2} % of frames without \
             a name, {:.2} % of stacks without their callers.</p>",
            rows::count(on.samples),
            escape(&on.event),
            escape(&on.walk),
            on.unknown_percent,
            on.rootless_percent
        );
        Ok(facts + &picture(&read(folder, &on.files.0)?))
    })?);
    Ok(html)
}

fn off_cpu(document: &Document, folder: &Path) -> Result<String, Refusal> {
    let mut html = String::from(
        "<p class=\"dim\">Width is time off the CPU. <b>blocked</b>: it waited for something; <b>preempted</b>: it \
         could have gone on, and another thread was due.</p>",
    );
    html.push_str(&sides(document, |subject| {
        let off = &subject.off_cpu;
        let sum = |sum: &crate::profile::switches::Sum| {
            format!(
                "<td class=\"number\">{}</td><td class=\"number\">{:.1} ms</td><td class=\"number\">{:.4}</td>",
                rows::count(sum.times),
                sum.microseconds as f64 / 1_000.0,
                sum.times as f64 / off.requests.max(1) as f64
            )
        };
        let table = format!(
            "<table><thead><tr><th></th><th class=\"number\">switches</th><th class=\"number\">time off, all threads</th>\
             <th class=\"number\">a request</th></tr></thead><tbody><tr><th>blocked</th>{}</tr><tr><th>preempted</th>{}\
             </tr></tbody></table><p class=\"dim\">{} switches without a beginning, an end or a stack are left out.</p>",
            sum(&off.blocked),
            sum(&off.preempted),
            rows::count(off.unpaired)
        );
        Ok(table + &picture(&read(folder, &off.files.0)?))
    })?);
    Ok(html)
}

/// An SVG in a frame of its own: two on one page would take each other's names.
fn picture(svg: &str) -> String {
    let Some(from) = svg.find("<svg") else {
        return "<p>No thread left the CPU in this window: there is nothing to draw.</p>".to_owned();
    };
    let svg = &svg[from..];
    let height =
        svg.split_once(" height=\"").and_then(|(_, rest)| rest.split_once('"')).map_or("600", |(h, _)| h);
    // Its border lies within.
    let height = height.parse::<u32>().unwrap_or(600) + 2;
    let inside = format!("{FRAME}{svg}").replace('&', "&amp;").replace('"', "&quot;");
    format!("<iframe title=\"flamegraph\" height=\"{height}\" srcdoc=\"{inside}\"></iframe>")
}

fn stacks(subject: &Profile, folder: &Path) -> Result<String, Refusal> {
    let mut html = String::new();
    for (name, (svg, folded)) in [("on CPU", &subject.on_cpu.files), ("off CPU", &subject.off_cpu.files)] {
        let text = read(folder, folded)?;
        let mut lines: Vec<(u64, &str)> = text
            .lines()
            .filter_map(|line| line.rsplit_once(' '))
            .filter_map(|(stack, weight)| Some((weight.parse().ok()?, stack)))
            .collect();
        lines.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        let _ = write!(
            html,
            "<p>{name}: <a href=\"{folded}\">{folded}</a> ({} stacks), <a href=\"{svg}\">{svg}</a></p>\
             <details><summary>the {STACKS} heaviest</summary><pre>",
            lines.len(),
            folded = escape(folded),
            svg = escape(svg),
        );
        for (weight, stack) in lines.iter().take(STACKS) {
            let _ = writeln!(html, "{weight:>8} {}", escape(stack));
        }
        html.push_str("</pre></details>");
    }
    Ok(html)
}

/// What is wrong with a page: something that it would fetch, a panel without data.
#[must_use]
pub fn faults(html: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let text = html.replace("&quot;", "\"");
    for attribute in
        ["src=\"", "href=\"", "xlink:href=\"", "url(", "@import", "action=\"", "data=\"", "poster=\""]
    {
        for (at, _) in text.match_indices(attribute) {
            let rest = text[at + attribute.len()..].trim_start_matches(['"', '\'', ' ']);
            if rest.starts_with("http") || rest.starts_with("//") {
                faults.push(format!("fetches {}", rest.chars().take(60).collect::<String>()));
            }
        }
    }
    // The command stands in the first line below the title.
    let command = html.split_once("<code>").and_then(|(_, rest)| rest.split_once("</code>"));
    let has_traces = command.is_some_and(|(command, _)| command.contains(TRACES.0));
    let wanted = PANELS.iter().chain(TRACES.1.iter().filter(|_| has_traces));
    let panels: Vec<&str> = html.split("<section class=\"panel\"").skip(1).collect();
    let count = wanted.clone().count();
    if panels.len() != count {
        faults.push(format!("{} panels instead of {count}", panels.len()));
    }
    for id in wanted {
        if !panels.iter().any(|panel| panel.starts_with(&format!(" id=\"{id}\""))) {
            faults.push(format!("no panel {id}"));
        }
    }
    for panel in panels {
        let panel = panel.split("</section>").next().unwrap_or_default();
        if !["<td", "<svg", "<pre>"].iter().any(|data| panel.contains(data)) {
            faults.push(format!("no data in {}", panel.chars().take(40).collect::<String>()));
        }
    }
    faults
}
