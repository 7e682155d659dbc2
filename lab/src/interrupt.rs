//! Ctrl-C: the signal sets a flag and nothing else. Whoever waits looks at it, ends what it started and
//! keeps what was measured; a default handler would end the lab and leave its servers behind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::Refusal;

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on INT, TERM and HUP set the flag. A second signal does no more than the first: ending at
/// once is what would leave servers behind, and every wait of the lab is bounded.
///
/// # Errors
/// The kernel takes no handler.
pub fn watch() -> Result<(), Refusal> {
    set_on(FLAG.get_or_init(Arc::default), &[SIGINT, SIGTERM, SIGHUP])
}

fn set_on(flag: &Arc<AtomicBool>, signals: &[i32]) -> Result<(), Refusal> {
    for signal in signals {
        signal_hook::flag::register(*signal, Arc::clone(flag))
            .map_err(|error| Refusal::new(format!("cannot watch for signal {signal}: {error}")))?;
    }
    Ok(())
}

/// Whether somebody asked for the end.
#[must_use]
pub fn requested() -> bool {
    FLAG.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// Ends whoever asks once somebody pressed it.
///
/// # Errors
/// Somebody did.
pub fn stop_if_requested() -> Result<(), Refusal> {
    if requested() { Err(refusal()) } else { Ok(()) }
}

/// The refusal of whoever stops because of it.
#[must_use]
pub fn refusal() -> Refusal {
    Refusal::new("interrupted")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With a flag of its own: the tests of one binary share the process.
    #[test]
    fn a_signal_sets_the_flag_and_ends_nothing() {
        let flag = Arc::default();
        set_on(&flag, &[SIGHUP]).unwrap();
        assert!(!flag.load(Ordering::Relaxed));
        signal_hook::low_level::raise(SIGHUP).unwrap();
        assert!(flag.load(Ordering::Relaxed));
        assert!(!requested());
    }
}
