//! Pure rules of RFC 9110, 9112 and 3986: plain values in, plain values out. No I/O, no clock, no config.

pub mod accept;
pub mod conditional;
pub mod date;
pub mod encoding;
pub mod escape;
pub mod etag;
pub mod head;
pub mod method;
pub mod mime;
pub mod navigation;
pub mod origin;
pub mod path;
pub mod range;
pub mod status;
