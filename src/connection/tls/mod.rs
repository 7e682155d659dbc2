//! TLS on a connection: rustls driven directly over the socket, with no layer in between (docs/adr/0039). What
//! comes out of a handshake is a wire like any other, and the same engine serves it.
//!
//! `handshake` comes to one or says why not, `stream` is the wire.

mod handshake;
mod stream;

use std::net::{IpAddr, TcpStream};
use std::rc::Rc;
use std::sync::Arc;

use rustls::ServerConfig;

use super::{Context, h1};
use crate::sys::clock::monotonic_coarse_ms;
use crate::telemetry::counters::Stay;
use crate::telemetry::kinds::Doing;
use handshake::Handshake;

/// Takes an accepted socket to its first request, within `handshake_timeout`, and hands it to its engine. The
/// connection has its `place` from the accept on.
pub async fn enter(
    socket: TcpStream,
    client: IpAddr,
    config: Arc<ServerConfig>,
    context: Rc<Context>,
    place: impl Sized + 'static,
) {
    let mut stay = Stay::new(&context.counters);
    stay.now(Doing::Handshake);
    let watch = context.wheel.enter(monotonic_coarse_ms() + context.limits.handshake_ms_max);
    let stream = match Handshake::new(socket, config, &context, watch) {
        Ok(handshake) => handshake.run(client, &mut stay).await,
        // The reactor did not take it.
        Err(_) => None,
    };
    if let Some(stream) = stream {
        stay.now(Doing::Idle);
        // A task of its own: an idle connection has no room for the handshake that is behind it.
        tokio::task::spawn_local(h1::serve_entered(stream, client, context, place, stay));
    }
}
