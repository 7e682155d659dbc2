//! Limits and age of this process, and names of its threads.

use std::io;

/// `int getrlimit(int resource, struct rlimit *rlim)` and `setrlimit`, getrlimit(2): raises the soft
/// limit of open descriptors to the hard one and returns it.
///
/// # Errors
/// The errno of the calls.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a whole struct rlimit.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the pointer is to a whole struct rlimit, filled above.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(limit.rlim_cur)
}

/// Milliseconds since this process was started by exec or fork, to the kernel's 10 ms ticks; `None`
/// where /proc is not mounted (proc_pid_stat(5), field 22).
#[must_use]
pub fn age_ms() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name in field 2 may contain anything; it ends at the last parenthesis.
    let start_ticks: u64 = stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()?;
    // SAFETY: sysconf has no preconditions.
    let ticks_per_second =
        u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok().filter(|ticks| *ticks > 0)?;
    super::clock::boot_ms().checked_sub(start_ticks * 1000 / ticks_per_second)
}

/// Whether the process runs as root: root reads files of mode 000, which tests have to know.
#[must_use]
pub fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}
