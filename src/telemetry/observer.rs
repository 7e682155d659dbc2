//! What one worker does for those who want to know more of a request than the counters say: it decides at
//! the beginning whether there will be a span, before any exists, and again at the end.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::config::checked::{self, Sampler};
use crate::telemetry::identity::{Identity, Ids, Parent, is_request_id, is_trace_state};
use crate::telemetry::spans::{Finished, Queue};

/// See the module. Without traces, request ids and trusted peers there is none.
#[derive(Debug)]
pub struct Observer {
    trusted: Vec<IpNet>,
    has_request_ids: bool,
    tracing: Option<Tracing>,
    ids: Ids,
}

#[derive(Debug)]
struct Tracing {
    queue: Queue,
    is_parent_based: bool,
    /// Traces whose lower 63 bits are below it are chosen.
    threshold: u64,
    slow_us: u64,
    has_errors: bool,
}

/// One more than the largest number that a trace is judged by.
const JUDGED: u64 = 1 << 63;

impl Observer {
    /// What these slices of the config ask for; spans go to `queue`.
    #[must_use]
    pub fn new(telemetry: &checked::Telemetry, trusted: &[IpNet], queue: Option<Queue>) -> Option<Observer> {
        let tracing = telemetry.traces.as_ref().zip(queue).map(|(traces, queue)| Tracing {
            queue,
            is_parent_based: traces.sampler.is_parent_based,
            threshold: threshold(traces.sampler),
            slow_us: traces.slow.map_or(u64::MAX, |slow| u64::try_from(slow.as_micros()).unwrap_or(u64::MAX)),
            has_errors: traces.errors,
        });
        let (trusted, has_request_ids) = (trusted.to_vec(), telemetry.request_id);
        let is_wanted = tracing.is_some() || has_request_ids || !trusted.is_empty();
        is_wanted.then(|| Observer { trusted, has_request_ids, tracing, ids: Ids::default() })
    }

    /// Whether what this peer says about traces and ids is believed.
    #[must_use]
    pub fn trusts(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.trusted.iter().any(|network| network.contains(&peer))
    }

    /// Who a request is, by its fields where its peer is trusted; `None` where nobody will ask.
    #[must_use]
    pub fn identify<'f>(
        &self,
        is_trusted: bool,
        fields: impl Iterator<Item = (&'f str, &'f [u8])> + Clone,
    ) -> Option<Box<Identity>> {
        let mut identity = Identity::default();
        let parent = if is_trusted { heard(fields, &mut identity) } else { None };
        if let Some(tracing) = &self.tracing {
            let trace_id = parent.map_or_else(|| self.ids.trace(), |parent| parent.trace_id);
            identity.is_sampled = match parent {
                Some(parent) if tracing.is_parent_based => parent.is_sampled,
                // The lower half of a trace id is random in every implementation.
                _ => (trace_id as u64 & (JUDGED - 1)) < tracing.threshold,
            };
            if identity.is_sampled {
                (identity.trace_id, identity.span_id) = (trace_id, self.ids.next());
            }
        }
        if let Some(parent) = parent {
            (identity.trace_id, identity.parent_id) = (parent.trace_id, parent.span_id);
        }
        if !self.has_request_ids {
            identity.request_id = Box::default();
        } else if identity.request_id.is_empty() {
            identity.request_id = self.ids.request();
        }
        (identity != Identity::default()).then(|| Box::new(identity))
    }

    /// Who a message is that could not be read: an id for its answer and its log line, and no trace.
    #[must_use]
    pub fn identify_unread(&self) -> Option<Box<Identity>> {
        let identity = || Identity { request_id: self.ids.request(), ..Identity::default() };
        self.has_request_ids.then(|| Box::new(identity()))
    }

    /// Whether a request that has ended has a span. One that was not chosen before gets its ids now.
    ///
    /// What the engine refuses as it knows no such method or version is no error of ours: who sends that would
    /// choose spans as he likes.
    #[must_use]
    pub fn chooses(
        &self,
        identity: &mut Option<Box<Identity>>,
        has_route: bool,
        status: u16,
        duration_us: u64,
    ) -> bool {
        let Some(tracing) = &self.tracing else { return false };
        if identity.as_ref().is_some_and(|identity| identity.is_sampled) {
            return true;
        }
        let is_ours = has_route || !matches!(status, 501 | 505);
        let is_late = duration_us >= tracing.slow_us || (tracing.has_errors && status >= 500 && is_ours);
        if is_late {
            let identity = identity.get_or_insert_default();
            if identity.trace_id == 0 {
                identity.trace_id = self.ids.trace();
            }
            identity.span_id = self.ids.next();
        }
        is_late
    }

    /// Hands over what a span is made of. Never waits.
    pub fn send(&self, finished: Finished) {
        if let Some(tracing) = &self.tracing {
            tracing.queue.send(finished);
        }
    }
}

fn threshold(sampler: Sampler) -> u64 {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a ratio from 0 to 1 of 2^63 is a number of 64 bits"
    )]
    let threshold = (sampler.ratio * JUDGED as f64) as u64;
    threshold
}

