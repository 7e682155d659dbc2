//! Where the body of a request ends (RFC 9112 §6.3, §7.1). The bytes themselves are dropped: no
//! handler of this version wants them.
//!
//! The chunked grammar is taken strictly: CRLF everywhere, no whitespace around sizes, extensions
//! well-formed and bounded, trailers well-formed, bounded and dropped (case D03).

use crate::limits::{CHUNK_LINE_BYTES_MAX, Limits};
use crate::semantics::head::{Framing, Refusal, is_token_byte};

const TOO_LARGE: Refusal = Refusal { status: 413, reason: "request body too large" };
const SIZE: Refusal = Refusal::bad("chunk size that is not a plain hexadecimal number");
const EXTENSION: Refusal = Refusal::bad("malformed chunk extension");
/// Reason of the refusal at the limit `chunk_extension_size`.
pub(super) const TOO_MANY_EXTENSIONS: &str = "too many bytes of chunk extensions";
const EXTENSIONS: Refusal = Refusal::bad(TOO_MANY_EXTENSIONS);
const DATA_END: Refusal = Refusal::bad("chunk data that does not end with CRLF");
const LINE: Refusal = Refusal::bad("line that does not end with CRLF");
const TRAILER: Refusal = Refusal::bad("malformed or oversized trailer section");

/// Finds the end of one body.
#[derive(Clone, Debug)]
pub(super) struct Decoder {
    state: State,
    /// Bytes after decoding.
    decoded: u64,
    extension_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Content-Length: bytes still to come.
    Length(u64),
    /// At a chunk-size line.
    Size,
    /// In chunk data: bytes still to come.
    Data(u64),
    /// At the CRLF behind chunk data.
    DataEnd,
    /// In the trailer section: bytes and lines of it so far.
    Trailers {
        bytes: u64,
        lines: u64,
    },
    Done,
}

/// How far the decoder got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    /// Bytes of the input that belong to the body.
    pub(super) consumed: usize,
    /// The body ended there.
    pub(super) is_done: bool,
}

impl Decoder {
    /// For a body of this framing.
    ///
    /// # Errors
    /// 413 for a declared length beyond the limit.
    pub(super) fn new(framing: Framing, limits: &Limits) -> Result<Decoder, Refusal> {
        let state = match framing {
            Framing::None => State::Done,
            Framing::Length(length) if length > limits.body_bytes_max => return Err(TOO_LARGE),
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Size,
        };
        Ok(Decoder { state, decoded: 0, extension_bytes: 0 })
    }

    /// Bytes of the body after decoding.
    pub(super) fn decoded(&self) -> u64 {
        self.decoded
    }

    /// Reads on. What is not consumed has to come again with more behind it.
    ///
    /// # Errors
    /// Broken framing (400) or too much of it (413).
    pub(super) fn feed(&mut self, input: &[u8], limits: &Limits) -> Result<Progress, Refusal> {
        let mut consumed = 0;
        loop {
            let rest = &input[consumed..];
            let step = match self.state {
                State::Done => return Ok(Progress { consumed, is_done: true }),
                State::Length(left) => self.pass(left, rest, State::Done, State::Length),
                State::Data(left) => self.pass(left, rest, State::DataEnd, State::Data),
                State::Size => self.size_line(rest, limits)?,
                State::DataEnd => match rest {
                    [b'\r', b'\n', ..] => self.go(State::Size, 2),
                    [] | [b'\r'] => 0,
                    _ => return Err(DATA_END),
                },
                State::Trailers { bytes, lines } => self.trailer_line(rest, bytes, lines, limits)?,
            };
            if step == 0 {
                return Ok(Progress { consumed, is_done: false });
            }
            consumed += step;
        }
    }

    fn go(&mut self, next: State, consumed: usize) -> usize {
        self.state = next;
        consumed
    }

    /// Passes over up to `left` bytes of data.
    fn pass(&mut self, left: u64, rest: &[u8], end: State, more: fn(u64) -> State) -> usize {
        let count = left.min(rest.len() as u64);
        self.decoded += count;
        self.state = if count == left { end } else { more(left - count) };
        // At most rest.len(), so it fits.
        usize::try_from(count).unwrap_or(rest.len())
    }

