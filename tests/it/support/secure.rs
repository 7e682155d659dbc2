//! TLS as a client and as an authority: certificates of the test's own, and a client that is strict about how a
//! stream ends.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SerialNumber};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

use super::client::Response;
use super::{DEADLINE, Launch, Server, Site, address_of};

/// An authority that signs what a test needs.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key.
pub struct Made {
    pub der: CertificateDer<'static>,
    /// The certificate and that of the authority.
    pub chain: String,
    pub key: String,
    pub key_der: Vec<u8>,
}

impl Authority {
    pub fn new() -> Authority {
        let mut wanted = CertificateParams::new(Vec::new()).unwrap();
        wanted.distinguished_name.push(DnType::CommonName, "an authority of tests");
        wanted.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(wanted, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn pem(&self) -> String {
        pem("CERTIFICATE", self.0.der())
    }

    pub fn sign(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Made {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut wanted = CertificateParams::new(names).unwrap();
        change(&mut wanted);
        let key = KeyPair::generate().unwrap();
        let der = wanted.signed_by(&key, &self.0).unwrap().der().clone();
        let (chain, key_der) = (pem("CERTIFICATE", &der) + &self.pem(), key.serialize_der());
        Made { der, chain, key: pem("PRIVATE KEY", &key_der), key_der }
    }

    /// For `localhost`, with a serial number to know it by.
    pub fn numbered(&self, number: u64) -> Made {
        self.sign(&["localhost"], |wanted| wanted.serial_number = Some(SerialNumber::from(number)))
    }

    /// A client that trusts this authority, and remembers sessions.
    pub fn client(&self, versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let config = config.with_protocol_versions(versions).unwrap().with_root_certificates(roots);
        let mut config = config.with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Arc::new(config)
    }
}

impl Made {
    /// Writes both beside the root of a site: `NAME.crt` and `NAME.key`, which its owner alone may read.
    pub fn write(&self, site: &Site, name: &str) -> (PathBuf, PathBuf) {
        let certificate = site.beside(format!("{name}.crt"), self.chain.as_bytes());
        let key = site.beside(format!("{name}.key"), self.key.as_bytes());
        own(&key);
        (certificate, key)
    }
}

/// Leaves a file to its owner.
pub fn own(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

pub fn pem(label: &str, der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n");
    for (number, part) in der.chunks(3).enumerate() {
        let bits = part.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - part.len()));
        for digit in 0..4 {
            let place = (bits >> (18 - 6 * digit)) & 63;
            text.push(if digit > part.len() { '=' } else { char::from(DIGITS[place as usize]) });
        }
        if number % 16 == 15 {
            text.push('\n');
        }
    }
    text + &format!("\n-----END {label}-----\n")
}

/// A server with a TLS listener beside its plain one.
pub struct Secured {
    pub server: Server,
    pub address: SocketAddr,
    pub authority: Authority,
}

impl Secured {
    /// The sample routes; `server` are keys of `[server]`, `tables` stand behind.
    #[track_caller]
    pub fn of(site: &Site, server: &str, tables: &str) -> Secured {
        let authority = Authority::new();
        let (certificate, key) = authority.numbered(1).write(site, "tls");
        let tls = table(&certificate, &key);
        let tables = format!("{tls}{tables}{}{}", site.route(), Server::RESPOND);
        let (server, address) = start(Launch::new(site, server, &tables));
        Secured { server, address, authority }
    }

    pub fn client(&self) -> Secure {
        Secure::connect(self.address, &self.authority.client(rustls::ALL_VERSIONS))
    }
}

/// `[tls]` with one pair.
pub fn table(certificate: &Path, key: &Path) -> String {
    let (certificate, key) = (certificate.display(), key.display());
    format!("[tls]\nlisten = [\"127.0.0.1:0\"]\ncertificate = '{certificate}'\nkey = '{key}'\n")
}

/// Starts it; the address is that with TLS.
#[track_caller]
pub fn start(launch: Launch) -> (Server, SocketAddr) {
    let server = launch.start();
    let event = "listening with TLS";
    let find = |lines: &[String]| lines.iter().find_map(|line| address_of(line, event));
    let address = server.errors.wait_for(event, find);
    (server, address)
}

/// How a stream of TLS ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The server said so.
    Told,
    /// It did not: what came may be a part.
    Cut,
}

/// A connection that is kept.
pub struct Secure {
    pub stream: StreamOwned<ClientConnection, TcpStream>,
    buffer: Vec<u8>,
}

impl Secure {
    pub fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> Secure {
        Self::on(TcpStream::connect(address).unwrap(), config, "localhost")
    }

    pub fn on(stream: TcpStream, config: &Arc<ClientConfig>, name: &'static str) -> Secure {
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let name = ServerName::try_from(name).unwrap();
        let tls = ClientConnection::new(Arc::clone(config), name).unwrap();
        Secure { stream: StreamOwned::new(tls, stream), buffer: Vec::new() }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
        self.stream.flush().unwrap();
    }

    fn fill(&mut self) -> usize {
        let mut part = [0; 64 * 1024];
        let length = self.stream.read(&mut part).unwrap();
        self.buffer.extend_from_slice(&part[..length]);
        length
    }

    #[track_caller]
    pub fn response(&mut self) -> Response {
        loop {
            if let Some((response, length)) = Response::split(&self.buffer, false) {
                self.buffer.drain(..length);
                return response;
            }
            assert_ne!(self.fill(), 0, "an answer, not the end of the connection");
        }
    }

    #[track_caller]
    pub fn get(&mut self, target: &str) -> Response {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        self.response()
    }

    /// The head of an answer whose body the test reads itself.
    pub fn head(&mut self) -> String {
        loop {
            if let Some(at) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                return String::from_utf8(self.buffer.drain(..at + 4).collect()).unwrap();
            }
            assert_ne!(self.fill(), 0, "end of the connection inside a head");
        }
    }

    /// Exactly `length` bytes.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        while self.buffer.len() < length {
            assert_ne!(self.fill(), 0, "{} bytes of {length}, then the end", self.buffer.len());
        }
        self.buffer.drain(..length).collect()
    }

    /// Everything to the end, and whether the server said that it is one.
    pub fn rest(&mut self) -> (Vec<u8>, Ended) {
        let mut bytes = std::mem::take(&mut self.buffer);
        match self.stream.read_to_end(&mut bytes) {
            Ok(_) => (bytes, Ended::Told),
            Err(error) => {
                let kind = error.kind();
                assert!(matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset), "{error}");
                (bytes, Ended::Cut)
            }
        }
    }

    /// After a first answer.
    pub fn kind(&self) -> HandshakeKind {
        self.stream.conn.handshake_kind().expect("a handshake that is over")
    }

    pub fn certificate(&self) -> CertificateDer<'static> {
        self.stream.conn.peer_certificates().expect("a certificate")[0].clone().into_owned()
    }
}
