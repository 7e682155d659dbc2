//! Positional reads of an open file: at once while the data is resident, in the pool otherwise.
//! No read past the promised end, no thread held between two reads.

use std::io;
use std::sync::Arc;

use crate::fs::{Miss, Mode, OpenFile, Step, Version, device};
use crate::limits::{FILE_CHUNK_BYTES, OPEN_FILE_YOUNG_MS, SETTLE_MS, WARM_BYTES, WARM_MS_MAX};
use crate::offload::{Full, Why};
use crate::sys::clock;
use crate::sys::file::{Wait, fstat, read_at};

/// Longest tick of the kernel's coarse clock (CONFIG_HZ=100).
const TICK_OF_TIMES_MS: i64 = 10;

/// A part of a file that counts as resident for a while: the pool has just read it through, where a worker
/// cannot ask, or a worker has just asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Warm {
    end: u64,
    until_ms: u64,
}

impl Warm {
    pub(in crate::fs) fn to(end: u64, until_ms: u64) -> Warm {
        Warm { end, until_ms }
    }

    /// Bytes from `offset` that count as resident.
    pub(in crate::fs) fn bytes_from(self, offset: u64) -> usize {
        if self.end <= offset || clock::monotonic_coarse_ms() > self.until_ms {
            return 0;
        }
        usize::try_from(self.end - offset).unwrap_or(usize::MAX)
    }
}

/// Appends up to `bytes_max` bytes from `offset` to `buffer` without waiting; how many there were.
/// Zero means that the file is shorter than it was.
pub fn resident(
    file: &OpenFile,
    offset: u64,
    bytes_max: usize,
    warm: &Warm,
    buffer: &mut Vec<u8>,
) -> Step<io::Result<usize>> {
    let (wait, bytes_max) = match file.mode() {
        Mode::Inline => (Wait::Never, bytes_max),
        Mode::Memory => (Wait::May, bytes_max),
        Mode::OpenInline => (Wait::May, bytes_max.min(warm.bytes_from(offset))),
        Mode::Remote => (Wait::May, 0),
    };
    if bytes_max == 0 {
        return Step::Wait(why_not(file.mode()));
    }
    match read_at(file.fd(), buffer, bytes_max, offset, wait) {
        Err(error) => match error.raw_os_error() {
            Some(libc::EAGAIN) => Step::Wait(Why::ColdData),
            Some(libc::EOPNOTSUPP) => {
                device::remember_no_nowait(file.stat().device);
                Step::Wait(Why::NoNowait)
            }
            _ => Step::Ready(Err(error)),
        },
        count => Step::Ready(count),
    }
}

/// Why bytes of such a file are not read on a worker, where they are not.
#[must_use]
pub fn why_not(mode: Mode) -> Why {
    match mode {
        Mode::Remote => Why::Remote,
        Mode::OpenInline => Why::NoNowait,
        Mode::Inline | Mode::Memory => Why::ColdData,
    }
}

/// Appends `size` bytes from `offset` without waiting, or nothing.
pub fn part_resident(
    file: &OpenFile,
    offset: u64,
    size: u64,
    buffer: &mut Vec<u8>,
) -> Step<Result<(), Miss>> {
    let (start, size) = (buffer.len(), usize::try_from(size).unwrap_or(usize::MAX));
    let outcome = fill(buffer, start, size, |buffer, done| {
        resident(file, offset + done as u64, size - done, &Warm::default(), buffer)
    });
    if !matches!(outcome, Step::Ready(Ok(()))) {
        buffer.truncate(start);
    }
    outcome
}

/// Reads until `size` bytes stand behind `start`: a short read is normal, also on a warm file.
fn fill(
    buffer: &mut Vec<u8>,
    start: usize,
    size: usize,
    mut read: impl FnMut(&mut Vec<u8>, usize) -> Step<io::Result<usize>>,
) -> Step<Result<(), Miss>> {
    loop {
        let done = buffer.len() - start;
        if done == size {
            return Step::Ready(Ok(()));
        }
        match read(buffer, done) {
            Step::Ready(Ok(0)) => return Step::Ready(Err(Miss::Busy(shrunk()))),
            Step::Ready(Ok(_)) => {}
            Step::Ready(Err(error)) => return Step::Ready(Err(error.into())),
            Step::Wait(why) => return Step::Wait(why),
        }
    }
}

