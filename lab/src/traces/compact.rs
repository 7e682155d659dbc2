//! Many requests in little JSON: words are written once, rows are lists. It is what a profile leaves beside its
//! page, and what comes out of the container of the receiver.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::request::{Hop, Request};

/// Names of the columns of a row, in order, for whoever reads the file without this code.
const COLUMNS: [&str; 15] = [
    "trace",
    "span",
    "name#",
    "path#",
    "start_us",
    "us",
    "routed_us",
    "resolved_us",
    "first_byte_us",
    "status",
    "lookup#",
    "cache#",
    "source#",
    "error#",
    "hops",
];
const HOP_COLUMNS: [&str; 5] = ["name#", "cause#", "start_us", "us", "trips"];

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compact {
    /// Spans that came, those of other windows and of trips to the pool too.
    pub spans: u64,
    /// Requests that came and found no room.
    pub not_kept: u64,
    /// Nanoseconds since 1970 from which `start_us` counts.
    pub begin_unix_ns: u64,
    /// What is where in `requests`; `#` is a place in `words`.
    pub columns: Vec<String>,
    /// The same in its last column.
    pub hop_columns: Vec<String>,
    /// Every word, once.
    pub words: Vec<String>,
    /// A row each.
    pub requests: Vec<Row>,
}

/// A list in JSON, as all its fields are without a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row(
    String,
    String,
    usize,
    usize,
    u64,
    u64,
    Option<u64>,
    Option<u64>,
    Option<u64>,
    u64,
    usize,
    usize,
    usize,
    usize,
    Vec<HopRow>,
);

/// See [`Row`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopRow(usize, usize, u64, u64, u64);

#[derive(Default)]
struct Words {
    all: Vec<String>,
    places: HashMap<String, usize>,
}

impl Words {
    fn place(&mut self, word: &str) -> usize {
        if let Some(place) = self.places.get(word) {
            return *place;
        }
        self.all.push(word.to_owned());
        self.places.insert(word.to_owned(), self.all.len() - 1);
        self.all.len() - 1
    }
}

impl Compact {
    /// Of requests, in the order of their starts.
    #[must_use]
    pub fn of(mut requests: Vec<Request>, spans: u64, not_kept: u64) -> Compact {
        requests.sort_by(|a, b| a.start_ns.cmp(&b.start_ns).then_with(|| a.span.cmp(&b.span)));
        // Starts come back to the microsecond, which is what the server stamps.
        let begin_unix_ns = requests.first().map_or(0, |first| first.start_ns);
        let mut words = Words::default();
        let rows = requests.iter().map(|request| row(request, begin_unix_ns, &mut words)).collect();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Compact {
            spans,
            not_kept,
            begin_unix_ns,
            columns: names(&COLUMNS),
            hop_columns: names(&HOP_COLUMNS),
            words: words.all,
            requests: rows,
        }
    }

    /// The requests again.
    #[must_use]
    pub fn read(&self) -> Vec<Request> {
        let word = |place: usize| self.words.get(place).cloned().unwrap_or_default();
        let one = |row: &Row| Request {
            trace: row.0.clone(),
            span: row.1.clone(),
            name: word(row.2),
            path: word(row.3),
            start_ns: self.begin_unix_ns.saturating_add(row.4.saturating_mul(1_000)),
            us: row.5,
            routed_us: row.6,
            resolved_us: row.7,
            first_byte_us: row.8,
            status: row.9,
            lookup: word(row.10),
            cache: word(row.11),
            source: word(row.12),
            error: word(row.13),
            hops: row
                .14
                .iter()
                .map(|hop| Hop {
                    name: word(hop.0),
                    cause: word(hop.1),
                    start_us: hop.2,
                    us: hop.3,
                    trips: hop.4,
                })
                .collect(),
        };
        self.requests.iter().map(one).collect()
    }
}

fn row(request: &Request, begin_ns: u64, words: &mut Words) -> Row {
    let hops = request.hops.iter();
    let hops = hops
        .map(|hop| HopRow(words.place(&hop.name), words.place(&hop.cause), hop.start_us, hop.us, hop.trips))
        .collect();
    Row(
        request.trace.clone(),
        request.span.clone(),
        words.place(&request.name),
        words.place(&request.path),
        request.start_ns.saturating_sub(begin_ns) / 1_000,
        request.us,
        request.routed_us,
        request.resolved_us,
        request.first_byte_us,
        request.status,
        words.place(&request.lookup),
        words.place(&request.cache),
        words.place(&request.source),
        words.place(&request.error),
        hops,
    )
}
