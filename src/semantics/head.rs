//! What the fields of a request head mean for its framing and its connection (RFC 9112 §3.2, §6, §9;
//! RFC 9110 §7.2, §10.1.1). Everything ambiguous is refused: two readings of one message are how
//! requests are smuggled.

/// Protocol version of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

/// How the body of a request is delimited (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// No body.
    None,
    /// Content-Length, more than 0.
    Length(u64),
    /// The chunked transfer coding, alone.
    Chunked,
}

/// A head that is answered with an error; the connection is closed after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// 4xx or 5xx.
    pub status: u16,
    /// What is wrong, for the log and the body of the answer.
    pub reason: &'static str,
}

impl Refusal {
    /// A 400.
    #[must_use]
    pub const fn bad(reason: &'static str) -> Refusal {
        Refusal { status: 400, reason }
    }
}

/// What the fields say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules<'a> {
    /// Value of Host; empty where there is none (HTTP/1.0) or it is empty.
    pub host: &'a [u8],
    /// Delimitation of the body.
    pub framing: Framing,
    /// Whether the client wants to go on with this connection.
    pub keep_alive: bool,
    /// `Expect: 100-continue` from a client that may send it.
    pub expects_continue: bool,
}

/// Reads the fields that rule a request.
///
/// # Errors
/// Missing, repeated or malformed Host; a Content-Length that is not one plain number, or beside a
/// Transfer-Encoding; a Transfer-Encoding that is not the one word `chunked`, or in HTTP/1.0; an
/// expectation that nobody knows (417).
pub fn rules<'a>(
    version: Version,
    fields: impl Iterator<Item = (&'a str, &'a [u8])>,
) -> Result<Rules<'a>, Refusal> {
    let mut seen = Seen::default();
    for (name, value) in fields {
        // By length first: most fields are none of these.
        match name.len() {
            4 if name.eq_ignore_ascii_case("host") => seen.host(value)?,
            6 if name.eq_ignore_ascii_case("expect") => seen.expect(version, value)?,
            10 if name.eq_ignore_ascii_case("connection") => seen.connection(value),
            14 if name.eq_ignore_ascii_case("content-length") => seen.content_length(value)?,
            17 if name.eq_ignore_ascii_case("transfer-encoding") => seen.transfer_encoding(value)?,
            _ => {}
        }
    }
    seen.finish(version)
}

#[derive(Default)]
struct Seen<'a> {
    host: Option<&'a [u8]>,
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
}

impl<'a> Seen<'a> {
    fn host(&mut self, value: &'a [u8]) -> Result<(), Refusal> {
        if self.host.is_some() {
            return Err(Refusal::bad("more than one Host field"));
        }
        let value = trim(value);
        if !is_authority(value) {
            return Err(Refusal::bad("Host is not a host with an optional port"));
        }
        self.host = Some(value);
        Ok(())
    }

    fn content_length(&mut self, value: &[u8]) -> Result<(), Refusal> {
        let value = trim(value);
        if self.length.is_some() {
            return Err(Refusal::bad("more than one Content-Length field"));
        }
        if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
            return Err(Refusal::bad("Content-Length is not one decimal number"));
        }
        let number = value
            .iter()
            .try_fold(0u64, |number, digit| number.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
        self.length =
            Some(number.ok_or(Refusal { status: 413, reason: "Content-Length beyond all bounds" })?);
        Ok(())
    }

    fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), Refusal> {
        let value = trim(value);
        let again = std::mem::replace(&mut self.chunked, true);
        if !again && value.eq_ignore_ascii_case(b"chunked") {
            return Ok(());
        }
        let single_token = !value.is_empty() && value.iter().all(|byte| is_token_byte(*byte));
        Err(if !again && single_token {
            // RFC 9112 §6.1: a coding that we do not understand.
            Refusal { status: 501, reason: "transfer coding other than chunked" }
        } else {
            Refusal::bad("Transfer-Encoding is not the one word chunked")
        })
    }

    fn connection(&mut self, value: &[u8]) {
        for option in value.split(|byte| *byte == b',').map(trim) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    fn expect(&mut self, version: Version, value: &[u8]) -> Result<(), Refusal> {
        // RFC 9110 §10.1.1: from an HTTP/1.0 client it must be ignored.
        if version == Version::Http10 {
            return Ok(());
        }
        if !trim(value).eq_ignore_ascii_case(b"100-continue") {
            return Err(Refusal { status: 417, reason: "expectation other than 100-continue" });
        }
        self.expects_continue = true;
        Ok(())
    }

    fn finish(self, version: Version) -> Result<Rules<'a>, Refusal> {
        if self.chunked && self.length.is_some() {
            return Err(Refusal::bad("Content-Length beside Transfer-Encoding"));
        }
        if self.chunked && version == Version::Http10 {
            return Err(Refusal::bad("Transfer-Encoding in HTTP/1.0"));
        }
        if self.host.is_none() && version == Version::Http11 {
            return Err(Refusal::bad("Host field is missing"));
        }
        let framing = match self.length {
            _ if self.chunked => Framing::Chunked,
            Some(length) if length > 0 => Framing::Length(length),
            _ => Framing::None,
        };
        let keep_alive = !self.close && (version == Version::Http11 || self.keep_alive);
        let expects_continue = self.expects_continue && framing != Framing::None;
        Ok(Rules { host: self.host.unwrap_or_default(), framing, keep_alive, expects_continue })
    }
}

/// Without optional whitespace on both sides: spaces and tabs only (RFC 9110 §5.6.3).
#[must_use]
pub fn trim(value: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = value.iter().position(|byte| !is_blank(byte)).unwrap_or(value.len());
    let end = value.iter().rposition(|byte| !is_blank(byte)).map_or(start, |last| last + 1);
    &value[start..end]
}

