//! A reply as handlers build it: status, field lines, body. The engine adds what belongs to the
//! connection: Date, Content-Length, Connection.

use std::rc::Rc;
use std::sync::Arc;

use crate::fs::read::Shared;
use crate::semantics::range::ByteRange;
use crate::semantics::status;

/// Field lines, each ended by CRLF.
#[derive(Clone, Debug, Default)]
pub enum Fields {
    /// None.
    #[default]
    Empty,
    /// The one line of a short text, as errors have it.
    Plain,
    /// Built once, shared by every answer of a route.
    Shared(Rc<[u8]>),
    /// The same, with what the route adds to such an answer in it already.
    Complete(Rc<[u8]>),
    /// Built for this answer.
    Owned(Vec<u8>),
}

/// [`Fields::Plain`]
const PLAIN: &[u8] = b"Content-Type: text/plain; charset=utf-8\r\n";

impl Fields {
    /// The lines as bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Fields::Empty => &[],
            Fields::Plain => PLAIN,
            Fields::Shared(lines) | Fields::Complete(lines) => lines,
            Fields::Owned(lines) => lines,
        }
    }

    /// Adds lines that are built already.
    pub fn append(&mut self, lines: &Rc<[u8]>) {
        match self {
            Fields::Empty => *self = Fields::Shared(Rc::clone(lines)),
            Fields::Plain => *self = Fields::Owned([PLAIN, lines].concat()),
            Fields::Shared(before) | Fields::Complete(before) => {
                *self = Fields::Owned([&before[..], lines].concat());
            }
            Fields::Owned(before) => before.extend_from_slice(lines),
        }
    }

    /// Adds a line; the same rule for names and values as for [`Fields::of`].
    pub fn push(&mut self, name: &str, value: &str) {
        let mut lines = self.as_bytes().to_vec();
        lines.extend_from_slice(Fields::of(&[(name, value)]).as_bytes());
        *self = Fields::Owned(lines);
    }

    /// Puts a line in place of all of that name, whatever its case; the same rule as for [`Fields::of`].
    pub fn replace(&mut self, name: &str, value: &str) {
        let Fields::Owned(mut lines) = Fields::of(&[(name, value)]) else { return };
        for line in self.as_bytes().split_inclusive(|byte| *byte == b'\n') {
            let end = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
            if !line[..end].eq_ignore_ascii_case(name.as_bytes()) {
                lines.extend_from_slice(line);
            }
        }
        *self = Fields::Owned(lines);
    }

    /// Whether there is a line of that name, in any case.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        let is_it = |line: &[u8]| {
            line.get(name.len()) == Some(&b':') && line[..name.len()].eq_ignore_ascii_case(name.as_bytes())
        };
        self.as_bytes().split(|byte| *byte == b'\n').any(is_it)
    }

    /// Adds field names to the one Vary line, or such a line (RFC 9110 §12.5.5).
    pub fn vary(&mut self, names: &str) {
        const START: &[u8] = b"Vary: ";
        let lines = self.as_bytes();
        let starts_line = |at: usize| at == 0 || lines[at - 1] == b'\n';
        match memchr::memmem::find_iter(lines, START).find(|at| starts_line(*at)) {
            None => self.push("Vary", names),
            Some(at) => {
                let (before, after) = lines.split_at(at + START.len());
                *self = Fields::Owned([before, names.as_bytes(), b", ", after].concat());
            }
        }
    }

    /// The lines of `pairs`. Names and values come from the config or from this program, never from a
    /// request, and were checked to hold no line break.
    #[must_use]
    pub fn of(pairs: &[(&str, &str)]) -> Fields {
        let mut lines =
            Vec::with_capacity(pairs.iter().map(|(name, value)| name.len() + value.len() + 4).sum());
        for (name, value) in pairs {
            debug_assert!(
                !value.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0)),
                "{name} with a line break"
            );
            for part in [name, ": ", value, "\r\n"] {
                lines.extend_from_slice(part.as_bytes());
            }
        }
        Fields::Owned(lines)
    }
}

