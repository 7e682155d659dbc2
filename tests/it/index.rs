//! The index of a directory, above all the first time that it is asked for: what the kernel has not
//! looked up yet is found in the pool, and the answer must be the same.

use std::fs;

use crate::support::{Server, Site};

fn start(site: &Site, index: &str) -> Server {
    let route = format!(
        "[[route]]\npath = \"/\"\nstatic = {{ root = '{}', index = {index} }}\n",
        site.root().display()
    );
    Server::with(site, "workers = 1", &route)
}

/// Asks for the index of that many directories that nobody has asked for yet, each one twice: the
/// first name of the list was never looked up, so the first answer comes from the pool.
#[track_caller]
fn check(server: &Server, directories: u32, content_type: &str, body: &[u8]) {
    for number in 0..directories {
        for time in ["first", "second"] {
            let answer = server.get(&format!("/{number}/"));
            assert_eq!(answer.status, 200, "/{number}/, {time} time");
            assert_eq!(answer.field("content-type"), Some(content_type), "/{number}/, {time} time");
            assert_eq!(answer.body, body, "/{number}/, {time} time");
        }
    }
}

/// An index found in the pool was described by the first name of the list: plain text became HTML on
/// the first request, in which a browser runs scripts, and text again on the next.
#[test]
fn an_index_has_the_type_of_its_own_name() {
    let site = Site::new();
    for number in 0..20 {
        site.file(format!("{number}/index.txt"), b"<b>text</b>");
    }
    let server = start(&site, "[\"index.html\", \"index.txt\"]");
    check(&server, 20, "text/plain; charset=utf-8", b"<b>text</b>");
}

/// A directory with the name of an index ended the search where the pool found it, and was passed over
/// where the worker did: 404 on the first request, 200 afterwards.
#[test]
fn a_directory_with_the_name_of_an_index_is_passed_over() {
    let site = Site::new();
    for number in 0..20 {
        site.file(format!("{number}/index.txt"), b"text");
        fs::create_dir(site.root().join(format!("{number}/index.html"))).unwrap();
    }
    let server = start(&site, "[\"never.html\", \"index.html\", \"index.txt\"]");
    check(&server, 20, "text/plain; charset=utf-8", b"text");
}
