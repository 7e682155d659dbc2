//! Sidecars of a request: which names may have some, in which order they are tried, and the form of
//! what was found (RFC 9110 §12.5.3; docs/adr/0017-sidecars.md).

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use crate::fs::{Chosen, Unfit};
use crate::handlers::representation::Form;
use crate::message::Request;
use crate::semantics::encoding::{self, Coding, Wanted};
use crate::semantics::mime;
use crate::telemetry::log::{Level, Throttle};

/// What a request and its route say about sidecars.
#[derive(Clone, Copy, Debug)]
pub struct Sidecars {
    is_on: bool,
    wanted: Wanted,
}

impl Sidecars {
    /// What `request` would take, on a route where they are on or off.
    #[must_use]
    pub fn of(request: &Request<'_>, is_on: bool) -> Sidecars {
        let fields = request.fields.iter().filter(|_| is_on);
        let mine = fields
            .filter(|field| field.name.len() == 15 && field.name.eq_ignore_ascii_case("accept-encoding"));
        Sidecars { is_on, wanted: Wanted::of(mine.map(|field| field.value)) }
    }

    /// What to try for the file `name`, a path beneath a root.
    #[must_use]
    pub fn of_name(&self, name: &[u8]) -> Probe {
        let content_type = mime::of_name(name);
        // A name that is empty would make hidden ones: `.br`.
        let has_name = name.last().is_some_and(|byte| *byte != b'/');
        let is_negotiated =
            self.is_on && has_name && !encoding::is_sidecar_name(name) && !mime::is_compressed(&content_type);
        let wanted = if is_negotiated { self.wanted } else { Wanted::NOTHING };
        let mut endings = [""; 3];
        for (ending, coding) in endings.iter_mut().zip(wanted.codings()) {
            *ending = coding.ending();
        }
        Probe { content_type, is_negotiated, wanted, endings }
    }
}

/// What is tried for one name.
#[derive(Debug)]
pub struct Probe {
    content_type: Cow<'static, str>,
    is_negotiated: bool,
    wanted: Wanted,
    endings: [&'static str; 3],
}

impl Probe {
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
