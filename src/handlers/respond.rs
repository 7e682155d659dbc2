//! Fixed answers, put together once at start.

use std::rc::Rc;

use crate::config::checked;
use crate::message::{Body, Fields, Reply};

/// A fixed answer.
#[derive(Debug)]
pub struct Respond {
    status: u16,
    fields: Rc<[u8]>,
    body: Option<Rc<[u8]>>,
}

impl Respond {
    /// From its slice of the config, and the fields of its route.
    #[must_use]
    pub fn new(config: &checked::Respond, of_route: &[(String, String)]) -> Respond {
        let content_type = config.content_type.iter().map(|value| ("Content-Type", value.as_str()));
        let headers =
            config.headers.iter().chain(of_route).map(|(name, value)| (name.as_str(), value.as_str()));
        let pairs: Vec<_> = content_type.chain(headers).collect();
        let fields = Fields::of(&pairs).as_bytes().into();
        let body = (!config.body.is_empty()).then(|| config.body.as_slice().into());
        Respond { status: config.status, fields, body }
    }

    /// The answer, to every method.
    #[must_use]
    pub fn answer(&self) -> Reply {
        let body = self.body.as_ref().map_or(Body::Empty, |body| Body::Shared(Rc::clone(body)));
        Reply { status: self.status, fields: Fields::Shared(Rc::clone(&self.fields)), body }
    }
}
