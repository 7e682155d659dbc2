//! The examples of `static` and what belongs to it.

use super::{Shown, get, started};
use crate::support::{Response, Server, noise, until};

const HTML: &str = "Accept: text/html";

/// Words in no order: they shrink by far, and further at a higher level.
fn words(bytes: usize) -> Vec<u8> {
    const WORDS: [&str; 16] = [
        "alpha ", "beta ", "gamma ", "delta\n", "epsilon ", "zeta ", "eta ", "theta ", "iota ", "kappa ",
        "lambda ", "mu ", "nu ", "xi ", "omicron ", "pi\n",
    ];
    let words = noise(3, bytes).into_iter().flat_map(|byte| WORDS[usize::from(byte) % 16].bytes());
    words.take(bytes).collect()
}

/// `root`, `symlinks`, `index`, `listing`, `clean_urls`, `precompressed`, `compress`.
#[test]
fn of_a_directory() {
    let shown =
        Shown::of("Pages without their ending, lists of directories, no links and no look for sidecars");
    shown.file("/srv/words.txt", &words(8_000));
    std::os::unix::fs::symlink("x.txt", shown.path("/srv/link.txt")).unwrap();
    let server = shown.start();
    assert_eq!(server.get("/x.txt").text(), "x marks the spot\n", "root");
    assert_eq!(server.get("/link.txt").status, 404, "symlinks");
    assert_eq!(server.get("/docs/").text(), "/srv/docs/home.htm", "index");
    let list = get(&server, "/", HTML);
    assert!(list.status == 200 && list.text().contains("page.htm"), "listing: {}", list.head);
    assert_eq!(server.get("/about").text(), "/srv/about.html", "clean_urls");
    let script = get(&server, "/app.js", "Accept-Encoding: gzip");
    assert_eq!(
        (script.field("content-encoding"), script.text().as_str()),
        (None, "/srv/app.js"),
        "precompressed"
    );
    coded(&server, "/words.txt", "gzip");
}

/// `spa`, `spa_exclude`, `error_pages`, `cache_control`, `headers`.
#[test]
fn of_a_single_page_application() {
    let (_shown, server) = started("A single-page application");
    let page = get(&server, "/users/7", HTML);
    assert_eq!((page.status, page.text().as_str()), (200, "/srv/index.html"), "spa");
    assert_eq!(page.field("cache-control"), Some("no-cache"));
    let excluded = get(&server, "/api/users", HTML);
    assert_eq!(
        (excluded.status, excluded.text().as_str()),
        (404, "/srv/404.html"),
        "spa_exclude, error_pages"
    );
    let asset = server.get("/assets/app.js");
    assert_eq!(asset.field("cache-control"), Some("public, max-age=31536000, immutable"));
    assert_eq!(asset.field("cross-origin-resource-policy"), Some("cross-origin"));
}

/// Asks until the answer is in that coding: the first ones may be too early for it.
#[track_caller]
fn coded(server: &Server, target: &str, coding: &str) -> Response {
    let mut answer = None;
    until("an answer is compressed", || {
        answer = Some(get(server, target, &format!("Accept-Encoding: {coding}")));
        answer.as_ref().unwrap().field("content-encoding") == Some(coding)
    });
    answer.unwrap()
}

/// `route.static.compress`: all of its keys. A level shows by what it leaves of a file, beside the
/// default. That `codings` keeps one out is in the example of a small container.
#[test]
fn of_compression() {
    let shown = Shown::of("Smaller files for more time, of two kinds only");
    shown.file("/srv/words.txt", &words(200_000));
    shown.file("/srv/words.json", &words(10_000));
    shown.file("/srv/words.svg", &words(10_000));
    shown.file("/srv/small.txt", &words(2_000));
    shown.file("/srv/large.txt", &words((1 << 20) + 1));
    let server = shown.start();
    let root = shown.path("/srv");
    let tables =
        format!("[[route]]\npath = \"/\"\nstatic = {{ root = '{}', compress = true }}\n", root.display());
    let usual = Server::with(&shown.site, "", &tables);
    for coding in ["br", "zstd", "gzip"] {
        let [here, there] = [&server, &usual].map(|server| coded(server, "/words.txt", coding).body.len());
        assert!(here < there, "{coding}: {here} bytes at the level of the example, {there} at the default");
    }
    coded(&server, "/words.json", "br");
    for target in ["/small.txt", "/large.txt", "/words.svg"] {
        // The other server does compress it: it is the key that keeps it as it is.
        coded(&usual, target, "br");
        for _ in 0..3 {
            assert_eq!(
                get(&server, target, "Accept-Encoding: br").field("content-encoding"),
                None,
                "{target}"
            );
        }
    }
}

#[test]
fn of_cache_control() {
    let shown = Shown::of("The first glob that matches wins");
    shown.file("/srv/assets/app.js", b"app()\n");
    let server = shown.start();
    let of = |target: &str| server.get(target).field("cache-control").map(str::to_owned);
    assert_eq!(of("/assets/app.js").as_deref(), Some("public, max-age=31536000, immutable"));
    assert_eq!(of("/x.txt").as_deref(), Some("no-cache"));
}

#[test]
fn of_fields_of_files() {
    let shown = Shown::of("All globs that match add their fields");
    shown.file("/srv/downloads/a.wasm", b"a");
    let server = shown.start();
    let both = server.get("/downloads/a.wasm");
    assert_eq!(both.field("content-disposition"), Some("attachment"));
    assert_eq!(both.field("cross-origin-resource-policy"), Some("same-site"));
    let none = server.get("/x.txt");
    assert_eq!(none.field("content-disposition"), None, "{}", none.head);
}
