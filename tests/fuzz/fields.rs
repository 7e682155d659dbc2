//! Fields that choose an answer: Range, Accept-Encoding, dates, conditions, Accept. Most are held
//! against the model's reading of the RFC, which was written apart.

use scalws::semantics::conditional::{self, Conditions};
use scalws::semantics::encoding::Wanted;
use scalws::semantics::navigation::{Asking, is_navigation, may_be_page};
use scalws::semantics::range::{self, Ranges};
use scalws::semantics::{date, head};

use super::engine::{self, Target, ensure};
use super::input::Random;
use super::rules::codings::{self, CODINGS};
use super::rules::conditions::{self, Fields, Validators};
use super::rules::dates::{self, Form};
use super::rules::ranges::Set;
use super::rules::{ranges, tags};

/// Mon, 30 Nov 2026.
const NOW_S: i64 = 1_796_000_000;

fn seeds(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// The lines of a field; bytes that no value can have were refused with the head.
fn lines(input: &[u8]) -> Vec<Vec<u8>> {
    let is_legal = |byte: &u8| matches!(byte, b'\t' | 0x20..=0x7e | 0x80..);
    let lines = input.split(|byte| *byte == b'\n');
    lines
        .map(|line| head::trim(&line.iter().copied().filter(is_legal).collect::<Vec<u8>>()).to_vec())
        .collect()
}

fn borrowed(lines: &[Vec<u8>]) -> Vec<&[u8]> {
    lines.iter().map(Vec::as_slice).collect()
}

fn check_range(input: &[u8]) -> Result<String, String> {
    let value = lines(input).concat();
    let mut kind = String::new();
    for size in [0, 1, 2, 50, 300 * 1024, u64::MAX - 1, u64::MAX] {
        let found = range::parse(&value, size);
        let parts = match &found {
            Ranges::One(one) => vec![*one],
            Ranges::Several(parts) => {
                ensure!((2..=16).contains(&parts.len()), "{} parts of {size}", parts.len());
                parts.clone()
            }
            Ranges::Whole | Ranges::Unsatisfiable => Vec::new(),
        };
        let within = parts.iter().all(|part| part.start < part.end && part.end <= size);
        ensure!(within, "{parts:?} of {size}");
        let total: u128 = parts.iter().map(|part| u128::from(part.len())).sum();
        ensure!(total <= u128::from(size), "{total} bytes of {size}");
        let expected = match ranges::read(&value, size) {
            Set::Ignored => Ranges::Whole,
            Set::Unsatisfiable => Ranges::Unsatisfiable,
            Set::Parts(parts) => {
                let part =
                    |part: &std::ops::Range<u64>| range::ByteRange { start: part.start, end: part.end };
                match parts.iter().map(part).collect::<Vec<_>>()[..] {
                    [one] => Ranges::One(one),
                    ref parts => Ranges::Several(parts.to_vec()),
                }
            }
        };
        ensure!(found == expected, "{found:?} instead of {expected:?} of {size}");
        kind.push_str(&match found {
            Ranges::Whole => "w".to_owned(),
            Ranges::Unsatisfiable => "u".to_owned(),
            _ => parts.len().to_string(),
        });
    }
    Ok(kind)
}

#[test]
fn range_fields() {
    let target = Target {
        name: "ranges",
        inputs: 40_000,
        seeds: seeds(&[
            "bytes=0-0",
            "bytes=-5",
            "bytes=0-0,-1",
            "bytes=18446744073709551615-",
            "bytes=5-2",
            "lines=0-1",
        ]),
        words: &[
            "bytes=",
            "-",
            ",",
            "0-",
            "-1",
            "49",
            "50",
            "18446744073709551615",
            "18446744073709551616",
            " ",
            "\t",
            "a",
        ],
        make: |random| {
            let spec = |random: &mut Random| match random.below(3) {
                0 => format!("{}-{}", random.number(), random.number()),
                1 => format!("{}-", random.number()),
                _ => format!("-{}", random.number()),
            };
            let between = random.of(&[",", ", ", " ,", ",,"]);
            let most = random.of(&[&2, &5, &20]);
            format!("bytes={}", random.several(*most, between, spec)).into_bytes()
        },
        kinds_min: 30,
    };
    engine::run(&target, &check_range);
}

fn check_encoding(input: &[u8]) -> Result<String, String> {
    let lines = lines(input);
    let wanted = Wanted::of(lines.iter().map(Vec::as_slice));
    let found: Vec<&str> = wanted.codings().iter().map(|coding| coding.name()).collect();
    let expected: Vec<&str> =
        codings::order(&borrowed(&lines)).iter().map(|number| CODINGS[*number].0).collect();
    ensure!(found == expected, "{found:?} instead of {expected:?}");
    // One line with commas is the same field.
    let joined = lines.join(&b',');
    ensure!(Wanted::of(std::iter::once(joined.as_slice())) == wanted, "joined it is another list");
    Ok(found.join(" "))
}

#[test]
fn accept_encoding() {
    let target = Target {
        name: "accept-encoding",
        inputs: 60_000,
        seeds: seeds(&[
            "gzip, deflate, br, zstd",
            "*;q=0",
            "identity;q=0.5\ngzip;q=0.5",
            "br;q=1.000 , x-gzip;Q=0.3",
            "gzip\n\nbr",
        ]),
        words: &[
            "br", "zstd", "gzip", "x-gzip", "identity", "*", ";q=", ";", ",", "0.", "1.000", "0.001", "\n",
            " ", "\t", "Q",
        ],
        make: |random| {
            let coding = |random: &mut Random| {
                let name = random.of(&["br", "zstd", "gzip", "x-gzip", "identity", "*", "deflate", "GZIP"]);
                let weight = random.of(&[
                    "",
                    "",
                    ";q=0",
                    ";q=1",
                    ";q=0.5",
                    " ; q=0.25",
                    ";q=0.501",
                    ";Q=1.00",
                    ";q=2",
                ]);
                format!("{name}{weight}")
            };
            let between = random.of(&[", ", ",", "\n", ",,"]);
            random.several(6, between, coding).into_bytes()
        },
        kinds_min: 15,
    };
    engine::run(&target, &check_encoding);
}

fn make_date(random: &mut Random) -> String {
    const YEARS_10_000: u64 = 315_569_520_000;
    let seconds = i64::try_from(random.next() % YEARS_10_000).unwrap() - 62_167_219_200;
    let seconds = seconds.min(253_402_300_799);
    let form = *random.of(&[&Form::Imf, &Form::Rfc850, &Form::Asctime]);
    dates::print(seconds, form)
}

fn check_date(input: &[u8]) -> Result<String, String> {
    // Any number is a time, however far away: nothing overflows.
    let number = input.iter().fold(0_i64, |sum, byte| sum.wrapping_mul(257).wrapping_add(i64::from(*byte)));
    let (log_time, rfc3339) = (date::common_log(number), date::rfc3339(number, 0));
    ensure!(log_time.len() >= 26 && rfc3339.ends_with('Z'), "{log_time} {rfc3339}");
    let value = lines(input).concat();
    for now_s in [NOW_S, 0, -1, 4_102_444_800] {
        let found = date::parse_http_date(&value, now_s);
        let expected = dates::read(&value, now_s);
        ensure!(found == expected, "{found:?} instead of {expected:?} at {now_s}");
    }
    let Some(seconds) = date::parse_http_date(&value, NOW_S) else { return Ok("none".to_owned()) };
    let written = date::http_date(seconds);
    // The last leap second of 9999 has no form of its own.
    let Some(written) = written else { return Ok("beyond".to_owned()) };
    ensure!(written.len() == date::HTTP_DATE_BYTES, "{written}");
    ensure!(written == dates::print(seconds, Form::Imf), "{written}");
    ensure!(date::parse_http_date(written.as_bytes(), 0) == Some(seconds), "{written} is another time");
    Ok(format!("{} {}", value.len(), &written[12..14]))
}

#[test]
fn http_dates() {
    let target = Target {
        name: "dates",
        inputs: 20_000,
        seeds: seeds(&[
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Sat, 31 Dec 2016 23:59:60 GMT",
            "Wed, 29 Feb 2000 00:00:00 GMT",
        ]),
        words: &[
            "GMT", "Sun", "Monday", "Feb", "29", "31", "00", "24:00:00", "23:59:60", ", ", "-", " ", "  ",
            "1900", "0000", "9999",
        ],
        make: |random| make_date(random).into_bytes(),
        kinds_min: 30,
    };
    engine::run(&target, &check_date);
}

const TAG: &str = "\"32-5f-1\"";
const MODIFIED_S: i64 = 784_111_777;

fn check_conditions(input: &[u8]) -> Result<String, String> {
    let lines = lines(input);
    let fields: Vec<(String, &[u8])> = lines
        .iter()
        .filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            Some((String::from_utf8(line[..colon].to_vec()).ok()?, tags::trim(&line[colon + 1..])))
        })
        .collect();
    let fields = Fields(fields.iter().map(|(name, value)| (name.as_str(), *value)).collect());
    let mut kind = String::new();
    for (tag, modified_s) in [
        (Some(TAG), Some(MODIFIED_S)),
        (None, None),
        (Some("\"\""), Some(-1)),
        (Some("W/\"32-5f-1\""), None),
        (None, Some(NOW_S)),
    ] {
        let (if_match, if_none_match) = (fields.lines("if-match"), fields.lines("if-none-match"));
        let asked = Conditions {
            if_match: &if_match,
            if_none_match: &if_none_match,
            if_modified_since: fields.once("if-modified-since"),
            if_unmodified_since: fields.once("if-unmodified-since"),
            if_range: fields.once("if-range"),
        };
        let ours = conditional::Validators { tag, modified_s, now_s: NOW_S };
        let found = conditional::evaluate(&asked, &ours);
        let known = Validators { tag: tag.map(str::to_owned), modified_s, now_s: NOW_S };
        let expected = match conditions::evaluate(&fields, &known) {
            conditions::Outcome::NotModified => conditional::Outcome::NotModified,
            conditions::Outcome::Failed => conditional::Outcome::Failed,
            // One that stands twice is the handler's business.
            conditions::Outcome::Goes { .. } if fields.lines("if-range").len() > 1 => {
                conditional::Outcome::Proceed { range_counts: true }
            }
            conditions::Outcome::Goes { range_counts } => conditional::Outcome::Proceed { range_counts },
        };
        ensure!(found == expected, "{found:?} instead of {expected:?} for {tag:?}, {modified_s:?}");
        kind.push_str(match found {
            conditional::Outcome::NotModified => "n",
            conditional::Outcome::Failed => "f",
            conditional::Outcome::Proceed { range_counts: true } => "p",
            conditional::Outcome::Proceed { range_counts: false } => "q",
        });
    }
    Ok(kind)
}

