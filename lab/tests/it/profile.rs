//! What perf and strace print, as recorded on Linux 6.18 with perf 6.1 and shortened, against what the lab
//! reads out of it. `RECORD=1` writes what is expected anew.

use std::fs;
use std::path::{Path, PathBuf};

use scalws_lab::load::Latency;
use scalws_lab::measure::Counters;
use scalws_lab::profile::counts;
use scalws_lab::profile::flame;
use scalws_lab::profile::oha;
use scalws_lab::profile::result::{Calls, Document, Memory, OffCpu, OnCpu, Open, Plain, Profile, Window};
use scalws_lab::profile::stacks::{self, Folded, What};
use scalws_lab::profile::switches;
use scalws_lab::profile::traced::{Cut, Traces};
use scalws_lab::report::page;
use scalws_lab::traces::{Compact, Told, phases};

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

pub fn data(name: &str) -> String {
    fs::read_to_string(place(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub fn golden(name: &str, found: &str) {
    if std::env::var_os("RECORD").is_some() {
        fs::write(place(name), found).unwrap();
    }
    assert_eq!(found, data(name), "{name}");
}

fn lines(folded: &Folded) -> String {
    folded.lines().map(|line| line + "\n").collect()
}

#[test]
fn stacks_fold_and_symbols_are_ranked() {
    let records = stacks::read(&data("on-cpu.script"));
    assert_eq!(records.len(), 25);
    golden("on-cpu.folded", &lines(&Folded::of(&records)));
    let rows: String = stacks::hottest(&records)
        .iter()
        .map(|row| {
            format!("{:.2} {:.2} {} {}\n", row.self_percent, row.total_percent, row.symbol, row.object)
        })
        .collect();
    golden("on-cpu.hottest", &rows);
    assert_eq!((stacks::unknown_percent(&records), stacks::rootless_percent(&records)), (0.0, 0.0));
}

#[test]
fn frames_without_a_name_and_stacks_without_callers_are_counted() {
    let records = stacks::read(&data("on-cpu-frame-pointers.script"));
    assert_eq!(records.len(), 9);
    let unknown = stacks::unknown_percent(&records);
    assert!(unknown > 0.0 && unknown < page::UNKNOWN_PERCENT_MAX, "{unknown}");
    // Those that end in a wrapper of the C library.
    let rootless = stacks::rootless_percent(&records);
    assert!(rootless > 30.0 && rootless < 90.0, "{rootless}");
}

#[test]
fn lines_of_other_kinds_are_passed_over() {
    let text = "a b 7 1.5: cycles: \n\t  ff x+0x1f ([kernel.kallsyms])\n\
                PERF_RECORD_LOST lost 3\n\t zz not a frame (x)\nnothing\n 1.x: y\n\
                a b 7 2.000000001: PERF_RECORD_SWITCH OUT preempt\n";
    let records = stacks::read(text);
    assert_eq!(records.len(), 2, "{records:?}");
    assert_eq!((records[0].comm.as_str(), records[0].thread, records[0].at_ns), ("a b", 7, 1_500_000_000));
    assert!(matches!(&records[0].what, What::Sample(frames) if frames.len() == 1 && frames[0].symbol == "x"));
    assert_eq!(records[1].what, What::Out { is_preempted: true });
    assert_eq!(records[1].at_ns, 2_000_000_001);
}

#[test]
fn switches_are_paired_and_told_apart() {
    let off = switches::pair(&stacks::read(&data("off-cpu.script")));
    golden("off-cpu.folded", &lines(&off.folded));
    let sums =
        format!("blocked {:?}\npreempted {:?}\nunpaired {}\n", off.blocked, off.preempted, off.unpaired);
    golden("off-cpu.sums", &sums);
    assert!(off.blocked.times > 0 && off.preempted.times > 0);
}

#[test]
fn a_switch_without_both_ends_is_not_counted() {
    let at = |seconds: u32, what: &str| format!("w 9 {seconds}.0: {what}\n");
    let stack = "\t ff sleep ([kernel.kallsyms])\n";
    let whole = at(1, "sched:sched_switch: ") + stack + "\n" + &at(2, "PERF_RECORD_SWITCH OUT");
    let off = switches::pair(&stacks::read(&(whole.clone() + &at(5, "PERF_RECORD_SWITCH IN"))));
    assert_eq!((off.blocked.times, off.blocked.microseconds, off.unpaired), (1, 3_000_000, 0));
    assert_eq!(lines(&off.folded), "blocked;w;sleep_[k] 3000000\n");
    // It never came back; it came without having left; it left without a stack.
    assert_eq!(switches::pair(&stacks::read(&whole)).unpaired, 1);
    assert_eq!(switches::pair(&stacks::read(&at(1, "PERF_RECORD_SWITCH IN"))), switches::OffCpu::default());
    let bare = at(1, "PERF_RECORD_SWITCH OUT") + &at(2, "PERF_RECORD_SWITCH IN");
    let off = switches::pair(&stacks::read(&bare));
    assert_eq!((off.blocked.times, off.unpaired), (0, 1));
}

#[test]
fn system_calls_are_summed_over_threads() {
    let rows = counts::perf_trace(&data("perf-trace.txt"));
    let of = |name: &str| rows.iter().find(|row| row.name == name).map(|row| (row.calls, row.errors));
    // Three threads: 3 + 95, and `write` of two of them.
    assert_eq!(of("epoll_wait"), Some((98, 0)));
    assert_eq!(of("write"), Some((2, 0)));
    assert_eq!(of("readlink"), Some((4, 4)));
    assert_eq!(of("sendto"), Some((1_484, 0)));
    assert_eq!(rows.iter().map(|row| row.calls).sum::<u64>(), 9_035);
    assert_eq!(counts::lost("LOST 12 events!\nx\nLOST 3 events!"), 15);
    let rows = counts::strace(&data("strace.txt"));
    assert_eq!(rows.iter().map(|row| row.calls).sum::<u64>(), 13_721);
    assert_eq!(rows[0].name, "newfstatat");
    assert_eq!(rows.iter().map(|row| row.errors).sum::<u64>(), 6);
}

#[test]
fn what_the_machine_does_not_count_is_told_from_zero() {
    let counts = counts::perf_stat(&data("perf-stat.txt"));
    assert_eq!(counts["context-switches"], Some(68.0));
    assert_eq!(counts["cpu-migrations"], Some(0.0));
    assert_eq!(counts["cycles"], None);
    assert_eq!(counts["task-clock"], Some(86.41));
}

#[test]
fn nothing_recorded_names_a_machine() {
    for entry in fs::read_dir(place("")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        for word in ["/tmp/", "/home/", "/root/", "hostname"] {
            assert!(!text.contains(word), "{}: {word}", path.display());
        }
    }
}

/// A profile made of what was recorded, and a folder with its pictures.
fn document(folder: &Path) -> Document {
    let on = stacks::read(&data("on-cpu.script"));
    let off = switches::pair(&stacks::read(&data("off-cpu.script")));
    let files = |kind: &str| (format!("scalws-{kind}.svg"), format!("scalws-{kind}.folded"));
    for (kind, folded, unit) in [("on-cpu", &Folded::of(&on), "samples"), ("off-cpu", &off.folded, "µs")] {
        fs::write(folder.join(files(kind).0), flame::draw(folded, kind, unit).unwrap()).unwrap();
        fs::write(folder.join(files(kind).1), lines(folded)).unwrap();
    }
    let latency = || Latency { p50: 410, p90: 500, p99: 900, p99_9: 1_500, max: 12_000 };
    let subject = Profile {
        name: "scalws".into(),
        version: "scalws 0.1.0".into(),
        flags: "profiling".into(),
        config: "[server]\n<listen>".into(),
        windows: vec![Window { name: "plain".into(), seconds: 5.0, what: "nothing looks".into() }],
        plain: Plain {
            requests: 200_000,
            seconds: 5.0,
            rate: 40_000.0,
            cpu_us: 24.5,
            busy: 0.98,
            counters: Counters { threads: 4, ..Counters::default() },
            latency_us: latency(),
        },
        open: Open { rate: 20_000.0, reached: 20_000.0, tool: "own".into(), latency_us: latency() },
        memory: Memory { pss_peak_bytes: 4 << 20, looks: 7, cgroup_peak_bytes: None },
        counted: vec![("context-switches".into(), Some(68.0)), ("cycles".into(), None)],
        counted_requests: 100_000,
        calls: Calls {
            tool: "perf trace -s".into(),
            requests: 1_484,
            lost: 0,
            rows: counts::perf_trace(&data("perf-trace.txt")),
        },
        on_cpu: OnCpu {
            event: "cpu-clock".into(),
            walk: "dwarf".into(),
            samples: 25,
            unknown_percent: stacks::unknown_percent(&on),
            rootless_percent: stacks::rootless_percent(&on),
            hottest: stacks::hottest(&on),
            files: files("on-cpu"),
        },
        off_cpu: OffCpu {
            blocked: off.blocked,
            preempted: off.preempted,
            unpaired: off.unpaired,
            requests: 1_000,
            unknown_percent: 0.0,
            rootless_percent: 0.0,
            files: files("off-cpu"),
        },
        traces: None,
    };
    Document {
        scenario: "static-small".into(),
        what: "47 bytes".into(),
        date: "2026-11-30T15:52:25Z".into(),
        command: "scalws-lab profile static-small".into(),
        machine: serde_json::json!({"cpu": "x", "governor": null}),
        setup: vec![("Connections".into(), "64".into())],
        notes: vec!["a <note>".into()],
        subjects: vec![subject],
    }
}

#[test]
fn the_page_is_whole_and_fetches_nothing() {
    let folder = std::env::temp_dir().join(format!("scalws-lab-page-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let document = document(&folder);
    let html = page::page(&document, &folder).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(page::faults(&html), Vec::<String>::new());
    assert_eq!(html.matches("<iframe").count(), 2);
    for text in ["24.50 µs", "not countable on this machine", "&lt;listen&gt;", "openat2", "tcp_sendmsg_[k]"]
    {
        assert!(html.contains(text), "{text}");
    }
    assert!(
        document.subjects.iter().all(|subject| subject.on_cpu.unknown_percent < page::UNKNOWN_PERCENT_MAX)
    );
    // The judge notices what it is there for.
    let fetching = html.replace("</body>", "<img src=\"https://example.org/x.png\"></body>");
    assert_eq!(page::faults(&fetching).len(), 1);
    let (before, after) = html.split_once("<h2>Hottest").unwrap();
    let empty = format!("{before}<h2>Hottest</h2></section>{}", after.split_once("</section>").unwrap().1);
    assert_eq!(page::faults(&empty).len(), 1);
    let text = serde_json::to_string(&document).unwrap();
    let again: Document = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&again).unwrap(), text);
}

/// The panels of requests are there where the command asked for them, with data in each, and a page without them is no
/// whole one.
#[test]
fn a_page_with_traces_has_their_panels() {
    let folder = std::env::temp_dir().join(format!("scalws-lab-traces-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let mut document = document(&folder);
    document.command.push_str(" --traces");
    let html = page::page(&document, &folder).unwrap();
    assert_eq!(
        page::faults(&html).len(),
        4,
        "a wrong number, and three that are named: {:?}",
        page::faults(&html)
    );
    let compact: Compact = serde_json::from_str(&data("traces.json")).unwrap();
    let requests = compact.read();
    let on = Folded::of(&stacks::read(&data("on-cpu.script")));
    let files = ("slow.svg".to_owned(), "slow.folded".to_owned());
    fs::write(folder.join(&files.0), flame::draw(&on, "slow", "samples").unwrap()).unwrap();
    let mut traces = Traces {
        rate: 5_000.0,
        seconds: 5.0,
        requests: 3,
        told: Told { made: 5, exported: 5, ..Told::default() },
        slowest: phases::slowest(&requests, 20).into_iter().cloned().collect(),
        phases: phases::histograms(&requests),
        cut: Cut { requests: 3, samples: 25, samples_of: 25, files, ..Cut::default() },
        file: "scalws-traces.json".into(),
    };
    let mut of = |traces: &Traces| {
        let text = serde_json::to_string(traces).unwrap();
        document.subjects[0].traces = Some(serde_json::from_str(&text).unwrap());
        page::page(&document, &folder).unwrap()
    };
    let html = of(&traces);
    assert_eq!(page::faults(&html), Vec::<String>::new());
    assert_eq!(html.matches("<iframe").count(), 3);
    assert!(html.contains("none was dropped") && html.contains("cold_data"));
    // What is not there is said.
    traces.told.dropped.insert("queue_full".into(), 2);
    traces.cut.samples = 0;
    let html = of(&traces);
    assert_eq!(page::faults(&html), Vec::<String>::new());
    assert!(html.contains("2 were dropped") && html.contains("No sample fell into their time"));
    fs::remove_dir_all(&folder).unwrap();
}

/// Recorded of oha 1.16.0: 2 s at 4,000 requests a second over 64 connections.
#[test]
fn oha_speaks_in_seconds_and_a_wrong_status_is_refused() {
    let open = oha::read(&data("oha.json"), 200).unwrap();
    let latency = Latency { p50: 168, p90: 312, p99: 3_564, p99_9: 7_262, max: 8_439 };
    assert_eq!((open.reached, open.latency_us), (3_992.525_871_702_497, latency));
    assert!(oha::read(&data("oha.json"), 304).unwrap_err().to_string().contains("another status"));
    assert!(oha::read("{}", 200).is_err());
    // What was under way when the time was over is no failure; all else is.
    let mut report: serde_json::Value = serde_json::from_str(&data("oha.json")).unwrap();
    report["errorDistribution"] = serde_json::json!({"aborted due to deadline": 12});
    assert!(oha::read(&report.to_string(), 200).is_ok());
    report["errorDistribution"] = serde_json::json!({"aborted due to deadline": 12, "connection refused": 1});
    assert!(oha::read(&report.to_string(), 200).unwrap_err().to_string().contains("connection refused"));
}
