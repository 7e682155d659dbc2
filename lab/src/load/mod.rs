//! The lean generator: one thread that checks every answer's status and length, and the bodies at the
//! edges of each window.
