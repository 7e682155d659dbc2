//! The list of a directory that has no index, as HTML or JSON. What is in it, `fs::listing` says; here it
//! is sorted and written down, in the pool (docs/adr/0023-listings.md).

use std::cmp::Ordering;
use std::rc::Rc;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::config::checked;
use crate::fs::{Chosen, Entries, Entry, OrListed, Sought, View, Wanted};
use crate::handlers::miss;
use crate::handlers::representation::OwnedAsked;
use crate::limits::Limits;
use crate::message::{Answer, Body, Fields, Reply, Request};
use crate::semantics::conditional::{self, Outcome, Validators};
use crate::semantics::escape::{push_html, push_link};
use crate::semantics::path::SafePath;
use crate::semantics::{accept, date, etag};

const STYLE: &str = include_str!("listing.css");
/// Nothing of a listing runs or loads, even if a name broke out of its place; its one style is known by its
/// hash (CSP level 3, §2.3.1), which a test compares.
const POLICY: &str = "default-src 'none'; style-src 'sha256-Nt9A3NGiD+Adj2kpE45JW5teragFYoMotE+I9gzHu9E='; base-uri 'none'; form-action 'none'";
/// The years that RFC 3339 can write, 0 to 9999, in seconds since the epoch.
const YEARS: std::ops::Range<i64> = -62_167_219_200..253_402_300_800;

/// Listings of a route where they are on.
#[derive(Debug)]
pub struct Listing {
    entries_max: usize,
    /// The route's own `headers` say nothing of caches.
    has_cache_control: bool,
}

impl Listing {
    /// From its slices of the config; `None` where listings are off.
    #[must_use]
    pub fn new(
        config: &checked::Static,
        limits: &Limits,
        headers: &[(String, String)],
    ) -> Option<Rc<Listing>> {
        let entries_max = usize::try_from(limits.listing_entries_max).unwrap_or(usize::MAX);
        let has_cache_control = !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("cache-control"));
        config.listing.then(|| Rc::new(Listing { entries_max, has_cache_control }))
    }

    /// What is asked for at `path`, of which `relative` is beneath the root.
    pub(super) fn page(&self, request: &Request<'_>, path: &SafePath<'_>, relative: &[u8]) -> Page {
        Page {
            wanted: Wanted {
                path: relative.to_vec(),
                is_top: path.decoded().is_empty(),
                entries_max: self.entries_max,
            },
            path: [b"/", path.decoded()].concat(),
            is_json: accept::prefers_json(request.values("accept")),
            has_cache_control: self.has_cache_control,
        }
    }
}

/// One listing that was asked for.
#[derive(Clone, Debug)]
pub(super) struct Page {
    wanted: Wanted,
    /// The path of the request, to be shown.
    path: Vec<u8>,
    is_json: bool,
    has_cache_control: bool,
}

/// A body with its tag.
struct Written {
    body: Vec<u8>,
    tag: String,
}

/// The first of `sought` that is a file, told by `found`; else the list of the directory. One job of the
/// pool, from the lookup to the last byte of the page.
pub(super) fn answer(
    view: &View,
    sought: Vec<Sought>,
    page: Page,
    asked: OwnedAsked,
    found: impl FnOnce(usize, Chosen, &OwnedAsked) -> Answer + 'static,
) -> Answer {
    let (wanted, writer) = (page.wanted.clone(), page.clone());
    match view.open_or_list_in_pool(sought, wanted, move |entries| writer.write(entries)) {
        Err(full) => Answer::Ready(miss::pool_full(full)),
        Ok(job) => Answer::Wait(Box::pin(async move {
            match job.await {
                Ok(OrListed::Found(number, chosen)) => found(number, chosen, &asked).settled().await,
                Ok(OrListed::Listed(written)) => page.reply(written, &asked),
                Err(miss) => miss::reply(&miss),
            }
        })),
    }
}

impl Page {
    fn reply(&self, written: Written, asked: &OwnedAsked) -> Reply {
        let content_type = if self.is_json { "application/json" } else { "text/html; charset=utf-8" };
        let mut pairs = vec![("Vary", "Accept"), ("ETag", written.tag.as_str())];
        // Its tag makes asking cheap, and nobody knows for how long it will be true.
        pairs.extend(self.has_cache_control.then_some(("Cache-Control", "no-cache")));
        let validators = Validators { tag: Some(&written.tag), ..Validators::default() };
        match conditional::evaluate(&asked.borrowed().conditions(), &validators) {
            Outcome::NotModified => Reply::bodiless(304, Fields::of(&pairs)),
            Outcome::Failed => Reply::plain_with(412, &pairs),
            Outcome::Proceed { .. } => {
                pairs.extend([("Content-Type", content_type), ("Content-Security-Policy", POLICY)]);
                Reply { status: 200, fields: Fields::of(&pairs), body: Body::Owned(written.body) }
            }
        }
    }

    fn write(&self, mut entries: Entries) -> Written {
        entries.list.sort_unstable_by(order);
        let body = if self.is_json { self.json(&entries) } else { self.html(&entries) };
        let hash: [u8; 32] = Sha256::digest(&body).into();
        // Half of it tells two listings apart, as it does two files (`fs::content_tag`).
        Written { tag: etag::of_content(&hash[..16]), body }
    }