/// `tchar` (RFC 9110 §5.6.2).
#[must_use]
pub fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// `uri-host [ ":" port ]` (RFC 9110 §7.2, RFC 3986 §3.2.2); may be empty.
#[must_use]
pub fn is_authority(value: &[u8]) -> bool {
    let (host, port) = split_port(value);
    let port_is_number = port.is_none_or(|port| port.len() <= 5 && port.iter().all(u8::is_ascii_digit));
    let host_is_valid = match host.strip_prefix(b"[") {
        Some(literal) => literal.strip_suffix(b"]").is_some_and(|literal| {
            !literal.is_empty()
                && literal.iter().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'))
        }),
        // An escape (reg-name allows it) is a name that some decode and others do not: refused.
        None => host.iter().all(|byte| HOST_BYTES[usize::from(*byte)]),
    };
    host_is_valid && port_is_number
}

/// Unreserved bytes and sub-delims (RFC 3986 §2.2, §2.3), as a table: every request has a host.
const HOST_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = matches!(byte as u8,
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~'
            | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=');
        byte += 1;
    }
    table
};

/// Host and port of an authority; the colons of an IPv6 literal are none of a port.
#[must_use]
pub fn split_port(authority: &[u8]) -> (&[u8], Option<&[u8]>) {
    match authority.iter().rposition(|byte| matches!(byte, b':' | b']')) {
        Some(at) if authority[at] == b':' => (&authority[..at], Some(&authority[at + 1..])),
        _ => (authority, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(version: Version, fields: &[(&'static str, &'static str)], expected: Result<Framing, u16>) {
        let found = rules(version, fields.iter().map(|(name, value)| (*name, value.as_bytes())));
        assert_eq!(
            found.map(|rules| rules.framing).map_err(|refusal| refusal.status),
            expected,
            "{fields:?}"
        );
    }

    #[test]
    fn framing_is_one_thing_or_refused() {
        let host = ("Host", "a");
        let v11 = |field, expected| check(Version::Http11, &[host, field], expected);
        v11(("X", "y"), Ok(Framing::None));
        v11(("Content-Length", "0"), Ok(Framing::None));
        v11(("content-length", "\t42  "), Ok(Framing::Length(42)));
        v11(("Content-Length", "003"), Ok(Framing::Length(3)));
        v11(("Transfer-Encoding", "chunked\t"), Ok(Framing::Chunked));
        v11(("Transfer-Encoding", "CHUNKED"), Ok(Framing::Chunked));
        for length in ["", "4 2", "+4", "-1", "0x4", "4,4", "4;", "4\u{b}"] {
            v11(("Content-Length", length), Err(400));
        }
        v11(("Content-Length", "18446744073709551616"), Err(413));
        for coding in ["xchunked", "identity", "chunkedchunked"] {
            v11(("Transfer-Encoding", coding), Err(501));
        }
        for coding in
            ["chunked, identity", "chunked, chunked", "gzip, chunked", "\"chunked\"", "", "\u{b}chunked"]
        {
            v11(("Transfer-Encoding", coding), Err(400));
        }
        let chunked = ("Transfer-Encoding", "chunked");
        check(Version::Http11, &[host, chunked, chunked], Err(400));
        check(Version::Http11, &[host, chunked, ("Content-Length", "5")], Err(400));
        check(Version::Http11, &[host, ("Content-Length", "0"), chunked], Err(400));
        check(Version::Http11, &[host, ("Content-Length", "5"), ("Content-Length", "5")], Err(400));
        check(Version::Http10, &[chunked], Err(400));
    }

    #[test]
    fn host_is_there_once_and_is_a_host() {
        check(Version::Http11, &[], Err(400));
        check(Version::Http10, &[], Ok(Framing::None));
        check(Version::Http11, &[("Host", "a"), ("host", "a")], Err(400));
        for good in ["", "a", "a.example:80", "[::1]:8080", "0.0.0.0=5000", "a:", "xn--a"] {
            check(Version::Http11, &[("Host", good)], Ok(Framing::None));
        }
        for bad in
            ["a b", "a/b", "u@h", "a:b", "[::1", "::1", "a,b c", "a:123456", "a%2D", "a%zz", "[]", "a\\b"]
        {
            check(Version::Http11, &[("Host", bad)], Err(400));
        }
    }

    #[test]
    fn connection_and_expect_follow_the_version() {
        let read = |version, fields: &[(&'static str, &'static str)]| {
            let host = [("Host", "a")];
            let fields = host.iter().chain(fields);
            let rules = rules(version, fields.map(|(name, value)| (*name, value.as_bytes()))).unwrap();
            (rules.keep_alive, rules.expects_continue)
        };
        let body = ("Content-Length", "1");
        assert_eq!(read(Version::Http11, &[]), (true, false));
        assert_eq!(read(Version::Http10, &[]), (false, false));
        assert_eq!(read(Version::Http10, &[("Connection", "x, Keep-Alive")]), (true, false));
        assert_eq!(read(Version::Http11, &[("Connection", "keep-alive, CLOSE\t")]), (false, false));
        assert_eq!(read(Version::Http11, &[("Connection", "keep-alive, upgrade")]), (true, false));
        assert_eq!(read(Version::Http11, &[("Expect", "100-Continue"), body]), (true, true));
        assert_eq!(read(Version::Http11, &[("Expect", "100-continue")]), (true, false));
        assert_eq!(read(Version::Http10, &[("Expect", "x"), body]), (false, false));
        check(Version::Http11, &[("Host", "a"), ("Expect", "200-maybe")], Err(417));
    }
}
