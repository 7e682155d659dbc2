//! The examples of `[tls]`.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use rustls::ALL_VERSIONS;

use super::Shown;
use crate::support::secure::{Authority, Made, Secure, own};
use crate::support::{Server, address_of};

/// Puts a certificate for `name` where the example has it.
fn place(shown: &Shown, authority: &Authority, name: &str, file: &str) -> Made {
    let made = authority.sign(&[name], |_| {});
    shown.file(&format!("/etc/scalws/{file}.crt"), made.chain.as_bytes());
    shown.file(&format!("/etc/scalws/{file}.key"), made.key.as_bytes());
    own(&shown.path(&format!("/etc/scalws/{file}.key")));
    made
}

fn address(server: &Server) -> std::net::SocketAddr {
    let event = "listening with TLS";
    server.errors.wait_for(event, |lines| lines.iter().find_map(|line| address_of(line, event)))
}

/// `listen`, `certificate`, `key`, `certificates`, and `handshake_timeout`.
#[test]
fn of_two_certificates() {
    let shown = Shown::of("Two certificates, and no patience with who stalls in a handshake");
    let authority = Authority::new();
    let made =
        [place(&shown, &authority, "localhost", "tls"), place(&shown, &authority, "other.test", "other")];
    let server = shown.start();
    let address = address(&server);
    for (name, made) in ["localhost", "other.test"].into_iter().zip(&made) {
        let stream = TcpStream::connect(address).unwrap();
        let mut client = Secure::on(stream, &authority.client(ALL_VERSIONS), name);
        assert_eq!(client.get("/x.txt").text(), "x marks the spot\n");
        assert!(client.certificate() == made.der, "{name}");
    }
    // By the clock of the server itself: over before three idle connections in a row are.
    let mut stalled = TcpStream::connect(address).unwrap();
    stalled.write_all(b"\x16").unwrap();
    for _ in 0..3 {
        let mut idle = server.client();
        assert_eq!(idle.get("/x.txt").status, 200);
        idle.assert_closed();
    }
    stalled.set_nonblocking(true).unwrap();
    assert_eq!(stalled.read(&mut [0; 1]).unwrap(), 0, "it is over");
}

/// HTTPS alone, and the word `self-signed`.
#[test]
fn of_a_self_signed_default() {
    let shown =
        Shown::of("HTTPS alone, and a name with a certificate of its own beside the one for development");
    let authority = Authority::new();
    let made = place(&shown, &authority, "www.test", "tls");
    let server = shown.start_warned("self-signed certificate");
    let address = address(&server);
    let stream = TcpStream::connect(address).unwrap();
    let mut client = Secure::on(stream, &authority.client(ALL_VERSIONS), "www.test");
    assert_eq!(client.get("/x.txt").status, 200);
    assert!(client.certificate() == made.der);
    assert!(!server.errors.all().iter().any(|line| line.contains("\"listening\"")));
}
