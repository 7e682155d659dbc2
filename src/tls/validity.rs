//! When a certificate is valid (RFC 5280 §4.1). No library that is here tells, so this walks through the first
//! fields of a certificate that was parsed and found well-formed before.

use crate::semantics::date::certificate_time;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
/// `[0] EXPLICIT`, around the version.
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// First and last second in which the certificate is valid, since 1970; `None` where it is none.
pub(super) fn validity(certificate: &[u8]) -> Option<(i64, i64)> {
    let (mut certificate, _) = take(certificate, &[SEQUENCE])?;
    let (mut fields, _) = take_from(&mut certificate, &[SEQUENCE])?;
    if fields.first() == Some(&VERSION) {
        take_from(&mut fields, &[VERSION])?;
    }
    take_from(&mut fields, &[INTEGER])?;
    // Algorithm of the signature, issuer.
    take_from(&mut fields, &[SEQUENCE])?;
    take_from(&mut fields, &[SEQUENCE])?;
    let (mut dates, _) = take_from(&mut fields, &[SEQUENCE])?;
    let mut date = || take_from(&mut dates, &[UTC_TIME, GENERALIZED_TIME]);
    let (first, last) = (date()?, date()?);
    let seconds = |(text, tag): (&[u8], u8)| {
        let is_fitting = text.len() == if tag == UTC_TIME { 13 } else { 15 };
        certificate_time(text).filter(|_| is_fitting)
    };
    Some((seconds(first)?, seconds(last)?))
}

/// The content of the value at the front of `bytes` and its tag, if it is one of these; moves behind it.
fn take_from<'b>(bytes: &mut &'b [u8], tags: &[u8]) -> Option<(&'b [u8], u8)> {
    let tag = *bytes.first()?;
    let (content, rest) = take(bytes, tags)?;
    *bytes = rest;
    Some((content, tag))
}

/// Content and rest. Lengths of DER are in the short form, or in as few bytes as they take (X.690 §10.1).
fn take<'b>(bytes: &'b [u8], tags: &[u8]) -> Option<(&'b [u8], &'b [u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match *first {
        short @ 0..=0x7f => (usize::from(short), rest),
        long => {
            let (digits, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            if !(1..=4).contains(&digits.len()) {
                return None;
            }
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
    };
    tags.contains(tag).then(|| rest.split_at_checked(length))?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value with a length in the long form where it needs one.
    fn value(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = content.len();
        let mut bytes = vec![tag];
        match u8::try_from(length) {
            Ok(short @ 0..=0x7f) => bytes.push(short),
            _ => bytes.extend([0x82, (length >> 8) as u8, length as u8]),
        }
        bytes.extend_from_slice(content);
        bytes
    }

    fn certificate(version: bool, dates: &[(u8, &str)]) -> Vec<u8> {
        let mut fields = if version { value(VERSION, &value(INTEGER, &[2])) } else { Vec::new() };
        fields.extend(value(INTEGER, &[7; 20]));
        fields.extend(value(SEQUENCE, b"algorithm"));
        fields.extend(value(SEQUENCE, &[1; 300]));
        let dates: Vec<u8> = dates.iter().flat_map(|(tag, text)| value(*tag, text.as_bytes())).collect();
        fields.extend(value(SEQUENCE, &dates));
        fields.extend(value(SEQUENCE, b"subject"));
        value(SEQUENCE, &value(SEQUENCE, &fields))
    }

    #[test]
    fn dates_are_found_in_both_forms() {
        let utc = (UTC_TIME, "700101000000Z");
        let general = (GENERALIZED_TIME, "20500101000000Z");
        for version in [true, false] {
            assert_eq!(validity(&certificate(version, &[utc, general])), Some((0, 2_524_608_000)));
        }
        for wrong in [
            &[utc][..],
            &[(UTC_TIME, "20500101000000Z"), general],
            &[(GENERALIZED_TIME, "700101000000Z"), general],
            &[(INTEGER, "700101000000Z"), general],
            &[(UTC_TIME, "701301000000Z"), general],
        ] {
            assert_eq!(validity(&certificate(true, wrong)), None, "{wrong:?}");
        }
    }

    #[test]
    fn what_is_cut_or_bent_is_none_and_no_panic() {
        let whole = certificate(true, &[(UTC_TIME, "700101000000Z"), (UTC_TIME, "491231235959Z")]);
        for end in 0..whole.len() {
            assert_eq!(validity(&whole[..end]), None);
        }
        for at in 0..whole.len() {
            for byte in [0, 0x30, 0x7f, 0x80, 0x84, 0xff] {
                let mut bent = whole.clone();
                bent[at] = byte;
                let _ = validity(&bent);
            }
        }
    }
}
