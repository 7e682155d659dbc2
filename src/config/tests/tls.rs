//! `[tls]` as far as the text goes; what is in the files is for `tests/it/tls`.

use super::{check, lines, load_with};
use crate::config::checked::Certificate;

const ROUTE: &str = "[[route]]\npath = \"/\"\nrespond = {}\n";

/// The problems of `[tls]` with these lines.
#[track_caller]
fn tls(inside: &str, expected: &[&str]) {
    check(&format!("[tls]\n{inside}\n{ROUTE}"), expected);
}

#[test]
fn a_pair_is_two_files_or_a_word() {
    tls("certificate = \"/a\"\nkey = \"/b\"", &[]);
    tls("certificate = \"self-signed\"", &[]);
    tls("", &["@1:1: tls.certificate: expected a file, or \"self-signed\", found none"]);
    tls("key = \"/b\"", &["@1:1: tls.certificate: expected a file, or \"self-signed\", found none"]);
    tls("certificate = \"/a\"", &["@2:15: tls.key: expected the file with its key, found none"]);
    tls("certificate = \"/a\"\nkeyy = \"/b\"", &["@3:1: unknown key \"keyy\" in tls, did you mean \"key\"?"]);
    tls("certificate = \"/a\"\nkey = 7", &["@3:7: tls.key: expected a string, found 7"]);
    tls(
        "certificate = \"self-signed\"\nkey = \"/b\"",
        &["@3:7: tls.key: expected no key beside certificate = \"self-signed\""],
    );
    check(&format!("tls = 1\n{ROUTE}"), &["@1:7: tls: expected a table, found 1"]);
}

#[test]
fn further_certificates_are_whole_too() {
    let more = |inside: &str, expected: &[&str]| {
        tls(&format!("certificate = \"/a\"\nkey = \"/b\"\n{inside}"), expected);
    };
    more("[[tls.certificates]]\ncertificate = \"/c\"\nkey = \"/d\"", &[]);
    more("certificates = []", &[]);
    more(
        "certificates = 3",
        &["@4:16: tls.certificates: expected a list of tables with certificate and key, found 3"],
    );
    more(
        "certificates = [3]",
        &["@4:17: tls.certificates: expected a table with certificate and key, found 3"],
    );
    more(
        "[[tls.certificates]]\nkey = \"/d\"\n[[tls.certificates]]\ncertificate = \"/e\"",
        &[
            "@4:1: tls.certificates.certificate: expected a file, found none",
            "@7:15: tls.certificates.key: expected the file with its key, found none",
        ],
    );
    more(
        "[[tls.certificates]]\ncertificate = \"/a\"\nkey = \"/b\"",
        &["@5:15: tls.certificates.certificate: expected each certificate once, found \"/a\""],
    );
}

#[test]
fn addresses_are_of_one_kind() {
    let listen = |server: &str, tls: &str, expected: &[&str]| {
        let tls = format!("[tls]\nlisten = {tls}\ncertificate = \"self-signed\"\n");
        check(&format!("[server]\nlisten = {server}\n{tls}{ROUTE}"), expected);
    };
    listen("[]", "[\"[::]:443\"]", &[]);
    listen("[\"[::]:80\"]", "[\"[::]:443\", \"127.0.0.1:0\"]", &[]);
    listen("[]", "[]", &["@4:10: tls.listen: expected at least one address, found an empty list"]);
    let both = "expected addresses that neither listen nor admin of server has, found one in both";
    listen("[\"[::]:443\"]", "[\"[::]:443\"]", &[&format!("@4:10: tls.listen: {both}")]);
    listen("[]", "[\"127.0.0.1:8081\"]", &[&format!("@4:10: tls.listen: {both}")]);
}

#[test]
fn the_first_certificate_is_the_default() {
    let text = format!(
        "[tls]\ncertificate = \"self-signed\"\n[[tls.certificates]]\ncertificate = \"/c\"\nkey = \"/d\"\n{ROUTE}"
    );
    let loaded = load_with(&text, &[]).unwrap_or_else(|problems| panic!("{problems}"));
    let tls = loaded.config.tls.expect("a table is there");
    assert_eq!(tls.certificates[0], Certificate::SelfSigned);
    assert!(matches!(&tls.certificates[1], Certificate::Files(files) if files.key.as_os_str() == "/d"));
    assert_eq!(tls.listen, ["[::]:8443".parse().unwrap()]);
    assert!(load_with(ROUTE, &[]).is_ok_and(|loaded| loaded.config.tls.is_none()));
    let variables = [("SCALWS_TLS__CERTIFICATE", "self-signed")];
    assert_eq!(lines(load_with(ROUTE, &variables)), [""; 0]);
    assert!(load_with(ROUTE, &variables).is_ok_and(|loaded| loaded.config.tls.is_some()));
}
