//! The visitors: they ask for names that are being swapped, in every way a client may ask, and judge
//! each answer by all that was ever there.

use super::ground::{Ground, OUTSIDE_BYTES};
use crate::support::{Client, Response, noise};

/// Requests that are sent in one go.
const BATCH: usize = 32;
/// Batches on one connection.
const BATCHES: usize = 50;
/// Faults of a kind that one visitor tells of; the rest is counted.
const STORIES_MAX: u64 = 3;

/// What a name may answer.
#[derive(Clone, Copy, Debug)]
enum May {
    /// One of these kinds, or with a coding its own; a miss as well; a redirect to the slash where a
    /// directory is among what the name leads to.
    Come { kinds: &'static [&'static str], codings: &'static [(&'static str, &'static str)], redirect: bool },
    /// One of these kinds, always.
    Stay(&'static [&'static str]),
    /// This status and nothing else.
    Only(u16),
}

const fn come(kinds: &'static [&'static str]) -> May {
    May::Come { kinds, codings: &[], redirect: false }
}

/// Targets, what they may answer, and how often one is asked for among all.
const TARGETS: [(&str, May, u32); 26] = [
    ("/link/file", come(&["real", "twin"]), 10),
    ("/link/", come(&["index", "twin-index"]), 8),
    ("/link/index.html", come(&["index", "twin-index"]), 4),
    ("/hop", come(&["real", "twin"]), 10),
    ("/room/file", come(&["room"]), 5),
    ("/hall/file", come(&["room"]), 5),
    ("/deep/er/up", come(&["real"]), 8),
    ("/deeper/er/up", come(&["real"]), 8),
    (
        "/page.txt",
        May::Come { kinds: &["page"], codings: &[("br", "page.br"), ("gzip", "page.gz")], redirect: false },
        16,
    ),
    ("/shape", May::Come { kinds: &["shape"], codings: &[], redirect: true }, 5),
    ("/shape/", come(&["index"]), 5),
    ("/app/", come(&["app"]), 3),
    // A navigation to a page of the app that is no file.
    ("/app/users/7", come(&["app"]), 4),
    ("/big.bin", May::Stay(&["big"]), 1),
    ("/real/file", May::Stay(&["real"]), 4),
    ("/current/file", May::Stay(&["release"]), 6),
    ("/swapped/file", May::Stay(&["release"]), 6),
    ("/current/leak", May::Only(404), 3),
    ("/swapped/hole", May::Only(404), 3),
    // There only outside.
    ("/link/only", May::Only(404), 3),
    ("/link/vault", May::Only(404), 3),
    ("/link/%2e%2e/outside/file", May::Only(404), 2),
    ("/link/..%2foutside/file", May::Only(404), 2),
    ("/../outside/file", May::Only(400), 2),
    ("/%00", May::Only(400), 1),
    ("/.hidden", May::Only(404), 1),
];

/// How a request is made beyond its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Plain,
    Head,
    Coded(&'static str),
    Range(&'static str),
    CodedRange,
    IfNoneMatch,
    IfRange,
}

/// Ways, and how often each is taken among all.
const WAYS: [(Way, u32); 12] = [
    (Way::Plain, 34),
    (Way::Head, 8),
    (Way::Coded("br, gzip;q=0.5"), 16),
    (Way::Coded("gzip"), 6),
    (Way::Range("bytes=100-299"), 8),
    (Way::Range("bytes=-50"), 3),
    (Way::Range("bytes=0-0"), 2),
    (Way::Range("bytes=0-9,200-219"), 4),
    (Way::Range("bytes=99999999-"), 3),
    (Way::CodedRange, 4),
    (Way::IfNoneMatch, 8),
    (Way::IfRange, 4),
];

/// What came of a request for a name that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Inside,
    Miss,
    /// The name does not change: no part in the race's figures.
    AsAlways,
}

/// What must never be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    Escape(String),
    ServerError(String),
    Wrong(String),
}

/// Numbers of one visitor.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub requests: u64,
    pub inside: u64,
    pub misses: u64,
    /// Of each target: how often inside, how often missing.
    pub targets: [[u64; 2]; TARGETS.len()],
    pub escapes: u64,
    pub server_errors: u64,
    pub wrong: u64,
    /// The first few of what must never be.
    pub stories: Vec<String>,
}

impl Seen {
    pub fn add(&mut self, other: Seen) {
        self.requests += other.requests;
        self.inside += other.inside;
        self.misses += other.misses;
        for (mine, theirs) in self.targets.iter_mut().zip(other.targets) {
            *mine = [mine[0] + theirs[0], mine[1] + theirs[1]];
        }
        self.escapes += other.escapes;
        self.server_errors += other.server_errors;
        self.wrong += other.wrong;
        self.stories.extend(other.stories);
    }

    pub fn fault(&mut self, fault: Fault) {
        let (count, kind, story) = match fault {
            Fault::Escape(story) => (&mut self.escapes, "from outside", story),
            Fault::ServerError(story) => (&mut self.server_errors, "5xx", story),
            Fault::Wrong(story) => (&mut self.wrong, "never there", story),
        };
        *count += 1;
        if *count <= STORIES_MAX {
            self.stories.push(format!("{kind}: {story}"));
        }
    }

