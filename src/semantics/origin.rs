//! Origins as browsers write them (RFC 6454 §6.2; the Origin field of the Fetch standard), and the
//! patterns that allow them. Nothing is made equal: what a browser never sends is no origin.

use std::net::Ipv6Addr;

use super::head::split_port;

/// RFC 1035 §2.3.4: a name and a label of it.
const HOST_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// The parts of an origin.
#[derive(Debug, PartialEq, Eq)]
struct Origin<'a> {
    scheme: &'a [u8],
    host: &'a [u8],
    port: Option<&'a [u8]>,
}

impl<'a> Origin<'a> {
    /// Takes the one spelling that browsers use: lower case, no default port, no dot at the end, nothing
    /// behind the port.
    fn parse(value: &'a [u8]) -> Option<Origin<'a>> {
        let at = memchr::memmem::find(value, b"://")?;
        let (scheme, authority) = (&value[..at], &value[at + 3..]);
        let (host, port) = split_port(authority);
        let is_fine = is_scheme(scheme) && is_host(host) && port.is_none_or(|port| is_port(scheme, port));
        is_fine.then_some(Origin { scheme, host, port })
    }
}

/// What of origins is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// This very origin; `null` is one too.
    Exact(String),
    /// `https://*.example.com`: one or more labels before the suffix.
    Below {
        /// Before `://`.
        scheme: String,
        /// With the dot that the labels end at, such as `.example.com`.
        suffix: String,
        /// As it is written behind the colon; `None` for the default of the scheme.
        port: Option<String>,
    },
}

impl Pattern {
    /// Reads `https://app.example`, `https://*.example.com:8443` or `null`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Pattern> {
        if text == "null" {
            return Some(Pattern::Exact(text.to_owned()));
        }
        let Some((scheme, name)) = text.split_once("://*.") else {
            return Origin::parse(text.as_bytes()).map(|_| Pattern::Exact(text.to_owned()));
        };
        let whole = format!("{scheme}://{name}");
        let origin = Origin::parse(whole.as_bytes()).filter(|origin| !origin.host.starts_with(b"["))?;
        let own = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let suffix = format!(".{}", own(origin.host));
        Some(Pattern::Below { scheme: scheme.to_owned(), suffix, port: origin.port.map(own) })
    }

    /// Whether it allows `value`, the whole of an Origin field. Then `value` is visible ASCII.
    #[must_use]
    pub fn allows(&self, value: &[u8]) -> bool {
        match self {
            Pattern::Exact(origin) => origin.as_bytes() == value,
            // Taken apart first: in a bare comparison of ends `https://evil.example/.example.com` fits.
            Pattern::Below { scheme, suffix, port } => Origin::parse(value).is_some_and(|origin| {
                origin.scheme == scheme.as_bytes()
                    && origin.port == port.as_ref().map(String::as_bytes)
                    && origin.host.strip_suffix(suffix.as_bytes()).is_some_and(|name| !name.is_empty())
            }),
        }
    }
}

/// The pattern that somebody may have meant who wrote `text`.
#[must_use]
pub fn normal(text: &str) -> Option<String> {
    let lower = text.trim().to_ascii_lowercase();
    if lower == "null" {
        return Some(lower);
    }
    let (scheme, rest) = lower.split_once("://").unwrap_or(("https", &lower));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = match default_port(scheme.as_bytes()) {
        Some(port) => authority.strip_suffix(&format!(":{port}")).unwrap_or(authority),
        None => authority,
    };
    let normal = format!("{scheme}://{}", authority.strip_suffix('.').unwrap_or(authority));
    Pattern::parse(&normal).map(|_| normal)
}

/// RFC 3986 §3.1, in lower case. Not http and https alone: apps and extensions have schemes of their own.
fn is_scheme(scheme: &[u8]) -> bool {
    scheme.first().is_some_and(u8::is_ascii_lowercase)
        && scheme.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'+' | b'.' | b'-'))
}

/// Labels, or an address as the URL standard writes it; one of IPv4 within IPv6 is left out.
fn is_host(host: &[u8]) -> bool {
    if let Some(inside) = host.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]")) {
        let Ok(text) = std::str::from_utf8(inside) else { return false };
        return !text.contains('.')
            && text.parse::<Ipv6Addr>().is_ok_and(|address| address.to_string() == text);
    }
    let is_label = |label: &[u8]| {
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && label.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
    };
    host.len() <= HOST_BYTES_MAX && host.split(|byte| *byte == b'.').all(is_label)
}

