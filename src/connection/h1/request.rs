//! From a head to a request that a handler can answer, and to the line that the log will hold.

use super::head::Head;
use crate::message::{Request, Where};
use crate::semantics::head::{Refusal, Version, is_authority};
use crate::semantics::method::Method;
use crate::semantics::path::{SafePath, Target};
use crate::telemetry::access::Entry;

/// Why a well-framed request gets no handler.
pub(super) enum Objection {
    /// With this status, and the connection goes on.
    Stay(u16),
    /// The connection ends.
    End(Refusal),
}

/// Makes a request of a head (RFC 9112 §3).
pub(super) fn understand<'a>(head: &Head<'a>, body_bytes: u64) -> Result<Request<'a>, Objection> {
    let bad = |reason| Objection::End(Refusal::bad(reason));
    let unknown = |reason| Objection::End(Refusal { status: 501, reason });
    if head.method == b"CONNECT" {
        return Err(unknown("CONNECT is for proxies"));
    }
    let target = Target::parse(head.target).map_err(|error| bad(error.0))?;
    let Some(method) = Method::parse(head.method) else {
        // RFC 9110 §9.1. The framing is known, so the connection stays; but for `*`, which only
        // OPTIONS has: the preface of HTTP/2 looks like that, and more of it follows (RFC 9113 §3.4).
        return Err(match target {
            Target::Asterisk => unknown("unknown method for the whole server"),
            Target::Path { .. } => Objection::Stay(501),
        });
    };
    let (target, authority) = match target {
        Target::Asterisk if method == Method::Options => (Where::Server, head.rules.host),
        Target::Asterisk => return Err(bad("asterisk target with a method other than OPTIONS")),
        Target::Path { authority, path, query } => {
            // RFC 9112 §3.2.2: the target's authority replaces the Host field, which was looked at before.
            if authority.is_some_and(|authority| !is_authority(authority)) {
                return Err(bad("authority of the target is not a host with an optional port"));
            }
            let authority = authority.unwrap_or(head.rules.host);
            let path = SafePath::parse(path).map_err(|_| Objection::Stay(400))?;
            (Where::Path(path, query), authority)
        }
    };
    Ok(Request { method, target, authority, version: head.version, fields: head.fields, body_bytes })
}

/// What the access log says of a head.
pub(super) fn entry<'a>(head: &Head<'a>) -> Entry<'a> {
    let value = |name: &str| {
        head.fields
            .iter()
            .find(|field| field.name.eq_ignore_ascii_case(name))
            .map_or(&[] as &[u8], |field| field.value)
    };
    Entry {
        method: head.method,
        target: head.target,
        version: if head.version == Version::Http11 { "1.1" } else { "1.0" },
        host: head.rules.host,
        referer: value("referer"),
        user_agent: value("user-agent"),
        ..Entry::default()
    }
}
