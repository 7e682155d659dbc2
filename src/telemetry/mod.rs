//! What the server says about itself: events on stderr, the access log, the record of each request, counters
//! per worker and the text of metrics.
//!
//! Nothing here may ever make a worker wait: lines are queued within bounds and written by threads
//! of their own; what finds no room is dropped, counted and told afterwards (case H05).

pub mod access;
pub mod counters;
pub mod docs;
pub mod exposition;
pub mod facts;
pub mod families;
pub mod handshakes;
pub mod histogram;
pub mod identity;
pub mod kinds;
pub mod log;
pub mod observer;
pub mod record;
pub mod sink;
pub mod spans;
pub mod start;
