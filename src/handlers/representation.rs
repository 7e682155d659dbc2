//! What a file answers: 200, 206, 304, 412 or 416, and the fields that describe it (RFC 9110 §8, §13,
//! §14). Decided from plain values; the bytes are read later, by the engine.

mod asked;

pub use asked::{Asked, OwnedAsked};

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::fs::read::Shared;
use crate::fs::{OpenFile, content_tag};
use crate::message::{Body, Fields, Parts, Reply};
use crate::semantics::conditional::{self, Outcome, Validators};
use crate::semantics::encoding::Coding;
use crate::semantics::range::{self, ByteRange, Ranges};
use crate::semantics::{date, etag};
use crate::sys::clock;
use crate::sys::file::Stat;

/// What the bytes of a file are, beyond the file itself.
#[derive(Clone, Copy, Debug)]
pub struct Form<'a> {
    /// Type of the original, whatever coding was chosen.
    pub content_type: &'a str,
    /// Whether Accept-Encoding had a say (RFC 9110 §12.5.5): also where identity was chosen.
    pub is_negotiated: bool,
    /// Coding of the bytes.
    pub coding: Option<Coding>,
}

/// What describes a file as it is sent.
struct Facts {
    tag: Option<String>,
    modified_s: Option<i64>,
    modified: Option<String>,
    now_s: i64,
}

impl Facts {
    /// Of a file; `of_form` makes the tag of what is sent from that of the file.
    fn of(stat: &Stat, of_form: impl FnOnce(String) -> String) -> Facts {
        let now_s = clock::wall_coarse().0;
        let tag = etag::of_file(stat.size, stat.mtime_s, stat.mtime_ns)
            .or_else(|| content_tag::known(stat).map(|hash| etag::of_content(&hash)))
            .map(of_form);
        // RFC 9110 §8.8.2.1: never later than Date; a flattened time says nothing (case B08).
        let is_honest = !etag::is_flattened(stat.mtime_s) && stat.mtime_s <= now_s;
        let modified_s = is_honest.then_some(stat.mtime_s);
        Facts { tag, modified_s, modified: modified_s.and_then(date::http_date), now_s }
    }

    /// Of a file in the coding of its form.
    fn of_form(stat: &Stat, form: &Form<'_>) -> Facts {
        Facts::of(stat, |tag| match form.coding {
            Some(coding) => etag::of_coding(&tag, coding.tag_suffix()),
            None => tag,
        })
    }

    /// Of what is made of a file on the fly.
    fn of_made(stat: &Stat, form: &Form<'_>) -> Facts {
        let suffix = form.coding.map(Coding::tag_suffix).unwrap_or_default();
        Facts::of(stat, |tag| etag::of_made_coding(&tag, suffix))
    }

    /// The answer where the conditions decide it; else whether a range counts.
    fn settled(&self, pairs: &[(&str, &str)], asked: &Asked<'_>) -> ControlFlow<Reply, bool> {
        let validators =
            Validators { tag: self.tag.as_deref(), modified_s: self.modified_s, now_s: self.now_s };
        match conditional::evaluate(&asked.conditions(), &validators) {
            Outcome::NotModified => ControlFlow::Break(Reply::bodiless(304, Fields::of(pairs))),
            Outcome::Failed => ControlFlow::Break(Reply::plain_with(412, pairs)),
            Outcome::Proceed { range_counts } => ControlFlow::Continue(range_counts),
        }
    }
}

/// What a version answers for as long as it is there.
#[derive(Clone, Debug)]
pub struct Lasting {
    tag: Option<Box<str>>,
    modified_s: Option<i64>,
}

/// What lasts of `file`, if it does: a time that is yet to come will be sent when it has, a tag that could
/// not be had may be had later.
#[must_use]
pub fn lasting(file: &OpenFile, form: Form<'_>) -> Option<Lasting> {
    let stat = file.stat();
    let Facts { tag, modified_s, .. } = Facts::of_form(stat, &form);
    let is_known = tag.is_some() || !content_tag::is_wanted(stat);
    let is_past = modified_s.is_some() || etag::is_flattened(stat.mtime_s);
    (is_known && is_past).then(|| Lasting { tag: tag.map(String::into_boxed_str), modified_s })
}

