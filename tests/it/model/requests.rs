//! Requests as proptest makes them: fields that are right, nearly right and wrong, relative to a file.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::codings::CODINGS;
use super::dates::{self, Form};
use super::files::{File, Version};

/// One request before its file is known.
#[derive(Clone, Debug)]
pub struct Plan {
    pub file: usize,
    method: &'static str,
    fields: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    Tags(&'static str, Vec<Tag>, &'static str),
    Date(&'static str, Date),
    IfRangeTag(Tag),
    Range(&'static str, Vec<Spec>, &'static str),
    /// So many single bytes with a gap between them.
    ManyRanges(u64),
    AcceptEncoding(Vec<(&'static str, &'static str)>, &'static str),
    Other(&'static str),
}

#[derive(Clone, Debug)]
enum Tag {
    /// Of the original (3) or of a coding.
    Of(usize),
    Weak(usize),
    Literal(&'static str),
}

#[derive(Clone, Debug)]
enum Date {
    /// Seconds from the time of the original (3) or of a coding.
    Near(usize, i64, Form),
    At(i64, Form),
    Literal(&'static str),
}

#[derive(Clone, Debug)]
enum Spec {
    /// Two numbers, each relative to the size or to 0.
    Two(Number, Number),
    From(Number),
    Last(Number),
    Literal(&'static str),
}

#[derive(Clone, Debug)]
enum Number {
    FromStart(u64),
    FromEnd(i64),
    Literal(&'static str),
}

/// One request, as literal bytes.
#[derive(Clone)]
pub struct Request {
    pub file: usize,
    pub method: &'static str,
    pub bytes: String,
}

impl Plan {
    pub fn request(&self, files: &[File]) -> Request {
        let file = &files[self.file];
        let fields: String = self.fields.iter().map(|part| format!("{}\r\n", part.line(file))).collect();
        let length = if self.method == "POST" { "Content-Length: 0\r\n" } else { "" };
        let bytes = format!("{} /{} HTTP/1.1\r\nHost: a\r\n{fields}{length}\r\n", self.method, file.name);
        Request { file: self.file, method: self.method, bytes }
    }
}

/// The original (3) or what there is for a coding.
fn version(file: &File, which: usize) -> &Version {
    file.sidecars.get(which).and_then(Option::as_ref).unwrap_or(&file.original)
}

impl Part {
    fn line(&self, file: &File) -> String {
        match self {
            Part::Tags(name, tags, between) => {
                let tags: Vec<String> = tags.iter().map(|tag| tag.text(file)).collect();
                format!("{name}: {}", tags.join(between))
            }
            Part::Date(name, date) => format!("{name}: {}", date.text(file)),
            Part::IfRangeTag(tag) => format!("If-Range: {}", tag.text(file)),
            Part::Range(unit, specs, between) => {
                let specs: Vec<String> = specs.iter().map(|spec| spec.text(file)).collect();
                format!("Range: {unit}{}", specs.join(between))
            }
            Part::ManyRanges(count) => {
                let specs: Vec<String> = (0..*count).map(|at| format!("{0}-{0}", at * 2)).collect();
                format!("Range: bytes={}", specs.join(","))
            }
            Part::AcceptEncoding(elements, between) => {
                let elements: Vec<String> =
                    elements.iter().map(|(coding, weight)| format!("{coding}{weight}")).collect();
                format!("Accept-Encoding: {}", elements.join(between))
            }
            Part::Other(line) => (*line).to_owned(),
        }
    }
}

impl Tag {
    fn text(&self, file: &File) -> String {
        let of =
            |which: usize| version(file, which).tag(CODINGS.get(which).map_or("", |(_, _, suffix)| suffix));
        match self {
            Tag::Of(which) => of(*which),
            Tag::Weak(which) => format!("W/{}", of(*which)),
            Tag::Literal(text) => (*text).to_owned(),
        }
    }
}

impl Date {
    fn text(&self, file: &File) -> String {
        match self {
            Date::Near(which, later, form) => dates::print(version(file, *which).seconds + later, *form),
            Date::At(seconds, form) => dates::print(*seconds, *form),
            Date::Literal(text) => (*text).to_owned(),
        }
    }
}

impl Spec {
    fn text(&self, file: &File) -> String {
        let size = file.original.content.len() as u64;
        match self {
            Spec::Two(first, last) => format!("{}-{}", first.text(size), last.text(size)),
            Spec::From(first) => format!("{}-", first.text(size)),
            Spec::Last(suffix) => format!("-{}", suffix.text(size)),
            Spec::Literal(text) => (*text).to_owned(),
        }
    }
}

impl Number {
    fn text(&self, size: u64) -> String {
        match self {
            Number::FromStart(number) => number.to_string(),
            Number::FromEnd(number) => size.saturating_add_signed(*number).to_string(),
            Number::Literal(text) => (*text).to_owned(),
        }
    }
}

pub fn plan(files: usize) -> impl Strategy<Value = Plan> {
    let method = prop_oneof![20 => Just("GET"), 6 => Just("HEAD"), 1 => Just("OPTIONS"), 1 => Just("POST")];
    let fields = prop_oneof![3 => vec(part(), 0..5), 1 => both_kinds()];
    (0..files, method, fields).prop_map(|(file, method, fields)| Plan { file, method, fields })
}

/// A tag and a date of the same representation, of which only one counts (§13.2.2), and a range.
fn both_kinds() -> impl Strategy<Value = Vec<Part>> {
    let tags = (select(vec!["If-Match", "If-None-Match"]), select(vec![Tag::Of(3), Tag::Literal("\"z\"")]));
    let tags = tags.prop_map(|(name, tag)| Part::Tags(name, vec![tag], ""));
    let dates = (select(vec!["If-Unmodified-Since", "If-Modified-Since"]), -1..=1_i64);
    let dates = dates.prop_map(|(name, later)| Part::Date(name, Date::Near(3, later, Form::Imf)));
    (tags, dates, proptest::option::of(range()))
        .prop_map(|(tags, date, range)| [Some(tags), Some(date), range].into_iter().flatten().collect())
}

fn part() -> impl Strategy<Value = Part> {
    let lists = select(vec!["If-Match", "If-None-Match", "if-none-match"]);
    let dates = select(vec!["If-Modified-Since", "If-Unmodified-Since", "If-Range"]);
    let between = || select(vec![", ", ",", " ,\t", ",,", " "]);
    prop_oneof![
        3 => (lists, vec(tag(), 0..4), between()).prop_map(|(name, tags, between)| Part::Tags(name, tags, between)),
        3 => (dates, date()).prop_map(|(name, date)| Part::Date(name, date)),
        2 => tag().prop_map(Part::IfRangeTag),
        5 => range(),
        4 => accept_encoding(),
        1 => select(vec![
            "X: y", "Range:", "If-Match:", "If-None-Match:", "Accept-Encoding:", "If-None-Match: *", "If-Match: *",
            "If-Range: *", "Range: bytes", "Accept-Ranges: none", "Cache-Control: no-cache",
        ]).prop_map(Part::Other),
    ]
}

fn tag() -> impl Strategy<Value = Tag> {
    let literals = vec![
        "*",
        "\"\"",
        "\"z\"",
        "W/\"z\"",
        "\"a,b\"",
        "z",
        "",
        "\"open",
        "w/\"z\"",
        "W/",
        "\"a b\"",
        "\"\u{e9}\"",
        "W/*",
    ];
    let which = || 0..4_usize;
    prop_oneof![
        3 => which().prop_map(Tag::Of),
        1 => Just(Tag::Of(3)),
        2 => which().prop_map(Tag::Weak),
        2 => select(literals).prop_map(Tag::Literal),
    ]
}

fn date() -> impl Strategy<Value = Date> {
    let form = || select(vec![Form::Imf, Form::Rfc850, Form::Asctime]);
    let literals = vec![
        "",
        "784111777",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 +0000",
        "sun, 06 nov 1994 08:49:37 gmt",
        "Mon, 06 Nov 1994 08:49:37 GMT",
        "Sun,  06 Nov 1994 08:49:37 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sat, 31 Dec 2016 23:59:60 GMT",
        "Sat, 31 Dec 2016 23:58:60 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Thursday, 01-Jan-76 00:00:00 GMT",
        "Thursday, 01-Jan-77 00:00:00 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sun, 06-Nov-94 08:49:37 GMT",
        "Sun Nov 06 08:49:37 1994",
        "Sun Nov 6 08:49:37 1994",
        "Sun Nov  6 08:49:37 1994 GMT",
        "Wed, 29 Feb 1995 00:00:00 GMT",
        "\"z\"",
    ];
    let later = select(vec![0, 0, 0, 1, -1, 3600, -86_400, 31_536_000, -315_360_000]);
    let times =
        vec![-400_000_000, -1, 0, 157_939_200, 951_782_400, 2_000_000_000, 4_300_000_000, -62_000_000_000];
    prop_oneof![
        6 => (0..4_usize, later, form()).prop_map(|(which, later, form)| Date::Near(which, later, form)),
        2 => (select(times), form()).prop_map(|(at, form)| Date::At(at, form)),
        3 => select(literals).prop_map(Date::Literal),
    ]
}

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        4 => (0..12_u64).prop_map(Number::FromStart),
        3 => (-3..3_i64).prop_map(Number::FromEnd),
        1 => (0..400_000_u64).prop_map(Number::FromStart),
        1 => select(vec![
            "18446744073709551615", "18446744073709551616", "99999999999999999999999", "00000000000000000000000003",
            "007", "+1", "0x1", "a", "1.5",
        ]).prop_map(Number::Literal),
    ]
}

fn range() -> impl Strategy<Value = Part> {
    let spec = || {
        prop_oneof![
            5 => (number(), number()).prop_map(|(first, last)| Spec::Two(first, last)),
            3 => number().prop_map(Spec::From),
            3 => number().prop_map(Spec::Last),
            1 => select(vec!["", "-", "--1", "1-2-3", " 0-0", "0 - 1", "0", "0-1;2-3", "\t1-1\t"]).prop_map(Spec::Literal),
        ]
    };
    let unit = prop_oneof![
        16 => Just("bytes="),
        1 => select(vec!["Bytes=", "BYTES=", "bytes =", "bytes= ", "lines=", "bytes", "", "none", "bytes=bytes=", "="]),
    ];
    let specs = prop_oneof![3 => vec(spec(), 1..2), 2 => vec(spec(), 0..5)];
    let between = select(vec![",", ", ", " ,", ",,"]);
    prop_oneof![
        9 => (unit, specs, between).prop_map(|(unit, specs, between)| Part::Range(unit, specs, between)),
        // Several that are there and lie apart, which numbers by chance seldom are.
        3 => select(vec!["bytes=0-0,-1", "bytes=2-3, 0-1", "bytes=-2,0-3,5-6", "bytes=0-0,70-75,900000-"])
            .prop_map(|value| Part::Range(value, Vec::new(), "")),
        1 => (15..19_u64).prop_map(Part::ManyRanges),
    ]
}

fn accept_encoding() -> impl Strategy<Value = Part> {
    let codings = vec![
        "br", "br", "zstd", "zstd", "gzip", "gzip", "x-gzip", "GZip", "*", "identity", "deflate", "zst", "",
        "gz ip", "\"br\"",
    ];
    let weights = vec![
        "",
        "",
        "",
        ";q=1",
        ";q=0",
        ";q=0.5",
        " ; q=0.5",
        ";Q=0.25",
        ";q=0.001",
        ";q=0.0001",
        ";q=1.000",
        ";q=1.1",
        ";q=",
        ";q=0.",
        ";level=1",
        ";q=-1",
        ";q=0.5;q=0.5",
    ];
    let between = select(vec![", ", ",", ",,", " , "]);
    let elements = prop_oneof![
        2 => vec((select(codings), select(weights)), 0..5),
        1 => Just(vec![("gzip", ""), ("br", ""), ("zstd", "")]),
    ];
    (elements, between).prop_map(|(elements, between)| Part::AcceptEncoding(elements, between))
}
