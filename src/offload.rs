//! The one pool that may block: everything that has to wait goes here, once, and comes back as a
//! value. Process-wide and bounded in threads and jobs; shutdown never waits for it.
//!
//! Jobs stand in lanes, one for each root, and a lane may hold three quarters of the threads: a file
//! system that hangs takes its own lane and leaves a thread for the others. It knows nothing of files
//! or HTTP. Its threads come from tokio's blocking pool, which starts them on demand and ends idle
//! ones (docs/adr/0007-one-offload-pool.md).

mod times;
mod why;

pub use times::{BOUNDS_US, Times};
pub use why::Why;

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

use crate::limits::LANE_RESULTS_MAX;

/// The pool. It lives as long as the process, so everybody holds a plain reference and no
/// reference count is shared between workers.
pub type Pool = &'static Offload;
/// A lane of the pool; lives as long as the process too.
pub type Lane = &'static OffloadLane;

/// See [`Pool`].
#[derive(Debug)]
pub struct Offload {
    runtime: Runtime,
    threads_max: usize,
    /// Jobs that wait or run.
    jobs: AtomicU64,
    jobs_max: u64,
    /// Jobs that were refused because the pool was full.
    refused: AtomicU64,
    /// Jobs that were taken since the start.
    taken: AtomicU64,
    /// How long they waited for a thread, and how long they ran.
    waited: Times,
    ran: Times,
}

/// See [`Lane`].
pub struct OffloadLane {
    pool: Pool,
    threads_max: usize,
    state: Mutex<LaneState>,
    /// Its own part of the pool's `taken`.
    taken: AtomicU64,
    /// Places for results that are large.
    results: Semaphore,
}

#[derive(Default)]
struct LaneState {
    /// Threads that work for this lane.
    threads: usize,
    /// Jobs that wait for one of them.
    waiting: VecDeque<Task>,
}

struct Task {
    job: Box<dyn FnOnce() + Send>,
    since: Instant,
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
    /// What the runtime reports when it cannot be built, or that this process may not have threads.
    pub fn start(threads_max: usize, jobs_max: u64) -> io::Result<Pool> {
        let threads_max = threads_max.max(1);
        let runtime =
            Builder::new_current_thread().max_blocking_threads(threads_max).thread_name("offload").build()?;
        // A process that may not have threads is told so now, in words, and not by a panic later.
        std::thread::Builder::new().spawn(|| ())?.join().map_err(|_| io::Error::other("a thread failed"))?;
        let zero = || AtomicU64::new(0);
        let (jobs, refused, taken) = (zero(), zero(), zero());
        let (waited, ran) = (Times::default(), Times::default());
        let pool = Offload { runtime, threads_max, jobs, jobs_max, refused, taken, waited, ran };
        Ok(Box::leak(Box::new(pool)))
    }

    /// A new lane. Never given back: one for each root of the process.
    #[must_use]
    pub fn lane(&'static self) -> Lane {
        let threads_max = (self.threads_max - self.threads_max / 4).max(1);
        Box::leak(Box::new(OffloadLane {
            pool: self,
            threads_max,
            state: Mutex::default(),
            taken: AtomicU64::new(0),
            results: Semaphore::new(LANE_RESULTS_MAX),
        }))
    }

    /// A lane for work that keeps a core busy: an eighth of the threads, which with four a worker is half a
    /// thread for each of those, so that workers keep most of the processor. Never given back either.
    #[must_use]
    pub fn narrow_lane(&'static self) -> Lane {
        let threads_max = (self.threads_max / 8).max(1);
        Box::leak(Box::new(OffloadLane {
            pool: self,
            threads_max,
            state: Mutex::default(),
            taken: AtomicU64::new(0),
            results: Semaphore::new(LANE_RESULTS_MAX),
        }))
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

    /// How long jobs waited for a thread, and how long they ran.
    #[must_use]
    pub fn times(&self) -> (&Times, &Times) {
        (&self.waited, &self.ran)
    }
}

impl OffloadLane {
    /// Waits for a place for a large result, to be held until its bytes are gone. The threads are faster than
    /// the sockets: without a bound, the results of a burst would all be in memory at once.
    pub async fn place(&'static self) -> Option<SemaphorePermit<'static>> {
        self.results.acquire().await.ok()
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
        let leave = Leave::enter(self.pool);
        if self.pool.jobs() > self.pool.jobs_max {
            self.pool.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Full);
        }
        let (sender, receiver) = oneshot::channel();
        self.push(Box::new(move || {
            let value = job();
            drop(leave);
            // Nobody waits any more where the request is gone.
            let _ = sender.send(value);
        }));
        Ok(Job { receiver })
    }

