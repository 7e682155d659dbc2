//! Kubernetes' notation of amounts (`100m`, `64Mi`, `1e3`), which no schema checks.

use serde_json::Value;

/// The amount, or `None` where the API server would refuse it. Numbers of YAML count as their text.
pub fn parse(value: &Value) -> Option<f64> {
    match value {
        Value::String(text) => parse_text(text),
        Value::Number(number) => parse_text(&number.to_string()),
        _ => None,
    }
}

fn parse_text(text: &str) -> Option<f64> {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let unsigned = digits.strip_prefix(['+', '-']).unwrap_or(digits);
    let is_number = unsigned.contains(|c: char| c.is_ascii_digit())
        && unsigned.chars().all(|c| c.is_ascii_digit() || c == '.')
        && unsigned.matches('.').count() <= 1;
    if !is_number {
        return None;
    }
    Some(digits.parse::<f64>().ok()? * factor(suffix)?)
}

fn factor(suffix: &str) -> Option<f64> {
    let decimal = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if let Some(power) = decimal.iter().position(|known| *known == suffix) {
        return Some(1000_f64.powi(i32::try_from(power).ok()? - 3));
    }
    if let Some(power) = binary.iter().position(|known| *known == suffix) {
        return Some(1024_f64.powi(i32::try_from(power).ok()? + 1));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    Some(10_f64.powi(exponent.parse().ok()?))
}

#[test]
fn quantities_are_those_of_kubernetes() {
    let holds = |text: &str, wanted: Option<f64>| {
        let found = parse_text(text);
        let same = match (found, wanted) {
            (Some(found), Some(wanted)) => (found - wanted).abs() <= wanted.abs() * 1e-9,
            (found, wanted) => found == wanted,
        };
        assert!(same, "{text:?} is {found:?}, not {wanted:?}");
    };
    holds("1", Some(1.0));
    holds("100m", Some(0.1));
    holds("0.5", Some(0.5));
    holds(".5", Some(0.5));
    holds("64Mi", Some(67_108_864.0));
    holds("64M", Some(64e6));
    holds("1e3", Some(1000.0));
    holds("1E", Some(1e18));
    for bad in ["", "64MB", "64mi", "64 Mi", "1K", "Mi", "1.2.3", "abc", "1e", "0x10", "-", "64Mib"] {
        holds(bad, None);
    }
}