    fn json(&self, entries: &Entries) -> Vec<u8> {
        let entry = |entry: &Entry| {
            let size = (!entry.is_directory).then_some(entry.size);
            json!({
                "name": String::from_utf8_lossy(&entry.name),
                "type": if entry.is_directory { "directory" } else { "file" },
                "size": size,
                "modified": modified(entry),
                "href": href(entry),
            })
        };
        let list: Vec<Value> = entries.list.iter().map(entry).collect();
        let path = String::from_utf8_lossy(&self.path);
        let document = json!({ "path": path, "truncated": entries.is_truncated, "entries": list });
        format!("{document}\n").into_bytes()
    }

    fn html(&self, entries: &Entries) -> Vec<u8> {
        let mut path = String::new();
        push_html(&self.path, &mut path);
        let mut page = String::with_capacity(2048 + entries.list.len() * 200);
        page.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        page.push_str(&format!("<title>{path}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"));
        page.push_str(&format!("<h1><bdi>{path}</bdi></h1>\n"));
        if entries.is_truncated {
            let count = entries.list.len();
            page.push_str(&format!(
                "<p role=\"note\">This list is not complete: {count} entries, sorted among themselves; there are more.</p>\n"
            ));
        }
        page.push_str(
            "<table>\n<thead><tr><th>Name</th><th>Size</th><th>Changed (UTC)</th></tr></thead>\n<tbody>\n",
        );
        if !self.wanted.path.is_empty() {
            page.push_str("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
        }
        entries.list.iter().for_each(|entry| row(entry, &mut page));
        page.push_str("</tbody>\n</table>\n</body>\n</html>\n");
        page.into_bytes()
    }
}

/// Directories first; then by name, ASCII letters alike, and by bytes where that is all the difference.
fn order(left: &Entry, right: &Entry) -> Ordering {
    fn folded(entry: &Entry) -> impl Iterator<Item = u8> {
        entry.name.iter().map(u8::to_ascii_lowercase)
    }
    let by_kind = right.is_directory.cmp(&left.is_directory);
    by_kind.then_with(|| folded(left).cmp(folded(right))).then_with(|| left.name.cmp(&right.name))
}

fn row(entry: &Entry, page: &mut String) {
    page.push_str(&format!("<tr><td><a href=\"{}\"><bdi>", href(entry)));
    push_html(&entry.name, page);
    page.push_str(if entry.is_directory { "</bdi>/</a></td><td>" } else { "</bdi></a></td><td>" });
    if !entry.is_directory {
        page.push_str(&size(entry.size));
    }
    page.push_str("</td><td>");
    if let Some(time) = modified(entry) {
        // To the minute.
        page.push_str(&time[..16].replace('T', " "));
    }
    page.push_str("</td></tr>\n");
}

fn href(entry: &Entry) -> String {
    let mut href = String::with_capacity(entry.name.len() + 8);
    push_link(&entry.name, &mut href);
    href.push_str(if entry.is_directory { "/" } else { "" });
    href
}

fn modified(entry: &Entry) -> Option<String> {
    YEARS.contains(&entry.mtime_s).then(|| date::rfc3339(entry.mtime_s, entry.mtime_ns / 1_000_000))
}

/// For people: three digits or so, in units of 1,024.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut unit_bits = 10;
    // Rounded to tenths; 1023.95 of a unit is one of the next.
    let tenths = |bits: u32| (u128::from(bytes) * 10 + (1 << (bits - 1))) >> bits;
    while tenths(unit_bits) >= 10_240 {
        unit_bits += 10;
    }
    let (tenths, unit) = (tenths(unit_bits), UNITS[(unit_bits / 10 - 1) as usize]);
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648 §4, for 32 bytes.
    fn base64(bytes: &[u8; 32]) -> String {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let groups = bytes.chunks(3).flat_map(|three| {
            let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
            let bits = bits << (8 * (3 - three.len()));
            (0..4).map(move |at| LETTERS[(bits >> (18 - 6 * at) & 63) as usize]).take(three.len() + 1)
        });
        String::from_utf8(groups.collect()).unwrap() + "="
    }

    /// A style whose hash the policy does not name is ignored by every browser, and nobody is told.
    #[test]
    fn the_policy_names_the_style() {
        assert_eq!(base64(&[0; 32]), format!("{}=", "A".repeat(43)));
        let hash = base64(&Sha256::digest(STYLE).into());
        assert!(POLICY.contains(&format!("'sha256-{hash}'")), "{hash}");
    }

    #[test]
    fn sizes_are_for_people() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (1_048_524, "1023.9 KiB"),
            (1_048_575, "1.0 MiB"),
            (5 << 30, "5.0 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(size(bytes), expected, "{bytes}");
        }
    }

    #[test]
    fn directories_come_first_and_case_is_no_order() {
        let entry = |name: &str| Entry {
            name: name.trim_end_matches('/').into(),
            is_directory: name.ends_with('/'),
            size: 0,
            mtime_s: 0,
            mtime_ns: 0,
        };
        let mut entries = ["b", "A", "z/", "a", "C", "_", "B/", "10", "9"].map(entry);
        entries.sort_unstable_by(order);
        let names = entries.map(|entry| String::from_utf8(entry.name).unwrap());
        assert_eq!(names.join(" "), "B z 10 9 _ A a b C");
        let time = |mtime_s| modified(&Entry { mtime_s, mtime_ns: 5_999_999, ..entry("a") });
        assert_eq!(time(784_111_777).as_deref(), Some("1994-11-06T08:49:37.005Z"));
        assert_eq!(time(-1).as_deref(), Some("1969-12-31T23:59:59.005Z"));
        assert_eq!((time(253_402_300_800), time(i64::MIN)), (None, None));
    }
}
