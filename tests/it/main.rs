//! The integration tests: literal bytes over real sockets against the built binary, one module a topic.
//!
//! Each test starts its own server on port 0 with a directory of its own, so all run side by side.
//! Nothing sleeps until a server is ready (its `listening` line says so) and nothing asserts speed.
//! `tests/cases.md` says which test holds which case.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by where it stopped")]
#![allow(clippy::print_stderr, reason = "what helps with a failed test goes where the harness shows it")]
#![allow(unreachable_pub, reason = "nothing is exported from a test binary")]

#[macro_use]
mod support;

mod admin;
mod bodies;
mod cases;
mod changes;
mod clean_urls;
mod clocks;
mod codings;
mod cold;
mod compress;
mod conditional;
mod contract;
mod corpus;
mod dev;
mod distance;
mod error_pages;
mod cors;
mod examples;
mod framing;
mod guards;
mod head;
mod headers;
mod hops;
mod index;
mod kubernetes;
mod large;
mod limits;
mod listing;
mod logs;
mod memory;
mod methods;
mod metrics;
mod model;
mod operations;
mod oracle;
mod open_files;
mod overlay;
mod paths;
mod peers;
mod quota;
mod racer;
mod ranges;
mod respond;
mod routes;
mod shortage;
mod slow;
mod spa;
mod start;
mod tidy;
mod times;
mod tls;
mod traces;
mod waits;
