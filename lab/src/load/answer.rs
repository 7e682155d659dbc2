//! Reads one HTTP/1.1 answer as it comes, in pieces of any size: its status, its length, its end.
//! Of the head it looks at what frames the body and at nothing else, but strictly.

use memchr::memchr;

/// A head longer than this is refused; servers' own limits for requests are 8 to 32 KiB.
const HEAD_BYTES_MAX: usize = 32 << 10;

/// What an answer has to have; the length of a first answer is not known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    pub(super) status: u16,
    pub(super) length: Option<u64>,
}

/// What is handed on while reading.
pub(super) enum Piece<'a> {
    /// The whole head.
    Head(&'a [u8]),
    /// Some of the body.
    Body(&'a [u8]),
}

/// One answer; `renew` makes it ready for the next on the same connection.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// What came of a head that is not whole yet. Empty nearly always: heads come in one piece.
    head: Vec<u8>,
    state: State,
    body_bytes: u64,
    closes: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    /// So many bytes of the body are still to come.
    Length(u64),
    /// Within the line that says a chunk's size: the value so far, its digits, whether they are over.
    Size(u64, u32, bool),
    /// So many bytes of the chunk are still to come.
    Chunk(u64),
    /// The CRLF after a chunk: whether the CR was there.
    ChunkEnd(bool),
    /// Within the trailer: bytes of its current line.
    Trailer(u32),
    UntilClose,
    Done,
}

struct Head {
    bytes: usize,
    status: u16,
    length: Option<u64>,
    is_chunked: bool,
    closes: bool,
}

impl Answer {
    pub(super) fn renew(&mut self) {
        self.head.clear();
        self.state = State::Head;
        self.body_bytes = 0;
        self.closes = false;
    }

    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Nothing of it came.
    pub(super) fn is_untouched(&self) -> bool {
        self.state == State::Head && self.head.is_empty()
    }

    /// The server said that it closes the connection, or closing is what ends the body.
    pub(super) fn closes(&self) -> bool {
        self.closes
    }

    pub(super) fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// How many bytes are of the body for certain: the kernel may drop them instead of copying them.
    pub(super) fn skippable(&self) -> u64 {
        if let State::Length(left) = self.state { left } else { 0 }
    }

    /// So many of the `skippable` bytes came.
    pub(super) fn skip(&mut self, bytes: u64) {
        if let State::Length(left) = self.state {
            self.body_bytes += bytes;
            self.state = if left == bytes { State::Done } else { State::Length(left - bytes) };
        }
    }

    /// Takes what came and gives how much of it was not this answer's. The error is a predicate: what is
    /// wrong with "the answer to …".
    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        want: Want,
        sink: &mut impl FnMut(Piece<'_>),
    ) -> Result<usize, String> {
        while !bytes.is_empty() && self.state != State::Done {
            let used = match self.state {
                State::Head => self.feed_head(bytes, want, sink)?,
                State::Length(left) | State::Chunk(left) => {
                    let some = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    self.pass(&bytes[..some], want, sink)?;
                    let left = left - some as u64;
                    self.state = match self.state {
                        State::Length(_) if left == 0 => State::Done,
                        State::Length(_) => State::Length(left),
                        _ if left == 0 => State::ChunkEnd(false),
                        _ => State::Chunk(left),
                    };
                    some
                }
                State::UntilClose => {
                    self.pass(bytes, want, sink)?;
                    bytes.len()
                }
                _ => {
                    self.feed_framing(bytes[0], want)?;
                    1
                }
            };
            bytes = &bytes[used..];
        }
        Ok(bytes.len())
    }

