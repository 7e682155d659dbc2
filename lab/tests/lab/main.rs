//! Tests of the lab with real servers and real sockets.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod servers;
