//! Request methods (RFC 9110 §9): case-sensitive tokens; what is not registered here is 501.

/// The methods that the server knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    /// RFC 9110 §9.3.1
    Get,
    /// RFC 9110 §9.3.2
    Head,
    /// RFC 9110 §9.3.3
    Post,
    /// RFC 9110 §9.3.4
    Put,
    /// RFC 9110 §9.3.5
    Delete,
    /// RFC 9110 §9.3.6; always refused, it belongs to forward proxies
    Connect,
    /// RFC 9110 §9.3.7
    Options,
    /// RFC 9110 §9.3.8; always refused, it would echo cookies
    Trace,
    /// RFC 5789
    Patch,
}

impl Method {
    /// Every method with its token.
    pub const ALL: [(Method, &'static str); 9] = [
        (Method::Get, "GET"),
        (Method::Head, "HEAD"),
        (Method::Post, "POST"),
        (Method::Put, "PUT"),
        (Method::Delete, "DELETE"),
        (Method::Connect, "CONNECT"),
        (Method::Options, "OPTIONS"),
        (Method::Trace, "TRACE"),
        (Method::Patch, "PATCH"),
    ];

    /// The method of a token, `None` for one that is not known.
    #[must_use]
    pub fn parse(token: &[u8]) -> Option<Method> {
        Self::ALL.iter().find(|(_, name)| name.as_bytes() == token).map(|(method, _)| *method)
    }

    /// Its token.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(method, _)| *method == self).map_or("", |(_, name)| name)
    }
}
