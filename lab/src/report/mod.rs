//! What was measured, written down: Markdown and JSON tables, and one page that needs no network.

pub mod json;
pub mod markdown;
pub mod page;
mod rows;
pub mod traces;
