//! ScalWS: a Docker-first HTTP server. This file is the map of the house; every room says in its
//! own first lines what it is for and what it does not know. The arrows point up this page only:
//! a room may import what stands above it, as `tests/it/tidy.rs` holds.

// Every bound with its unit, default and reason.
pub mod limits;
// System calls; the only room with `unsafe`.
pub mod sys;
// The one bounded pool that may block.
pub mod offload;
// Pure rules of RFC 9110, 9112 and 3986.
pub mod semantics;
// Files beneath a root.
pub mod fs;
// Certificates and their keys.
pub mod tls;
// The configuration, from text to types that cannot be wrong.
pub mod config;
// Requests and replies.
pub mod message;
// Events, access log, counters.
pub mod telemetry;
// What answers a route.
pub mod handlers;
// From a request to its handler.
pub mod route;
// Pages that reload while they are written.
pub mod dev;
// From a socket to its last byte.
pub mod connection;
// `/livez` and `/readyz`.
pub mod admin;
// The life of the process.
pub mod server;
