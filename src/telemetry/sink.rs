//! A bounded queue of text before a descriptor that may block, break or be full.
//!
//! One thread per sink writes; the senders never wait. A batch that finds no room is dropped and
//! counted, and a record of the loss is written as soon as there is room again.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
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

/// How a sink speaks about itself.
#[derive(Clone)]
pub struct Voice {
    /// What it writes to, for people.
    pub target: String,
    /// A loss in the sink's own format: lines lost since the last record, with a line end.
    pub loss_record: fn(u64) -> Vec<u8>,
    /// The writer began to fail with this error, or works again: said elsewhere, once a change.
    pub on_change: fn(&str, Option<&io::Error>),
}

impl Sink {
    /// Starts the writing thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        name: &str,
        writer: impl Write + Send + 'static,
        queued_bytes_max: u64,
        voice: Voice,
    ) -> io::Result<Sink> {
        let (queue, batches) = channel();
        let state = Arc::new(State::default());
        let thread_state = Arc::clone(&state);
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || drain(&batches, writer, &thread_state, &voice))?;
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

fn drain(batches: &Receiver<Batch>, mut writer: impl Write, state: &State, voice: &Voice) {
    let (mut is_failing, mut is_torn) = (false, false);
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
                let written = write_lines(&mut writer, &batch.text, &mut is_torn);
                if written.is_err() != is_failing {
                    is_failing = written.is_err();
                    (voice.on_change)(&voice.target, written.as_ref().err().map(|failure| &failure.error));
                }
                if let Err(failure) = written {
                    // EPIPE, ENOSPC, EIO: these lines are gone; the server goes on.
                    state.lost_lines.fetch_add(batch.lines - failure.whole_lines, Ordering::Relaxed);
                    std::thread::sleep(ERROR_PAUSE);
                }
                state.queued_bytes.fetch_sub(batch.text.len() as u64, Ordering::Relaxed);
                tell_loss(&mut writer, state, voice, &mut is_torn);
                state.pending.fetch_sub(1, Ordering::Release);
            }
            Err(RecvTimeoutError::Timeout) => tell_loss(&mut writer, state, voice, &mut is_torn),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn tell_loss(writer: &mut impl Write, state: &State, voice: &Voice, is_torn: &mut bool) {
    let lost = state.lost_lines.load(Ordering::Relaxed);
    let told = state.told_lines.load(Ordering::Relaxed);
    if lost != told && write_lines(writer, &(voice.loss_record)(lost - told), is_torn).is_ok() {
        state.told_lines.store(lost, Ordering::Relaxed);
    }
}

/// A write that stopped: what did get through before.
struct Failure {
    error: io::Error,
    whole_lines: u64,
}

/// Writes whole lines. Where a write stops within one, the next begins by ending it, so that a torn
/// line spoils no other.
fn write_lines(writer: &mut impl Write, text: &[u8], is_torn: &mut bool) -> Result<(), Failure> {
    let mut done = 0;
    let failed = |error, done: usize| {
        let whole_lines = memchr::memchr_iter(b'\n', &text[..done]).count() as u64;
        Err(Failure { error, whole_lines })
    };
    if *is_torn {
        if let Err(error) = writer.write_all(b"\n") {
            return failed(error, 0);
        }
        *is_torn = false;
    }
    while done < text.len() {
        match writer.write(&text[done..]) {
            Ok(0) => return failed(io::ErrorKind::WriteZero.into(), done),
            Ok(count) => {
                done += count;
                *is_torn = text[done - 1] != b'\n';
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return failed(error, done),
        }
    }
    writer.flush().or_else(|error| failed(error, done))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufRead;

    fn voice() -> Voice {
        let loss_record = |lost: u64| format!("{lost} lost\n").into_bytes();
        Voice { target: "a pipe".to_owned(), loss_record, on_change: |_, _| {} }
    }

    #[test]
    fn what_finds_no_room_is_counted_and_told_afterwards() {
        let (reader, writer) = std::io::pipe().unwrap();
        let sink = Sink::start("test", writer, 1 << 20, voice()).unwrap();
        // Nobody reads: the pipe takes 64 KiB, the queue 1 MiB, the rest is lost.
        for _ in 0..2000 {
            sink.send([&[b'a'; 1023][..], b"\n"].concat(), 1);
        }
        let lost = sink.lost_lines();
        assert!((800..=1000).contains(&lost), "{lost}");
        // Read until every loss was told, in one record or in several.
        let mut lines = io::BufReader::new(reader).lines().map(|line| line.expect("the pipe is open"));
        let (mut told, mut kept) = (0, 0);
        while told < lost || kept < 2000 - lost {
            let line = lines.next().expect("the pipe is open");
            match line.strip_suffix(" lost") {
                Some(number) => told += number.parse::<u64>().expect("a number"),
                None => kept += 1,
            }
        }
        assert_eq!((told, kept), (lost, 2000 - lost));
        sink.flush();
    }

    /// Takes so many bytes, then is full until it is given more room.
    struct Disk<'a> {
        text: &'a mut Vec<u8>,
        room: usize,
    }

    impl Write for Disk<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.room);
            self.room -= count;
            self.text.extend_from_slice(&bytes[..count]);
            if count == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(count) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_torn_line_spoils_no_other() {
        let (mut text, mut is_torn) = (Vec::new(), false);
        let mut disk = Disk { text: &mut text, room: 6 };
        let failure = write_lines(&mut disk, b"one\ntwo\n", &mut is_torn).unwrap_err();
        assert_eq!((failure.whole_lines, is_torn), (1, true));
        disk.room = 100;
        assert!(write_lines(&mut disk, b"three\n", &mut is_torn).is_ok());
        assert_eq!(text, b"one\ntw\nthree\n");
    }

    #[test]
    fn a_broken_writer_loses_lines_and_nothing_else() {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let sink = Sink::start("test", writer, 1 << 20, voice()).unwrap();
        sink.send(b"x\n".to_vec(), 1);
        let end = Instant::now() + Duration::from_secs(10);
        while sink.lost_lines() == 0 && Instant::now() < end {
            std::thread::yield_now();
        }
        assert_eq!(sink.lost_lines(), 1);
    }
}
