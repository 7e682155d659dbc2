//! `[tls]`: where HTTPS is served and with which certificates. The files themselves are looked at for those who
//! are going to use them, and for `check`.

use std::path::PathBuf;

use super::check::{address, read_addresses, show};
use super::checked::{Certificate, Server, Tls};
use super::error::Origin;
use super::raw::{Node, Table, Value};
use super::report::Report;
use crate::limits::TLS_CERTIFICATES_MAX;
use crate::semantics::date::rfc3339;
use crate::tls::{Ending, Files, Pair, Part};

/// Where HTTPS is served when nobody says otherwise.
const LISTEN: &str = "[::]:8443";
/// And in development mode.
const LISTEN_DEV: &str = "127.0.0.1:8443";
/// The word for a certificate that is made at the start.
const SELF_SIGNED: &str = "self-signed";

/// Reads `[tls]`; without it there is no HTTPS. `reads_files`: what the files hold is judged too.
pub(super) fn read(root: &Table, server: &Server, reads_files: bool, report: &mut Report<'_>) -> Option<Tls> {
    let node = root.get("tls")?;
    let Value::Table(table) = &node.value else {
        report.expected(node, "a table", None);
        return None;
    };
    let here = ("tls", table);
    let default = vec![address(if server.is_dev { LISTEN_DEV } else { LISTEN })];
    let read = |report: &mut Report<'_>, node: &Node| read_addresses(report, node, false);
    let listen = report.value(here, "listen", default, read, |addresses| show(addresses));
    let mut others = server.listen.iter().chain(&server.admin);
    if others.any(|other| other.port() != 0 && listen.contains(other)) {
        let message = "expected addresses that neither listen nor admin of server has, found one in both";
        report.fault(table.get("listen").unwrap_or(node), message, None);
    }
    let mut reader = Reader { at: &node.origin, reads_files, report };
    let default = reader.certificate("tls", table);
    let others = reader.others(table, default.as_ref());
    Some(Tls { listen, certificates: default.into_iter().chain(others?).collect() })
}

struct Reader<'v, 'r> {
    /// Where the table stands.
    at: &'v Origin,
    reads_files: bool,
    report: &'v mut Report<'r>,
}

impl Reader<'_, '_> {
    /// `certificate` and `key` of one table.
    fn certificate(&mut self, name: &'static str, table: &Table) -> Option<Certificate> {
        let is_default = name == "tls";
        let Some(certificate) = table.get("certificate") else {
            if table.lacks("certificate") {
                let or = if is_default { ", or \"self-signed\"" } else { "" };
                self.report.missing(self.at, &format!("{name}.certificate"), &format!("a file{or}"));
            }
            return None;
        };
        let path = self.path(name, "certificate", certificate)?;
        if is_default && path.as_os_str() == SELF_SIGNED {
            if let Some(key) = table.get("key") {
                self.report.fault(key, "expected no key beside certificate = \"self-signed\"", None);
                return None;
            }
            return Some(Certificate::SelfSigned);
        }
        let Some(key) = table.get("key") else {
            if table.lacks("key") {
                self.report.missing(&certificate.origin, &format!("{name}.key"), "the file with its key");
            }
            return None;
        };
        let files = Files { certificate: path, key: self.path(name, "key", key)? };
        if self.reads_files {
            self.judge(&files, [certificate, key], is_default);
        }
        Some(Certificate::Files(files))
    }

    fn path(&mut self, table: &str, name: &str, node: &Node) -> Option<PathBuf> {
        let text = self.report.text(node)?;
        // Further certificates are not settings of their own: they have no name to be told by.
        if table == "tls" {
            self.report.set(&format!("tls.{name}"), format!("{text:?}"), Some(node));
        }
        Some(PathBuf::from(text))
    }

    fn others(&mut self, table: &Table, default: Option<&Certificate>) -> Option<Vec<Certificate>> {
        let Some(node) = table.get("certificates") else { return Some(Vec::new()) };
        let Value::List(list) = &node.value else {
            self.report.expected(node, "a list of tables with certificate and key", None);
            return None;
        };
        if list.len() > TLS_CERTIFICATES_MAX {
            self.report.fault(node, &format!("expected at most {TLS_CERTIFICATES_MAX} certificates"), None);
            return None;
        }
        let mut shown = Vec::new();
        let mut certificates = Vec::new();
        for node in list {
            let Value::Table(table) = &node.value else {
                self.report.expected(node, "a table with certificate and key", None);
                continue;
            };
            let mut reader = Reader { at: &node.origin, reads_files: self.reads_files, report: self.report };
            if let Some(Certificate::Files(files)) = reader.certificate("tls.certificates", table) {
                let is_known = |other: &&Certificate| matches!(other, Certificate::Files(other) if other.certificate == files.certificate);
                // They are told apart by their files, in the log and in metrics.
                if default.iter().copied().chain(&certificates).any(|other| is_known(&other)) {
                    let node = table.get("certificate").unwrap_or(node);
                    self.report.expected(node, "each certificate once", None);
                }
                shown.push(files.certificate.display().to_string());
                certificates.push(Certificate::Files(files));
            }
        }
        self.report.set("tls.certificates", format!("{shown:?}"), Some(node));
        Some(certificates)
    }

    /// What is in the files, and who may read them.
    fn judge(&mut self, files: &Files, [certificate, key]: [&Node; 2], is_default: bool) {
        let pair = match files.read().and_then(|content| content.pair()) {
            Ok(pair) => pair,
            Err(fault) => {
                let node = if fault.part == Part::Key { key } else { certificate };
                return self.report.expected(node, fault.expected(), Some(fault.reason));
            }
        };
        if pair.names.is_empty() && !is_default {
            let what = "a certificate with DNS names (subjectAltName), by which it is chosen";
            self.report.expected(certificate, what, None);
        }
        let mut warn = |node: &Node, message: &str| {
            self.report.warning(&node.origin, &format!("{}: {message}", node.key));
        };
        if let Some(message) = complaint(&pair) {
            warn(certificate, &message);
        }
        if !pair.is_in_order {
            warn(
                certificate,
                "the chain is not in order: each certificate is followed by that of its issuer",
            );
        }
        if let Some(who) = files.readers_of_key() {
            warn(key, &format!("{who} may read the key: chmod 0600 leaves it to its owner"));
        }
    }
}

/// What is wrong with the dates of a certificate, or soon will be.
fn complaint(pair: &Pair) -> Option<String> {
    let date = |seconds| rfc3339(seconds, 0);
    Some(match Ending::of(pair) {
        Ending::Far => return None,
        Ending::Early => format!("the certificate is not valid before {}", date(pair.first_s)),
        Ending::Soon => format!("the certificate expires at {}", date(pair.last_s)),
        Ending::Past => format!("the certificate expired at {}", date(pair.last_s)),
    })
}
