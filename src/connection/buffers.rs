//! Buffers of a worker, lent to connections while they have something to read or write: an idle
//! connection holds none.

use std::cell::RefCell;

use crate::limits::{FILE_CHUNK_BYTES, READ_BUFFER_BYTES};

/// Spare buffers kept by a worker: as many as are in use between two turns, not as many as there
/// are connections.
const SPARE_MAX: usize = 16;
/// An output buffer that grew beyond this (small files in a row) is not kept.
const OUTPUT_KEPT_BYTES_MAX: usize = 512 * 1024;

/// See the module.
#[derive(Debug, Default)]
pub struct Buffers {
    inputs: RefCell<Vec<Vec<u8>>>,
    outputs: RefCell<Vec<Vec<u8>>>,
    chunk: RefCell<Vec<u8>>,
}

impl Buffers {
    /// An empty buffer with room for one read.
    #[must_use]
    pub fn take_input(&self) -> Vec<u8> {
        self.inputs.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(READ_BUFFER_BYTES))
    }

    /// Takes a buffer back; one that is not of the right size is freed.
    pub fn give_input(&self, mut buffer: Vec<u8>) {
        let mut inputs = self.inputs.borrow_mut();
        if buffer.capacity() >= READ_BUFFER_BYTES && inputs.len() < SPARE_MAX {
            buffer.clear();
            inputs.push(buffer);
        }
    }

    /// An empty buffer for answers.
    #[must_use]
    pub fn take_output(&self) -> Vec<u8> {
        self.outputs.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    pub fn give_output(&self, mut buffer: Vec<u8>) {
        let mut outputs = self.outputs.borrow_mut();
        if (1..=OUTPUT_KEPT_BYTES_MAX).contains(&buffer.capacity()) && outputs.len() < SPARE_MAX {
            buffer.clear();
            outputs.push(buffer);
        }
    }

    /// Runs `work` with the worker's one chunk buffer, empty. `work` cannot wait: it is a plain
    /// function.
    pub fn with_chunk<T>(&self, work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let mut chunk = self.chunk.borrow_mut();
        chunk.clear();
        // Once: a chunk, and a head before it.
        chunk.reserve(FILE_CHUNK_BYTES + 8 * 1024);
        work(&mut chunk)
    }
}
