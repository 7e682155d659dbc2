//! A certificate and its key: read together, and either a pair that can be served or one reason why not.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use sha2::{Digest as _, Sha256};
use webpki::EndEntityCert;

use super::validity::validity;
use crate::limits::TLS_FILE_BYTES_MAX;

/// Where a pair is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The chain, in PEM form.
    pub certificate: PathBuf,
    /// The key, in PEM form.
    pub key: PathBuf,
}

/// Which of the two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The chain.
    Certificate,
    /// The key.
    Key,
}

impl Part {
    /// The key of the config.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Part::Certificate => "certificate",
            Part::Key => "key",
        }
    }
}

/// Why there is no pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file at fault.
    pub part: Part,
    /// What it is instead, and what to do: "which …".
    pub reason: String,
}

impl Fault {
    fn new(part: Part, reason: impl Into<String>) -> Fault {
        Fault { part, reason: reason.into() }
    }

    /// What should have been there.
    #[must_use]
    pub const fn expected(&self) -> &'static str {
        match self.part {
            Part::Certificate => "a file with a certificate chain in PEM form",
            Part::Key => "a file with the private key of the certificate in PEM form",
        }
    }
}

/// What is in the two files.
pub struct Content {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Files {
    /// Reads both. May wait as long as the file system does.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn read(&self) -> Result<Content, Fault> {
        let read = |path: &Path, part| read(path).map_err(|reason| Fault::new(part, reason));
        let certificate = read(&self.certificate, Part::Certificate)?;
        Ok(Content { certificate, key: read(&self.key, Part::Key)? })
    }

    /// Who else may read the key, where that is more than its owner.
    #[must_use]
    pub fn readers_of_key(&self) -> Option<&'static str> {
        let mode = std::fs::metadata(&self.key).ok()?.mode();
        match (mode & 0o004, mode & 0o040) {
            (0, 0) => None,
            (0, _) => Some("its group"),
            _ => Some("every user"),
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    // Looked at before it is opened: opening a fifo would wait for its writer.
    let is_file = std::fs::metadata(path).map_err(|error| unread(&error))?.is_file();
    if !is_file {
        return Err("which is no regular file".to_owned());
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| unread(&error))?;
    file.take(TLS_FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| unread(&error))?;
    if bytes.len() as u64 > TLS_FILE_BYTES_MAX {
        return Err("which is larger than 1 MiB".to_owned());
    }
    Ok(bytes)
}

fn unread(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "which does not exist".to_owned(),
        io::ErrorKind::PermissionDenied => "which this user may not read".to_owned(),
        _ => format!("which cannot be read: {error}"),
    }
}

impl Content {
    /// Tells versions of the pair apart, without keeping the key.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update((self.certificate.len() as u64).to_le_bytes());
        hash.update(&self.certificate);
        hash.update(&self.key);
        hash.finalize().into()
    }

    /// Makes the pair of it.
    ///
    /// # Errors
    /// It is none.
    pub fn pair(&self) -> Result<Pair, Fault> {
        let chain = chain(&self.certificate).map_err(|reason| Fault::new(Part::Certificate, reason))?;
        let key = key(&self.key).map_err(|reason| Fault::new(Part::Key, reason))?;
        Pair::new(chain, key)
    }
}

fn chain(bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) if holds(bytes, "PRIVATE KEY") => Err("which holds a key and no certificate".to_owned()),
        Ok(_) => Err(no_pem(bytes, "x509")),
        Err(error) => Err(broken(&error)),
    }
}

fn key(bytes: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    if holds(bytes, "ENCRYPTED") {
        return Err(
            "which is encrypted: `openssl pkey -in FILE -out FILE` takes the passphrase off".to_owned()
        );
    }
    match PrivateKeyDer::from_pem_slice(bytes) {
        Ok(key) => Ok(key),
        Err(pem::Error::NoItemsFound) if holds(bytes, "CERTIFICATE") => {
            Err("which holds a certificate and no key".to_owned())
        }
        Err(pem::Error::NoItemsFound) => Err(no_pem(bytes, "pkey")),
        Err(error) => Err(broken(&error)),
    }
}

