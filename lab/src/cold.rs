//! The row `cold`: the page cache is emptied of the row's file, again and again while the load runs, so that some
//! request has to wait for the disk. By posix_fadvise(2), which asks for no right but that to read the file; in
//! containers too, as their mount is this file.

use std::fs::File;
use std::io::IoSliceMut;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::Refusal;
use crate::fixture::Fixture;
use crate::scenario::{Body, Scenario, Setup};

/// Between two times: most requests find the file in memory and some in each second do not.
const EVERY: Duration = Duration::from_millis(50);
/// Pages that a socket still sends from stay; one that nobody holds goes at the first time.
const TRIES: u32 = 20;

/// Empties the cache until it is dropped.
#[derive(Debug)]
pub struct Chill {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Chill {
    /// Begins, where the row asks for it; before the load does.
    ///
    /// # Errors
    /// The file stays in memory whatever is asked: a row about waiting would be about nothing.
    pub fn begin(scenario: &Scenario, fixture: &Fixture) -> Result<Option<Chill>, Refusal> {
        let (Setup::Cold, Body::File(name)) = (scenario.setup, scenario.body) else { return Ok(None) };
        let path = fixture.root().join(name);
        let at = |error: std::io::Error| Refusal::new(format!("{}: {error}", path.display()));
        let file = File::open(&path).map_err(at)?;
        // What is not on the disk yet cannot leave the memory.
        file.sync_all().map_err(at)?;
        must_be_cold(&file, &path)?;
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new().name("cold".to_owned()).spawn(move || {
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                drop_pages(&file);
            }
        });
        Ok(Some(Chill { stop: Some(stop), thread: Some(thread.map_err(at)?) }))
    }
}

impl Drop for Chill {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn drop_pages(file: &File) {
    // An advice: whether it was taken is seen by whoever reads.
    let _ = fadvise(file, 0, None, Advice::DontNeed);
}

fn must_be_cold(file: &File, path: &Path) -> Result<(), Refusal> {
    for _ in 0..TRIES {
        drop_pages(file);
        match is_warm(file) {
            Ok(false) => return Ok(()),
            Ok(true) => {}
            Err(error) => {
                return Err(Refusal::new(format!(
                    "{}: this file system does not say whether a read would wait ({error}): set TMPDIR to \
                     another",
                    path.display()
                )));
            }
        }
    }
    Err(Refusal::new(format!(
        "{}: stays in memory, as on tmpfs, where nothing waits: set TMPDIR to a disk",
        path.display()
    )))
}

/// Whether its first byte is there without a wait.
fn is_warm(file: &File) -> Result<bool, Errno> {
    let mut byte = [0];
    match preadv2(file, &mut [IoSliceMut::new(&mut byte)], 0, ReadWriteFlags::NOWAIT) {
        Ok(_) => Ok(true),
        Err(Errno::AGAIN) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;

    /// On the disk that the tree is on: the directory for temporary files may be memory.
    #[test]
    fn what_is_cold_has_to_be_waited_for() {
        let root =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../.local/lab/cold-{}", std::process::id()));
        let fixture = Fixture::lay_out(&root).unwrap();
        let row = |name: &str| scenario::find(name).unwrap();
        assert!(Chill::begin(row("static-1m"), &fixture).unwrap().is_none());
        let file = File::open(root.join("1m.bin")).unwrap();
        let begun = Chill::begin(row("cold"), &fixture);
        if let Err(refusal) = &begun {
            assert!(refusal.to_string().contains("set TMPDIR"), "{refusal}");
            eprintln!("SKIPPED: {refusal}");
            std::fs::remove_dir_all(&root).unwrap();
            return;
        }
        // Read through, it is warm, and cold again without anybody's doing here.
        let end = std::time::Instant::now() + Duration::from_secs(20);
        let mut seen = [false; 2];
        while seen != [true; 2] {
            assert!(std::time::Instant::now() < end, "cold and warm: {seen:?}");
            let is_warm = is_warm(&file).unwrap();
            seen[usize::from(is_warm)] = true;
            if !is_warm {
                std::fs::read(root.join("1m.bin")).unwrap();
            }
        }
        drop(begun);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
