//! Where a run works: a directory beneath the working one, gone when the run is over; and its date.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Refusal;

/// Not in /tmp: that is a tmpfs on many machines, where files cost the server something else.
const PARENT: &str = ".local/lab/scratch";

/// A directory of this process.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes it.
    ///
    /// # Errors
    /// The disk says so.
    pub fn make() -> Result<Scratch, Refusal> {
        let path = Path::new(PARENT).join(std::process::id().to_string());
        let at = |error: std::io::Error| Refusal::new(format!("{}: {error}", path.display()));
        fs::create_dir_all(&path).map_err(at)?;
        // Servers change their directory.
        Ok(Scratch { path: std::path::absolute(&path).map_err(at)? })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left is in a directory that git ignores.
        let _ = fs::remove_dir_all(&self.path);
        // Only the last one to leave can.
        let _ = self.path.parent().map(fs::remove_dir);
    }
}

/// `2026-11-30 15:44:01 UTC`.
#[must_use]
pub fn now() -> String {
    date(rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec)
}

/// The civil calendar from days, by Howard Hinnant's `civil_from_days`; years from 1970 on.
fn date(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second % 3_600 / 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_399), "2000-02-28 23:59:59 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_796_053_441), "2026-11-30 15:44:01 UTC");
    }

    #[test]
    fn a_scratch_directory_is_gone_with_its_owner() {
        let scratch = Scratch::make().unwrap();
        let path = scratch.path().to_owned();
        assert!(path.is_dir() && path.is_absolute());
        fs::write(path.join("file"), "").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }
}