    fn size_line(&mut self, rest: &[u8], limits: &Limits) -> Result<usize, Refusal> {
        let Some(line) = line(rest, CHUNK_LINE_BYTES_MAX, EXTENSIONS)? else {
            // Refused as soon as it is wrong, not when its line ends.
            let digits = rest.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            return match rest.get(digits) {
                _ if digits > 15 => Err(SIZE),
                Some(b';' | b'\r') if digits > 0 => Ok(0),
                None => Ok(0),
                Some(_) => Err(SIZE),
            };
        };
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let (size, extensions) = line.split_at(digits);
        // 15 digits: 60 bits, which no sum below can overflow.
        if !(1..=15).contains(&digits) || !matches!(extensions.first(), None | Some(b';')) {
            return Err(SIZE);
        }
        check_extensions(extensions)?;
        self.extension_bytes += extensions.len() as u64;
        if self.extension_bytes > limits.chunk_extension_bytes_max {
            return Err(EXTENSIONS);
        }
        let size = size
            .iter()
            .fold(0, |size, digit| size * 16 + u64::from((*digit as char).to_digit(16).unwrap_or(0)));
        if self.decoded + size > limits.body_bytes_max {
            return Err(TOO_LARGE);
        }
        let next = if size == 0 { State::Trailers { bytes: 0, lines: 0 } } else { State::Data(size) };
        Ok(self.go(next, line.len() + 2))
    }

    fn trailer_line(
        &mut self,
        rest: &[u8],
        bytes: u64,
        lines: u64,
        limits: &Limits,
    ) -> Result<usize, Refusal> {
        let left = limits.head_bytes_max.saturating_sub(bytes);
        let Some(line) = line(rest, usize::try_from(left).unwrap_or(usize::MAX), TRAILER)? else {
            return Ok(0);
        };
        if line.is_empty() {
            return Ok(self.go(State::Done, 2));
        }
        let colon = line.iter().position(|byte| *byte == b':').ok_or(TRAILER)?;
        let (name, value) = line.split_at(colon);
        let value_is_valid = value.iter().all(|byte| matches!(byte, b'\t' | 0x20..=0x7e | 0x80..));
        if name.is_empty() || !name.iter().all(|byte| is_token_byte(*byte)) || !value_is_valid {
            return Err(TRAILER);
        }
        if lines >= limits.fields_max {
            return Err(TRAILER);
        }
        let consumed = line.len() + 2;
        Ok(self.go(State::Trailers { bytes: bytes + consumed as u64, lines: lines + 1 }, consumed))
    }
}

/// The first line without its CRLF; `None` while it is not complete.
fn line(rest: &[u8], bytes_max: usize, too_long: Refusal) -> Result<Option<&[u8]>, Refusal> {
    let within = &rest[..rest.len().min(bytes_max)];
    let Some(end) = memchr::memchr2(b'\r', b'\n', within) else {
        return if rest.len() > bytes_max { Err(too_long) } else { Ok(None) };
    };
    match rest[end..] {
        [b'\r', b'\n', ..] => Ok(Some(&rest[..end])),
        [b'\r'] => Ok(None),
        _ => Err(LINE),
    }
}

/// `*( ";" chunk-ext-name [ "=" ( token / quoted-string ) ] )`, without the bad whitespace that
/// RFC 9112 §7.1.1 lets a recipient take.
fn check_extensions(mut rest: &[u8]) -> Result<(), Refusal> {
    fn token(rest: &[u8]) -> Result<&[u8], Refusal> {
        let end = rest.iter().position(|byte| !is_token_byte(*byte)).unwrap_or(rest.len());
        if end == 0 { Err(EXTENSION) } else { Ok(&rest[end..]) }
    }
    while let Some(extension) = rest.strip_prefix(b";") {
        rest = token(extension)?;
        if let Some(value) = rest.strip_prefix(b"=") {
            rest = match value.strip_prefix(b"\"") {
                Some(quoted) => quoted_string(quoted)?,
                None => token(value)?,
            };
        }
    }
    if rest.is_empty() { Ok(()) } else { Err(EXTENSION) }
}

