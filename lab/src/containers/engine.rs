//! Whether there is an engine at all: said before anything is built, one line for each thing.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::Refusal;

/// # Errors
/// No engine, no Compose, or no compose.yaml to run.
pub fn preflight() -> Result<(), Refusal> {
    let answers = |words: &[&str]| {
        let mut command = Command::new("docker");
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !answers(&["version"]) {
        return Err(Refusal::new("Docker does not answer: start its daemon, or leave --docker out"));
    }
    if !answers(&["compose", "version"]) {
        return Err(Refusal::new(
            "Compose is missing: install the plugin `docker compose`, or leave --docker out",
        ));
    }
    if !Path::new("compose.yaml").is_file() {
        return Err(Refusal::new("no compose.yaml here: --docker runs at the top of the tree"));
    }
    Ok(())
}
