//! Tests of the lab with real servers and real sockets.

mod bench;
