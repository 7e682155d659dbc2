//! Clocks: monotonic for deadlines and durations, coarse wall time for dates (clock_gettime(2)).

fn read(clock: libc::clockid_t) -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a whole struct timespec; the clocks used here always exist on Linux,
    // and a failed call would leave the zeroes.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time
}

fn milliseconds(time: libc::timespec) -> u64 {
    u64::try_from(time.tv_sec).unwrap_or(0) * 1000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000
}

/// CLOCK_MONOTONIC_COARSE in milliseconds: a few nanoseconds to read, 1–10 ms of resolution.
#[must_use]
pub fn monotonic_coarse_ms() -> u64 {
    milliseconds(read(libc::CLOCK_MONOTONIC_COARSE))
}

/// CLOCK_MONOTONIC in microseconds, for durations.
#[must_use]
pub fn monotonic_us() -> u64 {
    let time = read(libc::CLOCK_MONOTONIC);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1000
}

/// CLOCK_REALTIME_COARSE: seconds since the epoch and milliseconds of the second.
#[must_use]
pub fn wall_coarse() -> (i64, u32) {
    let time = read(libc::CLOCK_REALTIME_COARSE);
    #[allow(clippy::useless_conversion, reason = "time_t is 32 bits on some architectures")]
    (i64::from(time.tv_sec), u32::try_from(time.tv_nsec / 1_000_000).unwrap_or(0))
}
