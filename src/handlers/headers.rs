//! Fields that a route has on all of its answers, put together once at start.

use std::rc::Rc;

use crate::config::checked::HeaderRule;
use crate::message::{Answer, Fields, Reply};

/// The lines of one route.
#[derive(Clone, Debug)]
pub struct Headers {
    /// For what is no error.
    lines: Rc<[u8]>,
    /// For 4xx and 5xx.
    lines_of_errors: Rc<[u8]>,
    /// The same behind the line of a short text.
    plain_errors: Rc<[u8]>,
    /// For what is no error too, each unless the answer about a file has a field of that name already.
    replaceable: Rc<[(String, Rc<[u8]>)]>,
}

impl Headers {
    /// The same lines on all answers.
    #[must_use]
    pub fn new(headers: &[(String, String)]) -> Headers {
        let lines = lines(headers.iter());
        let plain_errors = behind_plain(&lines);
        Headers { lines_of_errors: Rc::clone(&lines), plain_errors, lines, replaceable: Rc::new([]) }
    }

    /// For a handler that decides itself what is an error. What lets a cache keep an answer is not for
    /// those: a page that is missing for a minute of a deployment would be missing for a year. What
    /// `by_glob` gives to a file stands there instead of a field of the same name.
    #[must_use]
    pub fn with_errors(headers: &[(String, String)], by_glob: &[HeaderRule]) -> Headers {
        let fit_errors = headers.iter().filter(|(name, value)| !may_keep(name, value));
        let given: Vec<_> = by_glob.iter().flat_map(|rule| &rule.headers).map(|(name, _)| name).collect();
        let (replaceable, always): (Vec<_>, Vec<_>) =
            headers.iter().partition(|(name, _)| given.iter().any(|given| given.eq_ignore_ascii_case(name)));
        let replaceable = replaceable.into_iter().map(|pair| (pair.0.clone(), lines([pair].into_iter())));
        let lines_of_errors = lines(fit_errors);
        Headers {
            lines: lines(always.into_iter()),
            plain_errors: behind_plain(&lines_of_errors),
            lines_of_errors,
            replaceable: replaceable.collect(),
        }
    }

    /// The answer with its lines.
    #[must_use]
    pub fn on(&self, answer: Answer) -> Answer {
        if self.lines.is_empty() && self.replaceable.is_empty() {
            return answer;
        }
        match answer {
            Answer::Ready(reply) => Answer::Ready(self.on_reply(reply)),
            Answer::Wait(_) => {
                let headers = self.clone();
                answer.map(move |reply| headers.on_reply(reply))
            }
        }
    }

    /// The reply with its lines.
    #[must_use]
    pub fn on_reply(&self, mut reply: Reply) -> Reply {
        match reply.fields {
            Fields::Complete(_) => return reply,
            Fields::Plain if reply.status >= 400 => {
                reply.fields = Fields::Shared(Rc::clone(&self.plain_errors));
                return reply;
            }
            _ if reply.status >= 400 => {
                reply.fields.append(&self.lines_of_errors);
                return reply;
            }
            _ => {}
        }
        for (name, line) in self.replaceable.iter() {
            if !reply.fields.has(name) {
                reply.fields.append(line);
            }
        }
        reply.fields.append(&self.lines);
        reply
    }
}

fn lines<'a>(headers: impl Iterator<Item = &'a (String, String)>) -> Rc<[u8]> {
    let pairs: Vec<_> = headers.map(|(name, value)| (name.as_str(), value.as_str())).collect();
    Fields::of(&pairs).as_bytes().into()
}

fn behind_plain(lines: &Rc<[u8]>) -> Rc<[u8]> {
    let mut fields = Fields::Plain;
    fields.append(lines);
    fields.as_bytes().into()
}

/// Whether a field lets caches keep an answer: RFC 9111 §5, RFC 9213 and what came before it.
fn may_keep(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let tells = name.ends_with("cache-control") || matches!(&*name, "expires" | "surrogate-control");
    tells && !value.to_ascii_lowercase().split(',').any(|word| word.trim() == "no-store")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_all_but_what_lets_caches_keep_them() {
        let check = |name: &str, value: &str, on_error: bool| {
            let headers = Headers::with_errors(&[(name.to_owned(), value.to_owned())], &[]);
            for (status, expected) in
                [(200, true), (304, true), (308, true), (404, on_error), (500, on_error)]
            {
                let reply = headers.on_reply(Reply::bodiless(status, Fields::Empty));
                assert_eq!(!reply.fields.as_bytes().is_empty(), expected, "{name}: {value} on {status}");
            }
        };
        check("X-A", "max-age=1", true);
        check("cache-control", "public, max-age=31536000, immutable", false);
        check("Cache-Control", "no-cache", false);
        check("Cache-Control", "private, No-Store", true);
        check("CDN-Cache-Control", "max-age=60", false);
        check("Surrogate-Control", "max-age=60", false);
        check("Expires", "Thu, 01 Dec 2033 16:00:00 GMT", false);
    }
}
