//! The admin port: `/livez`, `/readyz` and `/metrics` on a thread of their own, so that they answer whatever the
//! workers do. The same engine serves it. It knows no routes and no files.

use crate::message::{Answer, Body, Fields, Reply, Request, Service, Where};
use crate::semantics::accept;
use crate::semantics::method::Method;
use crate::telemetry::exposition::Form;

/// What the admin port reports about; the server fills it in.
pub trait Health {
    /// Every worker has stamped its heartbeat lately; otherwise what is wrong.
    ///
    /// # Errors
    /// A line that names the workers that do not answer.
    fn live(&self) -> Result<(), String>;

    /// New requests are welcome; otherwise why not.
    ///
    /// # Errors
    /// A line that says why.
    fn ready(&self) -> Result<(), String>;

    /// The page of metrics.
    fn metrics(&self, form: Form) -> String;
}

/// Answers on the admin port.
pub struct Admin<H> {
    health: H,
}

impl<H: Health> Admin<H> {
    /// Reports about `health`.
    #[must_use]
    pub fn new(health: H) -> Self {
        Admin { health }
    }
}

impl<H: Health> Admin<H> {
    fn metrics(&self, request: &Request<'_>) -> Reply {
        let is_open = accept::prefers_openmetrics(request.values("accept"));
        let form = if is_open { Form::OpenMetrics } else { Form::Prometheus };
        let fields =
            [("Content-Type", form.content_type()), ("Cache-Control", "no-store"), ("Vary", "Accept")];
        let text = self.health.metrics(form);
        Reply { status: 200, fields: Fields::of(&fields), body: Body::Owned(text.into_bytes()) }
    }
}

impl<H: Health> Service for Admin<H> {
    fn answer(&self, request: &Request<'_>) -> Answer {
        let Where::Path(path, _) = &request.target else {
            return Answer::Ready(Reply::bodiless(204, Fields::Empty));
        };
        let known: [&[u8]; 3] = [b"livez", b"readyz", b"metrics"];
        if !known.contains(&path.decoded()) {
            return Answer::Ready(Reply::plain(404));
        }
        if !matches!(request.method, Method::Get | Method::Head) {
            return Answer::Ready(Reply::plain_with(405, &[("Allow", "GET, HEAD")]));
        }
        let outcome = match path.decoded() {
            b"livez" => self.health.live(),
            b"readyz" => self.health.live().and_then(|()| self.health.ready()),
            _ => return Answer::Ready(self.metrics(request)),
        };
        let (status, mut text) = match outcome {
            Ok(()) => (200, "ok".to_owned()),
            Err(reason) => (503, reason),
        };
        text.push('\n');
        let fields = [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")];
        Answer::Ready(Reply { status, fields: Fields::of(&fields), body: Body::Owned(text.into_bytes()) })
    }
}
