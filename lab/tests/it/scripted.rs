//! Tiny servers that do what a test tells them, and a real one.

use std::io::{BufRead as _, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// What a connection of a scripted server is, plain or TLS.
pub trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// What follows an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Then {
    Keep,
    Close,
}

/// Answers a request: the connection, the request's head, its number on the connection from 1.
type Script = dyn Fn(&mut dyn Stream, &str, u64) -> Then + Send + Sync;

/// Ends with the test; its threads end with their connections.
pub struct Scripted {
    pub address: SocketAddr,
    pub connections: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Scripted {
    pub fn plain(script: impl Fn(&mut dyn Stream, &str, u64) -> Then + Send + Sync + 'static) -> Scripted {
        Scripted::start(None, Arc::new(script))
    }

    pub fn tls(
        config: rustls::ServerConfig,
        script: impl Fn(&mut dyn Stream, &str, u64) -> Then + Send + Sync + 'static,
    ) -> Scripted {
        Scripted::start(Some(Arc::new(config)), Arc::new(script))
    }

    fn start(tls: Option<Arc<rustls::ServerConfig>>, script: Arc<Script>) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Scripted {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            is_over: Arc::default(),
        };
        let (connections, is_over) = (Arc::clone(&server.connections), Arc::clone(&server.is_over));
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                if is_over.load(Ordering::SeqCst) {
                    return;
                }
                connections.fetch_add(1, Ordering::SeqCst);
                let (socket, script, tls) = (socket.unwrap(), Arc::clone(&script), tls.clone());
                std::thread::spawn(move || match tls {
                    None => converse(socket, &*script),
                    Some(tls) => {
                        let tls = rustls::ServerConnection::new(tls).unwrap();
                        converse(rustls::StreamOwned::new(tls, socket), &*script);
                    }
                });
            }
        });
        server
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
    }
}

fn converse(mut stream: impl Stream, script: &Script) {
    let mut number = 0;
    while let Some(request) = head(&mut stream) {
        number += 1;
        if script(&mut stream, &request, number) == Then::Close {
            return;
        }
    }
}

fn head(stream: &mut impl Stream) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => return None,
        }
    }
    Some(String::from_utf8(head).unwrap())
}

/// A client that is gone is for the test to notice at the other end.
pub fn say(stream: &mut dyn Stream, bytes: impl AsRef<[u8]>) {
    let _gone = stream.write_all(bytes.as_ref()).and_then(|()| stream.flush());
}

/// A certificate of the test's own.
pub fn tls_config(alpn: &[u8]) -> rustls::ServerConfig {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![alpn.to_vec()];
    config
}

/// The real server: built beside this test's binary, by cargo where it is not there yet.
pub struct Scalws {
    child: Child,
    pub address: SocketAddr,
}

impl Scalws {
    pub fn start(config: &str, directory: &Path) -> Scalws {
        std::fs::write(directory.join("scalws.toml"), config).unwrap();
        let mut child = Command::new(binary())
            .args(["serve", "--config"])
            .arg(directory.join("scalws.toml"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut heard = String::new();
        let address = loop {
            let mut line = String::new();
            assert!(log.read_line(&mut line).unwrap() > 0, "scalws ended: {heard}");
            heard.push_str(&line);
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            if line["event"] == "listening" {
                break line["address"].as_str().unwrap().parse().unwrap();
            }
        };
        std::thread::spawn(move || drop(std::io::copy(&mut log, &mut std::io::sink())));
        Scalws { child, address }
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Scalws {
    fn drop(&mut self) {
        self.kill();
    }
}

fn binary() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let binary = test.ancestors().nth(2).unwrap().join("scalws");
    if !binary.exists() {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--locked", "--package", "scalws", "--bin", "scalws"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(built.success(), "scalws does not build");
    }
    binary
}