impl Lasting {
    /// What the conditions of a request come to.
    #[must_use]
    pub fn outcome(&self, asked: &Asked<'_>) -> Outcome {
        if !asked.has_conditions() {
            return Outcome::Proceed { range_counts: asked.if_range.is_none() };
        }
        let now_s = clock::wall_coarse().0;
        let validators = Validators { tag: self.tag.as_deref(), modified_s: self.modified_s, now_s };
        conditional::evaluate(&asked.conditions(), &validators)
    }

    /// The fields of a 304.
    #[must_use]
    pub fn unchanged(&self, form: &Form<'_>) -> Fields {
        Fields::of(&pairs(self.tag.as_deref(), form))
    }
}

/// The fields that 304 and 412 have too.
fn pairs<'a>(tag: Option<&'a str>, form: &Form<'_>) -> Vec<(&'static str, &'a str)> {
    let mut pairs = Vec::with_capacity(8);
    pairs.extend(form.is_negotiated.then_some(("Vary", "Accept-Encoding")));
    pairs.extend(tag.map(|tag| ("ETag", tag)));
    pairs
}

/// The answer to a request for `file` in a coding that is made on the fly, where its conditions decide
/// it.
#[must_use]
pub fn made_is_settled(file: &OpenFile, form: Form<'_>, asked: &Asked<'_>) -> Option<Reply> {
    let facts = Facts::of_made(file.stat(), &form);
    facts.settled(&pairs(facts.tag.as_deref(), &form), asked).break_value()
}

/// The answer that `file` gives in a coding that was made of it: `bytes`. It has no parts, and says
/// nothing of any (case C06).
#[must_use]
pub fn made(file: &OpenFile, bytes: Arc<[u8]>, form: Form<'_>, asked: &Asked<'_>) -> Reply {
    let facts = Facts::of_made(file.stat(), &form);
    let mut pairs = pairs(facts.tag.as_deref(), &form);
    if let ControlFlow::Break(reply) = facts.settled(&pairs, asked) {
        return reply;
    }
    pairs.extend(facts.modified.as_deref().map(|date| ("Last-Modified", date)));
    pairs.extend(form.coding.map(|coding| ("Content-Encoding", coding.name())));
    pairs.push(("Content-Type", form.content_type));
    Reply { status: 200, fields: Fields::of(&pairs), body: Body::Kept(bytes) }
}

/// The answer that `file` gives. `content` is all of it, where the pool has read it already.
#[must_use]
pub fn reply(file: Shared, content: Option<Vec<u8>>, form: Form<'_>, asked: &Asked<'_>) -> Reply {
    let stat = *file.stat();
    let facts = Facts::of_form(&stat, &form);
    let mut pairs = pairs(facts.tag.as_deref(), &form);
    let range_counts = match facts.settled(&pairs, asked) {
        ControlFlow::Continue(range_counts) => range_counts,
        ControlFlow::Break(reply) => return reply,
    };
    pairs.extend(facts.modified.as_deref().map(|date| ("Last-Modified", date)));
    pairs.push(("Accept-Ranges", "bytes"));
    let content_type = form.content_type;
    let ranges = match asked.range.filter(|_| range_counts) {
        // Content-Encoding beside multipart/byteranges would make a client decode text around the parts.
        Some(value) => match range::parse(value, stat.size) {
            Ranges::Several(_) if form.coding.is_some() => Ranges::Whole,
            ranges => ranges,
        },
        None => Ranges::Whole,
    };
    if matches!(ranges, Ranges::Whole | Ranges::One(_)) {
        pairs.extend(form.coding.map(|coding| ("Content-Encoding", coding.name())));
    }
    match ranges {
        Ranges::Whole => {
            pairs.push(("Content-Type", content_type));
            let whole = ByteRange { start: 0, end: stat.size };
            Reply { status: 200, fields: Fields::of(&pairs), body: body(file, content, whole) }
        }
        Ranges::One(part) => {
            let content_range = content_range(part, stat.size);
            pairs.extend([("Content-Type", content_type), ("Content-Range", &content_range)]);
            Reply { status: 206, fields: Fields::of(&pairs), body: body(file, content, part) }
        }
        Ranges::Several(parts) => several(file, content.as_deref(), &parts, content_type, &pairs),
        Ranges::Unsatisfiable => {
            let content_range = format!("bytes */{}", stat.size);
            pairs.push(("Content-Range", &content_range));
            Reply::plain_with(416, &pairs)
        }
    }
}

