//! A request as handlers see it: borrowed from the connection's buffer, target and host understood.

use crate::semantics::head::Version;
use crate::semantics::method::Method;
use crate::semantics::path::SafePath;

/// One field line.
pub type Field<'a> = httparse::Header<'a>;

/// What the request is about (RFC 9112 §3.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Where<'a> {
    /// A path, normalised, with its query as it was sent.
    Path(SafePath<'a>, Option<&'a [u8]>),
    /// `*`: the server itself.
    Server,
}

/// A request whose head is complete and whose body was read and dropped.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// A method that the server knows.
    pub method: Method,
    /// Path and query.
    pub target: Where<'a>,
    /// Host as sent, with its port; the authority of an absolute target replaces it (RFC 9112 §3.2.2).
    pub authority: &'a [u8],
    /// Version of the message.
    pub version: Version,
    /// Field lines in their order.
    pub fields: &'a [Field<'a>],
    /// Bytes of the body after decoding.
    pub body_bytes: u64,
}

impl<'a> Request<'a> {
    /// Values of all field lines with this name, in order.
    pub fn values(&self, name: &'static str) -> impl Iterator<Item = &'a [u8]> {
        self.fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
    }
}
