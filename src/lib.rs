//! ScalWS: a Docker-first HTTP server. This file is the map of the house; every room says in its
//! own first lines what it is for and what it does not know. A test holds the order of the rooms:
//! each may import only what stands above it here, as `tests/it/tidy.rs` lists.

/// Every bound with its unit, default and reason.
pub mod limits;

/// Pure rules of HTTP and URIs.
pub mod semantics;

/// The command line and the config, checked.
pub mod config;