/// A number without leading zeros that is not left out by itself.
fn is_port(scheme: &[u8], port: &[u8]) -> bool {
    let number = std::str::from_utf8(port).ok().and_then(|text| text.parse::<u16>().ok());
    number.is_some_and(|number| number.to_string().as_bytes() == port && default_port(scheme) != Some(number))
}

/// Of the schemes whose default port the URL standard knows and an origin leaves out.
fn default_port(scheme: &[u8]) -> Option<u16> {
    match scheme {
        b"http" | b"ws" => Some(80),
        b"https" | b"wss" => Some(443),
        b"ftp" => Some(21),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_an_origin_as_browsers_write_it() {
        for good in [
            "null",
            "https://app.example",
            "http://localhost:3000",
            "http://127.0.0.1:8080",
            "http://[::1]:8080",
            "https://app.example:80",
            "http://app.example:443",
            "https://a_b.xn--e1afmkfd.example",
            "capacitor://localhost",
            "chrome-extension://abcdefgh",
            "https://*.example.com",
            "http://*.localhost:3000",
        ] {
            assert!(Pattern::parse(good).is_some(), "{good}");
        }
        let check = |bad: &str, meant: Option<&str>| {
            assert_eq!(Pattern::parse(bad), None, "{bad}");
            assert_eq!(normal(bad).as_deref(), meant, "{bad}");
        };
        check("https://app.example/", Some("https://app.example"));
        check("https://app.example/path?q", Some("https://app.example"));
        check("https://App.Example", Some("https://app.example"));
        check("HTTPS://app.example", Some("https://app.example"));
        check("app.example:8443", Some("https://app.example:8443"));
        check("https://app.example:443", Some("https://app.example"));
        check("http://*.example.com:80/", Some("http://*.example.com"));
        check("https://app.example.", Some("https://app.example"));
        check(" https://app.example", Some("https://app.example"));
        for bad in [
            "",
            "https://",
            "*.",
            "https://*",
            "https://*.",
            "https://a.*.example",
            "https://a*.example.com",
            "https://*a.example.com",
            "https://*.*.example.com",
            "https://*.[::1]",
            "https://app.example:*",
            "*://app.example",
            "https://app.example:08443",
            "https://app.example:65536",
            "https://app.example:",
            "https://a..example",
            "https://user@app.example",
            "https://\u{e4}.example",
            "http://[::0001]",
            "1http://a",
            "https://app.example https://b.example",
        ] {
            check(bad, None);
        }
        check("NULL", Some("null"));
    }

    #[test]
    fn an_origin_is_allowed_as_a_whole_or_not_at_all() {
        let check = |pattern: &str, value: &str, expected: bool| {
            assert_eq!(
                Pattern::parse(pattern).unwrap().allows(value.as_bytes()),
                expected,
                "{pattern} {value}"
            );
        };
        check("null", "null", true);
        check("null", "NULL", false);
        check("https://app.example", "https://app.example", true);
        for other in [
            "",
            "null",
            "http://app.example",
            "https://app.example/",
            "https://app.example.",
            "https://app.example:443",
            "https://app.example:8443",
            "https://evil-app.example",
            "https://app.example.evil.com",
            "https://App.example",
            "https://app.example https://app.example",
        ] {
            check("https://app.example", other, false);
        }
        let below = "https://*.example.com";
        for fits in ["https://a.example.com", "https://a.b.example.com", "https://a_-1.example.com"] {
            check(below, fits, true);
        }
        for other in [
            "https://example.com",
            "https://.example.com",
            "https://a..example.com",
            "https://evilexample.com",
            "https://a.example.com.",
            "https://a.example.com.evil.com",
            "https://a.example.com:8443",
            "https://a.example.com:443",
            "http://a.example.com",
            "xhttps://a.example.com",
            "https://evil.com/.example.com",
            "https://evil.com#.example.com",
            "https://evil.com:1.example.com",
            "https://u@a.example.com",
            "https://A.example.com",
            "https://a\u{e4}.example.com",
            "https://a b.example.com",
            "https://*.example.com",
        ] {
            check(below, other, false);
        }
        check("https://*.example.com:8443", "https://a.example.com:8443", true);
        check("https://*.example.com:8443", "https://a.example.com", false);
    }
}
