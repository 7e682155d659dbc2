//! Interleaved, rotated rounds of several servers, and the ratios between them.
