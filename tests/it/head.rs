//! HEAD is GET without its body (B07).

use crate::support::{Response, Server, Site};

fn comparable(response: &Response) -> (u16, Vec<(String, String)>) {
    let fields = response.fields.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("date")).cloned();
    (response.status, fields.collect())
}

/// Case B07. The body is dropped first and the length counted afterwards: HEAD says
/// `Content-Length: 0`, and a client that asks for the size before it downloads gets nothing.
#[test]
fn head_has_the_fields_of_get_and_no_body() {
    let site = Site::sample();
    site.file("big.bin", &vec![7; 300_000]);
    let teapot = "[[route]]\nexact = \"/teapot\"\nrespond = { status = 418, body = \"short\" }\n\
        [[route]]\nexact = \"/gone\"\nrespond = { status = 204 }\n\
        [[route]]\npath = \"/old/\"\nredirect = { to = \"/docs/{rest}\" }\n";
    let server = Server::with(&site, "", &format!("{}{}{teapot}", site.route(), Server::RESPOND));
    let mut client = server.client();
    for target in [
        "/x.txt", "/big.bin", "/empty", "/docs", "/docs/", "/none", "/%zz", "/healthz", "/teapot", "/gone",
        "/old/x",
    ] {
        for more in ["", "Accept-Encoding: gzip\r\n"] {
            client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{more}\r\n"));
            let get = client.response();
            client.send(format!("HEAD {target} HTTP/1.1\r\nHost: a\r\n{more}\r\n"));
            let head = client.response_to_head();
            assert_eq!(comparable(&head), comparable(&get), "{target}");
            if !get.body.is_empty() {
                let length = get.body.len().to_string();
                assert_eq!(head.field("content-length"), Some(length.as_str()), "{target}");
            }
        }
    }
    // Nothing of any body was left behind for the next answer.
    assert_eq!(client.get("/x.txt").body, b"x marks the spot\n");
}

/// Case B07. One body byte after a HEAD, and the pipelined GET behind it cannot be parsed.
#[test]
fn a_get_pipelined_behind_a_head_is_found() {
    let site = Site::sample();
    let server = Server::of(&site);
    for target in ["/x.txt", "/healthz", "/docs", "/none"] {
        let heard = server.raw_open(format!(
            "HEAD {target} HTTP/1.1\r\nHost: a\r\n\r\nGET /x.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        ));
        let (_, length) = Response::split(&heard.bytes, true).unwrap();
        let (get, rest) = Response::split(&heard.bytes[length..], false).unwrap();
        assert_eq!((get.status, get.body.as_slice()), (200, b"x marks the spot\n" as &[u8]), "{target}");
        assert_eq!(length + rest, heard.bytes.len(), "{target}");
    }
}

/// Case B07. Range has no meaning for HEAD (RFC 9110 §14.2).
#[test]
fn head_ignores_range() {
    let site = Site::sample();
    let server = Server::of(&site);
    let mut client = server.client();
    client.send("HEAD /x.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\n");
    let answer = client.response_to_head();
    assert_eq!((answer.status, answer.field("content-length")), (200, Some("17")));
    assert_eq!(answer.field("content-range"), None);
}
