//! Codings of a request: which names may have sidecars, in which order they are tried, the form of what
//! was found, and what is compressed where nothing was (RFC 9110 §12.5.3; docs/adr/0017-sidecars.md).

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use crate::fs::{Chosen, OpenFile, Unfit};
use crate::handlers::compress::{Compress, Making};
use crate::handlers::representation::{Asked, Form};
use crate::message::Request;
use crate::semantics::encoding::{self, Coding, Wanted};
use crate::semantics::mime;
use crate::telemetry::log::{Level, Throttle};

/// What a route does about codings.
#[derive(Clone, Debug, Default)]
pub struct Codings {
    /// Whether sidecars are sent.
    pub precompressed: bool,
    /// What is compressed on the fly.
    pub compress: Option<Rc<Compress>>,
}

/// What a request and its route say about codings.
#[derive(Clone, Debug)]
pub struct Sidecars {
    codings: Codings,
    wanted: Wanted,
    making: Option<Making>,
}

impl Sidecars {
    /// What `request` would take on a route.
    #[must_use]
    pub fn of(request: &Request<'_>, codings: &Codings) -> Sidecars {
        let is_on = codings.precompressed || codings.compress.is_some();
        let fields = request.fields.iter().filter(|_| is_on);
        let mine = fields
            .filter(|field| field.name.len() == 15 && field.name.eq_ignore_ascii_case("accept-encoding"));
        let wanted = Wanted::of(mine.map(|field| field.value));
        let making = codings.compress.as_ref().and_then(|compress| Making::of(request, compress, &wanted));
        Sidecars { codings: codings.clone(), wanted, making }
    }

    /// What the request would take, as a number; 0 where that does not choose among files.
    #[must_use]
    pub fn code(&self) -> u8 {
        if self.codings.precompressed { self.wanted.code() } else { 0 }
    }

    /// How the request would have files compressed on the fly.
    #[must_use]
    pub fn making(&self) -> Option<Making> {
        self.making.clone()
    }

    /// What to try for the file `name`, a path beneath a root.
    #[must_use]
    pub fn of_name(&self, name: &[u8]) -> Probe {
        let content_type = mime::of_name(name);
        // A name that is empty would make hidden ones: `.br`.
        let has_name = name.last().is_some_and(|byte| *byte != b'/');
        let is_plain = has_name && !encoding::is_sidecar_name(name) && !mime::is_compressed(&content_type);
        let may_have = is_plain && self.codings.precompressed;
        let is_taken = |compress: &Rc<Compress>| compress.takes(&content_type);
        let is_made = is_plain && self.codings.compress.as_ref().is_some_and(is_taken);
        let wanted = if may_have { self.wanted } else { Wanted::NOTHING };
        let mut endings = [""; 3];
        for (ending, coding) in endings.iter_mut().zip(wanted.codings()) {
            *ending = coding.ending();
        }
        let making = self.making.as_ref().filter(|_| is_made).cloned();
        Probe { content_type, is_negotiated: may_have || is_made, is_made, wanted, endings, making }
    }
}

/// What is tried for one name.
#[derive(Debug)]
pub struct Probe {
    content_type: Cow<'static, str>,
    is_negotiated: bool,
    is_made: bool,
    wanted: Wanted,
    endings: [&'static str; 3],
    making: Option<Making>,
}

impl Probe {
    /// How the original is compressed on the fly, if it is.
    #[must_use]
    pub fn making(&self, file: &OpenFile, asked: &Asked<'_>) -> Option<Making> {
        self.making.as_ref().filter(|making| making.applies(file, asked)).cloned()
    }

    /// How the request would have it compressed on the fly, if it is to be.
    #[must_use]
    pub fn making_asked(&self) -> Option<Making> {
        self.making.clone()
    }

    /// Whether the original is of those that are compressed on the fly for who asks so.
    #[must_use]
    pub fn is_made(&self) -> bool {
        self.is_made
    }

    /// Type of the original.
    #[must_use]
    pub fn content_type(&self) -> &Cow<'static, str> {
        &self.content_type
    }

    /// The endings of its sidecars that this request would take, the best first.
    #[must_use]
    pub fn endings(&self) -> &[&'static str] {
        &self.endings[..self.wanted.codings().len()]
    }

    /// The form of what was found for `name`. Says what had to be passed over.
    #[must_use]
    pub fn form(&self, chosen: &Chosen, name: &[u8]) -> Form<'_> {
        let coding_of = |number: usize| self.wanted.codings().get(number).copied();
        if let Some((number, reason)) = chosen.passed_over
            && let Some(coding) = coding_of(number)
        {
            tell(name, coding, reason);
        }
        let coding = chosen.sidecar.and_then(coding_of);
        Form { content_type: &self.content_type, is_negotiated: self.is_negotiated, coding }
    }
}

/// Names that were told of, by a hash in its slot. Two that share a slot are told of in turns, which the
/// throttle keeps to a line a second.
static TOLD: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];
static UNFIT: Throttle = Throttle::new();

/// Warns once of a sidecar that is there and is not served.
fn tell(name: &[u8], coding: Coding, reason: Unfit) {
    let mut hasher = DefaultHasher::new();
    (name, coding.name(), reason.as_str()).hash(&mut hasher);
    let hash = hasher.finish() | 1;
    let slots = TOLD.len() as u64;
    let Some(slot) = usize::try_from((hash >> 1) % slots).ok().and_then(|slot| TOLD.get(slot)) else {
        return;
    };
    if slot.load(Ordering::Relaxed) == hash {
        return;
    }
    let sidecar = format!("{}{}", name.escape_ascii(), coding.ending());
    let fields = json!({ "file": sidecar, "reason": reason.as_str() });
    // One that the throttle swallowed will be told of by a later request.
    if UNFIT.event(Level::Warn, "sidecar not served", fields) {
        slot.store(hash, Ordering::Relaxed);
    }
}
