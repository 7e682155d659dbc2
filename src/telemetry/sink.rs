//! A bounded queue of text before a descriptor that may block, break or be full.
//!
//! One thread per sink writes; the senders never wait. A batch that finds no room is dropped and
//! counted, and a record of the loss is written as soon as there is room again.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a flush at exit may take, whoever does not read.
const FLUSH_MS_MAX: u64 = 500;
/// Pause after a write that failed (ENOSPC, EIO): the next batch tries again.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

struct Batch {
    text: Vec<u8>,
    lines: u64,
}

#[derive(Default)]
struct State {
    queued_bytes: AtomicU64,
    lost_lines: AtomicU64,
    /// Lost lines of which a record was written.
    told_lines: AtomicU64,
    /// Batches handed over and not yet written or lost.
    pending: AtomicU64,
}

/// Sends batches of whole lines to a descriptor.
#[derive(Clone)]
pub struct Sink {
    state: Arc<State>,
    queue: Sender<Batch>,
    queued_bytes_max: u64,
}

/// How a loss is said in the sink's own format: lines lost since the last record, with a line end.
pub type LossRecord = fn(u64) -> Vec<u8>;

impl Sink {
    /// Starts the writing thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        name: &str,
        writer: impl Write + Send + 'static,
        queued_bytes_max: u64,
        loss_record: LossRecord,
    ) -> io::Result<Sink> {
        let (queue, batches) = channel();
        let state = Arc::new(State::default());
        let thread_state = Arc::clone(&state);
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || drain(&batches, writer, &thread_state, loss_record))?;
        Ok(Sink { state, queue, queued_bytes_max })
    }

    /// Hands over whole lines; never waits for the writer.
    pub fn send(&self, text: Vec<u8>, lines: u64) {
        if text.is_empty() {
            return;
        }
        let bytes = text.len() as u64;
        if self.state.queued_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > self.queued_bytes_max {
            self.state.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.state.lost_lines.fetch_add(lines, Ordering::Relaxed);
            return;
        }
        self.state.pending.fetch_add(1, Ordering::Relaxed);
        // The receiver lives as long as the process: its thread ends with the last sender.
        let _ = self.queue.send(Batch { text, lines });
    }

    /// Lines dropped since the start.
    #[must_use]
    pub fn lost_lines(&self) -> u64 {
        self.state.lost_lines.load(Ordering::Relaxed)
    }

    /// Waits until everything was written, at most half a second: for the end of the process.
    pub fn flush(&self) {
        let end = Instant::now() + Duration::from_millis(FLUSH_MS_MAX);
        let is_done = || {
            let told = self.state.told_lines.load(Ordering::Relaxed) == self.lost_lines();
            self.state.pending.load(Ordering::Acquire) == 0 && told
        };
        while !is_done() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn drain(batches: &Receiver<Batch>, mut writer: impl Write, state: &State, loss_record: LossRecord) {
    loop {
        // Wakes without a batch only while a failed write has to be told.
        let has_loss = state.lost_lines.load(Ordering::Relaxed) != state.told_lines.load(Ordering::Relaxed);
        let batch = if has_loss {
            batches.recv_timeout(Duration::from_secs(1))
        } else {
            batches.recv().map_err(|_| RecvTimeoutError::Disconnected)
        };
        match batch {
            Ok(batch) => {
                if writer.write_all(&batch.text).and_then(|()| writer.flush()).is_err() {
                    // EPIPE, ENOSPC, EIO: these lines are gone; the server goes on.
                    state.lost_lines.fetch_add(batch.lines, Ordering::Relaxed);
                    std::thread::sleep(ERROR_PAUSE);
                }
                state.queued_bytes.fetch_sub(batch.text.len() as u64, Ordering::Relaxed);
                tell_loss(&mut writer, state, loss_record);
                state.pending.fetch_sub(1, Ordering::Release);
            }
            Err(RecvTimeoutError::Timeout) => tell_loss(&mut writer, state, loss_record),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn tell_loss(writer: &mut impl Write, state: &State, loss_record: LossRecord) {
    let lost = state.lost_lines.load(Ordering::Relaxed);
    let told = state.told_lines.load(Ordering::Relaxed);
    if lost != told && writer.write_all(&loss_record(lost - told)).and_then(|()| writer.flush()).is_ok() {
        state.told_lines.store(lost, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;

    #[test]
    fn what_finds_no_room_is_counted_and_told_afterwards() {
        let (reader, writer) = std::io::pipe().unwrap();
        let sink = Sink::start("test", writer, 1 << 20, |lost| format!("{lost} lost\n").into_bytes()).unwrap();
        // Nobody reads: the pipe takes 64 KiB, the queue 1 MiB, the rest is lost.
        let batch = vec![b'a'; 1024];
        for _ in 0..2000 {
            sink.send(batch.clone(), 1);
        }
        let lost = sink.lost_lines();
        assert!((800..=1000).contains(&lost), "{lost}");
        let mut reader = std::fs::File::from(OwnedFd::from(reader));
        let mut text = Vec::new();
        let told = format!("{lost} lost\n");
        while !text.ends_with(told.as_bytes()) {
            let mut buffer = [0; 65536];
            let count = io::Read::read(&mut reader, &mut buffer).unwrap();
            text.extend_from_slice(&buffer[..count]);
        }
        assert_eq!(text.len() as u64, (2000 - lost) * 1024 + told.len() as u64);
        sink.flush();
    }

    #[test]
    fn a_broken_writer_loses_lines_and_nothing_else() {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let sink = Sink::start("test", writer, 1 << 20, |_| b"lost\n".to_vec()).unwrap();
        sink.send(b"x\n".to_vec(), 1);
        let end = Instant::now() + Duration::from_secs(10);
        while sink.lost_lines() == 0 && Instant::now() < end {
            std::thread::yield_now();
        }
        assert_eq!(sink.lost_lines(), 1);
    }
}
