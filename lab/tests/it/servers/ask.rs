//! One request and every byte of its answer, without the lab's own generator.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use scalws_lab::fixture::Fixture;
use scalws_lab::scenario::{Body, Scenario};
use scalws_lab::servers::Running;

/// The whole answer to a request that closes its connection.
fn exchange(address: SocketAddr, scenario: &Scenario, fields: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let target = scenario.target;
    let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

/// Status, head and body, without its chunks.
fn taken_apart(answer: &[u8]) -> (u16, String, Vec<u8>) {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut rest = &answer[end..];
    if !head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        return (status, head, rest.to_vec());
    }
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|two| two == b"\r\n").expect("a chunk's size");
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap().trim(), 16).unwrap();
        if size == 0 {
            return (status, head, body);
        }
        body.extend_from_slice(&rest[line + 2..line + 2 + size]);
        rest = &rest[line + 4 + size..];
    }
}

fn tag(head: &str) -> Option<&str> {
    head.lines()
        .find_map(|line| line.split_once(": ").filter(|(name, _)| name.eq_ignore_ascii_case("etag")))
        .map(|(_, tag)| tag)
}

/// Asks what the scenario asks, and compares every byte.
pub(super) fn check(running: &Running, scenario: &Scenario, fixture: &Fixture) {
    let who = format!("{} {}", running.name(), scenario.name);
    let mut fields = scenario.fields.to_owned();
    if fields.contains("{etag}") {
        let (_, head, _) = taken_apart(&exchange(running.address(), scenario, ""));
        fields = fields.replace("{etag}", tag(&head).expect("a tag"));
    }
    // Compression may still be on its way when the first request comes: the next ones count.
    exchange(running.address(), scenario, &fields);
    let (status, head, body) = taken_apart(&exchange(running.address(), scenario, &fields));
    assert_eq!(status, scenario.status, "{who}: {head}");
    let whole = |name| fixture.content(name).unwrap();
    match scenario.body {
        Body::File(name) => assert!(body == whole(name), "{who}: {} bytes, {head}", body.len()),
        Body::Part(name, start, end) => assert!(body == whole(name)[start..end], "{who}: {head}"),
        Body::Text(text) => assert_eq!(body, text.as_bytes(), "{who}: {head}"),
        Body::Nothing => assert_eq!(body, b"", "{who}"),
        Body::Any => {}
        Body::Gzip(name) => {
            assert!(head.to_ascii_lowercase().contains("content-encoding: gzip"), "{who}: {head}");
            let mut plain = Vec::new();
            flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut plain).expect("gzip");
            assert!(plain == whole(name), "{who}");
        }
    }
}

/// Over TLS 1.3 with the lab's certificate as the only anchor, by openssl.
pub(super) fn check_tls(
    running: &Running,
    scenario: &Scenario,
    fixture: &Fixture,
    certificate: &Path,
    h2: bool,
) {
    let who = format!("{} {}", running.name(), scenario.name);
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &running.address().to_string(), "-tls1_3", "-verify_return_error"]);
    command.args(["-servername", "localhost", "-CAfile"]).arg(certificate);
    command.args(if h2 { ["-alpn", "h2"].as_slice() } else { ["-quiet"].as_slice() });
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    if !h2 {
        let target = scenario.target;
        write!(stdin, "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let output = child.wait_with_output().unwrap(); // `stdin` stays open: its end would end s_client
        drop(stdin);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.stdout.starts_with(b"HTTP/1.1 200"), "{who}: {said}");
        let Body::File(name) = scenario.body else { panic!("{who}: what body?") };
        assert!(taken_apart(&output.stdout).2 == fixture.content(name).unwrap(), "{who}: {said}");
    } else {
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("ALPN protocol: h2"), "{who}: {said}");
    }
}