/// The file got shorter between its `fstat` and its read.
#[must_use]
pub fn shrunk() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter while it was read")
}

/// `size` bytes from `offset`, waiting as long as it takes. Runs in the pool.
pub(in crate::fs) fn part_waiting(file: &OpenFile, offset: u64, size: u64) -> Result<Vec<u8>, Miss> {
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let mut buffer = Vec::with_capacity(size);
    let outcome = fill(&mut buffer, 0, size, |buffer, done| {
        Step::Ready(read_at(file.fd(), buffer, size - done, offset + done as u64, Wait::May))
    });
    match outcome {
        Step::Ready(result) => result.map(|()| buffer),
        Step::Wait(_) => unreachable!("a read that may wait never says so"),
    }
}

/// Trips to the pool that take `bytes` of a large file to a client that reads on, at most. In `Inline` for
/// what is not in the kernel's cache; what is there takes none.
#[must_use]
pub fn hops_max(mode: Mode, bytes: u64) -> u64 {
    match mode {
        Mode::Memory => 0,
        Mode::Inline => bytes.div_ceil(FILE_CHUNK_BYTES as u64),
        Mode::OpenInline | Mode::Remote => bytes.div_ceil(WARM_BYTES as u64),
    }
}

/// How `file` is read after all: a look at `offset` tells where RWF_NOWAIT is not supported.
#[must_use]
pub fn mode_found(file: &OpenFile, offset: u64) -> Mode {
    let _ = resident(file, offset, 1, &Warm::default(), &mut Vec::new());
    match file.mode() {
        Mode::Inline if device::lacks_nowait(file.stat().device) => Mode::OpenInline,
        mode => mode,
    }
}

/// A file that a connection streams, shared with the pool while a read of it runs there.
pub type Shared = Arc<OpenFile>;

/// Reads `size` bytes from `offset` in the pool.
///
/// # Errors
/// The pool is full.
pub fn part_in_pool(
    file: Shared,
    offset: u64,
    size: u64,
) -> Result<impl Future<Output = Result<Vec<u8>, Miss>>, Full> {
    let lane = file.lane();
    let job = lane.run(move || part_waiting(&file, offset, size))?;
    Ok(async move { job.await.unwrap_or_else(|_| Err(Miss::Io(io::Error::other("a pool job failed")))) })
}

/// Reads up to `bytes_max` bytes from `offset` into the empty `buffer` in the pool; still empty when the
/// file ends there.
///
/// # Errors
/// The pool is full.
pub fn chunk_in_pool(
    file: &Shared,
    offset: u64,
    bytes_max: usize,
    mut buffer: Vec<u8>,
) -> Result<impl Future<Output = io::Result<Vec<u8>>> + use<>, Full> {
    let lane = file.lane();
    let file = Arc::clone(file);
    let job = lane.run(move || {
        buffer.reserve_exact(bytes_max);
        // Filled, so that one hop brings a whole chunk: a short read here would cost another hop.
        while buffer.len() < bytes_max {
            let done = buffer.len();
            if read_at(file.fd(), &mut buffer, bytes_max - done, offset + done as u64, Wait::May)? == 0 {
                break;
            }
        }
        Ok(buffer)
    })?;
    Ok(async move { job.await.unwrap_or_else(|_| Err(io::Error::other("a pool job failed"))) })
}

