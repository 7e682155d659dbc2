//! The nouns that every engine and every handler share: a request, a reply, and the door between
//! them. No sockets, no protocol versions' details.

mod reply;
mod request;

pub use reply::{Body, Fields, Parts, Reply};
pub use request::{Field, Request, Where};

use std::future::Future;
use std::pin::Pin;

/// A reply, or the promise of one that had to wait for the offload pool.
pub enum Answer {
    /// Nothing had to wait.
    Ready(Reply),
    /// Borrows nothing of the request: its buffer is used for other connections meanwhile.
    Wait(Pin<Box<dyn Future<Output = Reply>>>),
}

impl Answer {
    /// The reply, waited for where it has to be.
    pub async fn settled(self) -> Reply {
        match self {
            Answer::Ready(reply) => reply,
            Answer::Wait(reply) => reply.await,
        }
    }

    /// The answer with its reply changed, now or later.
    #[must_use]
    pub fn map(self, change: impl FnOnce(Reply) -> Reply + 'static) -> Answer {
        match self {
            Answer::Ready(reply) => Answer::Ready(change(reply)),
            Answer::Wait(reply) => Answer::Wait(Box::pin(async move { change(reply.await) })),
        }
    }
}

/// The single door through which every engine asks for an answer; synchronous when nothing has to
/// wait. Every request ends in a [`Reply`]: there is no error to return.
pub trait Service {
    /// Answers a request.
    fn answer(&self, request: &Request<'_>) -> Answer;
}
