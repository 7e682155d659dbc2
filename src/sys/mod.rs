//! System calls that the standard library does not offer: the only room where `unsafe` is allowed.
//!
//! Every wrapper opens with the call's signature and man page, takes and returns safe types, and
//! reports errors as `io::Error` with the errno. Nothing here decides anything.
#![allow(unsafe_code, reason = "the one room for it; tests/it/tidy.rs holds it here")]

pub mod accept;
pub mod clock;
pub mod cpu;
pub mod directory;
pub mod file;
pub mod memory;
pub mod process;
pub mod socket;
