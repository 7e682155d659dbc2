//! A run made up by hand: for the golden tests of ratios, assertions and both reports.

use super::record::{Case, Conditions, FORM, Results, Row, Window};
use crate::load::Latency;
use crate::measure::Counters;

/// With round figures: 1,000 requests in a second, so that nanoseconds are microseconds a request.
fn window(round: u32, cpu_us: u64, busy: f64) -> Window {
    let counted_seconds = cpu_us as f64 / 1e3 / busy;
    Window {
        round,
        requests: 1_000,
        seconds: counted_seconds,
        counted_seconds,
        body_bytes: 1_024_000,
        connects: 64,
        cost: Counters {
            cpu_ns: cpu_us * 1_000_000,
            voluntary_switches: 3,
            involuntary_switches: u64::from(round),
            threads: 2,
            ..Counters::default()
        },
        pss_bytes: Some(3 << 20),
        latency_us: Latency { p50: 300, p90: 400, p99: 500, p99_9: 900, max: 1_234 },
    }
}

fn row(server: &str, cpu_us: [u64; 3], busy: f64) -> Row {
    let windows = (1..).zip(cpu_us).map(|(round, cpu_us)| window(round, cpu_us, busy)).collect();
    Row {
        server: server.into(),
        version: format!("{server}/1.0"),
        features: "log: off; keep-alive: kept".into(),
        config: "workers 1;\n".into(),
        windows,
        ..Row::default()
    }
}

/// Five rows: one ahead, the reference, one that ties and waits, one that cannot, one that was refused.
pub(crate) fn results() -> Results {
    let mut lighttpd = row("lighttpd", [20, 10, 5], 0.8);
    lighttpd.windows[2].pss_bytes = None;
    let lacks = Row { server: "h2o".into(), lacks: Some("it has no such thing".into()), ..Row::default() };
    let mut refused = row("broken", [1, 1, 1], 1.0);
    refused.refused = Some("round 2: status 404, expected 200".into());
    let rows =
        vec![row("scalws", [5, 4, 6], 0.99), row("nginx", [10, 10, 10], 0.98), lighttpd, lacks, refused];
    Results {
        form: FORM,
        started: "2026-11-30 15:44:01 UTC".into(),
        command_line: "scalws-lab bench static-1k".into(),
        machine: serde_json::json!({
            "cpu": "Some CPU", "cpus": 2, "commit": "abc123", "docker": null, "cpus_allowed": [0, 1], "mitigations": {"a": "b", "c": "d"},
        }),
        conditions: Conditions {
            rounds: 3,
            seconds: 1.0,
            warmup_seconds: 0.5,
            server_cpus: vec![0],
            lab_cpus: vec![1],
            is_shared: false,
            references: vec!["nginx".into()],
            is_docker: false,
        },
        cases: vec![Case {
            scenario: "static-1k".into(),
            what: "1,024 bytes".into(),
            connections: 64,
            rate: None,
            is_sweep: false,
            references: Vec::new(),
            rows,
        }],
        is_interrupted: false,
    }
}
