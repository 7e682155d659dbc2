//! Certificates and their keys: read and checked as pairs, chosen by the name that a client asks for, and the
//! one configuration of rustls that all workers share. Knows no socket, no HTTP and no log.
//!
//! `pair` reads and judges, `validity` finds the dates of a certificate, `ending` says how near its end is,
//! `choice` has the pairs in force, `self_signed` makes one for development.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::{Ticketer, default_provider};
use rustls::server::NoServerSessionStorage;
use rustls::version::{TLS12, TLS13};

mod choice;
mod ending;
mod pair;
mod self_signed;
mod validity;

pub use choice::Certificates;
pub use ending::Ending;
pub use pair::{Content, Fault, Files, Pair, Part};
pub use self_signed::self_signed;

/// What is offered in ALPN (RFC 7301).
const PROTOCOLS: &[&[u8]] = &[b"http/1.1"];

/// The configuration of the process: with one key for tickets, so that a session goes on with any worker, and
/// across a change of certificates, as it is made once.
///
/// # Errors
/// The library has no randomness.
pub fn server_config(certificates: Arc<Certificates>) -> Result<Arc<ServerConfig>, rustls::Error> {
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_protocol_versions(&[&TLS13, &TLS12])?.with_no_client_auth();
    let mut config = builder.with_cert_resolver(certificates);
    config.alpn_protocols = PROTOCOLS.iter().map(|name| name.to_vec()).collect();
    // Sessions are with the clients, in tickets whose key changes every six hours; a store of our own would be
    // a lock that all workers share. No early data: it can be replayed (RFC 8446 §8).
    config.ticketer = Ticketer::new()?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}
