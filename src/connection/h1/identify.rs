//! What others learn of a request by its own answer: its id, and how long its phases took.

use super::head::Head;
use crate::telemetry::facts::LookedUp;
use crate::telemetry::identity::Identity;
use crate::telemetry::observer::Observer;
use crate::telemetry::record::Record;

/// Who the request with this head is; `None` where nobody asks.
pub(super) fn identify(observer: &Observer, is_trusted: bool, head: &Head<'_>) -> Option<Box<Identity>> {
    let fields = head.fields.iter().map(|field| (field.name, field.value));
    observer.identify(is_trusted, fields)
}

/// Appends the field lines of an identity.
pub(super) fn push_fields(out: &mut Vec<u8>, identity: &Identity, record: &Record) {
    if !identity.request_id.is_empty() {
        out.extend_from_slice(b"X-Request-Id: ");
        out.extend_from_slice(&identity.request_id);
        out.extend_from_slice(b"\r\n");
    }
    if identity.wants_timing {
        push_timing(out, record);
    }
}

/// `Server-Timing` (W3C): each phase until the answer was known, in milliseconds.
fn push_timing(out: &mut Vec<u8>, record: &Record) {
    let Record { routed_us, waited_us, resolved_us, .. } = *record;
    out.extend_from_slice(b"Server-Timing: route;dur=");
    push_ms(out, routed_us);
    out.extend_from_slice(b", resolve;dur=");
    push_ms(out, resolved_us.saturating_sub(routed_us));
    if record.facts.looked_up == LookedUp::Inline {
        out.extend_from_slice(b";desc=\"inline\"");
    }
    if let Some(why) = record.facts.why {
        out.extend_from_slice(b", pool;dur=");
        push_ms(out, resolved_us.saturating_sub(waited_us));
        out.extend_from_slice(b";desc=\"");
        out.extend_from_slice(why.name().as_bytes());
        out.push(b'"');
    }
    out.extend_from_slice(b"\r\n");
}

fn push_ms(out: &mut Vec<u8>, us: u32) {
    super::write::push_decimal(out, u64::from(us / 1000));
    let rest = us % 1000;
    out.push(b'.');
    for digit in [rest / 100, rest / 10 % 10, rest % 10] {
        // A remainder of ten is one digit.
        out.push(b'0' + u8::try_from(digit).unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::Why;

    #[test]
    fn the_fields_say_what_was_asked_for() {
        let fields = |identity: &Identity, record: &Record| {
            let mut out = Vec::new();
            push_fields(&mut out, identity, record);
            String::from_utf8(out).unwrap()
        };
        let mut record = Record { routed_us: 12, resolved_us: 1_034, ..Record::NONE };
        let mut identity = Identity::default();
        assert_eq!(fields(&identity, &record), "");
        identity.request_id = b"abc".as_slice().into();
        assert_eq!(fields(&identity, &record), "X-Request-Id: abc\r\n");
        identity = Identity { wants_timing: true, ..Identity::default() };
        assert_eq!(fields(&identity, &record), "Server-Timing: route;dur=0.012, resolve;dur=1.022\r\n");
        record.facts.add_hop(Why::ColdName);
        record.waited_us = 34;
        let text = "Server-Timing: route;dur=0.012, resolve;dur=1.022, pool;dur=1.000;desc=\"cold_name\"\r\n";
        assert_eq!(fields(&identity, &record), text);
    }
}
