//! What development mode makes of a request and of its answer: pages get the script, and nothing is
//! kept by the browser without asking again.

use super::service::SCRIPT_PATH;
use crate::message::{Body, Field, Fields, Parts, Reply, Request};
use crate::semantics::mime;
use crate::semantics::navigation::{self, Asking};
use crate::semantics::path::SafePath;

/// Fields that ask for something else than the page as it is: a page that grows has no coding, no
/// ranges, and no tag that a condition could name.
const ASKING: [&str; 7] = [
    "accept-encoding",
    "range",
    "if-range",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
];
/// Fields that no longer hold once a page has grown.
const OF_THE_FILE: [&str; 5] = ["etag", "last-modified", "accept-ranges", "cache-control", "expires"];
/// Fields by which a browser would not ask again.
const KEEPING: [&str; 2] = ["cache-control", "expires"];

/// The fields of a request that a page may be asked with.
pub(super) fn plain_fields<'a>(request: &Request<'a>) -> Vec<Field<'a>> {
    let is_asking = |field: &&Field<'_>| !ASKING.iter().any(|name| field.name.eq_ignore_ascii_case(name));
    request.fields.iter().filter(is_asking).copied().collect()
}

/// Whether the answer for a path may be a page: its type is known by its name, and where the name says
/// nothing it may be an index, a page of an app, or a listing.
pub(super) fn may_be_page(path: &SafePath<'_>) -> bool {
    let content_type = mime::of_name(path.decoded());
    content_type == mime::UNKNOWN || content_type.starts_with("text/html")
}

/// What is done to the answer of one request.
#[derive(Debug)]
pub(super) struct Shape {
    /// Changes up to here are in the answer.
    since: String,
    /// Somebody looks at it: no script for HTML that a script fetches.
    is_document: bool,
    /// A browser goes there: an error is shown to a person.
    is_navigation: bool,
}

impl Shape {
    /// For the answer to `request`, which has not been looked for yet.
    pub(super) fn of(request: &Request<'_>, since: String) -> Shape {
        // Fetch Metadata Request Headers §2.1; absent from old browsers and from programs.
        let is_document = match request.values("sec-fetch-dest").next() {
            None => true,
            Some(destination) => [&b"document"[..], b"iframe", b"frame"].contains(&destination.trim_ascii()),
        };
        let accept: Vec<_> = request.values("accept").collect();
        let asking = Asking { sec_fetch_mode: request.values("sec-fetch-mode").next(), accept: &accept };
        let is_navigation = is_document && navigation::is_navigation(&asking);
        Shape { since, is_document, is_navigation }
    }

    /// The answer as it is sent.
    pub(super) fn on(&self, mut reply: Reply) -> Reply {
        if self.is_navigation && reply.status >= 400 && is_of_type(&reply.fields, "text/plain") {
            reply = with_markup(reply);
        }
        // 3xx are not shown, 206 and 304 are not the whole.
        let is_whole = reply.status == 200 || reply.status >= 400;
        let is_coded = value_of(&reply.fields, "content-encoding").is_some();
        if is_whole && self.is_document && !is_coded && is_of_type(&reply.fields, "text/html") {
            reply.fields = replaced(&reply.fields, &OF_THE_FILE, "Cache-Control: no-store\r\n");
            reply.body = followed_by(reply.body, self.script().into_bytes());
        } else {
            reply.fields = replaced(&reply.fields, &KEEPING, "Cache-Control: no-cache\r\n");
        }
        reply
    }

    /// Behind the end of the document, where every parser of HTML still takes it in (HTML Living
    /// Standard §13.2.6.4, "after body"). By its address and not inline, as policies allow that more often.
    fn script(&self) -> String {
        format!("\n<script async src=\"/{SCRIPT_PATH}\" data-since=\"{}\"></script>\n", self.since)
    }
}

/// A file is not read for it: it is sent as one part with text behind it, of any size, in its turn and
/// by the way that every large file takes.
fn followed_by(body: Body, mut text: Vec<u8>) -> Body {
    match body {
        Body::Empty => Body::Owned(text),
        Body::Static(bytes) => Body::Owned([bytes, &text].concat()),
        Body::Shared(bytes) => Body::Owned([&bytes[..], &text].concat()),
        Body::Kept(bytes) => Body::Owned([&bytes[..], &text].concat()),
        Body::Owned(mut bytes) => {
            bytes.append(&mut text);
            Body::Owned(bytes)
        }
        Body::File(file, range) => {
            Body::Parts(Box::new(Parts { file, parts: vec![(Vec::new(), range)], end: text }))
        }
        Body::Parts(mut parts) => {
            parts.end.append(&mut text);
            Body::Parts(parts)
        }
    }
}

/// An error in plain text as a page: one that waits until what is missing is there.
fn with_markup(reply: Reply) -> Reply {
    let bytes = match &reply.body {
        Body::Owned(bytes) => &bytes[..],
        Body::Static(bytes) => bytes,
        Body::Shared(bytes) => bytes,
        Body::Empty | Body::Kept(_) | Body::File(..) | Body::Parts(_) => return reply,
    };
    let text = String::from_utf8_lossy(bytes).replace('&', "&amp;").replace('<', "&lt;");
    let body =
        format!("<!doctype html>\n<meta name=\"color-scheme\" content=\"light dark\">\n<pre>{text}</pre>\n");
    let fields = replaced(&reply.fields, &["content-type"], "Content-Type: text/html; charset=utf-8\r\n");
    Reply { status: reply.status, fields, body: Body::Owned(body.into_bytes()) }
}

