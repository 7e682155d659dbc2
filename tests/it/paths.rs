//! Paths and what they may reach: traversal, escapes, redirects, file types, awkward names (A01–A04, A08, A09).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::{Resource, Rlimit, prlimit};

use crate::support::{Launch, Server, Site, is_root};

/// Case A01. A server checks the written path for `..` and opens the decoded one, or decodes once for
/// the check and once more for the file: the file beside the root goes out.
#[test]
fn traversal_in_every_spelling_is_refused() {
    let site = Site::sample();
    site.beside("secret.txt", b"SECRET");
    let server = Server::of(&site);
    for path in [
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/.%2e/secret.txt",
        "/..%2fsecret.txt",
        "/%2e%2e%2fsecret.txt",
        "/%252e%252e%252fsecret.txt",
        "/%252e%252e/secret.txt",
        "/..%5csecret.txt",
        "/..\\secret.txt",
        "/..%c0%afsecret.txt",
        "/%c0%ae%c0%ae/secret.txt",
        "/x.txt/../../secret.txt",
        "/docs/../../secret.txt",
        "/..;/secret.txt",
        "//../secret.txt",
        "/./../secret.txt",
        "http://a/../secret.txt",
    ] {
        let answer = server.get(path);
        assert!(matches!(answer.status, 400 | 403 | 404), "{path}: {}", answer.status);
        assert!(!answer.text().contains("SECRET"), "{path}");
    }
    assert_eq!(server.get("/docs/../x.txt").body, b"x marks the spot\n");
    assert_eq!(server.get("/docs/%2e%2e/x.txt").body, b"x marks the spot\n");
}

/// Case A01. Decoding twice also serves another file than the one that was asked for.
#[test]
fn a_path_is_decoded_exactly_once() {
    let site = Site::new();
    site.file("A.txt", b"decoded twice");
    let server = Server::of(&site);
    assert_eq!(server.get("/%41.txt").body, b"decoded twice");
    assert_eq!(server.get("/%2541.txt").status, 404);
    site.file("%41.txt", b"decoded once");
    // One that has not looked for it: what is not there is believed for a second.
    let server = Server::of(&site);
    assert_eq!(server.get("/%2541.txt").body, b"decoded once");
}

/// Case A02. The router looks at the written path and sees no `/sub/`, the file lookup decodes and
/// finds `sub/f.txt`: whatever guards `/sub/` is passed.
#[test]
fn an_encoded_slash_is_no_separator() {
    let site = Site::new();
    site.file("sub/f.txt", b"guarded");
    site.file("open/f.txt", b"open");
    site.file("open\\f.txt", b"a backslash of its own");
    let guard = "[[route]]\npath = \"/sub/\"\nrespond = { status = 403, body = \"guard\\n\" }\n";
    let server = Server::with(&site, "", &format!("{}{guard}", site.route()));
    for path in [
        "/sub%2ff.txt",
        "/%2fsub/f.txt",
        "/sub%5cf.txt",
        "/open%2ff.txt",
        "/open%2F",
        "/%2fopen/f.txt",
        "/open%5cf.txt",
    ] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
    for path in ["/sub/f.txt", "/%73ub/f.txt", "//sub/f.txt", "/open/../sub/f.txt", "/./sub//f.txt", "/sub"] {
        let answer = server.get(path);
        assert_eq!((answer.status, answer.text().as_str()), (403, "guard\n"), "{path}");
    }
    assert_eq!(server.get("/open/f.txt").body, b"open");
    assert_eq!(server.get("/open\\f.txt").body, b"a backslash of its own");
}

/// Case A03. "Invalid argument" from the kernel falls into the branch for the unknown and becomes
/// 500, or the name ends at the NUL and another file is served.
#[test]
fn control_bytes_and_broken_escapes_are_refused() {
    let site = Site::sample();
    let server = Server::of(&site);
    for path in ["/%00", "/x.txt%00", "/x.txt%00.png", "/%zz", "/%", "/%2", "/x.txt%", "/%+1", "/%u0041"] {
        assert_eq!(server.get(path).status, 400, "{path}");
    }
    for path in ["/x%0d%0aX:1", "/%7f", "/%01", "/%ff"] {
        let answer = server.get(path);
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.field("x").is_none(), "{path}");
    }
    for byte in [0_u8, 1, 0x0b, 0x7f, 0x80, 0xff, b'\r', b'\t'] {
        let request = [b"GET /x" as &[u8], &[byte], b".txt HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
        let heard = server.raw_open(request);
        assert_eq!(heard.statuses(), [400], "byte {byte:#x}");
    }
    assert_eq!(server.raw("GET /x.txt#f HTTP/1.1\r\nHost: a\r\n\r\n").statuses(), [400]);
}

