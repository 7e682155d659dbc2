//! The configuration.
pub mod checked;