#[test]
fn conditions_and_tags() {
    let target = Target {
        name: "conditions",
        inputs: 20_000,
        seeds: seeds(&[
            "If-Match: \"32-5f-1\"",
            "If-None-Match: W/\"32-5f-1\", \"z\"\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
            "If-Match: *\nIf-Match: \"a\"",
            "If-Range: Sun, 06 Nov 1994 08:49:37 GMT",
            "If-Unmodified-Since: Sunday, 06-Nov-94 08:49:36 GMT",
        ]),
        words: &[
            "\"32-5f-1\"",
            "W/",
            "\"",
            "*",
            ", ",
            "\n",
            "If-Match: ",
            "If-None-Match: ",
            "If-Range: ",
            "\"\"",
            "\u{e9}",
            "\t",
        ],
        make: |random| {
            let line = |random: &mut Random| {
                let tag = |random: &mut Random| {
                    random.of(&[TAG, "W/\"32-5f-1\"", "\"\"", "\"z\"", "*", "\"a,b\"", "x"]).to_owned()
                };
                let near = dates::print(MODIFIED_S - 1 + i64::try_from(random.below(3)).unwrap(), Form::Imf);
                let date = if random.once_in(3) { make_date(random) } else { near };
                match random.below(5) {
                    0 => format!("If-Match: {}", random.several(3, ", ", tag)),
                    1 => format!("if-none-match: {}", random.several(3, ",", tag)),
                    2 => format!("If-Modified-Since: {date}"),
                    3 => format!("If-Unmodified-Since: {date}"),
                    _ if random.once_in(2) => format!("If-Range: {date}"),
                    _ => format!("If-Range: {}", tag(random)),
                }
            };
            random.several(4, "\n", line).into_bytes()
        },
        kinds_min: 20,
    };
    engine::run(&target, &check_conditions);
}