fn holds(bytes: &[u8], label: &str) -> bool {
    let begins = |line: &[u8]| line.starts_with(b"-----BEGIN ") || line.starts_with(b"Proc-Type:");
    let mut lines = bytes.split(|byte| *byte == b'\n').filter(|line| begins(line));
    lines.any(|line| memchr::memmem::find(line, label.as_bytes()).is_some())
}

fn no_pem(bytes: &[u8], command: &str) -> String {
    match bytes {
        _ if bytes.trim_ascii().is_empty() => "which is empty".to_owned(),
        // A sequence with a length of two bytes.
        [0x30, 0x81..=0x83, ..] => {
            format!(
                "which is in DER form: `openssl {command} -inform der -in FILE -out FILE` makes PEM of it"
            )
        }
        _ => "which holds no PEM".to_owned(),
    }
}

/// Not with its bytes, which may be those of a key.
fn broken(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "which ends too early: an END line is missing".to_owned(),
        pem::Error::IllegalSectionStart { .. } => "which has a broken BEGIN line".to_owned(),
        pem::Error::Base64Decode(_) => "which is not all base64 between its lines".to_owned(),
        _ => "which is no PEM that can be read".to_owned(),
    }
}

/// A certificate that can be served.
#[derive(Clone, Debug)]
pub struct Pair {
    /// As the handshake needs it.
    pub certified: Arc<CertifiedKey>,
    /// DNS names of the certificate in lower case; `*.example.com` is any name one label below.
    pub names: Vec<String>,
    /// First second in which it is valid, since 1970.
    pub first_s: i64,
    /// The last.
    pub last_s: i64,
    /// SHA-256 of the certificate in hexadecimal digits, as `openssl x509 -fingerprint -sha256` without colons.
    pub fingerprint: String,
    /// Its serial number in hexadecimal digits.
    pub serial: String,
    /// Whether each certificate of the chain is followed by that of its issuer.
    pub is_in_order: bool,
}

impl Pair {
    /// Puts the two together.
    ///
    /// # Errors
    /// They do not belong together, or are of a kind that cannot be served.
    pub fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Pair, Fault> {
        let of_certificate = |reason: String| Fault::new(Part::Certificate, reason);
        let key = any_supported_type(&key).map_err(|_| {
            let kinds = "RSA of 2048 to 8192 bits, P-256, P-384, P-521 and Ed25519";
            Fault::new(Part::Key, format!("which is no key of a kind that is known: {kinds} are"))
        })?;
        let leaf = chain.first().ok_or_else(|| of_certificate("which is empty".to_owned()))?;
        let parsed = EndEntityCert::try_from(leaf).map_err(|error| {
            of_certificate(format!("whose first certificate is none that clients take ({error:?})"))
        })?;
        let (first_s, last_s) = validity(leaf)
            .ok_or_else(|| of_certificate("whose first certificate has no dates".to_owned()))?;
        let names = parsed.valid_dns_names().map(str::to_ascii_lowercase).collect();
        let (fingerprint, serial) = (hex(&Sha256::digest(leaf)), hex(parsed.serial()));
        let is_in_order = is_in_order(&chain);
        let certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(_) => return Err(mismatch(&certified)),
        }
        let certified = Arc::new(certified);
        Ok(Pair { certified, names, first_s, last_s, fingerprint, serial, is_in_order })
    }
}

/// The key is of another certificate, perhaps of one that stands further behind.
fn mismatch(certified: &CertifiedKey) -> Fault {
    let is_of = |leaf: &CertificateDer<'static>| {
        CertifiedKey::new(vec![leaf.clone()], Arc::clone(&certified.key)).keys_match().is_ok()
    };
    match certified.cert.iter().position(is_of) {
        Some(at) => Fault::new(
            Part::Certificate,
            format!(
                "whose certificate number {} is that of the key: put it first, its issuer behind it",
                at + 1
            ),
        ),
        None => Fault::new(Part::Key, "which belongs to another certificate"),
    }
}