fn lines(fields: &Fields) -> impl Iterator<Item = (&[u8], &[u8])> {
    fields.as_bytes().split_inclusive(|byte| *byte == b'\n').map(|line| {
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        (&line[..colon], line)
    })
}

fn value_of<'a>(fields: &'a Fields, name: &str) -> Option<&'a [u8]> {
    let (found, line) = lines(fields).find(|(found, _)| found.eq_ignore_ascii_case(name.as_bytes()))?;
    line.get(found.len() + 1..).map(<[u8]>::trim_ascii)
}

fn is_of_type(fields: &Fields, content_type: &str) -> bool {
    value_of(fields, "content-type").is_some_and(|value| {
        let named = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        named.eq_ignore_ascii_case(content_type.as_bytes())
    })
}

/// The lines without those of `names`, and one line more.
fn replaced(fields: &Fields, names: &[&str], line: &str) -> Fields {
    let is_kept = |name: &[u8]| !names.iter().any(|dropped| name.eq_ignore_ascii_case(dropped.as_bytes()));
    let mut kept: Vec<u8> = Vec::with_capacity(fields.as_bytes().len() + line.len());
    lines(fields).filter(|(name, _)| is_kept(name)).for_each(|(_, line)| kept.extend_from_slice(line));
    kept.extend_from_slice(line.as_bytes());
    Fields::Owned(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(is_document: bool, is_navigation: bool) -> Shape {
        Shape { since: "7-1".to_owned(), is_document, is_navigation }
    }

    fn shown(reply: &Reply) -> (String, String) {
        let body = match &reply.body {
            Body::Owned(bytes) => bytes.clone(),
            Body::Shared(bytes) => bytes.to_vec(),
            Body::Static(bytes) => bytes.to_vec(),
            Body::Empty => Vec::new(),
            other => panic!("{other:?}"),
        };
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (text(reply.fields.as_bytes()), text(&body))
    }

    const SCRIPT: &str = "\n<script async src=\"/.scalws/reload.js\" data-since=\"7-1\"></script>\n";

    #[test]
    fn a_page_grows_and_is_not_kept() {
        let page = |status, pairs: &[(&str, &str)]| Reply {
            status,
            fields: Fields::of(&[&[("Content-Type", "text/HTML;charset=utf-8")], pairs].concat()),
            body: Body::Shared(b"<p>x</p>".as_slice().into()),
        };
        let file =
            [("ETag", "\"1\""), ("Cache-Control", "max-age=9"), ("X", "y"), ("Accept-Ranges", "bytes")];
        let (fields, body) = shown(&shape(true, false).on(page(200, &file)));
        assert_eq!(fields, "Content-Type: text/HTML;charset=utf-8\r\nX: y\r\nCache-Control: no-store\r\n");
        assert_eq!(body, format!("<p>x</p>{SCRIPT}"));
        let unchanged = |shape: Shape, reply: Reply| {
            let (fields, body) = shown(&shape.on(reply));
            assert_eq!(body, "<p>x</p>");
            assert!(fields.ends_with("Cache-Control: no-cache\r\n"), "{fields}");
            fields
        };
        let fetched = unchanged(shape(false, false), page(200, &file));
        assert!(fetched.contains("ETag: \"1\"\r\n") && !fetched.contains("max-age"), "{fetched}");
        unchanged(shape(true, false), page(206, &[]));
        unchanged(shape(true, true), page(301, &[]));
        unchanged(shape(true, true), page(200, &[("Content-Encoding", "br")]));
    }

    #[test]
    fn an_error_is_a_page_for_a_person_only() {
        let (fields, body) = shown(&shape(true, true).on(Reply::plain(404)));
        assert!(fields.starts_with("Content-Type: text/html; charset=utf-8\r\n"), "{fields}");
        assert!(body.contains("<pre>404 Not Found\n</pre>") && body.ends_with(SCRIPT), "{body}");
        let mut reply = Reply::plain(404);
        reply.body = Body::Owned(b"<script>&".to_vec());
        assert!(shown(&shape(true, true).on(reply)).1.contains("<pre>&lt;script>&amp;</pre>"));
        let (fields, body) = shown(&shape(true, false).on(Reply::plain(404)));
        assert_eq!(body, "404 Not Found\n");
        assert!(fields.starts_with("Content-Type: text/plain"), "{fields}");
    }

    #[test]
    fn pages_are_known_by_their_names_before_they_are_there() {
        let pages = ["/", "/docs/", "/about", "/a.html", "/a.HTM", "/a.unknown"];
        for (path, expected) in pages.map(|path| (path, true)).into_iter().chain([
            ("/a.css", false),
            ("/v.mp4", false),
            ("/a.html/x.js", false),
        ]) {
            assert_eq!(may_be_page(&SafePath::parse(path.as_bytes()).unwrap()), expected, "{path}");
        }
    }
}
