//! `cors` of a route: the fields that let pages of other origins read its answers, and the answer to a
//! preflight (<https://fetch.spec.whatwg.org/#http-cors-protocol>). What may be said is put together at
//! start; a request chooses from it, and what it wrote is sent back only where it is an allowed origin.

use std::rc::Rc;

use crate::config::checked;
use crate::handlers::Headers;
use crate::limits::CORS_ASKED_MAX;
use crate::message::{Answer, Fields, Reply, Request};
use crate::semantics::head::{is_token_byte, trim};
use crate::semantics::method::Method;
use crate::semantics::origin::Pattern;

/// What the answer to a preflight depends on, whoever is allowed: without them it would be no preflight.
const PREFLIGHT_VARY: (&str, &str) =
    ("Vary", "Origin, Access-Control-Request-Method, Access-Control-Request-Headers");

/// The rules of one route.
#[derive(Debug)]
pub struct Cors {
    allowed: Allowed,
    /// Behind the origin on the answer to a request: credentials, exposed fields.
    tail: Vec<u8>,
    /// And on the one to a preflight: credentials, methods, fields, age.
    preflight_tail: Vec<u8>,
    methods: Vec<Method>,
    request_headers: Vec<String>,
    /// Of every answer to a preflight: Vary, and Allow on files.
    preflight: Vec<u8>,
    of_route: Headers,
}

/// Who may.
#[derive(Debug)]
enum Allowed {
    /// Everybody, by lines that are the same for all.
    Every(Rc<[u8]>),
    /// Who matches; an origin without a wildcard has its lines ready.
    These(Vec<(Pattern, Option<Rc<[u8]>>)>),
}

/// What a preflight asks for.
#[derive(Debug)]
pub struct Preflight<'a> {
    origin: Option<&'a [u8]>,
    /// `None` for one that the server does not know.
    pub method: Option<Method>,
    headers: Vec<&'a [u8]>,
}

impl<'a> Preflight<'a> {
    /// What `request` asks for, if it is a preflight: OPTIONS with Origin and one method that it asks
    /// for. Every other OPTIONS means what it always does.
    #[must_use]
    pub fn of(request: &Request<'a>) -> Option<Preflight<'a>> {
        // By the method first: nearly all requests are none.
        if request.method != Method::Options {
            return None;
        }
        let mut methods = request.values("access-control-request-method");
        let (method, None) = (methods.next()?, methods.next()) else { return None };
        request.values("origin").next()?;
        let headers = request.values("access-control-request-headers");
        Some(Preflight {
            origin: origin(request),
            method: Method::parse(trim(method)),
            headers: headers.collect(),
        })
    }
}

impl Cors {
    /// From its slice of the config, with the route that it belongs to.
    #[must_use]
    pub fn new(config: &checked::Cors, route: &checked::Route) -> Cors {
        let credentials = config.credentials.then_some(("Access-Control-Allow-Credentials", "true"));
        let exposed = config.expose_headers.join(", ");
        let exposed = (!exposed.is_empty()).then_some(("Access-Control-Expose-Headers", exposed.as_str()));
        let tail: Vec<_> = credentials.into_iter().chain(exposed).collect();
        let tail = Fields::of(&tail).as_bytes().to_vec();
        let allowed = match &config.origins {
            None => Allowed::Every(lines("*", &tail).into()),
            Some(patterns) => Allowed::These(
                patterns
                    .iter()
                    .map(|pattern| match pattern {
                        Pattern::Exact(origin) => (pattern.clone(), Some(lines(origin, &tail).into())),
                        Pattern::Below { .. } => (pattern.clone(), None),
                    })
                    .collect(),
            ),
        };
        let (methods, names) = (list(&config.methods), config.request_headers.join(", "));
        let age = config.max_age_s.to_string();
        let mut pairs: Vec<_> = credentials.into_iter().collect();
        pairs.push(("Access-Control-Allow-Methods", &methods));
        pairs.extend((!names.is_empty()).then_some(("Access-Control-Allow-Headers", names.as_str())));
        pairs.push(("Access-Control-Max-Age", &age));
        let preflight_tail = Fields::of(&pairs).as_bytes().to_vec();
        // As OPTIONS says it of files anyway; here the route may be for fewer.
        let allow = list(route.methods.as_deref().unwrap_or(&[Method::Get, Method::Head, Method::Options]));
        let allow = matches!(route.handler, checked::Handler::Static(_)).then_some(("Allow", &*allow));
        let preflight: Vec<_> = allow.into_iter().chain([PREFLIGHT_VARY]).collect();
        Cors {
            allowed,
            tail,
            preflight_tail,
            methods: config.methods.clone(),
            request_headers: config.request_headers.clone(),
            preflight: Fields::of(&preflight).as_bytes().to_vec(),
            of_route: Headers::new(&route.headers),
        }
    }

    /// The answer of the route with what a page of the request's origin needs to read it.
    #[must_use]
    pub fn on(&self, answer: Answer, request: &Request<'_>) -> Answer {
        let varies = matches!(self.allowed, Allowed::These(_));
        let lines = match &self.allowed {
            Allowed::Every(lines) => Some(Rc::clone(lines)),
            Allowed::These(_) => origin(request).and_then(|origin| self.lines_for(origin)),
        };
        match answer {
            Answer::Ready(reply) => Answer::Ready(dress(reply, lines.as_ref(), varies)),
            Answer::Wait(reply) => {
                Answer::Wait(Box::pin(async move { dress(reply.await, lines.as_ref(), varies) }))
            }
        }
    }

