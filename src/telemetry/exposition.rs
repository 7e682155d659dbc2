//! Metrics as text: the Prometheus format, or OpenMetrics where the scraper asks for it. A family cannot be
//! written that is not in the table of `families`, which the documentation is made from.

use std::fmt::{Display, Write as _};

use crate::telemetry::families::{Family, Kind};

/// Which text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Prometheus text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Form {
    /// Of the Content-Type field.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Form::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A page of metrics that is being written.
#[derive(Debug)]
pub struct Page {
    text: String,
    form: Form,
}

/// Where the samples of one family go.
#[derive(Debug)]
pub struct Samples<'p> {
    page: &'p mut Page,
    family: &'static Family,
}

impl Page {
    /// An empty page.
    #[must_use]
    pub fn new(form: Form) -> Page {
        Page { text: String::with_capacity(16 * 1024), form }
    }

    /// The next family, with its description.
    pub fn family(&mut self, family: &'static Family) -> Samples<'_> {
        // Prometheus counts the ending of a counter to its name, OpenMetrics to its samples.
        let ending = match (self.form, family.kind) {
            (Form::Prometheus, Kind::Counter) => "_total",
            _ => "",
        };
        let Family { name, kind, help, .. } = family;
        let _ = writeln!(self.text, "# HELP {name}{ending} {help}");
        let _ = writeln!(self.text, "# TYPE {name}{ending} {}", kind.name());
        Samples { page: self, family }
    }

    /// The text with its end.
    #[must_use]
    pub fn finish(mut self) -> String {
        if self.form == Form::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

impl Samples<'_> {
    /// A counter or a gauge, with the values of its labels in their order.
    pub fn sample(&mut self, labels: &[&str], value: impl Display) {
        let ending = if self.family.kind == Kind::Counter { "_total" } else { "" };
        self.line(ending, labels, None, value);
    }

    /// A histogram of microseconds, in seconds. `buckets` holds each bucket alone, one more than bounds.
    pub fn histogram(&mut self, labels: &[&str], bounds_us: &[u64], buckets: &[u64], sum_us: u64) {
        let mut count = 0;
        for (number, bucket) in buckets.iter().enumerate() {
            count += bucket;
            let bound = bounds_us.get(number).map_or("+Inf".to_owned(), |bound| self.seconds(*bound));
            self.line("_bucket", labels, Some(&bound), count);
        }
        let sum = self.seconds(sum_us);
        self.line("_sum", labels, None, sum);
        self.line("_count", labels, None, count);
    }

    /// OpenMetrics wants a number that looks like a fraction, Prometheus is used to the shortest.
    fn seconds(&self, us: u64) -> String {
        #[expect(clippy::cast_precision_loss, reason = "exact for 285 years of microseconds")]
        let seconds = us as f64 / 1e6;
        match self.page.form {
            Form::OpenMetrics => format!("{seconds:?}"),
            Form::Prometheus => format!("{seconds}"),
        }
    }

    fn line(&mut self, ending: &str, labels: &[&str], bound: Option<&str>, value: impl Display) {
        debug_assert_eq!(labels.len(), self.family.labels.len(), "{}", self.family.name);
        let text = &mut self.page.text;
        text.push_str(self.family.name);
        text.push_str(ending);
        let names = self.family.labels.iter().zip(labels).map(|(name, value)| (*name, *value));
        let mut between = '{';
        for (name, value) in names.chain(bound.map(|bound| ("le", bound))) {
            text.push(between);
            between = ',';
            text.push_str(name);
            text.push_str("=\"");
            escape(text, value);
            text.push('"');
        }
        if between == ',' {
            text.push('}');
        }
        let _ = writeln!(text, " {value}");
    }
}

fn escape(text: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            _ => text.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static COUNTED: Family =
        Family { name: "a_b", kind: Kind::Counter, labels: &["x", "y"], help: "What it is." };
    static TIMED: Family = Family { name: "t_seconds", kind: Kind::Histogram, labels: &[], help: "Time." };

    fn page(form: Form) -> String {
        let mut page = Page::new(form);
        let mut samples = page.family(&COUNTED);
        samples.sample(&["1", "a\"\\\nb"], 7);
        page.family(&TIMED).histogram(&[], &[5_000, 1_000_000], &[2, 0, 1], 2_000_000);
        page.finish()
    }

    #[test]
    fn the_two_forms() {
        let prometheus = "# HELP a_b_total What it is.\n# TYPE a_b_total counter\n\
            a_b_total{x=\"1\",y=\"a\\\"\\\\\\nb\"} 7\n\
            # HELP t_seconds Time.\n# TYPE t_seconds histogram\n\
            t_seconds_bucket{le=\"0.005\"} 2\nt_seconds_bucket{le=\"1\"} 2\nt_seconds_bucket{le=\"+Inf\"} 3\n\
            t_seconds_sum 2\nt_seconds_count 3\n";
        assert_eq!(page(Form::Prometheus), prometheus);
        let open = prometheus
            .replace("# HELP a_b_total", "# HELP a_b")
            .replace("# TYPE a_b_total", "# TYPE a_b")
            .replace("le=\"1\"", "le=\"1.0\"")
            .replace("_sum 2\n", "_sum 2.0\n");
        assert_eq!(page(Form::OpenMetrics), open + "# EOF\n");
    }
}