    fn pass(&mut self, body: &[u8], want: Want, sink: &mut impl FnMut(Piece<'_>)) -> Result<(), String> {
        self.body_bytes += body.len() as u64;
        sink(Piece::Body(body));
        match want.length {
            Some(length) if self.body_bytes > length => Err(format!("has more than {length} bytes")),
            _ => Ok(()),
        }
    }

    fn feed_head(
        &mut self,
        bytes: &[u8],
        want: Want,
        sink: &mut impl FnMut(Piece<'_>),
    ) -> Result<usize, String> {
        if self.head.is_empty() {
            if let Some(head) = Head::parse(bytes)? {
                sink(Piece::Head(&bytes[..head.bytes]));
                self.begin_body(&head, want)?;
                return Ok(head.bytes);
            }
            self.head.extend_from_slice(bytes);
        } else {
            let before = self.head.len();
            self.head.extend_from_slice(bytes);
            if let Some(head) = Head::parse(&self.head)? {
                sink(Piece::Head(&self.head[..head.bytes]));
                self.head.clear();
                self.begin_body(&head, want)?;
                return Ok(head.bytes - before);
            }
        }
        if self.head.len() > HEAD_BYTES_MAX {
            return Err(format!("has a head of more than {HEAD_BYTES_MAX} bytes"));
        }
        Ok(bytes.len())
    }

    fn begin_body(&mut self, head: &Head, want: Want) -> Result<(), String> {
        if head.status != want.status {
            return Err(format!("has status {}, expected {}", head.status, want.status));
        }
        self.closes = head.closes;
        // RFC 9112, section 6.3: these have no body whatever their fields say.
        if matches!(head.status, 204 | 304) {
            return self.end(want);
        }
        match (head.length, head.is_chunked) {
            (Some(_), true) => return Err("has both Content-Length and chunks".to_owned()),
            (Some(length), false) => {
                if let Some(wanted) = want.length.filter(|wanted| *wanted != length) {
                    return Err(format!("has Content-Length {length}, expected {wanted}"));
                }
                self.state = if length == 0 { State::Done } else { State::Length(length) };
            }
            (None, true) => self.state = State::Size(0, 0, false),
            (None, false) => {
                self.closes = true;
                self.state = State::UntilClose;
            }
        }
        Ok(())
    }

    fn feed_framing(&mut self, byte: u8, want: Want) -> Result<(), String> {
        self.state = match (self.state, byte) {
            (State::Size(0, 1.., true), b'\n') => State::Trailer(0),
            (State::Size(size, 1.., true), b'\n') => State::Chunk(size),
            (State::Size(size, digits @ 1.., _), b'\r' | b';' | b' ' | b'\t') => {
                State::Size(size, digits, true)
            }
            (State::Size(size, digits, true), _) if digits > 0 => State::Size(size, digits, true),
            // 15 digits fit a u64 with room to add.
            (State::Size(size, digits, false), byte) if byte.is_ascii_hexdigit() && digits < 15 => {
                let digit = char::from(byte).to_digit(16).unwrap_or(0);
                State::Size(size * 16 + u64::from(digit), digits + 1, false)
            }
            (State::ChunkEnd(false), b'\r') => State::ChunkEnd(true),
            (State::ChunkEnd(true), b'\n') => State::Size(0, 0, false),
            (State::Trailer(0), b'\n') => return self.end(want),
            (State::Trailer(_), b'\n') => State::Trailer(0),
            (State::Trailer(bytes), b'\r') => State::Trailer(bytes),
            (State::Trailer(bytes), _) if (bytes as usize) < HEAD_BYTES_MAX => State::Trailer(bytes + 1),
            _ => return Err(format!("has broken chunks after {} bytes", self.body_bytes)),
        };
        Ok(())
    }

    fn end(&mut self, want: Want) -> Result<(), String> {
        self.state = State::Done;
        match want.length {
            Some(length) if length != self.body_bytes => {
                Err(format!("has {} bytes, expected {length}", self.body_bytes))
            }
            _ => Ok(()),
        }
    }

    /// The connection ended.
    pub(super) fn close(&mut self, want: Want, how: &str) -> Result<(), String> {
        match self.state {
            State::UntilClose => self.end(want),
            State::Done => Ok(()),
            _ => Err(format!("{}: {how}", self.so_far("ends"))),
        }
    }

    /// How far it came, for whoever has to say that it came no further.
    pub(super) fn so_far(&self, verb: &str) -> String {
        match self.state {
            State::Head if self.head.is_empty() => format!("{verb} before its first byte"),
            State::Head => format!("{verb} after {} bytes of its head", self.head.len()),
            State::Length(left) => {
                format!("{verb} after {} of {} bytes", self.body_bytes, self.body_bytes + left)
            }
            _ => format!("{verb} after {} bytes of its body", self.body_bytes),
        }
    }
}

impl Head {
    /// `None`: more has to come.
    fn parse(bytes: &[u8]) -> Result<Option<Head>, String> {
        const VERSION: &[u8] = b"HTTP/1.1 ";
        let start = &bytes[..bytes.len().min(VERSION.len())];
        if !VERSION.starts_with(start) {
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(32)]).escape_debug().to_string();
            return Err(format!("is not HTTP/1.1: it begins with \"{shown}\""));
        }
        let Some(mut at) = line_end(bytes)? else { return Ok(None) };
        let status = match &bytes[VERSION.len().min(at)..at] {
            [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', b' ' | b'\r', ..] => {
                u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0')
            }
            _ => return Err("has a status line without a status".to_owned()),
        };
        let mut head = Head { bytes: 0, status, length: None, is_chunked: false, closes: false };
        loop {
            let Some(end) = line_end(&bytes[at..])? else { return Ok(None) };
            let line = &bytes[at..at + end - 2];
            at += end;
            if line.is_empty() {
                head.bytes = at;
                return Ok(Some(head));
            }
            head.field(line)?;
        }
    }

    fn field(&mut self, line: &[u8]) -> Result<(), String> {
        // Most fields are Date, Server, ETag, Accept-Ranges, Last-Modified: one look at their first letter.
        match line[0] | 0x20 {
            b'c' => {
                if let Some(value) = value(line, b"content-length") {
                    let length = std::str::from_utf8(value)
                        .ok()
                        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
                        .and_then(|text| text.parse().ok())
                        .ok_or_else(|| "has a Content-Length that is no number".to_owned())?;
                    if self.length.replace(length).is_some() {
                        return Err("has two Content-Lengths".to_owned());
                    }
                } else if let Some(value) = value(line, b"connection") {
                    self.closes |= value
                        .split(|byte| *byte == b',')
                        .any(|token| token.trim_ascii().eq_ignore_ascii_case(b"close"));
                }
            }
            b't' => {
                if let Some(value) = value(line, b"transfer-encoding") {
                    if !value.eq_ignore_ascii_case(b"chunked") {
                        return Err("has another Transfer-Encoding than chunked".to_owned());
                    }
                    self.is_chunked = true;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// The value of a field line of that name.
pub(super) fn value<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (found, rest) = line.split_at_checked(name.len())?;
    let value = rest.strip_prefix(b":")?;
    found.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

/// Where the first line ends, its CRLF included.
fn line_end(bytes: &[u8]) -> Result<Option<usize>, String> {
    match memchr(b'\n', bytes) {
        None => Ok(None),
        Some(at) if at > 0 && bytes[at - 1] == b'\r' => Ok(Some(at + 1)),
        Some(_) => Err("has a line of its head without CR".to_owned()),
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
