//! Listings of directories: what is in them, how names are written, in which form, and their bound.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;

use crate::support::{Client, Launch, Response, Server, Site, is_root, run};

const JSON: &str = "Accept: application/json\r\n";

fn route_at(site: &Site, prefix: &str, keys: &str) -> String {
    site.route_at(prefix).replace(" }", &format!(", listing = true{keys} }}"))
}

fn start(site: &Site, keys: &str) -> Server {
    Server::with(site, "workers = 1", &route_at(site, "/", keys))
}

fn ask(client: &mut Client, method: &str, target: &str, fields: &str) -> Response {
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    if method == "HEAD" { client.response_to_head() } else { client.response() }
}

#[track_caller]
fn json(server: &Server, target: &str) -> Value {
    let answer = ask(&mut server.client(), "GET", target, JSON);
    assert_eq!((answer.status, answer.field("content-type")), (200, Some("application/json")), "{target}");
    serde_json::from_slice(&answer.body).unwrap()
}

/// The values of a field of all entries, in their order.
fn all<'a>(list: &'a Value, field: &str) -> Vec<&'a str> {
    list["entries"].as_array().unwrap().iter().map(|entry| entry[field].as_str().unwrap()).collect()
}

/// What the links of a page lead to, as they stand there.
fn links(page: &str) -> Vec<&str> {
    page.split("href=\"").skip(1).map(|rest| rest.split_once('"').unwrap().0).collect()
}

/// A list that nobody asked for shows what was only forgotten in a directory; one that hides an index, or
/// that answers a path without its slash, breaks every relative link.
#[test]
fn only_a_directory_without_an_index_is_listed_and_only_on_demand() {
    let site = Site::sample();
    site.file("bare/file.txt", b"12345");
    site.file("odd/index.html/inner", b"");
    let server = Server::of(&site);
    assert_eq!(server.get("/bare/").status, 404);
    let server = start(&site, "");
    let answer = server.get("/bare/");
    assert_eq!((answer.status, answer.field("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!(links(&answer.text()), ["../", "./file.txt"]);
    assert_eq!(server.get("/docs/").body, b"<p>docs</p>\n");
    assert_eq!(server.get("/").body, b"<p>home</p>\n");
    let redirect = server.get("/bare?C=N;O=D");
    assert_eq!((redirect.status, redirect.field("location")), (308, Some("/bare/?C=N;O=D")));
    // A directory with the name of an index is none.
    assert_eq!(links(&server.get("/odd/").text()), ["../", "./index.html/"]);
    for target in ["/none/", "/x.txt/", "/bare/file.txt/", "/.git/", "/bare%2f/"] {
        assert_eq!(server.get(target).status, 404, "{target}");
    }
    assert_eq!(ask(&mut server.client(), "POST", "/bare/", "").status, 405);
    // Without any index, and at the root, where nothing is above.
    let server = start(&site, ", index = []");
    let page = server.get("/").text();
    assert_eq!(
        links(&page),
        ["./bare/", "./docs/", "./odd/", "./empty", "./index.html", "./x.txt", "./y.txt"]
    );
}

/// Whoever may upload a file may choose its name. In the list of another server it became markup, a script
/// behind a link, or a link to another site. Here each link leads to the file, and its name is text.
#[test]
fn names_are_text_and_links_lead_to_their_files() {
    let site = Site::new();
    let names: [&[u8]; 16] = [
        b"\"><script>alert(1)<",
        b"'onmouseover='alert(1)",
        b"a&lt;b&",
        b"javascript:alert(1)",
        b"a:b",
        b"line\nbreak\r\n",
        b"tab\there\x1b\x7f",
        b"caf\xe9",
        b"\xff\xfe",
        "\u{e9}\u{202e}gpj.exe".as_bytes(),
        b"100%25#?;x=1",
        b"%2e%2e",
        b" lead and trail ",
        b"{rest}",
        b"]]>--!>",
        b"x..",
    ];
    let directory = b"d \"<&'\xe9";
    for name in names {
        site.file([directory as &[u8], b"/", name].concat(), name);
    }
    site.file([directory as &[u8], b"/back\\slash"].concat(), b"no link can name it");
    let server = start(&site, "");
    let top = server.get("/").text();
    assert_eq!(links(&top), ["./d%20%22%3C%26%27%E9/"]);
    let target = format!("/{}", links(&top)[0].strip_prefix("./").unwrap());
    let answer = server.get(&target);
    let page = std::str::from_utf8(&answer.body).expect("a page is UTF-8");
    for broken in ["<script", "'onmouse", "&lt;b&<", "\x1b", "\x7f", "\r", "\\slash", "<&", "]]>"] {
        assert!(!page.contains(broken), "{broken:?} in {page}");
    }
    assert!(page.contains("<title>/d &quot;&lt;&amp;&#39;\u{fffd}/</title>"), "{page}");
    assert!(page.contains("<bdi>&quot;&gt;&lt;script&gt;alert(1)&lt;</bdi>"), "{page}");
    assert!(page.contains("<bdi>a&amp;lt;b&amp;</bdi>") && page.contains("<bdi>caf\u{fffd}</bdi>"));
    let policy = answer.field("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-") && !policy.contains("-inline"));
    let list = json(&server, &target);
    assert_eq!(list["path"], "/d \"<&'\u{fffd}/");
    let hrefs = all(&list, "href");
    assert_eq!(links(page)[1..], hrefs);
    let mut found = BTreeSet::new();
    for href in hrefs {
        let file = href.strip_prefix("./").expect("a scheme cannot begin with a dot");
        assert!(file.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte)), "{href}");
        let answer = server.get(&format!("{target}{file}"));
        assert_eq!(answer.status, 200, "{href}");
        found.insert(answer.body);
    }
    assert_eq!(found, names.iter().map(|name| name.to_vec()).collect());
    let named: BTreeSet<&str> = all(&list, "name").into_iter().collect();
    let lossy: Vec<_> = names.iter().map(|name| String::from_utf8_lossy(name)).collect();
    assert_eq!(named, lossy.iter().map(|name| &**name).collect());
}

