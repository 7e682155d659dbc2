//! Results as a file that is whole at any moment: written beside it, then renamed over it.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use crate::Refusal;
use crate::bench::record::{FORM, Results};

/// Writes the results of a run.
///
/// # Errors
/// The disk is full, or whatever else it says: in one line that names the file.
pub fn save(results: &Results, path: &Path) -> Result<(), Refusal> {
    let mut text = serde_json::to_string_pretty(results)
        .map_err(|error| Refusal::new(format!("{}: {error}", path.display())))?;
    text.push('\n');
    replace(path, text.as_bytes())
}

/// Reads them back.
///
/// # Errors
/// There are none, or they are of another form.
pub fn read(path: &Path) -> Result<Results, Refusal> {
    let at = |error: String| Refusal::new(format!("{}: {error}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| at(error.to_string()))?;
    let results: Results = serde_json::from_str(&text).map_err(|error| at(error.to_string()))?;
    if results.form != FORM {
        return Err(at(format!("results of form {}, this is written for {FORM}", results.form)));
    }
    Ok(results)
}

/// Exchanges the content of a file at once: a reader, or a lab that is ended, sees the old or the new.
///
/// # Errors
/// As of `save`.
pub fn replace(path: &Path, content: &[u8]) -> Result<(), Refusal> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let written = File::create(&part)
        .and_then(|mut file| {
            file.write_all(content)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&part, path));
    written.map_err(|error| {
        // What is half is of no use to anybody, and takes room on a full disk.
        let _ = fs::remove_file(&part);
        Refusal::new(format!("cannot save {}: {error}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::samples;

    fn directory(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("scalws-lab-json-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// `RECORD=1 cargo test -p scalws-lab` writes it anew.
    #[test]
    fn the_form_is_the_one_that_is_written_down() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/results.json");
        if std::env::var_os("RECORD").is_some() {
            save(&samples::results(), &golden).unwrap();
        }
        let scratch = directory("form");
        let path = scratch.join("results.json");
        save(&samples::results(), &path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), fs::read_to_string(&golden).unwrap());
        let again = read(&golden).unwrap();
        assert_eq!(again.cases[0].rows[1].ratio_to(&again.cases[0].rows[0]).unwrap().median, 2.0);
        fs::remove_dir_all(scratch).unwrap();
    }

    #[test]
    fn another_form_is_refused() {
        let scratch = directory("another");
        let path = scratch.join("results.json");
        save(&Results { form: FORM + 1, ..samples::results() }, &path).unwrap();
        assert!(read(&path).unwrap_err().to_string().ends_with("results of form 2, this is written for 1"));
        fs::remove_dir_all(scratch).unwrap();
    }

    /// The kernel says ENOSPC for each write to /dev/full.
    #[test]
    fn a_full_disk_is_one_line_and_leaves_what_was_there() {
        let scratch = directory("full");
        let path = scratch.join("results.json");
        save(&samples::results(), &path).unwrap();
        let before = fs::read_to_string(&path).unwrap();
        std::os::unix::fs::symlink("/dev/full", scratch.join("results.json.part")).unwrap();
        let line = save(&samples::results(), &path).unwrap_err().to_string();
        assert_eq!(line, format!("cannot save {}: No space left on device (os error 28)", path.display()));
        assert_eq!(fs::read_to_string(&path).unwrap(), before);
        assert!(!scratch.join("results.json.part").exists(), "nothing half is left");
        fs::remove_dir_all(scratch).unwrap();
    }
}
