//! The servers under test: found, configured alike, pinned, started, ended by their process.
