//! Compression on the fly: a file of text goes out in a coding that its client takes, from memory. It is
//! compressed once for each version, in the pool (docs/adr/0020-compression.md).

mod encode;
mod kept;
mod store;

pub use store::Store;

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::config::checked;
use crate::fs::read::Shared;
use crate::fs::{OpenFile, Version};
use crate::handlers::representation::{self, Asked, Form};
use crate::message::{Answer, Request};
use crate::offload::Why;
use crate::semantics::encoding::{Coding, Wanted};
use crate::telemetry::facts;
use kept::{Look, Outcome, Pending, Way};

/// What one route compresses.
#[derive(Debug)]
pub struct Compress {
    config: checked::Compress,
    store: Arc<Store>,
}

impl Compress {
    /// From its slice of the config; what it makes is kept in `store`.
    #[must_use]
    pub fn new(config: checked::Compress, store: &Arc<Store>) -> Compress {
        Compress { config, store: Arc::clone(store) }
    }

    /// Whether files of this type are compressed.
    #[must_use]
    pub fn takes(&self, content_type: &str) -> bool {
        let essence = content_type.split(';').next().unwrap_or_default().trim_ascii_end();
        self.config.types.iter().any(|pattern| match pattern.strip_suffix("/*") {
            Some(family) => essence.split_once('/').is_some_and(|(found, _)| found == family),
            None => pattern == essence,
        })
    }

    /// How to compress for `request`, which would take the codings of `wanted`.
    fn way(&self, request: &Request<'_>, wanted: &Wanted) -> Option<Way> {
        let level_of = |coding: Coding| self.config.levels.iter().find(|(known, _)| *known == coding);
        let (coding, level) = wanted.codings().iter().find_map(|coding| level_of(*coding))?;
        (!request.values("cache-control").any(forbids_transform))
            .then_some(Way { coding: *coding, level: *level })
    }
}

/// Whether a value of Cache-Control asks for the bytes as they are (RFC 9111 §5.2.1.6, §5.2.2.6).
#[must_use]
pub fn forbids_transform(value: &[u8]) -> bool {
    value.split(|byte| *byte == b',').any(|word| word.trim_ascii().eq_ignore_ascii_case(b"no-transform"))
}

/// What a request and its route say about compression.
#[derive(Clone, Debug)]
pub struct Making {
    compress: Rc<Compress>,
    way: Way,
}

impl Making {
    /// What `request`, which would take the codings of `wanted`, gets on the route of `compress`.
    #[must_use]
    pub fn of(request: &Request<'_>, compress: &Rc<Compress>, wanted: &Wanted) -> Option<Making> {
        let way = compress.way(request, wanted)?;
        Some(Making { compress: Rc::clone(compress), way })
    }

    /// Whether this file is compressed for a request that asks so. A range is of the file as it is.
    #[must_use]
    pub fn applies(&self, file: &OpenFile, asked: &Asked<'_>) -> bool {
        let config = &self.compress.config;
        (config.min_bytes..=config.max_bytes).contains(&file.stat().size) && !asked.has_range()
    }

    /// The answer for `file`: compressed, or as it is where that is not to be had in time.
    #[must_use]
    pub fn answer(
        self,
        file: Shared,
        content: Option<Vec<u8>>,
        content_type: Cow<'static, str>,
        asked: &Asked<'_>,
    ) -> Answer {
        let plain = Form { content_type: &content_type, is_negotiated: true, coding: None };
        let made = Form { coding: Some(self.way.coding), ..plain };
        let store = &self.compress.store;
        match store.known(&Version::of(file.stat()), self.way) {
            Some(Look::Known(Outcome::Made(bytes))) => {
                return Answer::Ready(representation::made(&file, bytes, made, asked));
            }
            Some(Look::Known(_)) => return Answer::Ready(representation::reply(file, content, plain, asked)),
            _ => {}
        }
        // Conditions ask for no bytes.
        if let Some(reply) = representation::made_is_settled(&file, made, asked) {
            return Answer::Ready(reply);
        }
        let pending = match store.get(&file, self.way) {
            Look::Pending(pending) => pending,
            Look::Known(Outcome::Made(bytes)) => {
                return Answer::Ready(representation::made(&file, bytes, made, asked));
            }
            Look::Known(_) | Look::Busy => {
                return Answer::Ready(representation::reply(file, content, plain, asked));
            }
        };
        facts::hop(Why::Compress);
        let (asked, coding, wait) = (asked.to_owned(), self.way.coding, store.wait);
        Answer::Wait(Box::pin(async move {
            let plain = Form { content_type: &content_type, is_negotiated: true, coding: None };
            match outcome(pending, wait).await {
                Some(Outcome::Made(bytes)) => {
                    let made = Form { coding: Some(coding), ..plain };
                    representation::made(&file, bytes, made, &asked.borrowed())
                }
                _ => representation::reply(file, content, plain, &asked.borrowed()),
            }
        }))
    }
}

/// What a work came to, if it comes to its end in time.
async fn outcome(mut pending: Pending, wait: Duration) -> Option<Outcome> {
    let end = tokio::time::timeout(wait, pending.wait_for(Option::is_some)).await;
    end.ok()?.ok()?.clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::offload::Offload;

    /// A wait as long as `wait_timeout` would turn a file that is there into 503.
    #[test]
    fn a_request_waits_for_half_of_its_time_at_most() {
        let wait_ms = |wait_ms_max| {
            let limits = Limits { wait_ms_max, ..Limits::default() };
            Store::new(&limits, Offload::start(1, 10).unwrap()).wait.as_millis()
        };
        assert_eq!((wait_ms(1_000), wait_ms(30_000)), (500, 1_000));
    }
}