/// What a trusted peer says.
fn heard<'f>(
    fields: impl Iterator<Item = (&'f str, &'f [u8])> + Clone,
    identity: &mut Identity,
) -> Option<Parent> {
    let mut parents = fields.clone().filter(|(name, _)| name.eq_ignore_ascii_case("traceparent"));
    // Two of them are none (Trace Context §3.2).
    let parent = match (parents.next(), parents.next()) {
        (Some((_, value)), None) => Parent::parse(value),
        _ => None,
    };
    for (name, value) in fields {
        if name.eq_ignore_ascii_case("x-request-id") && is_request_id(value) {
            identity.request_id = value.into();
        } else if name.eq_ignore_ascii_case("want-server-timing") {
            identity.wants_timing = value == b"1" || value == b"?1";
        } else if name.eq_ignore_ascii_case("tracestate") && parent.is_some() {
            // Its lines are one list.
            let comma = &b","[..usize::from(!identity.trace_state.is_empty())];
            let list = [&identity.trace_state[..], comma, value].concat();
            if is_trace_state(&list) {
                identity.trace_state = list.into();
            }
        }
    }
    parent
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &[u8] = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const NOT_CHOSEN: &[u8] = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    const TRACE: u128 = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736;

    fn observer(is_parent_based: bool, ratio: f64, has_request_ids: bool) -> Observer {
        let tracing = Tracing {
            queue: Queue::to_nobody(),
            is_parent_based,
            threshold: threshold(Sampler { is_parent_based, ratio }),
            slow_us: 1_000,
            has_errors: true,
        };
        let trusted = vec!["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
        Observer { trusted, has_request_ids, tracing: Some(tracing), ids: Ids::default() }
    }

    fn identify(observer: &Observer, is_trusted: bool, fields: &[(&str, &[u8])]) -> Option<Box<Identity>> {
        observer.identify(is_trusted, fields.iter().copied())
    }

    #[test]
    fn only_trusted_peers_are_believed() {
        let observer = observer(true, 0.0, true);
        let trusts = |peer: &str| observer.trusts(peer.parse().unwrap());
        assert!(trusts("10.1.2.3") && trusts("::ffff:10.1.2.3") && trusts("::1"));
        assert!(!trusts("11.0.0.1") && !trusts("::2"));
        let fields =
            [("Traceparent", PARENT), ("X-Request-ID", &b"theirs"[..]), ("Want-Server-Timing", b"1")];
        let believed = identify(&observer, true, &fields).unwrap();
        assert_eq!((believed.trace_id, believed.parent_id), (TRACE, 0x00f0_67aa_0ba9_02b7));
        assert!(believed.is_sampled && believed.wants_timing && believed.span_id != 0);
        assert_eq!(&*believed.request_id, b"theirs");
        let stranger = identify(&observer, false, &fields).unwrap();
        assert_eq!((stranger.trace_id, stranger.parent_id), (0, 0));
        assert!(!stranger.is_sampled && !stranger.wants_timing);
        assert_eq!(stranger.request_id.len(), 32, "one of our own");
    }

    #[test]
    fn a_parent_decides_where_it_is_asked() {
        let chosen = |is_parent_based, ratio, parent: &[u8]| {
            let observer = observer(is_parent_based, ratio, false);
            identify(&observer, true, &[("traceparent", parent)]).unwrap().is_sampled
        };
        assert!(chosen(true, 0.0, PARENT) && !chosen(true, 1.0, NOT_CHOSEN));
        assert!(!chosen(false, 0.0, PARENT) && chosen(false, 1.0, NOT_CHOSEN));
        let observer = observer(true, 1.0, false);
        let twice = identify(&observer, true, &[("traceparent", PARENT), ("traceparent", PARENT)]).unwrap();
        assert_eq!(twice.parent_id, 0, "two parents are none");
        let state = [("traceparent", PARENT), ("tracestate", &b"a=1"[..]), ("tracestate", b"b=2")];
        assert_eq!(&*identify(&observer, true, &state).unwrap().trace_state, b"a=1,b=2");
    }

    #[test]
    fn the_ratio_is_kept_and_nothing_is_made_for_the_rest() {
        let observer = observer(true, 0.25, false);
        let chosen = (0..10_000).filter(|_| identify(&observer, false, &[]).is_some()).count();
        assert!((2_200..2_800).contains(&chosen), "{chosen} of 10,000 at a quarter");
        assert_eq!(threshold(Sampler { is_parent_based: true, ratio: 1.0 }), JUDGED);
        assert_eq!(threshold(Sampler { is_parent_based: true, ratio: 0.0 }), 0);
    }

    #[test]
    fn the_slow_and_the_failed_are_chosen_at_the_end() {
        let observer = observer(true, 0.0, false);
        let chooses = |has_route, status, duration_us| {
            let mut identity = None;
            let is_chosen = observer.chooses(&mut identity, has_route, status, duration_us);
            assert_eq!(is_chosen, identity.is_some_and(|identity| identity.span_id != 0));
            is_chosen
        };
        assert!(!chooses(true, 200, 999) && !chooses(true, 499, 0));
        assert!(chooses(true, 200, 1_000) && chooses(true, 500, 0) && chooses(false, 503, 0));
        assert!(!chooses(false, 501, 0) && !chooses(false, 505, 0), "strangers choose");
        assert!(chooses(true, 501, 0) && chooses(false, 501, 1_000));
        let mut of_parent = identify(&observer, true, &[("traceparent", NOT_CHOSEN)]);
        assert!(observer.chooses(&mut of_parent, true, 500, 0));
        assert_eq!(of_parent.unwrap().trace_id, TRACE, "it stays in its trace");
    }
}