/// Case A04. `Location` is the request path with a slash: for `//evil.example` a browser reads the
/// answer as another site, and the redirect of a trusted name leads there.
#[test]
fn a_directory_redirect_stays_on_the_site() {
    let site = Site::sample();
    for name in ["evil.example/index.html", "\\evil.example/index.html", "a b/index.html"] {
        site.file(name, b"");
    }
    let server = Server::with(&site, "", &format!("{}{}", site.route(), site.route_at("/app/")));
    for (path, location) in [
        ("/docs", "/docs/"),
        ("/docs?a=1&b=%2f", "/docs/?a=1&b=%2f"),
        ("/docs?", "/docs/?"),
        ("/docs?//x?y=%zz", "/docs/?//x?y=%zz"),
        ("//docs", "/docs/"),
        ("//evil.example", "/evil.example/"),
        ("///evil.example", "/evil.example/"),
        ("/x/..//evil.example", "/evil.example/"),
        ("/a%20b", "/a%20b/"),
        ("/app/docs?q", "/app/docs/?q"),
        ("/app//evil.example", "/app/evil.example/"),
        ("http://forged.example//evil.example", "/evil.example/"),
    ] {
        let mut client = server.client();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: forged.example\r\n\r\n"));
        let answer = client.response();
        assert_eq!((answer.status, answer.field("location")), (308, Some(location)), "{path}");
        assert!(!answer.head.contains("forged"), "{path}");
    }
    // A raw backslash is a byte of a name, but no redirect can carry it: escaped it is another path.
    for path in ["//evil.example/..%2fdocs", "/%5cevil.example", "/\\evil.example"] {
        let answer = server.get(path);
        assert_eq!((answer.status, answer.field("location")), (404, None), "{path}");
    }
    assert_eq!(server.get("/docs/").body, b"<p>docs</p>\n");
    assert_eq!(server.get("/app").field("location"), Some("/app/"));
}

/// Case A08. Only "no such file" is mapped to 404; every other cause of the kernel becomes 500, or the
/// slash is cut off before the lookup and `/f.txt/` is served.
#[test]
fn the_shape_of_a_path_must_fit_the_file() {
    let site = Site::sample();
    site.file("d/index.html", b"index");
    site.link("loop", "loop");
    site.link("outside", "../secret.txt");
    site.link("absolute", site.root().join("x.txt"));
    site.link("inside", "docs/index.html");
    site.link("dangling", "nowhere");
    site.beside("secret.txt", b"SECRET");
    let server = Server::of(&site);
    let (long, deep) = (format!("/{}", "a".repeat(300)), "/a".repeat(2500));
    for path in [
        "/x.txt/",
        "/x.txt/x",
        "/d/index.html/",
        "/loop",
        "/loop/x",
        "/outside",
        "/absolute",
        "/dangling",
        "/inside/",
        &long,
        &deep,
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, 404, "{}", &path[..path.len().min(30)]);
        assert!(!answer.text().contains("SECRET"), "{path}");
    }
    assert_eq!(server.get("/inside").body, b"<p>docs</p>\n");
    assert_eq!(server.get("/d/").body, b"index");
    // An outsider cannot tell what is outside from what is not there.
    let (outside, missing) = (server.get("/outside"), server.get("/missing"));
    assert_eq!(outside.body, missing.body);
}

/// Case A08, symbolic links. With `symlinks = "none"` no link is followed, in any part of the path.
#[test]
fn links_can_be_refused() {
    let site = Site::sample();
    site.link("file", "x.txt");
    site.link("directory", "docs");
    let route = format!(
        "[[route]]\npath = \"/\"\nstatic = {{ root = '{}', symlinks = \"none\" }}\n",
        site.root().display()
    );
    let server = Server::with(&site, "", &route);
    for path in ["/file", "/directory", "/directory/", "/directory/index.html"] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
    assert_eq!(server.get("/x.txt").status, 200);
}

