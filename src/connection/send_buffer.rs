//! The send buffer of a connection, decided once, at its first large body.
//!
//! The kernel lets it grow to megabytes. To a client near by that costs two to four times the CPU for each
//! byte, as the data has left the caches before it is taken. But one buffer a round trip is all that a
//! capped one sends, so a client far away keeps the kernel's (docs/adr/0031).

use std::os::fd::AsFd as _;

use socket2::SockRef;
use tokio::net::TcpStream;

use crate::limits::SEND_BUFFER_ROUND_TRIP_US_MAX;
use crate::sys::socket::round_trip_us;

/// Caps the send buffer of a client near by at `bytes`; 0 leaves all of them to the kernel.
pub fn decide(socket: &TcpStream, bytes: u64) {
    // Who cannot say how far the client is keeps the kernel's.
    if bytes > 0 && round_trip_us(socket.as_fd()).is_ok_and(is_near) {
        // One that was not set is the kernel's.
        let _ = SockRef::from(socket).set_send_buffer_size(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
}

fn is_near(round_trip_us: u32) -> bool {
    (1..SEND_BUFFER_ROUND_TRIP_US_MAX).contains(&round_trip_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_is_known_to_be_near_is_near() {
        assert!(is_near(1) && is_near(SEND_BUFFER_ROUND_TRIP_US_MAX - 1));
        assert!(!is_near(SEND_BUFFER_ROUND_TRIP_US_MAX) && !is_near(50_000));
        assert!(!is_near(0), "none was measured");
    }
}
