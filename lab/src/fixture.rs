//! The site that every server serves: the same bytes on every machine, made and not downloaded.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Refusal;

/// How the content of a file looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Noise: nothing compresses it.
    Noise,
    /// Text as programs have it: about a quarter of it is left when it is compressed.
    Code,
}

/// Names, bytes and kinds.
pub const FILES: &[(&str, usize, Kind)] = &[
    ("small.txt", 47, Kind::Code),
    ("484.css", 484, Kind::Code),
    ("docs/index.html", 1_609, Kind::Code),
    ("1k.bin", 1_024, Kind::Noise),
    ("10k.bin", 10 * 1_024, Kind::Noise),
    ("14k.svg", 14_620, Kind::Code),
    ("app.js", 26 * 1_024, Kind::Code),
    ("100k.bin", 100 * 1_024, Kind::Noise),
    ("1m.bin", 1 << 20, Kind::Noise),
    ("1m4.js", 1_416_501, Kind::Code),
];

/// A directory with the files.
#[derive(Debug)]
pub struct Fixture {
    root: PathBuf,
}

impl Fixture {
    /// Lays the files out beneath `root`, which is made where it is not there. Times are put an hour back,
    /// as a deployed site has them.
    ///
    /// # Errors
    /// The disk says so.
    pub fn lay_out(root: &Path) -> Result<Fixture, Refusal> {
        for (name, bytes, kind) in FILES {
            let path = root.join(name);
            let at = |error: std::io::Error| Refusal::new(format!("{}: {error}", path.display()));
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(at)?;
            }
            let content = content(name, *bytes, *kind);
            if fs::read(&path).is_ok_and(|found| found == content) {
                continue;
            }
            fs::write(&path, content).map_err(at)?;
            let hour = std::time::Duration::from_secs(3_600);
            let file = fs::File::open(&path).map_err(at)?;
            let before = file.metadata().and_then(|metadata| metadata.modified()).map_err(at)? - hour;
            file.set_modified(before).map_err(at)?;
        }
        Ok(Fixture { root: root.to_owned() })
    }

    /// Where it is.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The content of one of its files.
    #[must_use]
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        FILES.iter().find(|(file, ..)| *file == name).map(|(name, bytes, kind)| content(name, *bytes, *kind))
    }
}

/// xorshift64*, seeded by the name.
fn content(name: &str, bytes: usize, kind: Kind) -> Vec<u8> {
    const WORDS: [&str; 24] = [
        "function", "return", "const", "let", "value", "index", "(", ")", " => ", " {\n  ", "}\n", ";\n",
        ".length", "this.", "if (", "else ", "null", "0", "1", " + ", " === ", "\"name\"", "items",
        "element",
    ];
    let mut state = name.bytes().fold(0x9e37_79b9_7f4a_7c15_u64, |state, byte| {
        (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut next = move || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    };
    let mut content = Vec::with_capacity(bytes + 16);
    while content.len() < bytes {
        let word = next();
        match kind {
            Kind::Noise => content.extend_from_slice(&word.to_be_bytes()),
            Kind::Code if word % 5 == 0 => content.extend_from_slice(format!("v{:x}", word >> 52).as_bytes()),
            Kind::Code => {
                let at = usize::try_from((word >> 32) % WORDS.len() as u64).unwrap_or(0);
                content.extend_from_slice(WORDS[at].as_bytes());
            }
        }
    }
    content.truncate(bytes);
    content
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest as _, Sha256};

    /// The bytes are part of what is published: another machine has to have the same.
    #[test]
    fn the_bytes_are_the_same_everywhere() {
        let mut all = Sha256::new();
        for (name, bytes, kind) in FILES {
            let content = content(name, *bytes, *kind);
            assert_eq!(content.len(), *bytes);
            all.update(&content);
        }
        let hash: String = all.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, "be3bc13f41fe2a1a");
    }
}
