//! A page of metrics, taken apart as a scraper does, and strict about its form.

use std::collections::BTreeMap;

use super::{Client, Server};

/// Samples by name and labels as they stand on the page, such as `a_total{x="1"}`.
pub struct Scrape {
    samples: BTreeMap<String, f64>,
    /// Kinds by the names of `# TYPE`.
    kinds: BTreeMap<String, String>,
}

impl Scrape {
    #[track_caller]
    pub fn of(server: &Server) -> Scrape {
        let answer = Client::connect(server.admin.expect("an admin address")).get("/metrics");
        assert_eq!(answer.status, 200);
        assert_eq!(answer.field("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        Scrape::parse(&answer.text())
    }

    #[track_caller]
    pub fn parse(text: &str) -> Scrape {
        let (mut samples, mut kinds) = (BTreeMap::new(), BTreeMap::new());
        let mut family = String::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a name and a kind");
                assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} twice");
                name.clone_into(&mut family);
            } else if !line.starts_with('#') {
                let (series, value) = line.rsplit_once(' ').expect("a series and a value");
                assert!(series.starts_with(&family), "{series} does not belong to {family}");
                let value = value.parse().unwrap_or_else(|_| panic!("no number in {line}"));
                assert!(samples.insert(series.to_owned(), value).is_none(), "{series} twice");
            }
        }
        assert!(!samples.is_empty(), "nothing on the page");
        Scrape { samples, kinds }
    }

    /// One sample.
    #[track_caller]
    pub fn value(&self, series: &str) -> f64 {
        *self.samples.get(series).unwrap_or_else(|| panic!("no {series} in {:#?}", self.samples))
    }

    /// One sample that is a whole number; 0 where there is none.
    pub fn count(&self, series: &str) -> u64 {
        let value = self.samples.get(series).copied().unwrap_or_default();
        assert!(value >= 0.0 && value.fract() == 0.0, "{series} is {value}");
        value as u64
    }

    /// All samples whose series begins so.
    pub fn starting<'a>(&'a self, start: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
        self.samples
            .iter()
            .filter(move |(series, _)| series.starts_with(start))
            .map(|(series, value)| (series.as_str(), *value))
    }

    /// Their sum.
    pub fn sum(&self, start: &str) -> u64 {
        self.starting(start).map(|(_, value)| value as u64).sum()
    }

    /// Fails where something that only grows is less than `before`, or a histogram is none.
    #[track_caller]
    pub fn assert_grown_since(&self, before: &Scrape) {
        for (series, value) in &before.samples {
            let name = series.split('{').next().unwrap();
            let is_part = |part: &str| {
                name.strip_suffix(part)
                    .is_some_and(|family| self.kinds.get(family).is_some_and(|kind| kind == "histogram"))
            };
            let only_grows =
                name.ends_with("_total") || ["_bucket", "_sum", "_count"].into_iter().any(is_part);
            if only_grows {
                assert!(self.value(series) >= *value, "{series} was {value}, is {}", self.value(series));
            }
        }
        self.assert_histograms();
    }

    /// Each bucket holds those before it, and the last one all.
    #[track_caller]
    pub fn assert_histograms(&self) {
        for (series, count) in &self.samples {
            let Some((name, labels)) = split(series) else { continue };
            let Some(family) = name.strip_suffix("_count") else { continue };
            let start = match labels {
                "" => format!("{family}_bucket{{"),
                labels => format!("{family}_bucket{{{labels},"),
            };
            let mut buckets: Vec<(f64, f64)> = self
                .starting(&start)
                .map(|(series, value)| {
                    let bound = series.split("le=\"").nth(1).unwrap().trim_end_matches("\"}");
                    (bound.replace("+Inf", "inf").parse().unwrap(), value)
                })
                .collect();
            buckets.sort_by(|left, right| left.0.total_cmp(&right.0));
            assert!(buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{series}: {buckets:?}");
            assert_eq!(buckets.last(), Some(&(f64::INFINITY, *count)), "{series}");
        }
    }

    /// Values of labels, each as often as it is there.
    pub fn label_values(&self) -> impl Iterator<Item = &str> {
        let labels = self.samples.keys().filter_map(|series| split(series)).map(|(_, labels)| labels);
        labels.flat_map(|labels| labels.split('"').skip(1).step_by(2))
    }
}

/// Name and labels of a series.
fn split(series: &str) -> Option<(&str, &str)> {
    match series.split_once('{') {
        None => Some((series, "")),
        Some((name, labels)) => Some((name, labels.strip_suffix('}')?)),
    }
}
