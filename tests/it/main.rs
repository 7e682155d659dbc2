//! Integration tests.
mod oracle;
mod support;
