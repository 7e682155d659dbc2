//! Limits of this process.

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