/// Case A08, permissions. What may not be read is 403, also when the directory above it is closed.
#[test]
fn what_may_not_be_read_is_403() {
    let site = Site::sample();
    let denied = [site.file("deny.txt", b"SECRET"), site.root().join("denydir")];
    site.file("denydir/x", b"SECRET");
    for path in &denied {
        fs::set_permissions(path, fs::Permissions::from_mode(0o0)).unwrap();
    }
    let launch = Launch::new(&site, "", &site.route());
    let launch = if is_root() { launch.unprivileged() } else { launch };
    let server = launch.start();
    for path in ["/deny.txt", "/denydir/x", "/denydir/"] {
        let answer = server.get(path);
        assert_eq!(answer.status, 403, "{path}");
        assert!(!answer.text().contains("SECRET"), "{path}");
    }
    assert_eq!(server.get("/x.txt").status, 200);
    // A test without privileges could not clean up otherwise.
    fs::set_permissions(&denied[1], fs::Permissions::from_mode(0o700)).unwrap();
}

/// Case A08, descriptors. A process without a free descriptor is overloaded, not broken: 503, and as
/// soon as there is one again, 200.
#[test]
fn no_free_descriptor_is_503() {
    let site = Site::sample();
    let server = Server::with(&site, "workers = 1", &site.route());
    let mut client = server.client();
    assert_eq!(client.get("/x.txt").status, 200);
    let plenty = rustix::process::getrlimit(Resource::Nofile);
    let none = Rlimit { current: Some(3), maximum: plenty.maximum };
    prlimit(Some(server.pid()), Resource::Nofile, none).unwrap();
    assert_eq!(client.get("/y.txt").status, 503);
    prlimit(Some(server.pid()), Resource::Nofile, plenty).unwrap();
    assert_eq!(client.get("/y.txt").body, b"why\n");
}

/// Hidden names are judged by the request, never by where a link leads: Kubernetes mounts a volume
/// as `index.html -> ..data/index.html`, and that must be served.
#[test]
fn hidden_names_are_a_miss() {
    let site = Site::new();
    site.file(".git/config", b"SECRET");
    site.file("sub/.env", b"SECRET");
    site.file(".well-known/security.txt", b"Contact: a@example.org\n");
    site.file(".well-known/.hidden", b"SECRET");
    site.file("..2026_01/index.html", b"mounted");
    site.link("..data", "..2026_01");
    site.link("index.html", "..data/index.html");
    let server = Server::of(&site);
    for path in [
        "/.git/config",
        "/%2egit/config",
        "/sub/.env",
        "/..data/index.html",
        "/.well-known/.hidden",
        "/.git",
        "/.git/",
    ] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
    assert_eq!(server.get("/.well-known/security.txt").status, 200);
    assert_eq!(server.get("/").body, b"mounted");
}

/// Case A09. Paths are read as forms (`+` becomes a space), must be UTF-8, or may not contain two
/// dots: files with lawful names cannot be had.
#[test]
fn awkward_names_are_served_as_they_are() {
    let site = Site::new();
    for (name, path) in [
        (b"a b.txt" as &[u8], "/a%20b.txt"),
        (b"a+b.txt", "/a+b.txt"),
        (b"100%.txt", "/100%25.txt"),
        (b"q?.txt", "/q%3F.txt"),
        (b"caf\xe9.txt", "/caf%E9.txt"),
        ("é.txt".as_bytes(), "/%C3%A9.txt"),
        (b"#h.txt", "/%23h.txt"),
        (b"a;b=1.txt", "/a;b=1.txt"),
        (b"x..", "/x.."),
        (b"a..b", "/a..b"),
        (b"back\\slash", "/back\\slash"),
        (b"\"q'|`{}", "/\"q'|`{}"),
        (b"line\nbreak", "/line%0Abreak"),
    ] {
        site.file(name, name);
        let server = Server::of(&site);
        let answer = server.get(path);
        assert_eq!((answer.status, answer.body.as_slice()), (200, name), "{path}");
    }
    site.file("..x", b"hidden");
    let server = Server::of(&site);
    assert_eq!(server.get("/..x").status, 404);
    for path in ["/a+b.txt?v=1%zz", "/a+b.txt?/../../x", "/a+b.txt??", "/a+b.txt?%00"] {
        assert_eq!(server.get(path).body, b"a+b.txt", "{path}");
    }
}
