//! The certificate of the TLS rows: the same for every server, made by openssl in the scratch directory.

use std::fs;
use std::path::{Path, PathBuf};

use super::tool;
use crate::Refusal;

/// The TLS 1.3 suite, set where a server lets one choose. A generator that offers this one alone gets it
/// from all of them.
pub const SUITE: &str = "TLS_AES_128_GCM_SHA256";

/// Where the certificate and its key are, both PEM. It is its own anchor: a generator trusts this one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Self-signed, P-256, for `localhost` and 127.0.0.1, no authority.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

const REQUEST: &str = "[req]
distinguished_name = name
prompt = no
x509_extensions = extensions
[name]
CN = localhost
[extensions]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost,IP:127.0.0.1
";

/// The certificate beneath `scratch/tls`, made where it is not there yet.
///
/// # Errors
/// There is no openssl, or no room.
pub fn certificate(scratch: &Path) -> Result<Certificate, Refusal> {
    let directory = scratch.join("tls");
    let made = Certificate { certificate: directory.join("certificate.pem"), key: directory.join("key.pem") };
    if made.certificate.is_file() && made.key.is_file() {
        return Ok(made);
    }
    if tool::find("openssl").is_none() {
        return Err(Refusal::new("openssl is not installed: apt-get install openssl"));
    }
    let at = |error: std::io::Error| Refusal::new(format!("{}: {error}", directory.display()));
    fs::create_dir_all(&directory).map_err(at)?;
    let request = directory.join("request.cnf");
    fs::write(&request, REQUEST).map_err(at)?;
    let output = tool::bounded(30, "openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-sha256"])
        .args(["-days", "365", "-batch", "-config"])
        .arg(&request)
        .arg("-keyout")
        .arg(&made.key)
        .arg("-out")
        .arg(&made.certificate)
        .output()
        .map_err(at)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Refusal::new(format!("openssl made no certificate: {}", tool::last_line(&said))));
    }
    Ok(made)
}