/// What follows a quoted-string whose opening quote was read (RFC 9110 §5.6.4).
fn quoted_string(mut rest: &[u8]) -> Result<&[u8], Refusal> {
    loop {
        rest = match rest {
            [b'"', tail @ ..] => return Ok(tail),
            [b'\\', b'\t' | 0x20..=0x7e | 0x80.., tail @ ..] => tail,
            [b'\t' | 0x20..=0x21 | 0x23..=0x5b | 0x5d..=0x7e | 0x80.., tail @ ..] => tail,
            _ => return Err(EXTENSION),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            body_bytes_max: 100,
            chunk_extension_bytes_max: 40,
            head_bytes_max: 1024,
            ..Limits::default()
        }
    }

    /// Decoded bytes and bytes left over, or the status of the refusal; the same in every two-way
    /// split and byte by byte.
    fn check(input: &[u8], expected: Result<(u64, usize), u16>) {
        let run = |pieces: &[&[u8]]| -> Result<(u64, usize), u16> {
            let mut decoder = Decoder::new(Framing::Chunked, &limits()).map_err(|refusal| refusal.status)?;
            let mut pending = Vec::new();
            let mut is_done = false;
            for piece in pieces {
                pending.extend_from_slice(piece);
                let progress = decoder.feed(&pending, &limits()).map_err(|refusal| refusal.status)?;
                pending.drain(..progress.consumed);
                is_done = progress.is_done;
            }
            if is_done { Ok((decoder.decoded(), pending.len())) } else { Err(0) }
        };
        let shown = String::from_utf8_lossy(input);
        assert_eq!(run(&[input]), expected, "{shown:?}");
        for at in 0..input.len() {
            assert_eq!(run(&[&input[..at], &input[at..]]), expected, "{shown:?} split at {at}");
        }
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        assert_eq!(run(&bytes), expected, "{shown:?} byte by byte");
    }

    #[test]
    fn well_formed_bodies_end_where_they_end() {
        check(b"0\r\n\r\n", Ok((0, 0)));
        check(b"5\r\nhello\r\n0\r\n\r\nGET", Ok((5, 3)));
        check(b"A\r\n0123456789\r\n000\r\n\r\n", Ok((10, 0)));
        check(b"5;a;b=c;d=\"e; \\\"f\\\\\"\r\nhello\r\n0;x\r\nVary: *\r\nB:\r\n\r\n", Ok((5, 0)));
    }

    #[test]
    fn everything_else_is_refused() {
        for bad in [
            &b"5\nhello\r\n0\r\n\r\n"[..],
            b"5\r\nhello\n0\r\n\r\n",
            b"5\r\nhelloXX0\r\n\r\n",
            b"5;a=\nx\r\nhello\r\n0\r\n\r\n",
            b"0x5\r\nhello\r\n0\r\n\r\n",
            b"5 \r\nhello\r\n0\r\n\r\n",
            b" 5\r\nhello\r\n0\r\n\r\n",
            b"-1\r\n",
            b"+5\r\nhello\r\n",
            b"\r\n",
            b"FFFFFFFFFFFFFFFFF\r\n",
            b"5;\r\nhello\r\n",
            b"5;a=\r\nhello\r\n",
            b"5;a=\"b\r\nhello\r\n",
            b"5 erf\r\nhello\r\n",
            b"5\r\r;A\r\n",
            b"0\r\nbad trailer\r\n\r\n",
            b"0\r\n a: b\r\n\r\n",
            b"0\r\n: b\r\n\r\n",
            b"0\r\na: \x00\r\n\r\n",
            b"0\r\nX: y\n\r\n",
        ] {
            check(bad, Err(400));
        }
        check(b"65\r\n", Err(413));
        // Each fits alone.
        check(&[b"64\r\n", &b"x".repeat(100)[..], b"\r\n1\r\n"].concat(), Err(413));
        check(b"5;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n", Err(400));
        let trailer = [b"0\r\nA: ", &b"b".repeat(2000)[..], b"\r\n\r\n"].concat();
        assert_eq!(
            Decoder::new(Framing::Chunked, &limits()).unwrap().feed(&trailer, &limits()),
            Err(TRAILER)
        );
    }

    #[test]
    fn a_declared_length_is_bounded_and_counted() {
        assert_eq!(Decoder::new(Framing::Length(101), &limits()).err(), Some(TOO_LARGE));
        let mut decoder = Decoder::new(Framing::Length(5), &limits()).unwrap();
        assert_eq!(decoder.feed(b"abc", &limits()), Ok(Progress { consumed: 3, is_done: false }));
        assert_eq!(decoder.feed(b"deGET", &limits()), Ok(Progress { consumed: 2, is_done: true }));
        assert_eq!(decoder.decoded(), 5);
    }
}