fn check_accept(input: &[u8]) -> Result<String, String> {
    let lines = lines(input);
    let asks = |accept: &[&[u8]]| is_navigation(&Asking { sec_fetch_mode: None, accept });
    let found = asks(&borrowed(&lines));
    let joined = lines.join(&b',');
    ensure!(asks(&[&joined]) == found, "joined it is another list");
    ensure!(asks(&[&joined.to_ascii_uppercase()]) == found, "in capitals it is another list");
    let names_html = joined.to_ascii_lowercase();
    let names_html = names_html.windows(4).any(|window| window == b"html");
    ensure!(names_html || !found, "a navigation that never names HTML");
    ensure!(asks(&[&joined, b"text/html"]), "HTML at the end is not seen");
    // What the browser says counts, whatever Accept is.
    for (mode, expected) in [(b"navigate" as &[u8], true), (b"cors", false)] {
        let asking = Asking { sec_fetch_mode: Some(mode), accept: &borrowed(&lines) };
        ensure!(is_navigation(&asking) == expected, "Sec-Fetch-Mode does not count");
    }
    Ok(format!("{found} {} {}", may_be_page(input), lines.len().min(5)))
}

#[test]
fn accept() {
    let target = Target {
        name: "accept",
        inputs: 25_000,
        seeds: seeds(&[
            "text/html,application/xhtml+xml,*/*;q=0.8",
            "application/json\ntext/html;q=0",
            "*/*",
        ]),
        words: &["text/html", "application/xhtml+xml", ";q=", "0", "0.0", "1", ",", ";", "\n", "*/*", " "],
        make: |random| {
            let kind = |random: &mut Random| {
                let name =
                    random.of(&["text/html", "TEXT/HTML", "*/*", "text/*", "application/xhtml+xml", "a/b"]);
                let weight = random.of(&["", ";q=0", ";q=0.5", " ; q=0.000", ";a=b;q=0"]);
                format!("{name}{weight}")
            };
            let between = random.of(&[", ", ",", "\n"]);
            random.several(5, between, kind).into_bytes()
        },
        kinds_min: 8,
    };
    engine::run(&target, &check_accept);
}
