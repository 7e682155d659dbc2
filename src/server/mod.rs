//! From a checked config to a running process: listeners, workers, admin, signals, drain. Imports
//! every room; no room imports it.

mod accept;
mod admin;
mod certificates;
pub mod explain;
pub mod health;
mod listen;
mod metrics;
mod run;
mod start;
mod shared;
mod told;
mod worker;

pub use run::run;
