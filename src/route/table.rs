//! The table of routes. A lookup costs a hash of the host, one of the path, and one for each depth
//! that some prefix has: it does not grow with the number of routes.

use std::collections::{BTreeSet, HashMap};

use crate::config::checked::{PathMatch, Route};
use crate::semantics::head::split_port;
use crate::semantics::method::Method;
use crate::semantics::path::SafePath;

/// Keys come from the config alone, so that nobody else can make them collide: a hash that is fast on short
/// keys does (docs/adr/0037-hashes.md).
type Map<T> = HashMap<Vec<u8>, T, foldhash::fast::RandomState>;

/// Longest host name (RFC 1035 §2.3.4), a trailing dot included.
const HOST_BYTES_MAX: usize = 254;

/// Routes with values of type `T`.
#[derive(Debug)]
pub struct Table<T> {
    exact_hosts: Map<Paths<T>>,
    /// By suffix, such as `.example.com`.
    wildcard_hosts: Map<Paths<T>>,
    every_host: Paths<T>,
}

/// Routes of one host pattern.
#[derive(Debug)]
struct Paths<T> {
    exact: Map<Methods<T>>,
    prefixes: Map<Methods<T>>,
    /// Segments of the deepest prefix; `None` without any.
    depth_max: Option<usize>,
}

/// Routes of one path pattern.
#[derive(Debug)]
struct Methods<T> {
    by_method: Vec<(Method, T)>,
    every_method: Option<T>,
}

/// What a lookup found.
#[derive(Debug, PartialEq, Eq)]
pub enum Match<'t, T> {
    /// A route, and how many bytes of [`SafePath::decoded`] its pattern covers.
    Found(&'t T, usize),
    /// Routes for the path, none for the method: what they would take.
    OtherMethods(BTreeSet<Method>),
    /// Nothing.
    Nothing,
}

impl<T> Default for Paths<T> {
    fn default() -> Self {
        Paths { exact: HashMap::default(), prefixes: HashMap::default(), depth_max: None }
    }
}

impl<T> Default for Methods<T> {
    fn default() -> Self {
        Methods { by_method: Vec::new(), every_method: None }
    }
}

impl<T: Clone> Table<T> {
    /// A table of `routes` and their values. That no two match the same was checked with the config.
    pub fn new<'r>(routes: impl Iterator<Item = (&'r Route, T)>) -> Table<T> {
        let mut table = Table {
            exact_hosts: HashMap::default(),
            wildcard_hosts: HashMap::default(),
            every_host: Paths::default(),
        };
        for (route, value) in routes {
            if route.hosts.is_empty() {
                table.every_host.insert(route, &value);
            }
            for host in &route.hosts {
                table.paths_of(host).insert(route, &value);
            }
        }
        table
    }

    fn paths_of(&mut self, host: &str) -> &mut Paths<T> {
        match host.strip_prefix('*') {
            Some(suffix) => self.wildcard_hosts.entry(suffix.as_bytes().to_vec()).or_default(),
            None => self.exact_hosts.entry(host.as_bytes().to_vec()).or_default(),
        }
    }
}

