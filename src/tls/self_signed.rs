//! A certificate for development, made anew at each start: nobody trusts it, and nobody keeps it.

use std::time::Duration;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::PrivateKeyDer;

use super::pair::Pair;

/// Who it is for.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
const HOUR_S: i64 = 3600;
/// Longer than a session of development, and what browsers take at most.
const VALID_S: i64 = 365 * 24 * HOUR_S;

/// A pair that is valid from an hour before `now_s` on, as clocks differ.
///
/// # Errors
/// What the library says of why it cannot make one.
pub fn self_signed(now_s: i64) -> Result<Pair, String> {
    let make = || {
        let mut wanted = CertificateParams::new(NAMES.map(str::to_owned))?;
        wanted.distinguished_name.push(DnType::CommonName, "scalws, self-signed for development");
        wanted.is_ca = IsCa::ExplicitNoCa;
        wanted.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let at = |seconds: i64| {
            date_time_ymd(1970, 1, 1) + Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
        };
        wanted.not_before = at(now_s.saturating_sub(HOUR_S));
        wanted.not_after = at(now_s.saturating_add(VALID_S));
        let key = KeyPair::generate()?;
        let certificate = wanted.self_signed(&key)?;
        Ok::<_, rcgen::Error>((certificate.der().clone(), key))
    };
    let (certificate, key) = make().map_err(|error| error.to_string())?;
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(str::to_owned)?;
    Pair::new(vec![certificate], key).map_err(|fault| fault.reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_for_this_machine_and_a_year() {
        let pair = self_signed(1_800_000_000).unwrap();
        assert_eq!(pair.names, ["localhost"]);
        assert_eq!((pair.first_s, pair.last_s), (1_799_996_400, 1_831_536_000));
        assert_ne!(pair.fingerprint, self_signed(1_800_000_000).unwrap().fingerprint, "made anew");
    }
}
