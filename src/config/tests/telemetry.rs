//! `[telemetry]`, `server.trusted_proxies`, and the variables of OpenTelemetry.

use std::time::Duration;

use super::{check, load_with};
use crate::config::checked::{Protocol, Sampler, Telemetry, Traces};

const ROUTE: &str = "[[route]]\npath = \"/\"\nrespond = {}\n";

/// What a config and these variables mean, and the warnings that they earn.
#[track_caller]
fn read(text: &str, variables: &[(&str, &str)]) -> (Telemetry, Vec<String>) {
    let loaded = load_with(&format!("{text}\n{ROUTE}"), variables).unwrap();
    (loaded.config.telemetry, loaded.warnings)
}

#[track_caller]
fn traces(variables: &[(&str, &str)]) -> Traces {
    let (telemetry, warnings) = read("[telemetry]\ntraces = \"on\"", variables);
    assert_eq!(warnings, [""; 0]);
    telemetry.traces.expect("traces are on")
}

#[test]
fn trusted_proxies_are_networks() {
    let text = format!(
        "[server]\ntrusted_proxies = [\"10.0.0.0/8\", \"::1/128\", \"::ffff:172.16.0.0/108\", \"::/0\"]\n{ROUTE}"
    );
    let loaded = load_with(&text, &[]).unwrap();
    assert_eq!(loaded.warnings, [""; 0]);
    let shown: Vec<_> = loaded.config.server.trusted_proxies.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        ["10.0.0.0/8", "::1/128", "172.16.0.0/12", "::/0"],
        "mapped ones are those that they mean"
    );
}

