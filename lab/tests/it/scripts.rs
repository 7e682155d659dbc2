//! `scripts/profile.sh` and `scripts/bench.sh` as a person at a terminal runs them: interrupted, with a full
//! disk, with something missing. Each ends with one clear line and leaves nothing.

mod full_disk;
mod interrupted;
mod refusals;
pub mod run;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use scalws_lab::servers::build;

fn scalws() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| build(None, "dev").unwrap())
}

/// Why nothing can be profiled here, which `scripts/profile.sh` says as well.
fn cannot_profile() -> bool {
    let lacks = scalws_lab::profile::preflight::Facts::look(false).lacks();
    for reason in &lacks {
        println!("SKIPPED: {reason}");
    }
    !lacks.is_empty()
}