/// A list that shows what is answered with 404 or 403 tells of names that are nobody's business: outside
/// of the root, unreadable, hidden. And what is served should be found.
#[test]
fn what_is_listed_is_what_is_served() {
    let site = Site::new();
    site.beside("secret.txt", b"SECRET");
    site.file("file.txt", b"file");
    site.file("file.txt.gz", b"a sidecar is a file");
    site.file("dir/inner", b"inner");
    site.file("open/deny.txt", b"");
    let denied = [
        site.file("deny.txt", b"SECRET"),
        site.root().join("denydir"),
        site.root().join("unlisted"),
        site.root().join("unsearched"),
    ];
    for name in
        ["denydir/x", "unlisted/x", "unsearched/x", ".env", "..data", ".well-known/x", "dir/.well-known/x"]
    {
        site.file(name, b"x");
    }
    for (name, kind) in [("fifo", FileType::Fifo), ("socket", FileType::Socket)] {
        mknodat(CWD, site.root().join(name), kind, Mode::from_raw_mode(0o666), 0).unwrap();
    }
    site.link("l-file", "dir/inner");
    site.link("l-dir", "dir");
    site.link("l-hidden", ".env");
    site.link("l-dangling", "nowhere");
    site.link("l-outside", "../secret.txt");
    site.link("l-above", "..");
    site.link("l-absolute", site.root().join("file.txt"));
    site.link("l-loop", "l-loop");
    site.link("l-fifo", "fifo");
    site.link("l-denied", "deny.txt");
    site.link("l-denydir", "denydir");
    for (path, mode) in denied.iter().zip([0o0, 0o0, 0o311, 0o444]) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let launch = |keys: &str| {
        let launch = Launch::new(&site, "workers = 1", &route_at(&site, "/", keys));
        if is_root() { launch.unprivileged().start() } else { launch.start() }
    };
    let server = launch("");
    let list = json(&server, "/");
    let expected =
        [".well-known", "dir", "l-dir", "open", "unlisted", "file.txt", "file.txt.gz", "l-file", "l-hidden"];
    assert_eq!(all(&list, "name"), expected);
    assert_eq!(list["entries"][7]["size"], 5, "of what the link leads to");
    for entry in fs::read_dir(site.root()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_served = matches!(server.get(&format!("/{name}")).status, 200 | 308);
        // A directory without leave to search it redirects all the same, to 403.
        let is_closed = name.ends_with("denydir") || name == "unsearched";
        assert_eq!(is_served && !is_closed, expected.contains(&name.as_str()), "{name}");
    }
    assert_eq!(all(&json(&server, "/dir/"), "name"), ["inner"], "hidden below the top");
    assert_eq!(all(&json(&server, "/l-dir/"), "name"), ["inner"]);
    for target in ["/unlisted/", "/denydir/", "/l-denydir/"] {
        let answer = server.get(target);
        assert_eq!(answer.status, 403, "{target}");
        assert!(!answer.text().contains("href"), "{target}");
    }
    for target in ["/l-above/", "/l-dangling/", "/l-loop/", "/fifo/", "/..data/"] {
        assert_eq!(server.get(target).status, 404, "{target}");
    }
    // Its names could be read, and nothing behind them be served.
    assert_eq!(launch(", index = []").get("/unsearched/").status, 403);
    let server = launch(", symlinks = \"none\"");
    assert_eq!(
        all(&json(&server, "/"), "name"),
        [".well-known", "dir", "open", "unlisted", "file.txt", "file.txt.gz"]
    );
    assert_eq!(server.get("/l-dir/").status, 404);
    drop(server);
    // A test without privileges could not clean up otherwise.
    for path in &denied {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    }
}

