//! Every attribute and event of the spans, for the documentation and for the test that no other is sent.

/// Name, what it holds, and when it is there. Those without `scalws.` are those of the stable OpenTelemetry
/// conventions for HTTP servers.
pub const ATTRIBUTES: &[(&str, &str)] = &[
    ("http.request.method", "the method, or `_OTHER`"),
    ("http.request.method_original", "the method as sent, where that is `_OTHER`"),
    ("url.scheme", "`http`"),
    ("url.path", "path as sent"),
    (
        "url.query",
        "query as sent; the values of `AWSAccessKeyId`, `Signature`, `sig` and `X-Goog-Signature` are REDACTED",
    ),
    ("http.route", "name of the route in the config"),
    ("http.response.status_code", "status; not there without an answer"),
    ("http.response.body.size", "bytes of the body that were handed to the kernel"),
    (
        "error.type",
        "the status from 500 on, or how the answer ended early: `client_closed`, `write_timeout`, `file_shrank`, `file_failed`",
    ),
    ("server.address", "host of the request"),
    ("server.port", "its port, where it has one"),
    ("client.address", "address of the peer"),
    ("network.peer.address", "the same"),
    ("network.protocol.name", "`http`"),
    ("network.protocol.version", "`1.0` or `1.1`"),
    ("user_agent.original", "User-Agent"),
    ("scalws.engine", "`h1`"),
    ("scalws.request_id", "the id of the request, where ids are asked for"),
    ("scalws.lookup", "`inline` or `pool`: where the path was looked up"),
    ("scalws.cache", "`hit`, `hit_missing`, `changed` or `miss`: what the cache of open files knew"),
    ("scalws.body.source", "`memory`, `pread`, `sendfile`, `copy` or `pool`: where the bytes came from"),
    ("scalws.file_system", "`inline`, `memory`, `open_inline` or `remote`: how the file system is read"),
    ("scalws.offload.cause", "on spans of trips to the pool: why (see the words of `cause`)"),
    ("scalws.offload.causes", "all causes, where there were several"),
    ("scalws.offload.trips", "on the span of trips in the middle of an answer: how many"),
];

/// Events of the span of a request.
pub const EVENTS: &[(&str, &str)] = &[
    ("accepted", "the connection was accepted; on its first request only, and before the span begins"),
    ("routed", "the route was found"),
    ("resolved", "the answer was known"),
    ("first_byte", "the first bytes of a streamed body went to the kernel"),
];
