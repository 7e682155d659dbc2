//! What a container says: of its server, and at its end.

use std::time::Instant;

use super::inside::Served;
use super::{LOOK_AGAIN, QUICK, READY};
use crate::Refusal;
use crate::place::Place;

/// The last words of a container that has ended.
#[must_use]
pub fn ended(here: &Place, id: &str, service: &str) -> Option<Refusal> {
    let words = ["docker", "inspect", "--format", "{{.State.Running}} {{.State.ExitCode}}", id];
    let state = here.need(&words, QUICK).ok()?;
    let code = state.out.trim().strip_prefix("false ")?.to_owned();
    let said = said(here, id);
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    Some(Refusal::new(format!("the container {service} ended with {code}: {last}")))
}

/// The end of what it said.
#[must_use]
pub fn said(here: &Place, id: &str) -> String {
    let text = here.finish(&["docker", "logs", "--tail", "50", id], QUICK);
    text.map_or_else(|_| String::new(), |text| text.out + &text.err)
}

/// What `inside serve` says of its server once that answers.
///
/// # Errors
/// It ends, or does not answer in time.
pub fn served(here: &Place, id: &str, service: &str) -> Result<Served, Refusal> {
    let end = Instant::now() + READY;
    loop {
        let text = here.need(&["docker", "logs", id], QUICK)?;
        if let Some(served) = text.out.lines().find_map(|line| serde_json::from_str(line).ok()) {
            return Ok(served);
        }
        if let Some(refusal) = ended(here, id, service) {
            return Err(refusal);
        }
        if Instant::now() >= end {
            return Err(Refusal::new(format!("{service} did not answer within {} s", READY.as_secs())));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}
