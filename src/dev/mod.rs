//! Development mode (`serve --dev`): pages that reload when a file changes. A wrapper around the site,
//! which knows nothing of it; without the flag nothing here is built, started or answered
//! (docs/adr/0024-live-reload.md).
//!
//! `watch` looks at the roots on a thread of its own and tells `changes`; `service` answers what
//! pages ask under `/.scalws/`, and `page` makes what the site answers fit for a page that is edited.

mod changes;
mod page;
mod service;
mod watch;

pub use changes::Changes;
pub use service::Dev;
pub use watch::start;