/// The body of a reply. Its length is known before the first byte is sent.
#[derive(Debug)]
pub enum Body {
    /// No bytes.
    Empty,
    /// Bytes of this program.
    Static(&'static [u8]),
    /// Bytes of the configuration, or of a file that is kept.
    Shared(Rc<[u8]>),
    /// Bytes of this answer.
    Owned(Vec<u8>),
    /// Bytes that all workers share.
    Kept(Arc<[u8]>),
    /// A part of a file, which may be all of it; the engine reads it through `fs`.
    File(Shared, ByteRange),
    /// Several parts of a file with text between them (multipart/byteranges).
    Parts(Box<Parts>),
}

/// Parts of a file with what stands around them.
#[derive(Debug)]
pub struct Parts {
    /// The file.
    pub file: Shared,
    /// Each part with the text before it.
    pub parts: Vec<(Vec<u8>, ByteRange)>,
    /// The text behind the last.
    pub end: Vec<u8>,
}

impl Parts {
    /// Bytes of text and file together.
    #[must_use]
    pub fn len(&self) -> u64 {
        let parts = self.parts.iter().map(|(before, range)| before.len() as u64 + range.len());
        parts.sum::<u64>() + self.end.len() as u64
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Body {
    /// Bytes of the body.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Body::Empty => 0,
            Body::Static(bytes) => bytes.len() as u64,
            Body::Shared(bytes) => bytes.len() as u64,
            Body::Owned(bytes) => bytes.len() as u64,
            Body::Kept(bytes) => bytes.len() as u64,
            Body::File(_, range) => range.len(),
            Body::Parts(parts) => parts.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A whole answer.
#[derive(Debug)]
pub struct Reply {
    /// Final status, 200–599.
    pub status: u16,
    /// Field lines without Date, Content-Length and Connection.
    pub fields: Fields,
    /// Body that a GET gets; the engine leaves it out for HEAD and keeps its length.
    pub body: Body,
}

impl Reply {
    /// A status with its reason phrase as a short text, for errors.
    #[must_use]
    pub fn plain(status: u16) -> Reply {
        match text(status) {
            Some(text) => Reply { status, fields: Fields::Plain, body: Body::Static(text.as_bytes()) },
            None => Reply::plain_with(status, &[]),
        }
    }

    /// The same with further fields.
    #[must_use]
    pub fn plain_with(status: u16, fields: &[(&str, &str)]) -> Reply {
        let text = format!("{status} {}\n", status::reason(status)).into_bytes();
        let mut pairs = vec![("Content-Type", "text/plain; charset=utf-8")];
        pairs.extend_from_slice(fields);
        Reply { status, fields: Fields::of(&pairs), body: Body::Owned(text) }
    }

    /// An answer without content (204, 304).
    #[must_use]
    pub fn bodiless(status: u16, fields: Fields) -> Reply {
        Reply { status, fields, body: Body::Empty }
    }
}

/// The short text of an error that is frequent enough not to be put together each time.
fn text(status: u16) -> Option<&'static str> {
    Some(match status {
        400 => "400 Bad Request\n",
        403 => "403 Forbidden\n",
        404 => "404 Not Found\n",
        405 => "405 Method Not Allowed\n",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_errors_are_written_as_all_others() {
        for status in 400..600 {
            let (short, long) = (Reply::plain(status), Reply::plain_with(status, &[]));
            let Body::Owned(expected) = long.body else { panic!("{status}") };
            let body = match &short.body {
                Body::Static(text) => text,
                Body::Owned(text) => &text[..],
                other => panic!("{other:?}"),
            };
            assert_eq!((short.fields.as_bytes(), body), (long.fields.as_bytes(), &expected[..]));
        }
    }
}
