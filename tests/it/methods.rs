//! What each method gets, on files and elsewhere (D07).

use crate::support::{Server, Site};

/// Case D07. 405 without Allow leaves a client guessing; Allow is a MUST (RFC 9110 §15.5.6).
#[test]
fn files_answer_get_head_and_options() {
    let site = Site::sample();
    let server = Server::of(&site);
    let mut client = server.client();
    for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE"] {
        client.send(format!("{method} /x.txt HTTP/1.1\r\nHost: a\r\nCookie: session=1\r\n\r\n"));
        let answer = client.response();
        assert_eq!((answer.status, answer.field("allow")), (405, Some("GET, HEAD, OPTIONS")), "{method}");
        assert!(!answer.head.contains("session") && !answer.text().contains("session"), "{method}");
    }
    client.send("OPTIONS /x.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    let answer = client.response();
    assert_eq!((answer.status, answer.field("allow")), (204, Some("GET, HEAD, OPTIONS")));
    assert_eq!(answer.field("content-length"), None, "204 has no length (RFC 9110 §8.6)");
    assert_eq!(client.get("/x.txt").status, 200);
}

/// Case D07. Method names are case-sensitive; one that nobody knows is 501, and it says nothing
/// about the next request on the connection.
#[test]
fn unknown_methods_are_501_and_keep_the_connection() {
    let site = Site::sample();
    let server = Server::of(&site);
    let mut client = server.client();
    for method in ["FOO", "get", "Get", "PROPFIND", "M-SEARCH", "GETX", "!#$%&'*+-.^_`|~"] {
        for target in ["/x.txt", "/healthz", "/none"] {
            client.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"));
            let answer = client.response();
            assert_eq!(answer.status, 501, "{method} {target}");
            assert!(!answer.closes(), "{method} {target}");
        }
    }
    assert_eq!(client.get("/x.txt").status, 200);
}

/// Case D07. `OPTIONS *` asks about the server, not about a file; no other method has that target.
#[test]
fn the_asterisk_is_for_options_alone() {
    let site = Site::sample();
    let server = Server::of(&site);
    let heard = server.raw_open("OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let answers = heard.answers();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].status, 204);
    assert!(answers[0].field("allow").is_some());
    for method in ["GET", "HEAD", "POST"] {
        let heard = server.raw(format!("{method} * HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(heard.bytes.starts_with(b"HTTP/1.1 400 "), "{method} *");
    }
}

/// Case D07. A server that is no proxy opens no tunnels, and what follows a CONNECT may be anything.
#[test]
fn connect_is_refused_and_ends_the_connection() {
    let site = Site::sample();
    let server = Server::of(&site);
    let heard = server
        .raw_open("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\nGET /x.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(heard.statuses(), [501]);
}

/// Case D07. TRACE would send a visitor's cookies back to a script that may not read them.
#[test]
fn trace_is_refused_everywhere() {
    let site = Site::sample();
    let server = Server::of(&site);
    for target in ["/", "/healthz", "/r/x", "/none"] {
        let heard = server.raw_open(format!(
            "TRACE {target} HTTP/1.1\r\nHost: a\r\nCookie: s=1\r\nX-Secret: 2\r\nConnection: close\r\n\r\n"
        ));
        assert_eq!(heard.statuses(), [405], "{target}");
        let said = String::from_utf8_lossy(&heard.bytes).to_ascii_lowercase();
        assert!(!said.contains("s=1") && !said.contains("x-secret"), "{target}: {said}");
    }
}
