//! Tests of the lab with real servers and real sockets.

#![allow(clippy::unwrap_used, reason = "a test says what went wrong by where it stopped")]

mod bench;
mod load;
mod load_probe;
mod load_tls;
mod profile;
mod scripted;
mod scripts;
mod servers;
mod traces;
