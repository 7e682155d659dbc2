//! Drains under load, again and again (case H01): `scripts/long.sh` runs it, the gate does not.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::support::{Container, DEADLINE, Folder, noise, say};

const CLIENTS: usize = 8;
const BODY_BYTES: usize = 50_000;

/// How one exchange on a kept connection ended.
enum Exchange {
    Whole,
    /// The server closed before it answered a byte: a client may send such a GET again (RFC 9110 §9.2.2).
    Unanswered,
    /// What must never be: an answer that stops in its middle.
    Torn(usize),
}

fn exchange(stream: &mut TcpStream, expected: &[u8]) -> Exchange {
    let mut answer = Vec::with_capacity(BODY_BYTES + 1024);
    if stream.write_all(b"GET /body.bin HTTP/1.1\r\nHost: t\r\n\r\n").is_err() {
        return Exchange::Unanswered;
    }
    let mut chunk = [0; 16 * 1024];
    loop {
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) if answer.is_empty() => return Exchange::Unanswered,
            Ok(0) | Err(_) => return Exchange::Torn(answer.len()),
            Ok(length) => answer.extend_from_slice(&chunk[..length]),
        }
        let head = answer.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(body) = head.map(|end| &answer[end + 4..])
            && body.len() >= expected.len()
        {
            return if body == expected { Exchange::Whole } else { Exchange::Torn(answer.len()) };
        }
    }
}

/// Asks on kept connections until told to stop; gives how many answers were torn.
fn client(address: SocketAddr, expected: &[u8], over: &AtomicBool, whole: &AtomicU64) -> u64 {
    let mut torn = 0;
    while !over.load(Ordering::Relaxed) {
        let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) else { continue };
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        loop {
            match exchange(&mut stream, expected) {
                Exchange::Whole => whole.fetch_add(1, Ordering::Relaxed),
                Exchange::Unanswered => break,
                Exchange::Torn(bytes) => {
                    say(&format!("an answer ended after {bytes} bytes"));
                    torn += 1;
                    break;
                }
            };
        }
    }
    torn
}

#[test]
#[ignore = "long: scripts/long.sh runs it"]
fn a_hundred_drains_tear_no_answer() {
    needs_docker!();
    let drains = std::env::var("SCALWS_DRAINS").ok().and_then(|number| number.parse().ok()).unwrap_or(100);
    let site = Folder::site();
    let content = noise(BODY_BYTES);
    site.file("body.bin", &content);
    let (mut torn, whole) = (0, AtomicU64::new(0));
    for _ in 0..drains {
        let container = Container::start(&["--volume", &site.mounted_at("/srv")], &[]);
        container.ready("/");
        let (address, over, before) =
            (container.address(8080), AtomicBool::new(false), whole.load(Ordering::Relaxed));
        let (code, found) = std::thread::scope(|scope| {
            let clients: Vec<_> =
                (0..CLIENTS).map(|_| scope.spawn(|| client(address, &content, &over, &whole))).collect();
            crate::support::until("the load is on", || whole.load(Ordering::Relaxed) > before + 100);
            let code = container.stop(8).code;
            over.store(true, Ordering::Relaxed);
            (code, clients.into_iter().map(|client| client.join().unwrap()).sum::<u64>())
        });
        assert_eq!(code, 0, "{:?}", container.log());
        torn += found;
    }
    say(&format!("{drains} drains, {} whole answers, {torn} torn", whole.load(Ordering::Relaxed)));
    assert_eq!(torn, 0);
}