    /// The answer to a preflight for this route; the browser refuses what lacks the fields.
    #[must_use]
    pub fn preflight(&self, preflight: &Preflight<'_>) -> Answer {
        let allowed = match (&self.allowed, preflight.origin) {
            (_, None) => None,
            (Allowed::Every(_), Some(_)) => Some(lines("*", &self.preflight_tail)),
            (Allowed::These(patterns), Some(origin)) => patterns
                .iter()
                .any(|(pattern, _)| pattern.allows(origin))
                .then(|| lines(&text(origin), &self.preflight_tail)),
        };
        let is_allowed = preflight.method.is_some_and(|method| self.methods.contains(&method))
            && allows_all(&self.request_headers, &preflight.headers);
        self.empty(allowed.filter(|_| is_allowed).as_deref().unwrap_or_default())
    }

    /// The answer to a preflight that asks for what this route does not have.
    #[must_use]
    pub fn refusal(&self) -> Answer {
        self.empty(&[])
    }

    fn empty(&self, leave: &[u8]) -> Answer {
        let fields = Fields::Owned([&self.preflight, leave].concat());
        self.of_route.on(Answer::Ready(Reply::bodiless(204, fields)))
    }

    fn lines_for(&self, origin: &[u8]) -> Option<Rc<[u8]>> {
        let Allowed::These(patterns) = &self.allowed else { return None };
        let (_, ready) = patterns.iter().find(|(pattern, _)| pattern.allows(origin))?;
        Some(ready.clone().unwrap_or_else(|| lines(&text(origin), &self.tail).into()))
    }
}

fn dress(mut reply: Reply, lines: Option<&Rc<[u8]>>, varies: bool) -> Reply {
    if let Some(lines) = lines {
        reply.fields.append(lines);
    }
    // Also where nothing was allowed: a cache would give that answer to those who are.
    if varies {
        reply.fields.vary("Origin");
    }
    reply
}

/// The origin of a request; two are none.
fn origin<'a>(request: &Request<'a>) -> Option<&'a [u8]> {
    let mut values = request.values("origin");
    let (origin, None) = (values.next()?, values.next()) else { return None };
    Some(trim(origin))
}

/// An allowed origin, which is ASCII.
fn text(origin: &[u8]) -> String {
    String::from_utf8_lossy(origin).into_owned()
}

fn lines(origin: &str, tail: &[u8]) -> Vec<u8> {
    let mut lines = Fields::of(&[("Access-Control-Allow-Origin", origin)]).as_bytes().to_vec();
    lines.extend_from_slice(tail);
    lines
}

fn list(methods: &[Method]) -> String {
    methods.iter().map(|method| method.as_str()).collect::<Vec<_>>().join(", ")
}

/// Whether all fields that are asked for are allowed. `*` never covers Authorization
/// (<https://fetch.spec.whatwg.org/#cors-non-wildcard-request-header-name>).
fn allows_all(allowed: &[String], asked: &[&[u8]]) -> bool {
    let any = allowed.iter().any(|name| name == "*");
    // Empty elements of a list mean nothing (RFC 9110 §5.6.1.2).
    let mut names = asked
        .iter()
        .flat_map(|value| value.split(|byte| *byte == b','))
        .map(trim)
        .filter(|name| !name.is_empty());
    let is_allowed = |name: &[u8]| {
        name.iter().all(|byte| is_token_byte(*byte))
            && (any && !name.eq_ignore_ascii_case(b"authorization")
                || allowed.iter().any(|allowed| allowed.as_bytes().eq_ignore_ascii_case(name)))
    };
    names.by_ref().take(CORS_ASKED_MAX).all(is_allowed) && names.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_a_preflight_asks_for_are_allowed_by_name() {
        let check = |allowed: &[&str], asked: &[&str], expected: bool| {
            let allowed: Vec<_> = allowed.iter().map(|name| (*name).to_owned()).collect();
            let asked: Vec<_> = asked.iter().map(|value| value.as_bytes()).collect();
            assert_eq!(allows_all(&allowed, &asked), expected, "{allowed:?} {asked:?}");
        };
        check(&[], &[], true);
        check(&[], &["", " , ,"], true);
        check(&[], &["x-a"], false);
        check(&["x-a", "x-b"], &["x-a,x-b"], true);
        check(&["x-a", "x-b"], &["X-A", "\tx-b ,"], true);
        check(&["x-a"], &["x-a,x-b"], false);
        check(&["x-a"], &["x-a x-a"], false);
        check(&["x-a"], &["x-"], false);
        check(&["*"], &["x-a,content-type"], true);
        check(&["*"], &["x-a,Authorization"], false);
        check(&["*", "authorization"], &["authorization"], true);
        check(&["*"], &["x a"], false);
        check(&["*"], &["x\u{e4}"], false);
        let many = |count: usize| vec!["x"; count].join(",");
        check(&["*"], &[&many(CORS_ASKED_MAX)], true);
        check(&["*"], &[&many(CORS_ASKED_MAX + 1)], false);
    }
}
