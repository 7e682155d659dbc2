//! Which certificate a client gets: by the name that it asks for, exact before wildcard, else the first of the
//! config. What is in force can be exchanged at any time; who is in a handshake keeps what it got.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::pair::Pair;

/// The pairs in force.
#[derive(Debug)]
pub struct Certificates(RwLock<Arc<Table>>);

impl Certificates {
    /// These pairs; the first is for names that none has, and for who asks for no name.
    #[must_use]
    pub fn new(default: &Pair, others: &[&Pair]) -> Certificates {
        Certificates(RwLock::new(Arc::new(Table::new(default, others))))
    }

    /// From now on these.
    pub fn exchange(&self, default: &Pair, others: &[&Pair]) {
        let table = Arc::new(Table::new(default, others));
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = table;
    }

    fn choose(&self, name: Option<&str>) -> Arc<CertifiedKey> {
        // Held for the copy of a pointer, also by who exchanges: no worker waits for more than that.
        let table = Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner));
        Arc::clone(table.find(name))
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.choose(hello.server_name()))
    }
}

/// Pairs by their names.
#[derive(Debug)]
struct Table {
    exact: HashMap<String, Arc<CertifiedKey>>,
    /// By what stands behind `*.`, which is one label (RFC 9525 §6.3).
    wildcard: HashMap<String, Arc<CertifiedKey>>,
    default: Arc<CertifiedKey>,
}

impl Table {
    fn new(default: &Pair, others: &[&Pair]) -> Table {
        let (mut exact, mut wildcard) = (HashMap::new(), HashMap::new());
        for pair in std::iter::once(&default).chain(others) {
            for name in &pair.names {
                let (map, name) = match name.strip_prefix("*.") {
                    Some(below) => (&mut wildcard, below),
                    None => (&mut exact, name.as_str()),
                };
                // Of two for one name the first of the config.
                map.entry(name.to_owned()).or_insert_with(|| Arc::clone(&pair.certified));
            }
        }
        Table { exact, wildcard, default: Arc::clone(&default.certified) }
    }

    fn find(&self, name: Option<&str>) -> &Arc<CertifiedKey> {
        let Some(name) = name else { return &self.default };
        let lower = name.to_ascii_lowercase();
        let name = lower.strip_suffix('.').unwrap_or(&lower);
        let below = || self.wildcard.get(name.split_once('.')?.1);
        self.exact.get(name).or_else(below).unwrap_or(&self.default)
    }
}

#[cfg(test)]
mod tests {
    use super::super::pair::tests::pair;
    use super::*;

    #[test]
    fn exact_before_wildcard_before_the_default() {
        let default = pair(&["example.com", "www.example.com"]);
        let any = pair(&["*.example.com", "*.example.org"]);
        let one = pair(&["api.example.com", "example.com"]);
        let certificates = Certificates::new(&default, &[&any, &one]);
        let check = |name: Option<&str>, expected: &Pair| {
            assert!(Arc::ptr_eq(&certificates.choose(name), &expected.certified), "{name:?}");
        };
        check(None, &default);
        check(Some("example.com"), &default);
        check(Some("www.example.com"), &default);
        check(Some("API.Example.com"), &one);
        check(Some("api.example.com."), &one);
        check(Some("other.example.com"), &any);
        check(Some("a.b.example.com"), &default);
        check(Some("x.example.org"), &any);
        check(Some("example.org"), &default);
        check(Some("localhost"), &default);
        certificates.exchange(&one, &[]);
        check(Some("www.example.com"), &one);
    }
}
