//! TLS as the generator speaks it: the least work for itself, the same work for every server.
//!
//! One cipher suite (AES-128-GCM, the one that RFC 8446 section 9.1 makes mandatory) and one group (X25519)
//! are offered, so no server chooses a cheaper one than another. Certificates are the lab's own, made for a
//! run: each is accepted as it is and its signature is not verified, which would cost the generator more than
//! signing costs the server. That the right server answers is proved by the hashes of its bodies.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, HandshakeKind, NamedGroup, SignatureScheme,
};

use crate::Refusal;
use crate::scenario::Protocol;

/// The name that is asked for: servers choose certificate and site by it.
pub(super) const NAME: &str = "localhost";

/// Tickets kept: some for each of the most connections of a sweep (500), as servers send one to four.
const TICKETS_MAX: usize = 4_096;

/// How that protocol's connections begin; `None` without TLS.
pub(super) fn config(protocol: Protocol) -> Result<Option<Arc<ClientConfig>>, Refusal> {
    if !protocol.is_tls() {
        return Ok(None);
    }
    let provider = Arc::new(CryptoProvider {
        cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![aws_lc_rs::kx_group::X25519],
        ..aws_lc_rs::default_provider()
    });
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| Refusal::new(format!("TLS: {error}")))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AsItIs(provider)))
        .with_no_client_auth();
    config.alpn_protocols = match protocol {
        Protocol::H2(..) => vec![b"h2".to_vec()],
        _ => vec![b"http/1.1".to_vec()],
    };
    config.resumption = match protocol {
        Protocol::TlsResumed => Resumption::store(Arc::new(Tickets::default())),
        _ => Resumption::disabled(),
    };
    Ok(Some(Arc::new(config)))
}

pub(super) fn connection(config: &Arc<ClientConfig>) -> Result<ClientConnection, Refusal> {
    let name = ServerName::try_from(NAME).map_err(|error| Refusal::new(format!("TLS: {error}")))?;
    let mut connection = ClientConnection::new(Arc::clone(config), name)
        .map_err(|error| Refusal::new(format!("TLS: {error}")))?;
    connection.set_buffer_limit(None);
    Ok(connection)
}

/// What is wrong with an answer that came after such a handshake.
pub(super) fn judge(protocol: Protocol, kind: Option<HandshakeKind>) -> Result<(), String> {
    match (protocol, kind) {
        (Protocol::TlsResumed, Some(HandshakeKind::Resumed)) => Ok(()),
        (Protocol::TlsResumed, _) => Err("came after a full handshake, expected a resumed one".to_owned()),
        (_, Some(HandshakeKind::Resumed)) => {
            Err("came after a resumed handshake, expected a full one".to_owned())
        }
        _ => Ok(()),
    }
}

/// Uses each ticket once, the newest first, as RFC 8446 appendix C.4 wants it of clients. rustls' own store
/// keeps eight for a server: fewer than there are connections at once.
#[derive(Debug, Default)]
struct Tickets(Mutex<VecDeque<Tls13ClientSessionValue>>);

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let mut tickets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tickets.len() == TICKETS_MAX {
            tickets.pop_front();
        }
        tickets.push_back(ticket);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_back()
    }
}

/// See the head of this file.
#[derive(Debug)]
struct AsItIs(Arc<CryptoProvider>);

impl ServerCertVerifier for AsItIs {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