/// Reads a window of `bytes` from `offset` through in the pool, so that it is resident.
///
/// # Errors
/// The pool is full.
pub fn warm_in_pool(
    file: &Shared,
    offset: u64,
    bytes: usize,
) -> Result<impl Future<Output = io::Result<Warm>> + use<>, Full> {
    let lane = file.lane();
    let file = Arc::clone(file);
    let job = lane.run(move || {
        let mut buffer = Vec::with_capacity(FILE_CHUNK_BYTES);
        let mut done = 0;
        while done < bytes {
            buffer.clear();
            match read_at(
                file.fd(),
                &mut buffer,
                FILE_CHUNK_BYTES.min(bytes - done),
                offset + done as u64,
                Wait::May,
            )? {
                0 => break,
                count => done += count,
            }
        }
        // A file that ended early counts as warm to the end of the window: the next read finds its end.
        Ok(Warm { end: offset + bytes as u64, until_ms: clock::monotonic_coarse_ms() + WARM_MS_MAX })
    })?;
    Ok(async move { job.await.unwrap_or_else(|_| Err(io::Error::other("a pool job failed"))) })
}

/// All of a small file, read at once between two looks that agree: the caller's, and one afterwards. `None`
/// where it is not resident, or where it was changed so lately that a change within the same tick of the
/// clock would not show.
#[must_use]
pub fn settled(file: &OpenFile) -> Option<Vec<u8>> {
    if is_young(file) {
        return None;
    }
    let mut content = Vec::new();
    match part_resident(file, 0, file.stat().size, &mut content) {
        Step::Ready(Ok(())) => file.is_unchanged().then_some(content),
        _ => None,
    }
}

/// Reads a small file in the pool, and says whether it was between two looks that agree.
///
/// # Errors
/// The pool is full.
pub fn whole_in_pool(
    file: &Shared,
) -> Result<impl Future<Output = Result<(Vec<u8>, bool), Miss>> + use<>, Full> {
    let (lane, file) = (file.lane(), Arc::clone(file));
    let job = lane.run(move || {
        let before = file.is_unchanged() && !is_young(&file);
        let content = part_waiting(&file, 0, file.stat().size)?;
        Ok((content, before && file.is_unchanged()))
    })?;
    Ok(async move { job.await.unwrap_or_else(|_| Err(Miss::Io(io::Error::other("a pool job failed")))) })
}

/// Whether a change could hide in the times that a file has (git calls such an entry racy). Kernels before
/// 6.13 stamp files with a clock of 4 ms; a time that is yet to come says nothing.
pub(in crate::fs) fn is_young(file: &OpenFile) -> bool {
    let version = Version::of(file.stat());
    age_ms(version.changed_ms().max(version.modified_ms())) < OPEN_FILE_YOUNG_MS
}

/// Reads the very version of `file` that its look saw, in the pool, for one who keeps what it is turned
/// into. `then` runs there too, with nothing where the file was changed or cannot be read.
///
/// # Errors
/// No descriptor is free.
pub fn version_in_pool(
    file: &OpenFile,
    then: impl FnOnce(Option<Vec<u8>>) + Send + 'static,
) -> io::Result<()> {
    let file = file.duplicate()?;
    file.lane().detach(move || then(version_waiting(&file)));
    Ok(())
}

/// All of a version, or `None`. A change within the tick of the clock that its times were taken from
/// would leave them as they are, so the read begins when that tick is over (the kernel's clock for
/// files moves every 1 to 10 ms).
fn version_waiting(file: &OpenFile) -> Option<Vec<u8>> {
    let version = Version::of(file.stat());
    let mut left_ms = SETTLE_MS - age_ms(version.changed_ms());
    if (1..=2 * SETTLE_MS).contains(&left_ms) {
        // The clock that is read here is a tick behind at most, as the one of the file may be.
        std::thread::sleep(std::time::Duration::from_millis((left_ms + TICK_OF_TIMES_MS).unsigned_abs()));
        left_ms = SETTLE_MS - age_ms(version.changed_ms());
    }
    if left_ms > 0 {
        // Changed in the future: by a clock that is not ours, which says nothing.
        return None;
    }
    let content = part_waiting(file, 0, version.size()).ok()?;
    let after = fstat(file.fd()).ok()?;
    (Version::of(&after) == version).then_some(content)
}

fn age_ms(since_ms: i64) -> i64 {
    let (seconds, milliseconds) = clock::wall_coarse();
    seconds.saturating_mul(1000).saturating_add(i64::from(milliseconds)).saturating_sub(since_ms)
}