    /// Names that change and of which one side was never seen.
    pub fn one_sided(&self) -> Vec<String> {
        let sides = TARGETS.iter().zip(self.targets);
        let racing = sides.filter(|((_, may, _), _)| matches!(may, May::Come { .. }));
        let one_sided = racing.filter(|(_, counts)| counts.contains(&0));
        one_sided
            .map(|((target, ..), [inside, missing])| format!("{target}: {inside} inside, {missing} missing"))
            .collect()
    }
}

/// Asks on one connection after the other until `go_on`, which hears of each batch, says no.
pub fn visit(ground: &Ground, seed: u64, connect: impl Fn() -> Client, go_on: impl Fn(u64) -> bool) -> Seen {
    let mut seen = Seen::default();
    let mut dice = Dice::new(seed);
    // The last tag that each target had.
    let mut tags = vec![String::new(); TARGETS.len()];
    loop {
        let mut client = connect();
        for _ in 0..BATCHES {
            let asks: Vec<_> = (0..BATCH).map(|_| (dice.target(), dice.way())).collect();
            let batch: String = asks.iter().map(|(target, way)| request(*target, *way, &tags)).collect();
            client.send(&batch);
            for (number, way) in asks {
                let answer = if way == Way::Head { client.response_to_head() } else { client.response() };
                let (target, may, _) = TARGETS[number];
                match judge(ground, target, may, way, &answer) {
                    Ok(Found::Inside) => {
                        seen.inside += 1;
                        seen.targets[number][0] += 1;
                    }
                    Ok(Found::Miss) => {
                        seen.misses += 1;
                        seen.targets[number][1] += 1;
                    }
                    Ok(Found::AsAlways) => {}
                    Err(fault) => seen.fault(fault),
                }
                if let Some(tag) = answer.field("etag") {
                    tag.clone_into(&mut tags[number]);
                }
            }
            seen.requests += BATCH as u64;
            if !go_on(BATCH as u64) {
                return seen;
            }
        }
    }
}

fn request(number: usize, way: Way, tags: &[String]) -> String {
    let (target, tag) = (TARGETS[number].0, &tags[number]);
    let method = if way == Way::Head { "HEAD" } else { "GET" };
    let fields = match way {
        Way::Plain | Way::Head => String::new(),
        Way::Coded(codings) => format!("Accept-Encoding: {codings}\r\n"),
        Way::Range(range) => format!("Range: {range}\r\n"),
        Way::CodedRange => "Accept-Encoding: br\r\nRange: bytes=100-299\r\n".to_owned(),
        Way::IfNoneMatch => format!("If-None-Match: {tag}\r\n"),
        Way::IfRange => format!("If-Range: {tag}\r\nRange: bytes=100-299\r\n"),
    };
    let accept = if target.starts_with("/app/") { "Accept: text/html\r\n" } else { "" };
    format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{accept}{fields}\r\n")
}

/// Whether an answer may be, by all that was ever there.
fn judge(ground: &Ground, target: &str, may: May, way: Way, answer: &Response) -> Result<Found, Fault> {
    let story = || {
        let body = &answer.body[..answer.body.len().min(80)];
        format!("{target} {way:?}: {} {}", answer.head.escape_default(), body.escape_ascii())
    };
    if tells_of_outside(answer) || (target == "/link/vault" && answer.status == 308) {
        return Err(Fault::Escape(story()));
    }
    if answer.status >= 500 {
        return Err(Fault::ServerError(story()));
    }
    if answer.status == 404 && way != Way::Head && !is_page_of_a_miss(ground, answer) {
        return Err(Fault::Wrong(story()));
    }
    let (kinds, codings, may_redirect): (&[&str], &[(&str, &str)], bool) = match may {
        May::Only(status) if answer.status == status => return Ok(Found::AsAlways),
        May::Only(_) => return Err(Fault::Wrong(story())),
        May::Stay(kinds) => (kinds, &[], false),
        May::Come { kinds, codings, redirect } => (kinds, codings, redirect),
    };
    let coding = answer.field("content-encoding");
    let kinds: Vec<&str> = match (coding, answer.status) {
        // Neither tells which coding it is about.
        (None, 304 | 416) => kinds.iter().copied().chain(codings.iter().map(|(_, kind)| *kind)).collect(),
        (None, _) => kinds.to_vec(),
        (Some(coding), _) if takes(way, coding) => {
            codings.iter().filter(|(name, _)| *name == coding).map(|(_, kind)| *kind).collect()
        }
        (Some(_), _) => Vec::new(),
    };
    let versions = kinds.iter().flat_map(|kind| ground.versions(kind));
    let mut versions = versions.map(Vec::as_slice);
    let is_right = match answer.status {
        404 if matches!(may, May::Come { .. }) => return Ok(Found::Miss),
        308 if may_redirect => answer.field("location") == Some(&format!("{target}/")),
        200 if way == Way::Head => {
            let length = answer.field("content-length").and_then(|length| length.parse().ok());
            versions.any(|version| Some(version.len()) == length)
        }
        200 => versions.any(|version| version == answer.body),
        206 if matches!(way, Way::Range(_) | Way::CodedRange | Way::IfRange) => {
            versions.any(|version| are_parts_of(version, answer))
        }
        304 if way == Way::IfNoneMatch => versions.any(|version| tag_bytes(answer) == Some(version.len())),
        416 if matches!(way, Way::Range(_)) => {
            let range = answer.field("content-range").unwrap_or_default();
            versions.any(|version| range == format!("bytes */{}", version.len()))
        }
        _ => false,
    };
    match (is_right, may) {
        (false, _) => Err(Fault::Wrong(story())),
        (true, May::Come { .. }) => Ok(Found::Inside),
        (true, _) => Ok(Found::AsAlways),
    }
}

