//! The folder that a run leaves: whole, or not there. Until its end it has another name, so that not even a
//! lab that is killed leaves something that looks like a result.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Refusal;
use crate::place::room;

/// Ends the name of what is not whole.
const PART: &str = ".part";
/// Two servers with windows of 1 s took 0.6 MiB: their pictures, and the page that holds them again. Longer
/// ones have more stacks.
const ROOM_MIN: u64 = 16 << 20;

/// Goes again unless the run came to its end.
pub struct Folder {
    part: PathBuf,
    whole: PathBuf,
}

impl Folder {
    /// Makes it beneath `parent`. A disk without room says so now and not after a minute of load.
    ///
    /// # Errors
    /// The disk says so.
    pub fn begin(parent: &Path, name: &str) -> Result<Folder, Refusal> {
        let whole = parent.join(name);
        let folder = Folder { part: parent.join(format!("{name}{PART}")), whole };
        fs::create_dir_all(&folder.part)
            .map_err(|error| Refusal::new(format!("{}: {error}", folder.part.display())))?;
        match room(&folder.part) {
            Some(room) if room < ROOM_MIN => Err(Refusal::new(format!(
                "{}: no space left: {} KiB free, a profile wants {} MiB",
                parent.display(),
                room >> 10,
                ROOM_MIN >> 20
            ))),
            _ => Ok(folder),
        }
    }

    /// Where files go.
    pub fn path(&self) -> &Path {
        &self.part
    }

    /// Writes a file.
    ///
    /// # Errors
    /// The disk says so.
    pub fn write(&self, name: &str, text: &str) -> Result<(), Refusal> {
        let path = self.part.join(name);
        fs::write(&path, text).map_err(|error| Refusal::new(format!("{}: {error}", path.display())))
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// The disk says so.
    pub fn finish(self) -> Result<PathBuf, Refusal> {
        fs::rename(&self.part, &self.whole)
            .map_err(|error| Refusal::new(format!("{}: {error}", self.whole.display())))?;
        Ok(self.whole.clone())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // After `finish` nothing has this name.
        let _ = fs::remove_dir_all(&self.part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_whole_or_not_there() {
        let parent = std::env::temp_dir().join(format!("scalws-lab-folder-{}", std::process::id()));
        let names = || -> Vec<String> {
            let entries = fs::read_dir(&parent).unwrap().map(|entry| entry.unwrap().file_name());
            entries.map(|name| name.to_string_lossy().into_owned()).collect()
        };
        let begun = Folder::begin(&parent, "a").unwrap();
        begun.write("result.json", "{}").unwrap();
        assert_eq!(names(), ["a.part"]);
        drop(begun);
        assert!(names().is_empty());
        let whole = Folder::begin(&parent, "a").unwrap().finish().unwrap();
        assert_eq!((names(), whole), (vec!["a".to_owned()], parent.join("a")));
        fs::remove_dir_all(&parent).unwrap();
    }
}
