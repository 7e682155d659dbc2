//! Content hashes of files whose modification time says nothing: image builders and package stores
//! set it to 0 or 1 s, and two releases of one size would share one ETag (case B08).
//!
//! Computed in the pool when such a file is first asked for, remembered for the process by its
//! version.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use sha2::{Digest, Sha256};

use crate::fs::{Miss, OpenFile, Version};
use crate::limits::{CONTENT_TAG_BYTES_MAX, CONTENT_TAGS_MAX, FILE_CHUNK_BYTES};
use crate::semantics::etag;
use crate::sys::file::{Stat, Wait, fstat, read_at};

/// The first half of a SHA-256: nobody makes two files with one of them by chance or, at 2^64 tries,
/// by will.
pub type ContentHash = [u8; 16];

static KNOWN: LazyLock<Mutex<HashMap<Version, ContentHash>>> = LazyLock::new(Mutex::default);

/// Whether a file is told apart by its content.
#[must_use]
pub fn is_wanted(stat: &Stat) -> bool {
    etag::is_flattened(stat.mtime_s) && stat.size <= CONTENT_TAG_BYTES_MAX
}

/// The hash of a version that was asked for before.
#[must_use]
pub fn known(stat: &Stat) -> Option<ContentHash> {
    if !is_wanted(stat) {
        return None;
    }
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(&Version::of(stat)).copied()
}

/// Reads a file and remembers its hash, unless it changed meanwhile: then it has no tag this time.
/// Runs in the pool.
pub(in crate::fs) fn learn(file: &OpenFile) -> Result<(), Miss> {
    let (mut hash, mut offset) = (Sha256::new(), 0);
    let mut chunk = Vec::with_capacity(FILE_CHUNK_BYTES);
    loop {
        chunk.clear();
        match read_at(file.fd(), &mut chunk, FILE_CHUNK_BYTES, offset, Wait::May)? {
            0 => break,
            count => offset += count as u64,
        }
        hash.update(&chunk);
        if offset > CONTENT_TAG_BYTES_MAX {
            return Ok(());
        }
    }
    // Two looks that agree, with the read between them.
    let identity = Version::of(file.stat());
    if Version::of(&fstat(file.fd())?) != identity || offset != identity.size() {
        return Ok(());
    }
    let hash: [u8; 32] = hash.finalize().into();
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() >= CONTENT_TAGS_MAX {
        // Rare: a site of more files than that. Starting over costs one read a file.
        known.clear();
    }
    known.insert(identity, hash[..16].try_into().unwrap_or_default());
    Ok(())
}
