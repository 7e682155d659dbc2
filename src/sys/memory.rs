//! Memory of this process that its start has touched and nothing needs again.

use std::ffi::c_void;

/// `int dl_iterate_phdr(callback, void *data)`, dl_iterate_phdr(3), and
/// `int madvise(void *addr, size_t length, int advice)`, madvise(2): takes the program's own code and
/// constants off the page table. They stay in the page cache, and what is used again comes back from
/// there, so that what is left is what serving needs. How many bytes were looked at.
pub fn forget_code() -> usize {
    let mut forgotten = 0_usize;
    // SAFETY: the callback has the type that is asked for and takes `data` for what it is here.
    unsafe { libc::dl_iterate_phdr(Some(forget_object), (&raw mut forgotten).cast()) };
    forgotten
}

/// Looks at the first object, the program itself; libraries are shared with other processes.
unsafe extern "C" fn forget_object(info: *mut libc::dl_phdr_info, _: usize, forgotten: *mut c_void) -> i32 {
    // SAFETY: dl_iterate_phdr(3) passes a valid pointer that is its own until the callback returns.
    let info = unsafe { &*info };
    // SAFETY: `dlpi_phdr` has `dlpi_phnum` entries (the same page).
    let segments = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let mut bytes = 0;
    for segment in segments {
        // What is writable, relocated constants among it, has no second copy in the file.
        if segment.p_type != libc::PT_LOAD || segment.p_flags & libc::PF_W != 0 {
            continue;
        }
        // Whole pages of no other segment.
        let page = usize::try_from(segment.p_align).unwrap_or(4096).max(4096);
        let begin = (info.dlpi_addr as usize + segment.p_vaddr as usize).next_multiple_of(page);
        let end = info.dlpi_addr as usize + segment.p_vaddr as usize + segment.p_memsz as usize;
        let length = end.saturating_sub(begin) / page * page;
        let start = std::ptr::with_exposed_provenance_mut(begin);
        // SAFETY: these pages are mapped from a file and never written, so whoever reads or runs them next
        // finds the same bytes there.
        if length > 0 && unsafe { libc::madvise(start, length, libc::MADV_DONTNEED) } == 0 {
            bytes += length;
        }
    }
    // SAFETY: the caller above passes a pointer to a usize of its own.
    unsafe { *forgotten.cast::<usize>() = bytes };
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kilobytes of this program's code that are mapped.
    fn resident() -> u64 {
        let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let program = std::env::current_exe().unwrap().display().to_string();
        let (mut is_code, mut sum) = (false, 0);
        for line in text.lines() {
            if line.contains(" r-xp ") || line.contains(" r--p ") || line.contains(" rw-p ") {
                is_code = line.contains(" r-xp ") && line.ends_with(&program);
            } else if is_code && let Some(size) = line.strip_prefix("Rss:") {
                sum += size.trim().trim_end_matches(" kB").parse::<u64>().unwrap();
            }
        }
        sum
    }

    #[test]
    fn what_is_forgotten_is_not_mapped_and_comes_back() {
        let before = resident();
        assert!(before > 0 && forget_code() > 0);
        let after = resident();
        assert!(after < before, "{before} kB of code before, {after} after");
        // And it still runs, constants included.
        assert_eq!(format!("{:?}", [1.5_f64, -0.25]), "[1.5, -0.25]");
    }
}
