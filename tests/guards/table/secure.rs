//! Guards of TLS: what a stalled client may hold, what a reader may have waiting, and which pair is served.

use super::Guard;

pub(super) const GUARDS: &[Guard] = &[
    Guard {
        name: "handshake-deadline",
        file: "src/connection/tls/handshake.rs",
        old: "if watch.is_expired(task) {",
        new: "if watch.is_expired(task) && is_draining {",
        test: "tls::handshakes::stalled_handshakes_hold_up_nobody_and_end",
    },
    Guard {
        name: "handshakes-are-connections",
        file: "src/server/accept.rs",
        old: "(Some(place), Some(config)) => {",
        new: "(Some(_), Some(config)) => {\n                let place = ();",
        test: "tls::handshakes::handshakes_are_connections",
    },
    Guard {
        name: "no-plain-http-on-https",
        file: "src/connection/tls/handshake.rs",
        old: "Ok(Some(b'A'..=b'Z')) =>",
        new: "Ok(Some(0)) =>",
        test: "tls::handshakes::other_protocols_are_turned_away",
    },
    Guard {
        name: "one-piece-of-ciphertext",
        file: "src/connection/tls/stream.rs",
        old: "&rest[..rest.len().min(TLS_PIECE_BYTES)]",
        new: "&rest[..rest.len().min(TLS_PIECE_BYTES * 100)]",
        test: "tls::files::a_crowd_of_idle_and_of_stalled_clients_is_affordable",
    },
    Guard {
        name: "a-cut-is-no-end",
        file: "src/connection/h1/engine.rs",
        old: "Some(cut) => stay.end(account::ended(cut)),",
        new: "Some(cut) => {\n                stay.end(account::ended(cut));\n                wire.say_end();\n            }",
        test: "tls::files::a_truncated_file_cuts_the_stream",
    },
    Guard {
        name: "pair-is-one",
        file: "src/tls/pair.rs",
        old: "Err(_) => return Err(mismatch(&certified)),",
        new: "Err(_) => drop(mismatch(&certified)),",
        test: "tls::rotation::what_is_no_pair_changes_nothing",
    },
];