#[test]
fn nobody_is_sent_spans_who_was_not_named() {
    let is_on = |text: &str, variables: &[(&str, &str)]| read(text, variables).0.traces.is_some();
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317");
    assert!(!is_on("", &[]) && is_on("", &[endpoint]));
    assert!(is_on("", &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://collector:4317")]));
    assert!(is_on("", &[("OTEL_TRACES_EXPORTER", "otlp")]));
    assert!(!is_on("", &[endpoint, ("OTEL_TRACES_EXPORTER", "none")]));
    assert!(!is_on("", &[endpoint, ("OTEL_SDK_DISABLED", "TRUE")]));
    assert!(!is_on("[telemetry]\ntraces = \"off\"", &[endpoint]));
    assert!(is_on("[telemetry]\ntraces = \"on\"", &[]));
    assert!(!is_on("", &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]), "an empty variable is not set");
}

#[test]
fn queue_and_batch_have_limits_of_their_own() {
    let of = |name: &str, value: &str| {
        let (telemetry, warnings) = read("[telemetry]\ntraces = \"on\"", &[(name, value)]);
        let traces = telemetry.traces.unwrap();
        (traces.queue_max, traces.batch_max, warnings.join("\n"))
    };
    let none = String::new();
    assert_eq!(of("OTEL_BSP_MAX_QUEUE_SIZE", "65536"), (65_536, 512, none.clone()));
    assert_eq!(of("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4096"), (2_048, 4_096, none));
    for (name, value, max) in
        [("OTEL_BSP_MAX_QUEUE_SIZE", "65537", "65536"), ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4097", "4096")]
    {
        let (queue, batch, warning) = of(name, value);
        assert_eq!((queue, batch), (2_048, 512), "{name}");
        assert!(warning.contains(&format!("an integer from 1 to {max}")), "{warning}");
    }
}

#[test]
fn the_variables_say_where_to_and_how() {
    let plain = traces(&[]);
    assert_eq!((plain.protocol, plain.endpoint.as_str()), (Protocol::Grpc, "http://localhost:4317"));
    assert_eq!((plain.timeout, plain.slow, plain.errors), (Duration::from_secs(10), None, true));
    assert_eq!((plain.queue_max, plain.batch_max, plain.delay), (2048, 512, Duration::from_secs(1)));
    let http = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
    let endpoint = |variables: &[(&str, &str)]| traces(variables).endpoint;
    assert_eq!(endpoint(&[http]), "http://localhost:4318/v1/traces");
    let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:1/base/");
    assert_eq!(endpoint(&[http, base]), "http://c:1/base/v1/traces");
    let whole = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:1/spans");
    assert_eq!(endpoint(&[http, base, whole]), "http://c:1/spans", "that of traces is no base");
    let own = traces(&[
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "Api-Key=a%20b, x=y"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
        ("OTEL_SERVICE_NAME", "site"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,a=1"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "7"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "3"),
        ("OTEL_BSP_SCHEDULE_DELAY", "20"),
    ]);
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(own.protocol, Protocol::Http);
    assert_eq!(own.headers, [pair("api-key", "a b"), pair("x", "y")]);
    assert_eq!((own.timeout, own.service.as_deref()), (Duration::from_millis(250), Some("site")));
    assert_eq!(own.resource, [pair("deployment.environment.name", "test"), pair("a", "1")]);
    assert_eq!((own.queue_max, own.batch_max, own.delay), (7, 3, Duration::from_millis(20)));
}

#[test]
fn the_sampler_is_that_of_the_specification() {
    let sampler = |word: &str, argument: &str| {
        traces(&[("OTEL_TRACES_SAMPLER", word), ("OTEL_TRACES_SAMPLER_ARG", argument)]).sampler
    };
    for (word, argument, is_parent_based, ratio) in [
        ("", "", true, 1.0),
        ("always_on", "", false, 1.0),
        ("always_off", "", false, 0.0),
        ("traceidratio", "0.25", false, 0.25),
        ("parentbased_always_off", "", true, 0.0),
        ("parentbased_traceidratio", "0.01", true, 0.01),
        ("parentbased_traceidratio", "", true, 1.0),
    ] {
        assert_eq!(sampler(word, argument), Sampler { is_parent_based, ratio }, "{word}");
    }
}

#[test]
fn what_makes_no_sense_is_a_warning_without_its_value() {
    let secret = "s3cret";
    for (name, value) in [
        ("OTEL_TRACES_EXPORTER", secret),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", secret),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", secret),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://user:s3cret@collector:4317"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "s3cret"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=s3cret%0d%0ab:c"),
        ("OTEL_RESOURCE_ATTRIBUTES", "=s3cret"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", secret),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", secret),
        ("OTEL_TRACES_SAMPLER", secret),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
    ] {
        let others: &[(&str, &str)] = match name {
            "OTEL_TRACES_EXPORTER" | "OTEL_EXPORTER_OTLP_ENDPOINT" => &[],
            _ => &[("OTEL_TRACES_EXPORTER", "otlp")],
        };
        let (_, warnings) = read("", &[others, &[(name, value)]].concat());
        assert_eq!(warnings.len(), 1, "{name}: {warnings:?}");
        assert!(warnings[0].starts_with(&format!("{name}: expected ")), "{warnings:?}");
        assert!(!warnings[0].contains(secret), "{warnings:?}");
    }
    let ratio = [("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "1.5")];
    let (telemetry, warnings) = read("[telemetry]\ntraces = \"on\"", &ratio);
    assert_eq!((warnings.len(), telemetry.traces.unwrap().sampler.ratio), (1, 1.0));
}

#[test]
fn mistakes_in_the_table_are_mistakes() {
    check(
        &format!("[telemetry]\ntraces = \"yes\"\nslow = \"1\"\nerrors = 1\nrequest_ids = true\n{ROUTE}"),
        &[
            "@2:10: telemetry.traces: expected \"auto\", \"on\", \"off\", found \"yes\"",
            "@3:8: telemetry.slow: expected a duration with a unit (ms, s, m or h), found \"1\", did you mean \"1s\"?",
            "@4:10: telemetry.errors: expected true or false, found 1",
            "@5:1: unknown key \"request_ids\" in telemetry, did you mean \"request_id\"?",
        ],
    );
    let text = "[telemetry]\nslow = \"250ms\"\nerrors = false\nrequest_id = true\ntraces = \"on\"";
    let (telemetry, _) = read(text, &[]);
    let traces = telemetry.traces.unwrap();
    assert_eq!((traces.slow, traces.errors), (Some(Duration::from_millis(250)), false));
    assert!(telemetry.request_id);
}
