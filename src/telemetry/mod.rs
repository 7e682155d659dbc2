//! What the server says about itself: events on stderr, the access log, counters per worker.
//!
//! Nothing here may ever make a worker wait: lines are queued within bounds and written by threads
//! of their own; what finds no room is dropped, counted and told afterwards (case H05).

pub mod access;
pub mod counters;
pub mod log;
pub mod sink;
pub mod start;
