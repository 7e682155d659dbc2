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

fn microseconds(time: libc::timespec) -> u64 {
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1000
}

/// CLOCK_MONOTONIC in microseconds, for durations.
#[must_use]
pub fn monotonic_us() -> u64 {
    microseconds(read(libc::CLOCK_MONOTONIC))
}

/// CLOCK_MONOTONIC_COARSE in microseconds: durations that are right on average, for a few nanoseconds.
#[must_use]
pub fn monotonic_coarse_us() -> u64 {
    microseconds(read(libc::CLOCK_MONOTONIC_COARSE))
}

/// What the wall clock is ahead of the monotonic one now, in nanoseconds: turns monotonic times into dates.
#[must_use]
pub fn wall_offset_ns() -> i64 {
    let nanoseconds = |time: libc::timespec| {
        #[allow(clippy::useless_conversion, reason = "time_t is 32 bits on some architectures")]
        let (seconds, rest) = (i64::from(time.tv_sec), i64::from(time.tv_nsec));
        seconds.saturating_mul(1_000_000_000).saturating_add(rest)
    };
    nanoseconds(read(libc::CLOCK_REALTIME)).saturating_sub(nanoseconds(read(libc::CLOCK_MONOTONIC)))
}

/// CLOCK_REALTIME_COARSE in whole seconds since the epoch.
#[must_use]
pub fn wall_coarse_s() -> i64 {
    #[allow(clippy::useless_conversion, reason = "time_t is 32 bits on some architectures")]
    i64::from(read(libc::CLOCK_REALTIME_COARSE).tv_sec)
}

/// CLOCK_REALTIME_COARSE: seconds since the epoch and milliseconds of the second.
#[must_use]
pub fn wall_coarse() -> (i64, u32) {
    let time = read(libc::CLOCK_REALTIME_COARSE);
    #[allow(clippy::useless_conversion, reason = "time_t is 32 bits on some architectures")]
    (i64::from(time.tv_sec), u32::try_from(time.tv_nsec / 1_000_000).unwrap_or(0))
}
