//! Holds an answer against the fixture, before a window begins and around it.

use std::io::Read as _;
use std::net::SocketAddr;

use super::answer::Want;
use super::fetch::{Fetched, fetch, hex_sha256};
use super::{Expect, answer_to, tls};
use crate::Refusal;
use crate::fixture::Fixture;
use crate::scenario::{Body, Protocol, Scenario};

const ETAG: &str = "{etag}";

/// First answer: status, length and hash checked against scenario and fixture, codings decoded and compared.
/// Fills `{etag}` in. Gives the request and what every later answer to it has to have.
///
/// # Errors
/// The answer is not what it has to be.
pub fn probe(
    address: SocketAddr,
    scenario: &Scenario,
    fixture: &Fixture,
) -> Result<(String, Expect), Refusal> {
    let request = if scenario.fields.contains(ETAG) {
        // Without the condition there is a body with a tag.
        let plain: String =
            scenario.fields.split_inclusive("\r\n").filter(|line| !line.contains(ETAG)).collect();
        let first = request(scenario, &plain);
        let found = fetch(address, scenario.protocol, &first, Want { status: 200, length: None })?;
        let etag = found.etag.ok_or_else(|| Refusal::new(format!("{} has no ETag", answer_to(&first))))?;
        request(scenario, &scenario.fields.replace(ETAG, &etag))
    } else {
        request(scenario, scenario.fields)
    };
    let body = wanted(scenario, fixture)?;
    let length = match &body {
        Wanted::Bytes(bytes) => Some(bytes.len() as u64),
        Wanted::Gzip(_) | Wanted::Any => None,
    };
    let found = fetch(address, scenario.protocol, &request, Want { status: scenario.status, length })?;
    compare(&found, &body).map_err(|what| Refusal::new(format!("{} {what}", answer_to(&request))))?;
    let expect = Expect { status: scenario.status, length: found.body.len() as u64, sha256: found.sha256() };
    Ok((request, expect))
}

/// One request, its body hashed: for the edges of a window.
///
/// # Errors
/// Status, length or hash are not the expected ones.
pub fn check(address: SocketAddr, protocol: Protocol, request: &str, expect: &Expect) -> Result<(), Refusal> {
    let want = Want { status: expect.status, length: Some(expect.length) };
    let found = fetch(address, protocol, request, want)?.sha256();
    if found == expect.sha256 {
        return Ok(());
    }
    Err(Refusal::new(format!(
        "{} has a body of sha256 {found}, expected {}",
        answer_to(request),
        expect.sha256
    )))
}

enum Wanted {
    Bytes(Vec<u8>),
    Gzip(Vec<u8>),
    Any,
}

fn wanted(scenario: &Scenario, fixture: &Fixture) -> Result<Wanted, Refusal> {
    let file = |name: &str| {
        fixture.content(name).ok_or_else(|| Refusal::new(format!("the fixture has no file {name}")))
    };
    Ok(match scenario.body {
        Body::File(name) => Wanted::Bytes(file(name)?),
        Body::Part(name, start, end) => Wanted::Bytes(
            file(name)?
                .get(start..end)
                .ok_or_else(|| Refusal::new(format!("{name} has no bytes {start}..{end}")))?
                .to_vec(),
        ),
        Body::Text(text) => Wanted::Bytes(text.as_bytes().to_vec()),
        Body::Gzip(name) => Wanted::Gzip(file(name)?),
        Body::Nothing => Wanted::Bytes(Vec::new()),
        Body::Any => Wanted::Any,
    })
}

fn compare(found: &Fetched, wanted: &Wanted) -> Result<(), String> {
    match wanted {
        Wanted::Any => Ok(()),
        Wanted::Bytes(bytes) if found.body == *bytes => Ok(()),
        Wanted::Bytes(bytes) => {
            Err(format!("has a body of sha256 {}, expected {}", found.sha256(), hex_sha256(bytes)))
        }
        Wanted::Gzip(bytes) => {
            if found.coding.as_deref() != Some("gzip") {
                let coding = found.coding.as_deref().unwrap_or("none");
                return Err(format!("has the content coding {coding}, expected gzip"));
            }
            let mut decoded = Vec::with_capacity(bytes.len() + 1);
            flate2::read::MultiGzDecoder::new(found.body.as_slice())
                .take(bytes.len() as u64 + 1)
                .read_to_end(&mut decoded)
                .map_err(|error| format!("is no sound gzip: {error}"))?;
            if decoded == *bytes {
                return Ok(());
            }
            Err(format!(
                "decodes to a body of sha256 {}, expected {}",
                hex_sha256(&decoded),
                hex_sha256(bytes)
            ))
        }
    }
}

/// No more fields than needed: what a server does with a browser's is not what these rows are about.
fn request(scenario: &Scenario, fields: &str) -> String {
    let close = match scenario.protocol {
        Protocol::Http1Fresh | Protocol::TlsFull | Protocol::TlsResumed => "Connection: close\r\n",
        Protocol::Http1 | Protocol::Tls | Protocol::H2(..) => "",
    };
    format!("GET {} HTTP/1.1\r\nHost: {}\r\n{close}{fields}\r\n", scenario.target, tls::NAME)
}
