//! The words that labels are made of, each list closed: a label never takes a word from a request.

use crate::semantics::method::Method;

macro_rules! kinds {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $name { $($(#[$of])* $variant,)* }

        impl $name {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];
            /// How many there are.
            pub const COUNT: usize = $name::ALL.len();

            /// The word of labels and attributes.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }
        }
    };
}

kinds! {
    /// What a connection is doing. One that does nothing of this is idle.
    Doing {
        /// Waits for a request, or has its last answer in the kernel.
        Idle = "idle",
        /// Is not through its handshake (TLS).
        Handshake = "handshake",
        /// A head is half there.
        Head = "head",
        /// A body is half there.
        Body = "body",
        /// An answer is on its way: it waits for the pool or for the client.
        Answer = "answer",
        /// Answers are complete, and the client does not take them.
        Send = "send",
        /// Half-closed: what the client still sends is dropped.
        Linger = "linger",
    }
}

kinds! {
    /// How a connection ended.
    Ended {
        /// The client closed it between two requests.
        Client = "client",
        /// The client closed it in the middle of a request or of an answer.
        ClientEarly = "client_early",
        /// After an answer that said so.
        Answered = "answered",
        /// In its handshake: the client left, or what it sent was none.
        Handshake = "handshake_failed",
        /// `handshake_timeout`
        HandshakeTimeout = "handshake_timeout",
        /// After a request that was refused.
        Refused = "refused",
        /// `idle_timeout`, or `head_timeout` before the first request.
        Idle = "idle_timeout",
        /// `write_timeout`
        SlowReader = "write_timeout",
        /// A file got shorter or failed in the middle of its answer.
        File = "file_failed",
        /// The process drains.
        Drained = "drained",
        /// Its task failed, which the log has, or the process ended before it did.
        Lost = "lost",
    }
}

kinds! {
    /// A limit at which something was refused, by its key in `[limits]`.
    Limited {
        /// 503 and a close.
        Connections = "connections",
        /// 431
        HeadSize = "head_size",
        /// 414
        TargetSize = "target_size",
        /// 431
        Fields = "fields",
        /// 413
        BodySize = "body_size",
        /// 400
        ChunkExtensionSize = "chunk_extension_size",
        /// A close.
        HandshakeTimeout = "handshake_timeout",
        /// 408
        HeadTimeout = "head_timeout",
        /// 408
        BodyTimeout = "body_timeout",
        /// A reset.
        WriteTimeout = "write_timeout",
        /// 503
        WaitTimeout = "wait_timeout",
    }
}

kinds! {
    /// Where the bytes of an answer came from.
    Source {
        /// There were none.
        None = "none",
        /// Memory: a fixed answer, or a file that is kept.
        Memory = "memory",
        /// A read on the worker, in one write with the head.
        Pread = "pread",
        /// sendfile(2), without a copy in the process.
        Sendfile = "sendfile",
        /// Reads on the worker and writes, a piece at a time.
        Copy = "copy",
        /// A read in the pool.
        Pool = "pool",
    }
}

kinds! {
    /// Version of TLS.
    TlsVersion {
        /// RFC 5246
        Tls12 = "1.2",
        /// RFC 8446
        Tls13 = "1.3",
    }
}

kinds! {
    /// Whether a handshake went on with a session that the client had.
    Session {
        /// No: the certificate was sent and its key used.
        Full = "full",
        /// Yes.
        Resumed = "resumed",
    }
}

kinds! {
    /// Why a span did not reach the collector.
    Lost {
        /// The collector was slower than the requests.
        QueueFull = "queue_full",
        /// Nobody took the connection, or it broke.
        Unreachable = "unreachable",
        /// No answer in time.
        Timeout = "timeout",
        /// The collector answered, and did not take it.
        Rejected = "rejected",
        /// The process ended before.
        Shutdown = "shutdown",
    }
}

kinds! {
    /// Class of a status.
    Class {
        /// There was no answer.
        None = "none",
        /// 200–299
        Success = "2xx",
        /// 300–399
        Redirect = "3xx",
        /// 400–499
        Client = "4xx",
        /// 500–599
        Server = "5xx",
    }
}

impl Class {
    /// Of a final status; 0 is none.
    #[must_use]
    pub fn of(status: u16) -> Class {
        match status {
            200..=299 => Class::Success,
            300..=399 => Class::Redirect,
            400..=499 => Class::Client,
            500..=599 => Class::Server,
            _ => Class::None,
        }
    }
}

/// Number of a method's label: its place in [`Method::ALL`], and one more for all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodLabel(u8);

impl MethodLabel {
    /// How many there are.
    pub const COUNT: usize = Method::ALL.len() + 1;
    /// A method that is not known, or none at all.
    pub const OTHER: MethodLabel = MethodLabel(9);

    /// Of a token as it was sent.
    #[must_use]
    pub fn of_token(token: &[u8]) -> MethodLabel {
        Method::parse(token).map_or(MethodLabel::OTHER, MethodLabel::from)
    }

    /// Its place.
    #[must_use]
    pub fn place(self) -> usize {
        usize::from(self.0)
    }

    /// The word of a place, as the conventions of OpenTelemetry want it.
    #[must_use]
    pub fn word(place: usize) -> &'static str {
        Method::ALL.get(place).map_or("_OTHER", |(_, token)| token)
    }
}

impl From<Method> for MethodLabel {
    fn from(method: Method) -> MethodLabel {
        MethodLabel(method as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_has_its_own_label() {
        for (place, (method, token)) in Method::ALL.into_iter().enumerate() {
            let label = MethodLabel::from(method);
            assert_eq!((label.place(), MethodLabel::word(label.place())), (place, token));
        }
        assert_eq!(MethodLabel::OTHER.place() + 1, MethodLabel::COUNT);
        assert_eq!(MethodLabel::word(MethodLabel::OTHER.place()), "_OTHER");
    }

    #[test]
    fn limits_are_called_by_their_keys() {
        for limited in Limited::ALL {
            assert!(crate::limits::TABLE.iter().any(|limit| limit.key == limited.name()), "{limited:?}");
        }
    }
}