impl<T> Table<T> {
    /// The route of a request: of all that match, the one with the most specific host, then path,
    /// then method.
    pub fn find(&self, authority: &[u8], path: &SafePath<'_>, method: Method) -> Match<'_, T> {
        let mut others = BTreeSet::new();
        match self.walk(authority, path, |methods| methods.find(method, &mut others)) {
            Some((value, covered)) => Match::Found(value, covered),
            None if others.is_empty() => Match::Nothing,
            None => Match::OtherMethods(others),
        }
    }

    /// The most specific route for one of two methods; where one pattern has a route of its own for
    /// each, that of the first.
    pub fn find_either(
        &self,
        authority: &[u8],
        path: &SafePath<'_>,
        [first, second]: [Method; 2],
    ) -> Option<&T> {
        let found = self.walk(authority, path, |methods| {
            methods.own(first).or_else(|| methods.own(second)).or(methods.every_method.as_ref())
        });
        found.map(|(value, _)| value)
    }

    /// Asks `pick` about each pattern that matches, from the most specific on, until it takes one.
    fn walk<'t>(
        &'t self,
        authority: &[u8],
        path: &SafePath<'_>,
        mut pick: impl FnMut(&'t Methods<T>) -> Option<&'t T>,
    ) -> Option<(&'t T, usize)> {
        if !self.exact_hosts.is_empty() || !self.wildcard_hosts.is_empty() {
            let mut buffer = [0; HOST_BYTES_MAX];
            if let Some(host) = normal_host(authority, &mut buffer) {
                let exact = self.exact_hosts.get(host);
                // Gateway API: a wildcard stands for one or more labels, never for none; the longest
                // suffix is the most specific.
                let suffixes = memchr::memchr_iter(b'.', host).filter(|dot| *dot > 0).map(|dot| &host[dot..]);
                let wildcards = suffixes.filter_map(|suffix| self.wildcard_hosts.get(suffix));
                for paths in exact.into_iter().chain(wildcards) {
                    if let Some(found) = paths.walk(path, &mut pick) {
                        return Some(found);
                    }
                }
            }
        }
        self.every_host.walk(path, &mut pick)
    }
}

/// Lower case, without port and without the dot of an absolute name.
fn normal_host<'b>(authority: &[u8], buffer: &'b mut [u8; HOST_BYTES_MAX]) -> Option<&'b [u8]> {
    let (host, _) = split_port(authority);
    let host = host.strip_suffix(b".").unwrap_or(host);
    let buffer = buffer.get_mut(..host.len())?;
    buffer.copy_from_slice(host);
    buffer.make_ascii_lowercase();
    Some(buffer)
}

impl<T> Paths<T> {
    fn insert(&mut self, route: &Route, value: &T)
    where
        T: Clone,
    {
        let methods = match &route.path {
            PathMatch::Exact(path) => self.exact.entry(path.clone()).or_default(),
            PathMatch::Prefix(prefix) => {
                self.depth_max = self.depth_max.max(Some(depth(prefix)));
                self.prefixes.entry(prefix.clone()).or_default()
            }
        };
        match &route.methods {
            None => methods.every_method = Some(value.clone()),
            Some(some) => methods.by_method.extend(some.iter().map(|method| (*method, value.clone()))),
        }
    }

    fn walk<'t>(
        &'t self,
        path: &SafePath<'_>,
        pick: &mut impl FnMut(&'t Methods<T>) -> Option<&'t T>,
    ) -> Option<(&'t T, usize)> {
        if let Some(methods) = self.exact.get(path.decoded())
            && let Some(value) = pick(methods)
        {
            return Some((value, path.decoded().len()));
        }
        let segments = path.segments();
        let mut end = end_of_depth(segments, self.depth_max?);
        loop {
            if let Some(methods) = self.prefixes.get(&segments[..end])
                && let Some(value) = pick(methods)
            {
                return Some((value, end));
            }
            if end == 0 {
                return None;
            }
            end = memchr::memrchr(b'/', &segments[..end]).unwrap_or(0);
        }
    }
}

impl<T> Methods<T> {
    fn own(&self, method: Method) -> Option<&T> {
        self.by_method.iter().find(|(own, _)| *own == method).map(|(_, value)| value)
    }

    fn find(&self, method: Method, others: &mut BTreeSet<Method>) -> Option<&T> {
        let found = self.own(method).or(self.every_method.as_ref());
        if found.is_none() {
            others.extend(self.by_method.iter().map(|(method, _)| *method));
        }
        found
    }
}

/// Segments of a prefix.
fn depth(prefix: &[u8]) -> usize {
    if prefix.is_empty() { 0 } else { memchr::memchr_iter(b'/', prefix).count() + 1 }
}

