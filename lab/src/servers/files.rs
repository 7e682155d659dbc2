//! The fixture with its sidecars: a copy, as a `.gz` beside a file changes what other rows look for.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::Refusal;
use crate::fixture::Fixture;

/// The file that has one.
const COMPRESSED: &str = "app.js";

/// A copy of the fixture beneath `scratch` with `app.js.gz` (level 6), for every server the same bytes.
///
/// # Errors
/// The disk says so.
pub fn with_sidecars(scratch: &Path) -> Result<PathBuf, Refusal> {
    let root = scratch.join("sidecars");
    let fixture = Fixture::lay_out(&root)?;
    let content = fixture.content(COMPRESSED).ok_or_else(|| Refusal::new(format!("no {COMPRESSED}")))?;
    let path = root.join(format!("{COMPRESSED}.gz"));
    let at = |error: std::io::Error| Refusal::new(format!("{}: {error}", path.display()));
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(&content).map_err(at)?;
    let bytes = encoder.finish().map_err(at)?;
    if !fs::read(&path).is_ok_and(|found| found == bytes) {
        fs::write(&path, bytes).map_err(at)?;
        // As old as its original, which a build would leave like that.
        let modified =
            fs::metadata(root.join(COMPRESSED)).and_then(|metadata| metadata.modified()).map_err(at)?;
        fs::File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_modified(modified))
            .map_err(at)?;
    }
    Ok(root)
}
