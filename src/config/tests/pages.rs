//! `error_pages`: what stands for which status, and what cannot.

use super::super::checked::{ErrorPage, Handler};
use super::{check, lines, load_with};

fn page(first: u16, last: u16, path: &str) -> ErrorPage {
    ErrorPage { first, last, path: path.as_bytes().to_vec() }
}

fn of_site(pages: &str) -> String {
    format!("[error_pages]\nroot = \"src\"\npages = {pages}")
}

#[test]
fn exact_statuses_come_before_classes() {
    let pages =
        "{ 4xx = \"/main.rs\", \"5xx\" = \"/config/mod.rs\", 404 = \"/lib.rs\", \"599\" = \"/${env:PAGE}\" }";
    let text = format!(
        "{}\n[[route]]\npath = \"/\"\nstatic = {{ root = \"src\", error_pages = {pages} }}",
        of_site(pages)
    );
    let loaded = load_with(&text, &[("PAGE", "limits.rs")]).unwrap();
    let expected = [
        page(404, 404, "lib.rs"),
        page(599, 599, "limits.rs"),
        page(400, 499, "main.rs"),
        page(500, 599, "config/mod.rs"),
    ];
    assert_eq!(loaded.config.error_pages.unwrap().pages, expected);
    let Handler::Static(files) = &loaded.config.routes[0].handler else { panic!("static") };
    assert_eq!(files.error_pages, expected);
    let shown = |key: &str| loaded.settings.iter().find(|setting| setting.key == key).unwrap().shown.clone();
    assert_eq!(shown("error_pages.root"), "\"src\"");
    assert_eq!(shown("error_pages.pages.4xx"), "\"/main.rs\"");
    assert_eq!(shown("route.1.static.error_pages.599"), "\"/${env:PAGE}\"");
    assert!(load_with("[[route]]\npath = \"/\"\nrespond = {}", &[]).unwrap().config.error_pages.is_none());
    // As a variable; the pages have no name that one could have.
    let environment = [("SCALWS_ERROR_PAGES__ROOT", "src")];
    let loaded = load_with("[error_pages]\npages = { 404 = \"/lib.rs\" }", &environment).unwrap();
    assert_eq!(loaded.config.error_pages.unwrap().root, std::path::Path::new("src"));
    let found = lines(load_with("", &[("SCALWS_ERROR_PAGES__PAGES", "x")]));
    assert!(found.len() == 1 && found[0].contains("expected the name of a key"), "{found:?}");
}

#[test]
fn a_page_is_a_file_for_an_error() {
    let one = |entry: &str, column: usize, expected: &str| {
        let site = format!("@3:{column}: error_pages.pages.{expected}");
        check(&of_site(&format!("{{ {entry} }}")), &[&site]);
        let column = column + 31;
        let route = format!("@3:{column}: route.static.error_pages.{expected}");
        check(
            &format!("[[route]]\npath = \"/\"\nstatic = {{ root = \"src\", error_pages = {{ {entry} }} }}"),
            &[&route],
        );
    };
    for status in ["200", "304", "399", "600", "4040", "04", "2xx", "page"] {
        let fault = format!("{status}: expected a status from 400 to 599, \"4xx\" or \"5xx\"");
        one(&format!("{status} = \"/lib.rs\""), 11, &fault);
    }
    one("\"+404\" = \"/lib.rs\"", 11, "+404: expected a status from 400 to 599, \"4xx\" or \"5xx\"");
    one(
        "4XX = \"/lib.rs\"",
        11,
        "4XX: expected a status from 400 to 599, \"4xx\" or \"5xx\", did you mean \"4xx\"?",
    );
    let beneath = "expected a file beneath root such as \"/404.html\", found";
    for (page, fault) in [
        ("/none.html", "which is no file there"),
        ("/config", "which is no file there"),
        ("/.hidden", "whose name is hidden"),
        ("/a/.hidden", "whose name is hidden"),
        ("/.git/x", "whose name is hidden"),
    ] {
        one(&format!("404 = \"{page}\""), 17, &format!("404: {beneath} \"{page}\", {fault}"));
    }
    for page in ["lib.rs", "/", "/../Cargo.toml", "/a%2fb", ""] {
        let fault = "404: expected a path that begins with a slash, such as \"/404.html\", found";
        one(&format!("404 = \"{page}\""), 17, &format!("{fault} \"{page}\""));
    }
    one("404 = 1", 17, "404: expected a string, found 1");
}

#[test]
fn the_site_has_a_root_and_pages() {
    let table = "expected a table of statuses with their pages such as { \"404\" = \"/404.html\" }, found";
    check("error_pages = 1", &["@1:15: error_pages: expected a table with root and pages, found 1"]);
    check(
        "[error_pages]",
        &["@1:1: error_pages: expected root, found none", "@1:1: error_pages: expected pages, found none"],
    );
    check(
        "[error_pages]\nroot = \"/no/such\"\npages = { 404 = \"/lib.rs\", 200 = \"/lib.rs\" }",
        &[
            "@2:8: error_pages.root: expected a readable directory, found \"/no/such\", which does not exist",
            "@3:28: error_pages.pages.200: expected a status from 400 to 599, \"4xx\" or \"5xx\"",
        ],
    );
    check(&of_site("{}"), &["@3:9: error_pages.pages: expected at least one page, found an empty table"]);
    check(&of_site("\"/404.html\""), &[&format!("@3:9: error_pages.pages: {table} \"/404.html\"")]);
    check(
        "[error_pages]\nrot = \"src\"\npages = { 404 = \"/lib.rs\" }",
        &["@2:1: unknown key \"rot\" in error_pages, did you mean \"root\"?"],
    );
    check(
        "[[route]]\npath = \"/\"\nerror_pages = { 404 = \"/404.html\" }",
        &["@3:1: unknown key \"error_pages\" in route, it belongs in static"],
    );
    check(
        "[server]\nerror_pages = {}",
        &["@2:1: unknown key \"error_pages\" in server, it belongs in the top level or static"],
    );
    // Beside a mistake elsewhere in its route.
    check(
        "[[route]]\npath = \"/\"\nstatic = { root = \"src\", cache_control = 1, error_pages = 1 }",
        &[
            "@3:42: route.static.cache_control: expected a list such as [{ glob = \"**\", value = \"no-cache\" }], found 1",
            &format!("@3:59: route.static.error_pages: {table} 1"),
        ],
    );
}
