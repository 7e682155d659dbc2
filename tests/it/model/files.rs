//! The files that the model knows: sizes, odd times, and sidecars in every state.

use std::path::Path;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use sha2::{Digest as _, Sha256};

use super::codings::CODINGS;
use super::conditions::Validators;
use crate::support::{Site, noise};

/// One content with its time.
#[derive(Clone)]
pub struct Version {
    pub content: Vec<u8>,
    pub seconds: i64,
    pub nanoseconds: u32,
    opaque: String,
}

impl Version {
    /// §8.8.3: the tag is of size and time, or half a SHA-256 where the time was flattened (ADR 0004).
    fn new(content: Vec<u8>, seconds: i64, nanoseconds: u32) -> Version {
        let opaque = match seconds {
            0 | 1 => Sha256::digest(&content)[..16].iter().map(|byte| format!("{byte:02x}")).collect(),
            _ => format!("{:x}-{seconds:x}-{nanoseconds:x}", content.len()),
        };
        Version { content, seconds, nanoseconds, opaque }
    }

    pub fn tag(&self, suffix: &str) -> String {
        format!("\"{}{suffix}\"", self.opaque)
    }

    pub fn validators(&self, suffix: &str, now_s: i64) -> Validators {
        // §8.8.2.1: never later than Date; a flattened time says nothing (ADR 0004).
        let is_honest = self.seconds <= now_s && !matches!(self.seconds, 0 | 1);
        Validators { tag: Some(self.tag(suffix)), modified_s: is_honest.then_some(self.seconds), now_s }
    }
}

/// A file with what lies beside it.
pub struct File {
    pub name: String,
    pub content_type: &'static str,
    /// Whether it could have sidecars at all (ADR 0017).
    pub is_negotiated: bool,
    pub cache_control: Option<&'static str>,
    pub original: Version,
    /// In the order of [`CODINGS`].
    pub sidecars: [Option<Version>; 3],
}

impl File {
    /// What is sent for the codings that a request would take: the first that is there with content and
    /// not older than the original (ADR 0017), or the original.
    pub fn selected(&self, order: &[usize]) -> (&Version, Option<usize>) {
        let time = |version: &Version| (version.seconds, version.nanoseconds);
        let is_fit =
            |version: &&Version| !version.content.is_empty() && time(version) >= time(&self.original);
        let order = order.iter().filter(|_| self.is_negotiated);
        let mut found =
            order.filter_map(|number| Some((self.sidecars[*number].as_ref().filter(is_fit)?, Some(*number))));
        found.next().unwrap_or((&self.original, None))
    }

    /// One line for who has to understand a failure.
    pub fn describe(&self) -> String {
        let version = |version: &Version| {
            format!("{} bytes of {}.{:09} s", version.content.len(), version.seconds, version.nanoseconds)
        };
        let beside = self.sidecars.iter().zip(CODINGS).filter_map(|(sidecar, (_, ending, _))| {
            Some(format!(", {ending} {}", version(sidecar.as_ref()?)))
        });
        format!("{}: {}{}", self.name, version(&self.original), beside.collect::<String>())
    }
}

const SIZES: [usize; 4] = [0, 1, 50, 300 * 1024];
/// 1994, one with nanoseconds, flattened, 2099, 1960, and one that two digits of a year cannot say.
const TIMES: [(i64, u32); 7] = [
    (784_111_777, 0),
    (1_700_000_000, 123_456_789),
    (0, 0),
    (1, 0),
    (4_070_908_800, 0),
    (-315_619_200, 0),
    (157_939_200, 7),
];
/// Ending, type, whether it could have sidecars.
const TYPES: [(&str, &str, bool); 6] = [
    (".txt", "text/plain; charset=utf-8", true),
    (".css", "text/css; charset=utf-8", true),
    (".png", "image/png", false),
    (".js", "text/javascript; charset=utf-8", true),
    ("", "application/octet-stream", true),
    (".gz", "application/gzip", false),
];
pub const CACHE_CONTROL: &str = "public, max-age=60";
/// Of each coding: nothing, or bytes and seconds after the original.
const SIDECARS: [[Option<(usize, i64)>; 3]; 7] = [
    [None; 3],
    [Some((200 * 1024, 0)), Some((77, 1)), Some((33, 0))],
    [None, None, Some((20, 5))],
    [Some((90, -1)), Some((77, 0)), None],
    [Some((0, 0)), None, Some((40, 0))],
    [Some((9, -1)), Some((9, -9)), Some((9, -1))],
    [None, Some((200 * 1024, 0)), Some((1, 0))],
];

/// Every size with every time, twice; endings and sidecars take turns.
pub fn files() -> Vec<File> {
    let mut files = Vec::new();
    for (number, size) in SIZES.into_iter().cycle().take(2 * SIZES.len() * TIMES.len()).enumerate() {
        let (seconds, nanoseconds) = TIMES[number / SIZES.len() % TIMES.len()];
        let (ending, content_type, is_negotiated) = TYPES[(number * 5 + number / 7) % TYPES.len()];
        let seed = number as u64 * 4;
        let sidecar = |coding: usize| {
            let (bytes, later) = SIDECARS[(number + number / 4) % SIDECARS.len()][coding]?;
            let content = noise(seed + 1 + coding as u64, bytes);
            Some(Version::new(content, seconds + later, nanoseconds))
        };
        files.push(File {
            name: format!("f{number}{ending}"),
            content_type,
            is_negotiated,
            cache_control: (ending == ".css").then_some(CACHE_CONTROL),
            original: Version::new(noise(seed, size), seconds, nanoseconds),
            sidecars: [0, 1, 2].map(sidecar),
        });
    }
    files
}

/// Puts them into a directory.
pub fn write(site: &Site, files: &[File]) {
    for file in files {
        touch(&site.file(&file.name, &file.original.content), &file.original);
        for (sidecar, (_, ending, _)) in file.sidecars.iter().zip(CODINGS) {
            if let Some(sidecar) = sidecar {
                touch(&site.file(format!("{}{ending}", file.name), &sidecar.content), sidecar);
            }
        }
    }
}

fn touch(path: &Path, version: &Version) {
    let time = Timespec { tv_sec: version.seconds, tv_nsec: version.nanoseconds.into() };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::empty()).unwrap();
}