/// Where the first `depth` segments of a path end.
fn end_of_depth(segments: &[u8], depth: usize) -> usize {
    if depth == 0 {
        return 0;
    }
    memchr::memchr_iter(b'/', segments).nth(depth - 1).unwrap_or(segments.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::checked::{Handler, Redirect};

    fn route(hosts: &[&str], path: PathMatch, methods: Option<&[Method]>) -> Route {
        Route {
            name: String::new(),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            path,
            methods: methods.map(<[Method]>::to_vec),
            headers: Vec::new(),
            cors: None,
            handler: Handler::Redirect(Redirect { to: "/".into(), status: 308 }),
        }
    }

    fn exact(path: &str) -> PathMatch {
        PathMatch::Exact(path.as_bytes().to_vec())
    }

    fn prefix(path: &str) -> PathMatch {
        PathMatch::Prefix(path.as_bytes().to_vec())
    }

    fn check(routes: &[Route], cases: &[(&str, &str, Method, Match<'static, usize>)]) {
        for reversed in [false, true] {
            let mut numbered: Vec<_> = routes.iter().zip(0..).collect();
            if reversed {
                numbered.reverse();
            }
            let table = Table::new(numbered.into_iter());
            for (host, path, method, expected) in cases {
                let safe = SafePath::parse(path.as_bytes()).unwrap();
                assert_eq!(
                    table.find(host.as_bytes(), &safe, *method),
                    *expected,
                    "{host} {path} {method:?}"
                );
            }
        }
    }

    #[test]
    fn exact_before_longest_prefix_on_segment_boundaries() {
        const GET: Method = Method::Get;
        let routes = [
            route(&[], prefix(""), None),
            route(&[], prefix("old"), None),
            route(&[], prefix("old/er/and/er"), None),
            route(&[], exact("old/x"), None),
            route(&[], exact("dir/"), None),
        ];
        check(
            &routes,
            &[
                ("", "/", GET, Match::Found(&0, 0)),
                ("", "/older", GET, Match::Found(&0, 0)),
                ("", "/old", GET, Match::Found(&1, 3)),
                ("", "/old/", GET, Match::Found(&1, 3)),
                ("", "/old/y/z", GET, Match::Found(&1, 3)),
                ("", "/old/x", GET, Match::Found(&3, 5)),
                ("", "/old/x/", GET, Match::Found(&1, 3)),
                ("", "/old%2fx", GET, Match::Found(&0, 0)),
                ("", "/old/er/and/er/x/y", GET, Match::Found(&2, 13)),
                ("", "/old/er/and", GET, Match::Found(&1, 3)),
                ("", "/dir/", GET, Match::Found(&4, 4)),
                ("", "/dir", GET, Match::Found(&0, 0)),
            ],
        );
        check(
            &[route(&[], exact(""), None)],
            &[("", "/", GET, Match::Found(&0, 0)), ("", "/x", GET, Match::Nothing)],
        );
    }

    #[test]
    fn hosts_before_paths_before_methods() {
        use Method::{Get, Post, Put};
        let routes = [
            route(&["a.example"], prefix("x"), None),
            route(&["*.example"], prefix(""), None),
            route(&["*.b.example"], prefix(""), None),
            route(&[], exact("x"), Some(&[Get])),
            route(&[], exact("x"), Some(&[Post])),
        ];
        check(
            &routes,
            &[
                ("a.example", "/x", Get, Match::Found(&0, 1)),
                ("A.Example.:8080", "/x", Get, Match::Found(&0, 1)),
                ("a.example", "/y", Get, Match::Found(&1, 0)),
                ("c.b.example", "/y", Get, Match::Found(&2, 0)),
                ("example", "/x", Get, Match::Found(&3, 1)),
                ("other", "/x", Post, Match::Found(&4, 1)),
                ("other", "/x", Put, Match::OtherMethods(BTreeSet::from([Get, Post]))),
                ("other", "/y", Put, Match::Nothing),
                ("", "/x", Get, Match::Found(&3, 1)),
            ],
        );
    }

    #[test]
    fn of_two_methods_the_more_specific_pattern_decides_then_the_first() {
        use Method::{Get, Options, Put};
        let routes = [
            route(&[], prefix(""), Some(&[Options])),
            route(&[], prefix("a"), Some(&[Get])),
            route(&[], prefix("b"), Some(&[Get])),
            route(&[], prefix("b"), Some(&[Options])),
            route(&[], prefix("c"), None),
            route(&["h"], prefix(""), Some(&[Put])),
        ];
        let table = Table::new(routes.iter().zip(0..));
        let check = |host: &str, path: &str, asked: Method, expected: Option<usize>| {
            let safe = SafePath::parse(path.as_bytes()).unwrap();
            let found = table.find_either(host.as_bytes(), &safe, [Options, asked]);
            assert_eq!(found, expected.as_ref(), "{host} {path} {asked:?}");
        };
        check("", "/x", Get, Some(0));
        check("", "/a/x", Get, Some(1));
        check("", "/a/x", Put, Some(0));
        check("", "/b/x", Get, Some(3));
        check("", "/c", Put, Some(4));
        check("h", "/b/x", Put, Some(5));
        check("h", "/b/x", Get, Some(3));
    }
}
