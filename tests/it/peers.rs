//! Clients that people really have, against a real server: what they make of codings, of half a file,
//! and of one that is replaced while it comes.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Server, Site, assert_same, has_program, noise, say_skipped, until};

fn url(server: &Server, target: &str) -> String {
    format!("http://{}{target}", server.address)
}

fn run(program: &str, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {} {error}", output.status);
    output.stdout
}

#[test]
fn curl_decodes_what_it_asked_for() {
    if !has_program("curl") {
        return say_skipped("curl is not installed");
    }
    let site = Site::sample();
    let text: Vec<u8> = (0..9_000).flat_map(|line| format!("line {line} of a page\n").into_bytes()).collect();
    site.file("page.html", &text);
    let route = site.route().replace(" }\n", ", compress = true }\n");
    let server = Server::with(&site, "", &route);
    let page = url(&server, "/page.html");
    // More than once: the first may be the file as it is, the others come out of memory.
    let mut codings = Vec::new();
    until("curl gets a coding", || {
        let headers = site.directory().join("headers");
        let body = run("curl", &["-s", "--compressed", "-D", headers.to_str().unwrap(), &page]);
        assert_same(&body, &text, "what curl decoded");
        let headers = fs::read_to_string(headers).unwrap();
        codings
            .extend(headers.lines().filter(|line| line.starts_with("Content-Encoding: ")).map(str::to_owned));
        !codings.is_empty()
    });
    let plain = run("curl", &["-s", &page]);
    assert_same(&plain, &text, "without --compressed");
}

/// Half a download that goes on is the whole file, and costs the other half only.
#[test]
fn wget_goes_on_with_half_a_file() {
    if !has_program("wget") {
        return say_skipped("wget is not installed");
    }
    let site = Site::sample();
    let content = noise(1, 3_000_000);
    site.file("big.bin", &content);
    let server = Server::of(&site);
    let half = site.beside("big.bin", &content[..1_234_567]);
    let log = wget_on(&half, &server);
    assert!(log.contains("206 Partial Content"), "{log}");
    assert_same(&fs::read(&half).unwrap(), &content, "both halves");
    // Complete already: nothing more to be had (RFC 9110 §15.5.17), and the file stays what it is.
    let log = wget_on(&half, &server);
    assert!(log.contains("416 Range Not Satisfiable"), "{log}");
    assert_same(&fs::read(&half).unwrap(), &content, "asked for again");
}

fn wget_on(half: &Path, server: &Server) -> String {
    let output = Command::new("wget")
        .args(["-c", "-S", "--tries=1", "-O"])
        .arg(half)
        .arg(url(server, "/big.bin"))
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What is deployed by a rename while a client reads slowly: it gets the file that it began with. (Going on
/// with `-c` after that is another matter: wget sends no If-Range, so no server can tell it that the
/// file is another one; curl can be told to, and is.)
#[test]
fn a_file_that_is_replaced_under_way_is_the_old_one_to_its_end() {
    if !has_program("wget") || !has_program("curl") {
        return say_skipped("wget or curl is not installed");
    }
    let site = Site::sample();
    let (old, new) = (noise(2, 12_000_000), noise(3, 12_000_000));
    let served = site.file("big.bin", &old);
    let server = Server::of(&site);
    let tag = server.get("/big.bin").field("etag").unwrap().to_owned();
    let target = site.directory().join("download");
    let mut wget = Command::new("wget")
        .args(["-q", "--limit-rate=8m", "-O"])
        .arg(&target)
        .arg(url(&server, "/big.bin"))
        .spawn()
        .unwrap();
    until("wget has begun", || fs::metadata(&target).is_ok_and(|file| file.len() > 0));
    fs::rename(site.beside("new", &new), &served).unwrap();
    assert!(wget.wait().unwrap().success());
    assert_same(&fs::read(&target).unwrap(), &old, "the download");

    let rest = site.beside("rest", &old[..5_000_000]);
    let arguments = ["-s", "-r", "5000000-", "-H", &format!("If-Range: {tag}"), "-o", rest.to_str().unwrap()];
    run("curl", &[&arguments[..], &[&url(&server, "/big.bin")]].concat());
    assert_same(&fs::read(&rest).unwrap(), &new, "the new file from its start, not its end");
}
