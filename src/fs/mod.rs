//! Files beneath a root, and the promise that a worker never waits for one.
//!
//! Every path goes through the one resolver ([`resolve`]); every byte that reaches a socket comes
//! through [`read`] or [`send`]. What the kernel cannot say at once is [`Step::Wait`], and the caller takes the
//! whole resolution to the offload pool. This room knows no HTTP, no routes and no configuration.

pub mod cache;
pub mod content_tag;
pub mod device;
pub mod file;
pub mod listing;
pub mod miss;
pub mod read;
pub mod resolve;
pub mod root;
pub mod send;
pub mod sidecar;
pub mod version;

pub use cache::Cache;
pub use device::Mode;
pub use file::OpenFile;
pub use listing::{Entries, Entry, OrListed, Wanted};
pub use miss::Miss;
pub use resolve::{Found, Links};
pub use root::{Refresher, Root, View};
pub use sidecar::{Chosen, Sought, Unfit};
pub use version::Version;

use crate::offload::Why;

/// An answer that is there, or one that the worker may not wait for.
#[derive(Debug)]
pub enum Step<T> {
    /// Known at once.
    Ready(T),
    /// The kernel would have to wait, for this reason: go to the offload pool.
    Wait(Why),
}
