//! HTTP/1.1 and 1.0 (RFC 9112): our own engine for every request on a plain connection.
//!
//! `engine` is the loop of a connection and `next` what a step of it leaves to be waited for; `answer` is the
//! way of an answer and `account` its end; `head` understands a head, `request` what it asks for, `identify` who
//! it is; `body` finds its end, `write` puts an answer into bytes, `flow` moves bytes and minds deadlines,
//! `stream` sends large files, `sendfile` those of a plain socket, `fetch` what the pool has to bring of them.

mod engine;
mod answer;
mod account;
mod head;
mod request;
mod identify;
mod body;
mod write;
mod next;
mod flow;
mod sendfile;
mod stream;
mod fetch;

pub use engine::{serve, serve_entered};
