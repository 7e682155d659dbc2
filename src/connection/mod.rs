//! Connections: from an accepted socket to its last byte. One engine per protocol, one context per
//! worker; handlers never see a socket, engines never see a path.

pub mod buffers;
pub mod clock;
mod context;
pub mod h1;
pub mod send_buffer;
pub mod socket;
pub mod tls;
pub mod wheel;
pub mod windows;
pub mod wire;

pub use context::Context;