/// A program that asks for JSON gets it by its weights and never by a word in its Accept; a browser gets a
/// page; and a cache is told that there are two.
#[test]
fn accept_chooses_between_a_page_and_json() {
    let site = Site::new();
    site.file("d/b.bin", &[0; 1536]);
    site.file("d/A.txt", b"A");
    fs::create_dir(site.root().join("d/z")).unwrap();
    let server = start(&site, "");
    let mut client = server.client();
    for (accept, is_json) in [
        ("", false),
        ("Accept: */*\r\n", false),
        ("Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n", false),
        ("Accept: application/json\r\n", true),
        ("Accept: application/json, text/plain, */*\r\n", true),
        ("Accept: text/html;q=0.5\r\nAccept: application/json\r\n", true),
        ("Accept: text/html, application/json;q=0.9\r\n", false),
        ("Accept: application/json;q=0\r\n", false),
        ("Accept: text/plain;x=\"application/json\"\r\n", false),
        ("Accept: image/png\r\n", false),
    ] {
        let answer = ask(&mut client, "GET", "/d/", accept);
        let expected = if is_json { "application/json" } else { "text/html; charset=utf-8" };
        assert_eq!((answer.status, answer.field("content-type")), (200, Some(expected)), "{accept}");
        assert_eq!(answer.field("vary"), Some("Accept"), "{accept}");
        assert_eq!(answer.field("x-content-type-options"), Some("nosniff"), "{accept}");
        assert_eq!(serde_json::from_slice::<Value>(&answer.body).is_ok(), is_json, "{accept}");
    }
    let list = json(&server, "/d/");
    assert_eq!((&list["path"], &list["truncated"]), (&"/d/".into(), &false.into()));
    assert_eq!(all(&list, "name"), ["z", "A.txt", "b.bin"]);
    assert_eq!(all(&list, "type"), ["directory", "file", "file"]);
    assert_eq!(all(&list, "href"), ["./z/", "./A.txt", "./b.bin"]);
    assert_eq!((&list["entries"][0]["size"], &list["entries"][2]["size"]), (&Value::Null, &1536.into()));
    for time in all(&list, "modified") {
        assert!(time.len() == 24 && time.ends_with('Z') && time.as_bytes()[10] == b'T', "{time}");
    }
    let page = server.get("/d/").text();
    assert!(page.contains("<td>1.5 KiB</td>") && page.contains("<bdi>z</bdi>/</a>"), "{page}");
}

