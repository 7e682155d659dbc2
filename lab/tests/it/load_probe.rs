//! First answers against the fixture, and the real server asked for every row that it has.

use std::path::PathBuf;
use std::time::Duration;

use scalws_lab::fixture::Fixture;
use scalws_lab::load::{Bounds, Expect, Plan, Until, check, connect, probe, run};
use scalws_lab::scenario::{Protocol, find};

use crate::load::{plan, refused};
use crate::scripted::{Scalws, Scripted, Then, say};

fn place(name: &str) -> PathBuf {
    let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&place).unwrap();
    place
}

#[test]
fn a_first_answer_is_held_against_the_fixture() {
    let place = place("load-probe");
    let fixture = Fixture::lay_out(&place).unwrap();
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
        std::io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    };
    let packed = gzip(&fixture.content("app.js").unwrap());
    let wrong = gzip(b"another script");
    let server = Scripted::plain(move |stream, request, _| {
        let (fields, body) = match request.split(' ').nth(1).unwrap() {
            "/app.js" => ("Content-Encoding: gzip\r\n", packed.as_slice()),
            "/wrong.js" => ("Content-Encoding: gzip\r\n", wrong.as_slice()),
            "/1k.bin" => ("", &[7; 1_024][..]),
            _ => ("", &b"x"[..]),
        };
        say(stream, format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n", body.len()));
        say(stream, body);
        Then::Keep
    });
    let gzip = find("gzip").unwrap();
    let (request, expected) = probe(server.address, gzip, &fixture).unwrap();
    assert_eq!(request, "GET /app.js HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n");
    assert_eq!(check(server.address, gzip.protocol, &request, &expected), Ok(()));

    let what = |scenario| probe(server.address, &scenario, &fixture).unwrap_err().to_string();
    let mut other = *gzip;
    other.target = "/wrong.js";
    assert!(what(other).starts_with("the answer to GET /wrong.js decodes to a body of sha256 "));
    other.target = "/plain.js";
    assert_eq!(what(other), "the answer to GET /plain.js has the content coding none, expected gzip");
    let file = *find("static-1k").unwrap();
    assert!(what(file).starts_with("the answer to GET /1k.bin has a body of sha256 "));
    assert_eq!(
        what(*find("static-small").unwrap()),
        "the answer to GET /small.txt has Content-Length 1, expected 47"
    );
    assert_eq!(what(*find("not-modified").unwrap()), "the answer to GET /1k.bin has no ETag");
}

#[test]
fn the_real_server_is_asked_for_the_plain_rows() {
    let place = place("load-scalws");
    let fixture = Fixture::lay_out(&place.join("site")).unwrap();
    let config = format!(
        "[server]\nlisten = [\"127.0.0.1:0\"]\nadmin = \"off\"\nworkers = 1\n[log]\naccess = \"off\"\n\
         [[route]]\nexact = \"/ping\"\nrespond = {{ body = \"pong\\n\" }}\n\
         [[route]]\npath = \"/\"\nstatic = {{ root = {:?} }}\n",
        fixture.root()
    );
    let mut server = Scalws::start(&config, &place);
    for name in [
        "respond",
        "static-small",
        "static-484",
        "static-index",
        "static-1k",
        "static-10k",
        "static-14k",
        "static-100k",
        "static-1m",
        "static-1m4",
        "not-modified",
        "range",
        "not-found",
        "new-connection",
    ] {
        let scenario = find(name).unwrap();
        let (request, expected) =
            probe(server.address, scenario, &fixture).unwrap_or_else(|what| panic!("{name}: {what}"));
        let plan = Plan {
            address: server.address,
            protocol: scenario.protocol,
            connections: 8,
            request: request.clone(),
            expect: expected.clone(),
            until: Until::Requests(50),
            rate: None,
        };
        let outcome = run(&plan).unwrap_or_else(|what| panic!("{name}: {what}"));
        assert_eq!((outcome.requests, outcome.body_bytes), (50, 50 * expected.length), "{name}");
        check(server.address, scenario.protocol, &request, &expected).unwrap();
        let wrong = Plan { expect: Expect { status: 599, ..expected }, ..plan };
        let what = refused(run(&wrong));
        assert!(what.ends_with(&format!("has status {}, expected 599", scenario.status)), "{what}");
    }
    let (request, expected) = probe(server.address, find("static-1k").unwrap(), &fixture).unwrap();
    let endless = Plan {
        request,
        expect: expected,
        until: Until::Seconds(60.0),
        ..plan(server.address, Protocol::Http1)
    };
    let ready = connect(&endless, Bounds::default()).unwrap();
    let dies = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        server.kill();
    });
    let what = refused(ready.run());
    dies.join().unwrap();
    let is_named = ["closed a kept connection", "the connection broke", "closed the connection"];
    assert!(is_named.iter().any(|named| what.contains(named)), "{what}");
}