    /// Runs a `job` whose end nobody awaits, such as closing a descriptor. Not refused when the pool
    /// is full: what it would free is bounded already.
    pub fn detach(&'static self, job: impl FnOnce() + Send + 'static) {
        let leave = Leave::enter(self.pool);
        self.push(Box::new(move || {
            job();
            drop(leave);
        }));
    }

    /// Jobs that this lane has taken since the start.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Starts a thread for the task, or lets it wait for one of the lane's own. The lock is held for
    /// a push; a worker never waits for a job behind it.
    fn push(&'static self, job: Box<dyn FnOnce() + Send>) {
        let task = Task { job, since: Instant::now() };
        self.pool.taken.fetch_add(1, Ordering::Relaxed);
        self.taken.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.threads == self.threads_max {
            state.waiting.push_back(task);
            return;
        }
        state.threads += 1;
        drop(state);
        let work = move || {
            let mut next = Some(task);
            while let Some(Task { job, since }) = next {
                let start = Instant::now();
                self.pool.waited.add(start.duration_since(since));
                // A job that panics loses its own value; the hook has reported it.
                let _ = catch_unwind(AssertUnwindSafe(job));
                self.pool.ran.add(start.elapsed());
                next = self.next();
            }
        };
        #[expect(clippy::disallowed_methods, reason = "this is the pool that the ban points to")]
        drop(self.pool.runtime.handle().spawn_blocking(work));
    }

    /// The next task for a thread of this lane; without one the thread leaves the lane.
    fn next(&self) -> Option<Task> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let task = state.waiting.pop_front();
        if task.is_none() {
            state.threads -= 1;
        }
        task
    }
}

impl std::fmt::Debug for OffloadLane {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("OffloadLane").field("threads_max", &self.threads_max).finish_non_exhaustive()
    }
}

/// Counts a job while it waits or runs, also when it panics.
struct Leave(Pool);

impl Leave {
    fn enter(pool: Pool) -> Leave {
        pool.jobs.fetch_add(1, Ordering::Relaxed);
        Leave(pool)
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.0.jobs.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The value of a job, some time. Dropping it does not stop the job.
#[derive(Debug)]
pub struct Job<T> {
    receiver: oneshot::Receiver<T>,
}

impl<T> Future for Job<T> {
    type Output = Result<T, Lost>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.receiver).poll(context).map(|result| result.map_err(|_| Lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn wait<T>(work: impl Future<Output = T>) -> T {
        Builder::new_current_thread().build().unwrap().block_on(work)
    }

    #[test]
    fn a_full_pool_refuses_and_a_panic_is_not_lost_from_the_count() {
        let pool = Offload::start(1, 2).unwrap();
        let lane = pool.lane();
        let (release, parked) = mpsc::channel::<()>();
        let first = lane.run(move || parked.recv()).unwrap();
        let second = lane.run(|| -> u32 { panic!("a job that fails") }).unwrap();
        assert_eq!(lane.run(|| ()).err(), Some(Full));
        assert_eq!((pool.jobs(), pool.refused()), (2, 1));
        release.send(()).unwrap();
        assert_eq!(wait(first), Ok(Ok(())));
        assert_eq!(wait(second), Err(Lost));
        assert_eq!(wait(lane.run(|| 7).unwrap()), Ok(7));
        assert_eq!(pool.jobs(), 0);
    }

    #[test]
    fn every_job_waits_and_runs_for_some_time() {
        let pool = Offload::start(2, 10).unwrap();
        let lane = pool.lane();
        for _ in 0..3 {
            wait(lane.run(|| std::thread::sleep(std::time::Duration::from_millis(2))).unwrap()).unwrap();
        }
        // The last one is counted when its value is on its way already.
        let counts = || [pool.times().0, pool.times().1].map(|times| times.read().0.iter().sum::<u64>());
        while counts() != [3, 3] {
            std::thread::yield_now();
        }
        assert!(pool.times().1.read().1 >= 6_000, "{:?}", pool.times().1);
    }

    #[test]
    fn a_lane_that_hangs_leaves_a_thread_for_the_others() {
        let pool = Offload::start(4, 100).unwrap();
        let (hanging, other) = (pool.lane(), pool.lane());
        let (release, parked) = mpsc::channel::<()>();
        let parked = std::sync::Arc::new(Mutex::new(parked));
        let jobs: Vec<_> = (0..10)
            .map(|number| {
                let parked = std::sync::Arc::clone(&parked);
                hanging.run(move || parked.lock().unwrap().recv().map(|()| number)).unwrap()
            })
            .collect();
        assert_eq!(wait(other.run(|| "through").unwrap()), Ok("through"));
        for _ in 0..jobs.len() {
            release.send(()).unwrap();
        }
        for (number, job) in jobs.into_iter().enumerate() {
            assert_eq!(wait(job), Ok(Ok(number)));
        }
    }
}