/// HEAD and conditions are those of any other answer, and the operator's word about caches is the only
/// one where there is one.
#[test]
fn head_conditions_and_fields() {
    let site = Site::new();
    site.file("d/a", b"a");
    let own = "headers = { \"Cache-Control\" = \"max-age=5\" }\nstatic";
    let tables =
        format!("{}{}", route_at(&site, "/", ""), route_at(&site, "/own/", "").replace("static", own));
    let server = Server::with(&site, "workers = 1", &tables);
    let mut client = server.client();
    for fields in ["", JSON] {
        let whole = ask(&mut client, "GET", "/d/", fields);
        let head = ask(&mut client, "HEAD", "/d/", fields);
        assert_eq!(head.status, 200);
        let described = |answer: &Response| {
            let fields = answer.fields.iter().filter(|(name, _)| name != "Date");
            fields.cloned().collect::<Vec<_>>()
        };
        assert_eq!(described(&head), described(&whole));
        assert_eq!(whole.field("cache-control"), Some("no-cache"));
        let tag = whole.field("etag").unwrap();
        let answer = ask(&mut client, "GET", "/d/", &format!("{fields}If-None-Match: {tag}\r\n"));
        assert_eq!((answer.status, answer.field("vary")), (304, Some("Accept")));
        assert_eq!(answer.field("etag"), Some(tag));
        assert_eq!(ask(&mut client, "GET", "/d/", &format!("{fields}If-Match: \"x\"\r\n")).status, 412);
        let other = if fields.is_empty() { JSON } else { "" };
        let answer = ask(&mut client, "GET", "/d/", &format!("{other}If-None-Match: {tag}\r\n"));
        assert_eq!(answer.status, 200, "the other form has another tag");
        assert_eq!(ask(&mut client, "GET", "/d/", "Range: bytes=0-0\r\n").status, 200);
        site.file(format!("d/new{}", fields.len()), b"");
        let answer = ask(&mut client, "GET", "/d/", &format!("{fields}If-None-Match: {tag}\r\n"));
        assert_eq!(answer.status, 200, "an edit shows at once");
    }
    assert_eq!(ask(&mut client, "GET", "/own/d/", "").field("cache-control"), Some("max-age=5"));
}

/// A directory of a million files, listed whole, is a page of a hundred megabytes for each visitor who
/// asks. The bound is exact, and what was left out is said.
#[test]
fn a_listing_is_bounded_and_says_so() {
    let site = Site::new();
    for number in 0..5 {
        site.file(format!("five/{number}"), b"");
        site.file(format!("five/.hidden{number}"), b"");
        site.file(format!("six/{number}"), b"");
    }
    site.file("six/5", b"");
    let tables = format!("[limits]\nlisting_entries = 5\n{}", route_at(&site, "/", ""));
    let server = Server::with(&site, "workers = 1", &tables);
    for (target, truncated) in [("/five/", false), ("/six/", true)] {
        let list = json(&server, target);
        assert_eq!((all(&list, "name").len(), &list["truncated"]), (5, &truncated.into()), "{target}");
        let page = server.get(target).text();
        assert_eq!(links(&page).len(), 6, "with the parent");
        assert_eq!(page.contains("not complete: 5 entries"), truncated, "{target}");
    }
}

/// The parent of a route's root is another route's business. `.well-known` is for the top of a host.
#[test]
fn the_root_of_a_route_has_no_parent() {
    let site = Site::new();
    site.file(".well-known/x", b"");
    site.file("sub/x", b"");
    let tables = format!("{}{}", route_at(&site, "/", ""), route_at(&site, "/a/b/", ""));
    let server = Server::with(&site, "workers = 1", &tables);
    assert_eq!(links(&server.get("/").text()), ["./.well-known/", "./sub/"]);
    assert_eq!(links(&server.get("/.well-known/").text()), ["../", "./x"]);
    let top = server.get("/a/b/").text();
    assert_eq!(links(&top), ["./sub/"]);
    assert!(top.contains("<title>/a/b/</title>"), "{top}");
    assert_eq!(links(&server.get("/a/b/sub/").text()), ["../", "./x"]);
    assert_eq!(server.get("/a/b").field("location"), Some("/a/b/"));
}

/// A worker never reads a directory, also not one that it has just seen.
#[test]
fn the_pool_lists_and_the_page_of_an_app_stands_behind() {
    let site = Site::sample();
    site.file("d/a", b"");
    let config = site.config(&route_at(&site, "/", ""));
    let config = config.to_str().unwrap();
    let explained = run(&["explain", "--config", config, "GET", "/d/"]);
    assert!(explained.stdout.contains("resolved  through the offload pool"), "{}", explained.stdout);
    assert!(explained.stdout.contains(", or a list\n"), "{}", explained.stdout);
    let server = start(&site, ", spa = \"/index.html\"");
    let html = "Accept: text/html\r\n";
    assert_eq!(links(&ask(&mut server.client(), "GET", "/d/", html).text()), ["../", "./a"]);
    assert_eq!(ask(&mut server.client(), "GET", "/users/", html).text(), "<p>home</p>\n");
    assert_eq!(server.get("/users/").status, 404);
}
