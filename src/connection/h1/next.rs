//! What a connection does next: what a step of the engine leaves to be waited for.

use std::sync::Arc;

use super::flow::Phase;
use super::write::Meta;
use crate::fs::read::Shared;
use crate::message::Reply;
use crate::semantics::range::ByteRange;

/// What has to happen before the next request can be looked at.
pub(super) enum Next {
    /// Nothing: look at it.
    Go,
    /// Bytes of this phase.
    Read(Phase),
    /// The output has to shrink.
    Flush,
    /// A reply that the pool works on.
    Wait(Box<Waiting>),
    /// The body of an answer whose head is in the output.
    File(Box<FileBody>),
    /// The same, of bytes in memory.
    Kept(Box<KeptBody>),
}

/// A request whose reply is being worked on.
pub(super) struct Waiting {
    pub(super) reply: std::pin::Pin<Box<dyn Future<Output = Reply>>>,
    pub(super) meta: Meta,
    pub(super) head: Vec<u8>,
}

/// Parts of a file that are to follow the output, with the text around them.
pub(super) struct FileBody {
    pub(super) file: Shared,
    pub(super) parts: Vec<(Vec<u8>, ByteRange)>,
    pub(super) end: Vec<u8>,
    pub(super) status: u16,
    pub(super) meta: Meta,
    pub(super) head: Vec<u8>,
    /// Length of the answer's head, with which the output ends.
    pub(super) head_bytes: usize,
}

/// Bytes that are to follow the output, too many to be copied into it.
pub(super) struct KeptBody {
    pub(super) bytes: Arc<[u8]>,
    pub(super) status: u16,
    pub(super) meta: Meta,
    pub(super) head: Vec<u8>,
}
