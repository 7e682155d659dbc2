//! The end of a container (case H01): what is under way is finished, what is idle does not hold it.
//!
//! The server is PID 1 here, for which the kernel has no default action on SIGTERM. `docker stop -t`
//! sends KILL when the time is over, which shows as exit code 137: no clock is read to judge.
//! The network of a container ends with its last process: what the kernel had yet to send is lost
//! then, so a download is finished when the client has it, not when the last byte was written.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::support::{Container, DEADLINE, Folder, get, noise, say, until};

const DOWNLOAD_BYTES: usize = 20_000_000;
/// A download that says nothing for so long has lost its other end.
const SILENCE: Duration = Duration::from_secs(15);

/// Reads the whole answer at about 4 MB a second through a small window; tells when it has begun.
fn throttled(address: SocketAddr, begun: &dyn Fn()) -> Vec<u8> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(64 * 1024).unwrap();
    socket.connect(&address.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(SILENCE)).unwrap();
    stream.write_all(b"GET /big.bin HTTP/1.1\r\nHost: t\r\n\r\n").unwrap();
    let mut answer = Vec::with_capacity(DOWNLOAD_BYTES + 1024);
    let mut chunk = vec![0; 40_000];
    let mut told = false;
    loop {
        match stream.read(&mut chunk) {
            // An end or an error: the caller counts what came.
            Ok(0) | Err(_) => return answer,
            Ok(length) => answer.extend_from_slice(&chunk[..length]),
        }
        if !told && answer.len() > 500_000 {
            told = true;
            begun();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A connection that has had one answer and waits for nothing.
fn idle(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n").unwrap();
    let mut seen = Vec::new();
    let mut chunk = [0; 1024];
    while !seen.ends_with(b"<p>home</p>\n") {
        let length = stream.read(&mut chunk).unwrap();
        assert_ne!(length, 0, "closed early: {}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&chunk[..length]);
    }
    stream
}

#[test]
fn a_slow_download_is_finished_and_idle_connections_do_not_hold_it() {
    needs_docker!();
    let site = Folder::site();
    let content = noise(DOWNLOAD_BYTES);
    site.file("big.bin", &content);
    let container = Container::start(&["--volume", &site.mounted_at("/srv")], &[]);
    container.ready("/");
    let address = container.address(8080);
    let mut idlers: Vec<_> = (0..20).map(|_| idle(address)).collect();

    let (begun, has_begun) = std::sync::mpsc::channel();
    let download = std::thread::spawn(move || throttled(address, &|| begun.send(()).unwrap()));
    has_begun.recv_timeout(DEADLINE).unwrap();
    let stopped = Instant::now();
    let end = container.stop(8);
    say(&format!("ended {:?} after docker stop, with {}", stopped.elapsed(), end.code));

    let answer = download.join().unwrap();
    let body = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    let received = answer.len() - body;
    assert!(
        answer[body..] == content[..],
        "{received} bytes of {DOWNLOAD_BYTES} arrived, or not the right ones"
    );
    assert_eq!(end.code, 0, "{:?}", end.errors);
    for idler in &mut idlers {
        // Closed, or the network is gone with the container: no byte more in any case.
        assert!(matches!(idler.read(&mut [0; 16]), Ok(0) | Err(_)));
    }
}

#[test]
fn an_idle_container_stops_at_once() {
    needs_docker!();
    let site = Folder::site();
    let container = Container::start(&["--volume", &site.mounted_at("/srv")], &[]);
    container.ready("/");
    let stopped = Instant::now();
    let end = container.stop(2);
    say(&format!("ended {:?} after docker stop", stopped.elapsed()));
    assert_eq!(end.code, 0, "{:?}", end.errors);
}

/// A server that would serve on for a minute after the first signal.
fn patient(site: &Folder, config: &Folder) -> Container {
    config.file(
        "scalws.toml",
        b"[server]\nadmin = \"0.0.0.0:8081\"\ndrain = { delay = \"60s\", timeout = \"8s\" }\n",
    );
    let volumes = [site.mounted_at("/srv"), config.mounted_at("/etc/scalws")];
    let container = Container::start(&["--volume", &volumes[0], "--volume", &volumes[1]], &[]);
    container.ready("/");
    container
}

#[test]
fn not_ready_at_once_but_still_serving_until_the_second_signal() {
    needs_docker!();
    let (site, config) = (Folder::site(), Folder::new());
    let container = patient(&site, &config);
    let ready = || get(container.address(8081), "/readyz").map(|answer| answer.status);
    assert_eq!(ready(), Some(200));
    container.signal("TERM");
    until("/readyz says 503", || ready() == Some(503));
    assert_eq!(get(container.address(8081), "/livez").map(|answer| answer.status), Some(200));
    assert_eq!(get(container.address(8080), "/").map(|answer| answer.status), Some(200));
    container.signal("TERM");
    let end = container.finished();
    assert_eq!(end.code, 143, "{:?}", end.errors);
}

#[test]
fn interrupt_drains_and_hangup_does_not_end_it() {
    needs_docker!();
    let site = Folder::site();
    let container = Container::start(&["--volume", &site.mounted_at("/srv")], &[]);
    container.ready("/");
    let lines = container.log().len();
    container.signal("HUP");
    until("a line about SIGHUP", || container.log().len() > lines);
    assert_eq!(container.ready("/").status, 200);
    container.signal("INT");
    let end = container.finished();
    assert_eq!(end.code, 0, "{:?}", end.errors);
}
