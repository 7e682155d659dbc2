//! HTTP/1.1 and 1.0 (RFC 9112): our own engine for every request on a plain connection.
//!
//! `engine` is the loop of a connection and `answer` the way of an answer; `head` understands a head,
//! `request` what it asks for, `body` finds its end, `write` puts an answer into bytes, `flow` moves
//! bytes and minds deadlines, `stream` sends large files, `sendfile` those of a plain socket.

mod engine;
mod answer;
mod head;
mod request;
mod body;
mod write;
mod flow;
mod sendfile;
mod stream;

pub use engine::serve;
