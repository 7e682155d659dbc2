//! What the tests share.
pub mod memory;
