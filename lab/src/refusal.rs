//! Why there is no number: one line that says what was wrong and what to do.

use std::fmt;

/// A reason to publish nothing. Its text is for the person who started the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(String);

impl Refusal {
    /// With its one line.
    #[must_use]
    pub fn new(line: impl Into<String>) -> Refusal {
        Refusal(line.into().replace(['\n', '\r'], " "))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

impl From<std::io::Error> for Refusal {
    fn from(error: std::io::Error) -> Refusal {
        Refusal::new(error.to_string())
    }
}
