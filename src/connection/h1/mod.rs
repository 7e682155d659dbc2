//! HTTP/1.1 and 1.0 (RFC 9112): our own engine for every request on a plain connection.
//!
//! `head` understands a request, `body` finds its end, `write` puts an answer into bytes, `engine`
//! walks through them, `flow` moves bytes and minds deadlines, `stream` sends large files.

mod body;
mod engine;
mod flow;
mod head;
mod stream;
mod write;

pub use engine::serve;