/// A miss has the page for it, or its own short text where that page cannot be had.
fn is_page_of_a_miss(ground: &Ground, answer: &Response) -> bool {
    answer.body == b"404 Not Found\n" || ground.versions("error").contains(&answer.body)
}

fn takes(way: Way, coding: &str) -> bool {
    match way {
        Way::Coded(codings) => codings.contains(coding),
        Way::CodedRange => coding == "br",
        _ => false,
    }
}

/// A byte of what lies outside, its length in any field that tells lengths, or its size in a tag.
fn tells_of_outside(answer: &Response) -> bool {
    let total = answer.field("content-range").and_then(|range| range.rsplit('/').next()?.parse().ok());
    let length = answer.field("content-length").and_then(|length| length.parse().ok());
    answer.body.iter().any(|byte| !byte.is_ascii())
        || [total, length, tag_bytes(answer)].contains(&Some(OUTSIDE_BYTES))
}

/// Size of the file, by its tag (docs/adr/0004-etag.md).
fn tag_bytes(answer: &Response) -> Option<usize> {
    let size = answer.field("etag")?.strip_prefix('"')?.split('-').next()?;
    usize::from_str_radix(size, 16).ok()
}

/// Whether a 206 holds parts of this version and nothing else.
fn are_parts_of(version: &[u8], answer: &Response) -> bool {
    let content_type = answer.field("content-type").unwrap_or_default();
    let Some(boundary) = content_type.strip_prefix("multipart/byteranges; boundary=") else {
        return answer.field("content-range").is_some_and(|range| is_part_of(version, range, &answer.body));
    };
    let text = answer.text();
    let Some(parts) = text.strip_suffix(&format!("\r\n--{boundary}--\r\n")) else { return false };
    let mut parts = format!("\r\n{parts}");
    parts = parts.replace("\r\n--", "\0--");
    let mut parts = parts.split('\0');
    parts.next() == Some("")
        && parts.all(|part| {
            let part = part.strip_prefix(&format!("--{boundary}\r\n"));
            let Some((head, body)) = part.and_then(|part| part.split_once("\r\n\r\n")) else { return false };
            let range = head.lines().find_map(|line| line.strip_prefix("Content-Range: "));
            range.is_some_and(|range| is_part_of(version, range, body.as_bytes()))
        })
}

/// `range` is the value of a Content-Range.
fn is_part_of(version: &[u8], range: &str, body: &[u8]) -> bool {
    let numbers = range.strip_prefix("bytes ").and_then(|range| {
        let (part, total) = range.split_once('/')?;
        let (first, last) = part.split_once('-')?;
        Some((first.parse::<usize>().ok()?, last.parse::<usize>().ok()?, total.parse::<usize>().ok()?))
    });
    numbers.is_some_and(|(first, last, total)| {
        total == version.len() && version.get(first..=last).is_some_and(|part| part == body)
    })
}

/// Chooses by weight, the same for the same seed.
struct Dice(std::iter::Cycle<std::vec::IntoIter<u8>>);

impl Dice {
    fn new(seed: u64) -> Dice {
        // 64 KiB and a prime's rest: the period is no multiple of a batch.
        Dice(noise(seed, 65_521).into_iter().cycle())
    }

    fn below(&mut self, bound: u32) -> u32 {
        let mut byte = || u32::from(self.0.next().unwrap_or_default());
        (byte() << 8 | byte()) % bound
    }

    fn target(&mut self) -> usize {
        let place = self.below(TARGETS.iter().map(|(.., weight)| weight).sum());
        at_weight(TARGETS.iter().map(|(.., weight)| *weight), place)
    }

    fn way(&mut self) -> Way {
        let place = self.below(WAYS.iter().map(|(_, weight)| weight).sum());
        WAYS[at_weight(WAYS.iter().map(|(_, weight)| *weight), place)].0
    }
}

fn at_weight(weights: impl Iterator<Item = u32>, place: u32) -> usize {
    let mut end = 0;
    weights
        .take_while(|weight| {
            end += weight;
            end <= place
        })
        .count()
}
