//! The one pool that may block: everything that has to wait goes here, once, and comes back as a
//! value. Process-wide and bounded in threads and jobs; shutdown never waits for it.
//!
//! It knows nothing of files or HTTP. Its threads come from tokio's blocking pool, which starts
//! them on demand and ends idle ones (docs/adr/0007-one-offload-pool.md).

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

/// The pool. It lives as long as the process, so everybody holds a plain reference and no
/// reference count is shared between workers.
pub type Pool = &'static Offload;

/// See [`Pool`].
#[derive(Debug)]
pub struct Offload {
    runtime: Runtime,
    /// Jobs that wait or run.
    jobs: AtomicU64,
    jobs_max: u64,
    /// Jobs that were refused because the pool was full.
    refused: AtomicU64,
    /// Jobs that were taken since the start.
    taken: AtomicU64,
}

/// The pool's queue is full: the request is answered 503.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A job panicked; its cause was reported by the panic hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

impl Offload {
    /// Starts a pool of at most `threads_max` threads and `jobs_max` jobs.
    ///
    /// # Errors
    /// What the runtime reports when it cannot be built.
    pub fn start(threads_max: usize, jobs_max: u64) -> io::Result<Pool> {
        let runtime = Builder::new_current_thread()
            .max_blocking_threads(threads_max.max(1))
            .thread_name("offload")
            .build()?;
        // A process that may not have threads is told so now, in words, and not by a panic later.
        std::thread::Builder::new().spawn(|| ())?.join().map_err(|_| io::Error::other("a thread failed"))?;
        let zero = || AtomicU64::new(0);
        Ok(Box::leak(Box::new(Offload { runtime, jobs: zero(), jobs_max, refused: zero(), taken: zero() })))
    }

    /// Runs `job` on a thread that may block.
    ///
    /// # Errors
    /// [`Full`] when `jobs_max` jobs wait or run already; nothing was started then.
    pub fn run<T: Send + 'static>(
        &'static self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Job<T>, Full> {
        // Counted before it is checked, so that the bound holds with any number of workers.
        if self.jobs.fetch_add(1, Ordering::Relaxed) >= self.jobs_max {
            self.jobs.fetch_sub(1, Ordering::Relaxed);
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Full);
        }
        Ok(self.spawn(job))
    }

    /// Runs a `job` whose end nobody awaits, such as closing a descriptor. Not refused when the pool
    /// is full: what it would free is bounded already.
    pub fn detach(&'static self, job: impl FnOnce() + Send + 'static) {
        self.jobs.fetch_add(1, Ordering::Relaxed);
        drop(self.spawn(job));
    }

    fn spawn<T: Send + 'static>(&'static self, job: impl FnOnce() -> T + Send + 'static) -> Job<T> {
        self.taken.fetch_add(1, Ordering::Relaxed);
        // Made before the job is handed over: the count is right also when that fails.
        let leave = Leave(&self.jobs);
        let counted = move || {
            let _leave = leave;
            job()
        };
        #[expect(clippy::disallowed_methods, reason = "this is the pool that the ban points to")]
        let handle = self.runtime.handle().spawn_blocking(counted);
        Job { handle }
    }

    /// Jobs that wait or run now.
    #[must_use]
    pub fn jobs(&self) -> u64 {
        self.jobs.load(Ordering::Relaxed)
    }

    /// Jobs refused since the start.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Jobs taken since the start.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

/// Takes a job off the count, also when it panics.
struct Leave<'a>(&'a AtomicU64);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The value of a job, some time. Dropping it does not stop the job.
#[derive(Debug)]
pub struct Job<T> {
    handle: JoinHandle<T>,
}

impl<T> Future for Job<T> {
    type Output = Result<T, Lost>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.handle).poll(context).map(|result| result.map_err(|_| Lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_full_pool_refuses_and_a_panic_is_not_lost_from_the_count() {
        let pool = Offload::start(1, 2).unwrap();
        let waiter = Builder::new_current_thread().build().unwrap();
        let (release, parked) = mpsc::channel::<()>();
        let first = pool.run(move || parked.recv()).unwrap();
        let second = pool.run(|| -> u32 { panic!("a job that fails") }).unwrap();
        assert_eq!(pool.run(|| ()).err(), Some(Full));
        assert_eq!((pool.jobs(), pool.refused()), (2, 1));
        release.send(()).unwrap();
        assert_eq!(waiter.block_on(first), Ok(Ok(())));
        assert_eq!(waiter.block_on(second), Err(Lost));
        assert_eq!(waiter.block_on(pool.run(|| 7).unwrap()), Ok(7));
        assert_eq!(pool.jobs(), 0);
    }
}
