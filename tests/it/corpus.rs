//! The request vectors of llhttp, with verdicts of our own (`tests/data/README.md`).
//!
//! Most vectors have no Host, which alone would refuse them; so each is also sent with one, to a
//! route that answers everything with 200: what is refused there is refused for its own fault.

use crate::support::{End, Heard, Response, Server, Site, Then, drip, exchange};

struct Vector {
    id: String,
    title: String,
    bytes: Vec<u8>,
}

fn vectors(verdict: &str) -> Vec<Vector> {
    let lines = include_str!("../data/http1-requests.jsonl").lines();
    let all = lines.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let text = |value: &serde_json::Value, key: &str| value[key].as_str().unwrap().to_owned();
    all.filter(|value| value["verdict"] == verdict)
        .map(|value| Vector {
            id: text(&value, "id"),
            title: text(&value, "title"),
            bytes: from_base64(&text(&value, "base64")),
        })
        .collect()
}

fn from_base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        let digit = ALPHABET.iter().position(|known| *known == byte).expect("base64");
        bits = bits << 6 | u32::try_from(digit).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    bytes
}

/// With a Host after the request line, if there is none.
fn with_host(bytes: &[u8]) -> Vec<u8> {
    let start = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(0);
    let line = bytes[start..].windows(2).position(|window| window == b"\r\n").map(|at| start + at + 2);
    let has_host = String::from_utf8_lossy(bytes).to_ascii_lowercase().contains("\nhost:");
    match line {
        Some(line) if !has_host => [&bytes[..line], b"Host: a\r\n", &bytes[line..]].concat(),
        _ => bytes.to_vec(),
    }
}

/// The vectors that are to be understood, each with a Host.
pub fn accepted_with_host() -> Vec<Vec<u8>> {
    vectors("accept").iter().map(|vector| with_host(&vector.bytes)).collect()
}

fn everything() -> (Site, Server) {
    let site = Site::sample();
    let server =
        Server::with(&site, "", "[[route]]\npath = \"/\"\nrespond = { status = 200, body = \"ok\\n\" }\n");
    (site, server)
}

fn files() -> (Site, Server) {
    let site = Site::sample();
    let server = Server::of(&site);
    (site, server)
}

/// At most one answer after the first `valid`, and that one an error; never a connection that lives on.
#[track_caller]
fn check_refused(heard: &Heard, valid: usize, vector: &Vector, how: &str) {
    let statuses = heard.statuses();
    let what = format!("{} ({}) {how}: {statuses:?}", vector.id, vector.title);
    assert_ne!(heard.end, End::Open, "{what}");
    assert!(statuses.len() >= valid && statuses[..valid].iter().all(|status| *status == 200), "{what}");
    assert!(statuses.len() <= valid + 1, "{what}");
    assert!(statuses[valid..].iter().all(|status| *status >= 400), "{what}");
}

#[test]
fn the_corpus_is_whole() {
    let counts = ["refuse", "accept", "judge"].map(|verdict| vectors(verdict).len());
    assert_eq!(counts, [51, 56, 11]);
    assert_eq!(from_base64("R0VUIC8="), b"GET /");
}

/// A vector that one server refuses and the next one understands is the start of request smuggling.
#[test]
fn refused_as_the_first_request() {
    for (_site, server) in [everything(), files()] {
        for vector in vectors("refuse") {
            for bytes in [vector.bytes.clone(), with_host(&vector.bytes)] {
                check_refused(&server.raw(&bytes), 0, &vector, "first");
            }
        }
    }
}

#[test]
fn refused_behind_a_valid_post() {
    let post = b"POST /r/x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
    for (_site, server) in [everything(), files()] {
        for vector in vectors("refuse") {
            for bytes in [vector.bytes.clone(), with_host(&vector.bytes)] {
                check_refused(&server.raw([post, bytes.as_slice()].concat()), 1, &vector, "second");
            }
        }
    }
}

/// A parser that starts anew with every read may overlook at a seam what it would see in one piece.
#[test]
fn refused_byte_by_byte() {
    let (_site, server) = everything();
    for vector in vectors("refuse") {
        for bytes in [vector.bytes.clone(), with_host(&vector.bytes)] {
            check_refused(&drip(server.address, &bytes, Then::HalfClose), 0, &vector, "byte by byte");
        }
    }
}

/// Whether the request line names ICE, RTSP or another protocol.
fn is_other_protocol(bytes: &[u8]) -> bool {
    let line = String::from_utf8_lossy(bytes).trim_start().lines().next().unwrap_or_default().to_owned();
    line.contains('/') && !line.contains(" HTTP/")
}

/// Accepted as messages by the corpus, refused by us all the same.
const REFUSED_BY_RULE: [(&str, &str); 4] = [
    ("transfer-encoding-099", "a coding beside chunked (RFC 9112 §6.1)"),
    ("transfer-encoding-100", "the same on two lines"),
    ("uri-114", "a fragment is no part of a target (RFC 9112 §3.2)"),
    ("uri-116", "user information in a target (RFC 9110 §4.2.4)"),
];

/// Vectors that are well-formed get no 400; what stands behind their first request may. Some end
/// before the end of the body that they announce: those get what is missing.
#[test]
fn accepted_vectors_are_understood() {
    let (_site, server) = everything();
    let mut offences = Vec::new();
    for vector in vectors("accept") {
        let bytes = with_host(&vector.bytes);
        let to_head = bytes.starts_with(b"HEAD ");
        let filler = [b'x'; 1024];
        for talk in [exchange, drip] {
            let first = |missing: &[u8]| {
                let heard = talk(server.address, &[&bytes, missing].concat(), Then::HalfClose);
                Response::split(&heard.bytes, to_head).map(|(first, _)| first.status)
            };
            let is_refused =
                REFUSED_BY_RULE.iter().any(|(id, _)| *id == vector.id) || is_other_protocol(&bytes);
            let statuses: Vec<_> =
                [b"" as &[u8], b"\r\n", b"0\r\n\r\n", &filler].into_iter().filter_map(first).collect();
            let is_right = match is_refused {
                true => !statuses.is_empty() && statuses.iter().all(|status| *status >= 400),
                false => statuses.iter().any(|status| *status != 400),
            };
            if !is_right {
                offences.push(format!("{} ({}): {statuses:?}", vector.id, vector.title));
            }
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

/// The ones that can be argued about: whatever the answer, the conversation ends, and a request line
/// without its end is never answered with a success.
#[test]
fn vectors_to_judge_come_to_an_end() {
    let (_site, server) = everything();
    for vector in vectors("judge") {
        for bytes in [vector.bytes.clone(), with_host(&vector.bytes)] {
            let heard = server.raw(&bytes);
            let what = format!("{} ({}): {:?}", vector.id, vector.title, heard.statuses());
            assert_ne!(heard.end, End::Open, "{what}");
            let whole_heads = bytes.windows(4).filter(|window| window == b"\r\n\r\n").count();
            let successes = heard.statuses().iter().filter(|status| **status < 400).count();
            assert!(successes <= whole_heads, "{what}");
        }
    }
}