fn is_in_order(chain: &[CertificateDer<'static>]) -> bool {
    let follows = |pair: &[CertificateDer<'static>]| {
        let [of, by] = pair else { return false };
        let (of, by) = (EndEntityCert::try_from(of), EndEntityCert::try_from(by));
        matches!((of, by), (Ok(of), Ok(by)) if of.issuer() == by.subject())
    };
    chain.windows(2).all(follows)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A self-signed pair for these names.
    pub(in crate::tls) fn pair(names: &[&str]) -> Pair {
        let (chain, key) = made(names);
        Pair::new(vec![chain], PrivateKeyDer::try_from(key).unwrap()).unwrap()
    }

    fn made(names: &[&str]) -> (CertificateDer<'static>, Vec<u8>) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        (made.cert.der().clone(), made.signing_key.serialize_der())
    }

    fn pem(label: &str, der: &[u8]) -> String {
        const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = format!("-----BEGIN {label}-----\n");
        for (number, part) in der.chunks(3).enumerate() {
            let bits =
                part.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - part.len()));
            for digit in 0..4 {
                let place = (bits >> (18 - 6 * digit)) & 63;
                text.push(if digit > part.len() { '=' } else { DIGITS[place as usize] as char });
            }
            if number % 16 == 15 {
                text.push('\n');
            }
        }
        text + &format!("\n-----END {label}-----\n")
    }

    #[track_caller]
    fn check(certificate: &[u8], key: &[u8], part: Part, reason: &str) {
        let content = Content { certificate: certificate.to_vec(), key: key.to_vec() };
        let fault = content.pair().map(|pair| pair.names).unwrap_err();
        assert!(fault.part == part && fault.reason.starts_with(reason), "{fault:?}");
    }

    #[test]
    fn what_is_no_pair_says_why() {
        let ((leaf, leaf_key), (other, other_key)) = (made(&["a.example"]), made(&["b.example"]));
        let (certificate, key) = (pem("CERTIFICATE", &leaf), pem("PRIVATE KEY", &leaf_key));
        let (other, other_key) = (pem("CERTIFICATE", &other), pem("PRIVATE KEY", &other_key));
        let (certificate, key) = (certificate.as_bytes(), key.as_bytes());
        let whole = Content { certificate: certificate.to_vec(), key: key.to_vec() };
        let pair = whole.pair().unwrap();
        assert_eq!((pair.names, pair.is_in_order), (vec!["a.example".to_owned()], true));
        let of = Part::Certificate;
        check(b" \n", key, of, "which is empty");
        check(&leaf, key, of, "which is in DER form");
        check(key, key, of, "which holds a key and no certificate");
        check(b"hello\n", key, of, "which holds no PEM");
        check(&certificate[..200], key, of, "which ends too early");
        check(
            &[other.as_bytes(), certificate].concat(),
            key,
            of,
            "whose certificate number 2 is that of the key",
        );
        check(pem("CERTIFICATE", b"no certificate").as_bytes(), key, of, "whose first certificate is none");
        let of = Part::Key;
        check(certificate, b"", of, "which is empty");
        check(certificate, &leaf_key, of, "which is in DER form");
        check(certificate, certificate, of, "which holds a certificate and no key");
        check(certificate, &key[..100], of, "which ends too early");
        check(certificate, other_key.as_bytes(), of, "which belongs to another certificate");
        check(certificate, pem("ENCRYPTED PRIVATE KEY", &leaf_key).as_bytes(), of, "which is encrypted");
        check(certificate, pem("PRIVATE KEY", b"no key").as_bytes(), of, "which is no key of a kind");
        let legacy = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n";
        check(certificate, legacy.as_bytes(), of, "which is encrypted");
    }

    #[test]
    fn a_chain_out_of_order_is_told() {
        let ((leaf, key), (other, _)) = (made(&["a.example"]), made(&["b.example"]));
        // Both are their own issuers, under one name: by their names they follow each other.
        let chain = [pem("CERTIFICATE", &leaf), pem("CERTIFICATE", &other)].concat();
        let content = Content { certificate: chain.into(), key: pem("PRIVATE KEY", &key).into() };
        assert!(content.pair().unwrap().is_in_order);
        let mut stranger = rcgen::CertificateParams::new(vec!["c.example".to_owned()]).unwrap();
        stranger.distinguished_name.push(rcgen::DnType::CommonName, "a stranger");
        let stranger = stranger.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        let chain = [pem("CERTIFICATE", &leaf), pem("CERTIFICATE", stranger.der())].concat();
        let content = Content { certificate: chain.into(), key: pem("PRIVATE KEY", &key).into() };
        assert!(!content.pair().unwrap().is_in_order);
    }
}
