//! Files that are not in memory while the pool takes no more: an error of its own, and no answer that ends in
//! its middle (case A11 is for what happens once it was begun).

use std::fs::File;

use crate::error_pages::{of_site, pages};
use crate::support::fuse::Hanging;
use crate::support::{Scrape, Server, Site, assert_same, is_root, noise, until};
use crate::waits::{evict, reads_without_waiting};

/// The head went out first: a client had `200` with a length, and then the end of the connection.
#[test]
fn a_cold_file_of_any_size_is_503_while_the_pool_is_full() {
    if !is_root() {
        skip!("needs root for a FUSE mount");
    }
    let site = Site::sample();
    if !reads_without_waiting(&site) {
        skip!("needs a file system with RWF_NOWAIT for Cargo's target directory");
    }
    let sizes = [40_000, 65_535, 65_536, 100_000, 131_072, 131_073, 1 << 20];
    let contents = sizes.map(|size| noise(7, size));
    let files = sizes.map(|size| site.file(format!("cold-{size}"), &noise(7, size)));
    let mountpoint = site.directory().join("fuse");
    std::fs::create_dir(&mountpoint).unwrap();
    let mut hanging = match Hanging::mount(&mountpoint) {
        Ok(hanging) => hanging,
        Err(why) => skip!("needs FUSE: {why}"),
    };
    let fuse = format!("[[route]]\npath = \"/fuse/\"\nstatic = {{ root = '{}' }}\n", mountpoint.display());
    let tables = format!("[limits]\noffload_threads = 1\noffload_queue = 1\n{fuse}{}", site.route());
    let server = Server::with(&site, "workers = 1", &tables);
    let targets = sizes.map(|size| format!("/cold-{size}"));
    let mut stuck = Vec::new();
    // More than one try: once a second the roots are looked up, which takes the only place.
    until("a call that hangs", || {
        stuck.push(server.client());
        stuck.last_mut().unwrap().send("GET /fuse/stuck HTTP/1.1\r\nHost: a\r\n\r\n");
        hanging.waiting() == 1
    });
    // One connection: it goes on after each refusal, and what is there is served before and behind it.
    let mut client = server.client();
    for ((target, content), path) in targets.iter().zip(&contents).zip(&files) {
        for range in ["", "Range: bytes=1-\r\n"] {
            // More than one try: a look that waits for nothing still has the kernel begin to read.
            until("a refusal", || {
                evict(&File::open(path).unwrap());
                client.send(format!(
                    "GET /x.txt HTTP/1.1\r\nHost: a\r\n\r\nGET {target} HTTP/1.1\r\nHost: a\r\n{range}\r\n\
                     HEAD {target} HTTP/1.1\r\nHost: a\r\n\r\n"
                ));
                assert_eq!(client.response().body, b"x marks the spot\n");
                let answer = client.response();
                assert_eq!(client.response_to_head().status, 200, "{target}: needs no byte of it");
                if answer.status != 503 {
                    assert_same(&answer.body, &content[usize::from(!range.is_empty())..], target);
                    return false;
                }
                assert_eq!(answer.field("retry-after"), Some("1"), "{target}");
                true
            });
        }
    }
    until("the pool is free", || {
        hanging.release();
        server.get(&targets[3]).status == 200
    });
    for ((target, content), path) in targets.iter().zip(&contents).zip(&files) {
        evict(&File::open(path).unwrap());
        let answer = server.get(target);
        assert_eq!(answer.status, 200);
        assert_same(&answer.body, content, target);
    }
}

/// The pool is full of calls that hang. Its 503 may have a page that is in memory, but must not ask the pool
/// for one that is not: nor for a large one, whose next part may be cold.
#[test]
fn a_full_pool_is_not_asked_for_the_page_of_its_error() {
    if !is_root() {
        skip!("needs root for a FUSE mount");
    }
    let site = pages();
    if !reads_without_waiting(&site) {
        skip!("needs a file system with RWF_NOWAIT for Cargo's target directory");
    }
    let mountpoint = site.directory().join("fuse");
    std::fs::create_dir(&mountpoint).unwrap();
    let hanging = match Hanging::mount(&mountpoint) {
        Ok(hanging) => hanging,
        Err(why) => skip!("needs FUSE: {why}"),
    };
    let page = site.beside("errors/503.html", b"busy\n");
    let tables = format!(
        "[limits]\noffload_queue = 1\n{}[[route]]\npath = \"/\"\nstatic = {{ root = '{}' }}\n",
        of_site(&site, "{ 503 = \"/503.html\" }"),
        mountpoint.display()
    );
    let server = Server::with(&site, "workers = 1", &tables);
    let mut stuck = Vec::new();
    // More than one try: once a second the roots are looked up, which takes the only place.
    until("a call that hangs", || {
        stuck.push(server.client());
        stuck.last_mut().unwrap().send("GET /stuck HTTP/1.1\r\nHost: a\r\n\r\n");
        hanging.waiting() == 1
    });
    // More than one try: that a name or a page is in memory is the kernel's word of the moment (openat2(2),
    // preadv2(2)). Whatever it says, the answer is one of these, and no try waits.
    let bare = "503 Service Unavailable\n";
    let check = |page: &str, expected: &str, before: &dyn Fn()| {
        until(expected, || {
            before();
            let answer = server.get("/file");
            assert_eq!((answer.status, answer.field("retry-after")), (503, Some("1")));
            let text = answer.text();
            assert!(text == page || text == bare, "{text}");
            text == expected
        });
    };
    check("busy\n", "busy\n", &|| ());
    check("busy\n", bare, &|| evict(&File::open(&page).unwrap()));
    std::fs::write(&page, noise(1, 200_000)).unwrap();
    check(bare, bare, &|| ());
    std::fs::write(&page, "busy again\n").unwrap();
    check("busy again\n", "busy again\n", &|| ());
    assert_eq!(Scrape::of(&server).sum("scalws_request_hops_total"), 0, "refused is no trip");
}
