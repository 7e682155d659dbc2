//! Certificates and keys that cannot be served, or should not be (case G03).

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::support::secure::{Authority, own, pem, table};
use crate::support::{Launch, Site, is_root, run};

const ROUTE: &str = "[[route]]\npath = \"/\"\nrespond = {}\n";

/// What is said of a pair with this content: by `check` alone, and by `serve` in the same words.
#[track_caller]
fn said(site: &Site, certificate: &[u8], key: &[u8]) -> (Option<i32>, String) {
    let (certificate, key) = (site.beside("tls.crt", certificate), site.beside("tls.key", key));
    own(&key);
    let config = site.config(&format!("{}{ROUTE}", table(&certificate, &key)));
    let config = config.to_str().unwrap();
    let checked = run(&["check", "--config", config]);
    if checked.code != Some(0) {
        let served = run(&["serve", "--config", config]);
        assert_eq!((served.code, &served.stderr), (checked.code, &checked.stderr));
    }
    (checked.code, checked.stderr)
}

/// The error shows at the first handshake, or it is a backtrace that names neither file nor key. Here: one line with
/// the place in the config, the key, the file, and the reason; and the exit code of a wrong config.
#[test]
fn what_is_no_pair_is_one_line_at_start() {
    let site = Site::sample();
    let authority = Authority::new();
    let (made, other) = (authority.numbered(1), authority.numbered(2));
    let (chain, key) = (made.chain.as_bytes(), made.key.as_bytes());
    let check = |name: &str, certificate: &[u8], key: &[u8], reason: &str| {
        let (code, stderr) = said(&site, certificate, key);
        let file = site.directory().join(format!("tls.{}", if name == "key" { "key" } else { "crt" }));
        // The third and fourth lines of the file.
        let at = if name == "key" { "4:7" } else { "3:15" };
        let start = format!(
            "{}:{at}: tls.{name}: expected a file with ",
            site.directory().join("scalws.toml").display()
        );
        let found = format!("found \"{}", &file.to_str().unwrap()[..20]);
        assert_eq!((code, stderr.lines().count()), (Some(78), 1), "{stderr}");
        assert!(stderr.starts_with(&start) && stderr.contains(&found) && stderr.contains(reason), "{stderr}");
    };
    check("key", chain, other.key.as_bytes(), "which belongs to another certificate");
    check("certificate", b"", key, "which is empty");
    check("certificate", &made.der, key, "which is in DER form");
    check("certificate", key, key, "which holds a key and no certificate");
    check("certificate", &chain[..chain.len() / 4], key, "which ends too early");
    check("key", chain, &made.key_der, "which is in DER form");
    check("key", chain, pem("ENCRYPTED PRIVATE KEY", &made.key_der).as_bytes(), "which is encrypted");
    check("key", chain, chain, "which holds a certificate and no key");
    let reversed = authority.pem() + &pem("CERTIFICATE", &made.der);
    check("certificate", reversed.as_bytes(), key, "whose certificate number 2 is that of the key");
    assert_eq!(said(&site, chain, key), (Some(0), String::new()));
}

/// Files that are not there, not files, or not ours to read; and both faults of two certificates at once.
#[test]
fn what_cannot_be_read_is_named() {
    let site = Site::sample();
    let made = Authority::new().numbered(1);
    let (certificate, key) = made.write(&site, "tls");
    let lines = |certificate: &Path, key: &Path, more: &str| {
        let config = site.config(&format!("{}{more}{ROUTE}", table(certificate, key)));
        run(&["check", "--config", config.to_str().unwrap()]).stderr
    };
    let nowhere = site.directory().join("nowhere");
    assert!(
        lines(&nowhere, &key, "").contains("tls.certificate")
            && lines(&nowhere, &key, "").contains("which does not exist")
    );
    assert!(lines(&certificate, site.directory(), "").contains("which is no regular file"));
    let more = format!("[[tls.certificates]]\ncertificate = '{0}'\nkey = '{0}'\n", nowhere.display());
    let both = lines(&certificate, &certificate, &more);
    assert_eq!(both.lines().count(), 2, "{both}");
    assert!(both.contains("tls.certificates.certificate"), "{both}");
    if !is_root() {
        skip!("needs root for a key that another user may not read");
    }
    let config = site.config(&format!("{}{ROUTE}", table(&certificate, &key)));
    std::fs::set_permissions(site.directory(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut server = Launch::with_config(&config, false).unprivileged().spawn();
    assert_eq!(server.wait_exit().code(), Some(78));
    let told = server.errors.to_end().join("\n");
    assert!(told.contains("tls.key") && told.contains("which this user may not read"), "{told}");
}

/// An expired certificate is served, as a wrong clock or a late renewal must not take the site down; it is told. So is
/// one that will expire, one of the future, a chain out of order, and a key that others may read.
#[test]
fn what_should_not_be_served_is_a_warning() {
    let site = Site::sample();
    let authority = Authority::new();
    let dated = |first: (i32, u8), last: (i32, u8)| {
        authority.sign(&["localhost"], |wanted| {
            wanted.not_before = rcgen::date_time_ymd(first.0, first.1, 1);
            wanted.not_after = rcgen::date_time_ymd(last.0, last.1, 1);
        })
    };
    let check = |certificate: &str, key: &str, expected: &str| {
        let (code, stderr) = said(&site, certificate.as_bytes(), key.as_bytes());
        assert_eq!((code, stderr.lines().count()), (Some(0), 1), "{stderr}");
        assert!(stderr.starts_with("warning: ") && stderr.contains(expected), "{stderr}");
    };
    let expired = dated((2020, 1), (2020, 6));
    check(
        &expired.chain,
        &expired.key,
        "3:15: tls.certificate: the certificate expired at 2020-06-01T00:00:00.000Z",
    );
    let early = dated((2090, 1), (2091, 1));
    check(&early.chain, &early.key, "the certificate is not valid before 2090-01-01T00:00:00.000Z");
    let soon = authority.sign(&["localhost"], |wanted| {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        let day = std::time::Duration::from_secs(86_400);
        wanted.not_before = rcgen::date_time_ymd(1970, 1, 1) + (now - 80 * day);
        wanted.not_after = rcgen::date_time_ymd(1970, 1, 1) + (now + 10 * day);
    });
    check(&soon.chain, &soon.key, "the certificate expires at ");
    let made = authority.numbered(3);
    let stranger = Authority::new().sign(&["elsewhere"], |_| {});
    check(&(pem("CERTIFICATE", &made.der) + &stranger.chain), &made.key, "the chain is not in order");
    let (certificate, key) = made.write(&site, "open");
    for (mode, who) in [(0o604, "every user"), (0o640, "its group")] {
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
        let config = site.config(&format!("{}{ROUTE}", table(&certificate, &key)));
        let checked = run(&["check", "--config", config.to_str().unwrap()]);
        let expected = format!("4:7: tls.key: {who} may read the key: chmod 0600 leaves it to its owner");
        assert!(checked.code == Some(0) && checked.stderr.contains(&expected), "{}", checked.stderr);
    }
}

/// A health check with the same config says how the server is, and not how its next pair is.
#[test]
fn a_health_check_looks_at_no_certificate() {
    let site = Site::sample();
    let nowhere = site.directory().join("nowhere");
    let tls = table(&nowhere, &nowhere);
    let config = site.config(&format!("[server]\nadmin = \"127.0.0.1:1\"\n{tls}{ROUTE}"));
    let found = run(&["healthcheck", "--config", config.to_str().unwrap()]);
    assert!(found.code == Some(1) && found.stderr.contains("/readyz does not answer"), "{}", found.stderr);
}
