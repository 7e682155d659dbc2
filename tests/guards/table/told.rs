//! Guards of what is told about requests, and of those who are told.

use super::Guard;

pub(super) const GUARDS: &[Guard] = &[
    Guard {
        name: "trusted-peers-alone",
        file: "src/telemetry/observer.rs",
        old: "let parent = if is_trusted { heard(fields, &mut identity) } else { None };",
        new: "let parent = if is_trusted || !is_trusted { heard(fields, &mut identity) } else { None };",
        test: "traces::peers::only_trusted_peers_are_believed",
    },
    Guard {
        name: "ids-are-plain",
        file: "src/telemetry/observer.rs",
        old: "if name.eq_ignore_ascii_case(\"x-request-id\") && is_request_id(value) {",
        new: "if name.eq_ignore_ascii_case(\"x-request-id\") && (is_request_id(value) || !value.is_empty()) {",
        test: "traces::peers::an_id_that_is_none_is_replaced",
    },
    Guard {
        name: "the-end-waits-for-no-collector",
        file: "src/telemetry/spans/export.rs",
        old: "sleep_until(end.unwrap_or_else(Instant::now)).await;",
        new: "sleep_until(end.unwrap_or_else(Instant::now) + self.traces.timeout).await;",
        test: "traces::collectors::the_end_does_not_wait_for_a_silent_collector",
    },
    Guard {
        name: "a-part-is-no-success",
        file: "src/telemetry/spans/export.rs",
        old: "let rejected = spans.min(*rejected);",
        new: "let rejected = spans.min(*rejected) * 0;",
        test: "traces::collectors::a_collector_that_takes_nothing_or_a_part_is_believed",
    },
    Guard {
        name: "queries-keep-secrets",
        file: "src/telemetry/spans/encode.rs",
        old: "Some((key, _)) if SECRETS.contains(&key) =>",
        new: "Some((key, _)) if SECRETS.contains(&key) && key.is_empty() =>",
        test: "traces::a_collector_gets_spans_by_the_conventions_over_both_transports",
    },
];