fn body(file: Shared, content: Option<Vec<u8>>, part: ByteRange) -> Body {
    match content {
        None => Body::File(file, part),
        Some(mut content) => {
            // Content is at most 128 KiB, and the part lies within it.
            let bound = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(content.len());
            let (start, end) = (bound(part.start), bound(part.end));
            content.truncate(end);
            content.drain(..start);
            Body::Owned(content)
        }
    }
}

fn content_range(part: ByteRange, size: u64) -> String {
    format!("bytes {}-{}/{size}", part.start, part.end - 1)
}

/// RFC 9110 §15.3.7.2: each part with its type and range, nothing about ranges in the head itself.
fn several(
    file: Shared,
    content: Option<&[u8]>,
    ranges: &[ByteRange],
    content_type: &str,
    pairs: &[(&str, &str)],
) -> Reply {
    let (size, boundary) = (file.stat().size, boundary());
    let mut parts = Vec::with_capacity(ranges.len());
    for (number, part) in ranges.iter().enumerate() {
        let break_before = if number == 0 { "" } else { "\r\n" };
        let content_range = content_range(*part, size);
        let before = format!(
            "{break_before}--{boundary}\r\nContent-Type: {content_type}\r\nContent-Range: {content_range}\r\n\r\n"
        );
        parts.push((before.into_bytes(), *part));
    }
    let end = format!("\r\n--{boundary}--\r\n").into_bytes();
    let multipart = format!("multipart/byteranges; boundary={boundary}");
    let fields = Fields::of(&[pairs, &[("Content-Type", multipart.as_str())]].concat());
    let body = match content {
        None => Body::Parts(Box::new(Parts { file, parts, end })),
        Some(content) => {
            let mut bytes = Vec::new();
            for (before, part) in &parts {
                let bound = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(content.len());
                bytes.extend_from_slice(before);
                bytes.extend_from_slice(&content[bound(part.start)..bound(part.end)]);
            }
            bytes.extend_from_slice(&end);
            Body::Owned(bytes)
        }
    };
    Reply { status: 206, fields, body }
}

/// A line that a file does not hold by chance (RFC 2046 §5.1.1): the clock and a count, mixed by the
/// finaliser of splitmix64, so that nobody knows it beforehand.
fn boundary() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mix = |mut word: u64| {
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    };
    let count = COUNT.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    let high = mix(clock::monotonic_us() ^ count);
    format!("{high:016x}{:016x}", mix(high ^ count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{Chosen, Found, Links, Root, Sought, View};
    use crate::offload::Offload;

    /// The file `x` of 50 bytes, as the pool brings it: open, and with its content.
    fn from_pool() -> (OpenFile, Vec<u8>) {
        let directory = std::env::temp_dir().join(format!("scalws-representation-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("x"), (0..50).collect::<Vec<u8>>()).unwrap();
        let root = Root::open(&directory, Links::Inside, Offload::start(1, 10).unwrap()).unwrap();
        let sought = [b"none" as &[u8], b"x"].map(|path| Sought { path: path.to_vec(), endings: Vec::new() });
        let found = View::new(&root).open_in_pool(sought.to_vec()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        match runtime.block_on(found) {
            Ok((1, Chosen { found: Found::File(file, Some(content)), sidecar: None, .. })) => (file, content),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn parts_of_what_the_pool_has_read_are_cut_from_it() {
        let check = |range: &str, status: u16, expected: &dyn Fn(&[u8]) -> bool| {
            let (file, content) = from_pool();
            let form = Form { content_type: "text/css", is_negotiated: false, coding: None };
            let mut asked = Asked::default();
            asked.range = Some(range.as_bytes());
            let reply = reply(Arc::new(file), Some(content), form, &asked);
            let Body::Owned(body) = &reply.body else { panic!("{:?}", reply.body) };
            assert_eq!(reply.status, status, "{range}");
            assert!(expected(body), "{range}: {body:?}");
        };
        check("bytes=10-19", 206, &|body| body == (10..20).collect::<Vec<u8>>());
        check("bytes=0-0,49-", 206, &|body| {
            let text = body.escape_ascii().to_string();
            text.contains("Content-Range: bytes 0-0/50\\r\\n\\r\\n\\x00\\r\\n--")
                && text.contains("Content-Range: bytes 49-49/50\\r\\n\\r\\n1\\r\\n--")
                && text.ends_with("--\\r\\n")
        });
        check("bytes=9-5", 200, &|body| body.len() == 50);
    }
}
