//! The open-file cache of one worker: what a request's path led to, and that another led to nothing
//! (docs/adr/0034-open-file-cache.md).
//!
//! What a path leads to is believed for `revalidate`, then looked up anew by the whole rule of its route,
//! through the one resolver. The file itself is looked at before every answer, so that an edit shows at
//! once; on remote file systems, where a look may hang, the path's time is all there is.

mod entry;

pub use entry::{Entry, Facts};

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::fs::{Cache, Chosen, Miss, Sought, Step, View, read};
use crate::handlers::compress::Making;
use crate::handlers::representation::Asked;
use crate::handlers::{Headers, miss};
use crate::limits::{Limits, OPEN_FILE_IDLE_MS, OPEN_FILE_NAME_BYTES_MAX, SIDECAR_BELIEVED_MS_MAX};
use crate::message::Answer;
use crate::offload::{Full, Why};
use crate::sys::clock::monotonic_coarse_ms;
use crate::telemetry::counters::KeptFiles;
use crate::telemetry::facts;

/// One worker's share of what the process keeps open.
#[derive(Debug)]
pub struct OpenFiles {
    found: RefCell<Cache<Rc<Entry>>>,
    missing: RefCell<Cache<Life>>,
    /// Handlers that were given a number.
    handlers: Cell<u32>,
    entries_max: usize,
    bytes_max: usize,
    /// How often descriptors were short, for any worker.
    short: Arc<AtomicU64>,
    /// And how often this one knows of.
    short_known: Cell<u64>,
}

/// How long what was looked up is believed.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// Monotonic milliseconds.
    until_ms: u64,
    /// Of the root: a deployment that swaps it ends the life of all beneath.
    generation: u64,
}

impl Life {
    fn holds(self, now_ms: u64, generation: u64) -> bool {
        now_ms < self.until_ms && generation == self.generation
    }
}

/// What is known of a path.
#[derive(Debug)]
pub enum Known {
    /// The file that it leads to.
    File(Rc<Entry>),
    /// It leads to nothing.
    Nothing,
}

impl OpenFiles {
    /// The share of one of `workers`: the limits are those of the process. `short` counts how often
    /// descriptors were short, for all of them.
    #[must_use]
    pub fn new(limits: &Limits, workers: usize, short: &Arc<AtomicU64>) -> Rc<OpenFiles> {
        let share = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX) / workers.max(1);
        let (entries_max, bytes_max) = (share(limits.open_files_max), share(limits.open_file_bytes_max));
        Rc::new(OpenFiles {
            found: RefCell::new(Cache::new(entries_max, bytes_max)),
            missing: RefCell::new(Cache::new(share(limits.missing_files_max), usize::MAX)),
            handlers: Cell::new(0),
            entries_max,
            bytes_max,
            short_known: Cell::new(short.load(Ordering::Relaxed)),
            short: Arc::clone(short),
        })
    }

    /// A number for a handler, so that two of them may know the same name.
    pub fn number(&self) -> u32 {
        self.handlers.replace(self.handlers.get() + 1)
    }

    /// What is known of `key` at this moment.
    pub fn find(&self, key: &[u8], view: &View) -> Option<Known> {
        let (now_ms, generation) = (monotonic_coarse_ms(), view.generation());
        if let Some(entry) = self.found.borrow_mut().get(key, now_ms)
            && entry.life().holds(now_ms, generation)
        {
            return Some(Known::File(Rc::clone(entry)));
        }
        let mut missing = self.missing.borrow_mut();
        missing.get(key, now_ms).is_some_and(|life| life.holds(now_ms, generation)).then_some(Known::Nothing)
    }

    /// Says that `key` now has so many bytes in memory more.
    pub(super) fn grew(&self, key: &[u8], bytes: usize) {
        self.found.borrow_mut().add_weight(key, bytes);
    }

    /// Whether a body of so many bytes may be kept: one that is larger than all that there may be would push
    /// out everything else, and then itself.
    pub(in crate::handlers) fn takes(&self, bytes: u64) -> bool {
        bytes <= self.bytes_max as u64
    }

    /// Closes what nobody asked for lately: the space of a file that was deleted is free when its last
    /// descriptor is closed, and not before. And half of the rest where another worker was short of
    /// descriptors.
    pub fn sweep(&self, now_ms: u64) {
        let short = self.short.load(Ordering::Relaxed);
        if self.short_known.replace(short) != short {
            self.close_half();
        }
        let since_ms = now_ms.saturating_sub(OPEN_FILE_IDLE_MS);
        self.found.borrow_mut().sweep(since_ms);
        self.missing.borrow_mut().sweep(since_ms);
    }

    /// Closes half of what is open: descriptors are short. Says whether that made some free. The other
    /// workers do the same with their next tick.
    pub fn shrink(&self) -> bool {
        self.short_known.set(self.short.fetch_add(1, Ordering::Relaxed) + 1);
        self.close_half()
    }

    fn close_half(&self) -> bool {
        let mut found = self.found.borrow_mut();
        let (before, _) = found.size();
        found.shrink(before / 2);
        before > 0
    }

    /// What is kept, for those who count.
    #[must_use]
    pub fn told(&self) -> KeptFiles {
        let (found, missing) = (self.found.borrow(), self.missing.borrow());
        let ((files, bytes), (missing_now, _)) = (found.size(), missing.size());
        KeptFiles {
            files: files as u64,
            bytes: bytes as u64,
            missing: missing_now as u64,
            evicted: found.evicted() + missing.evicted(),
        }
    }
}

/// Where to put what a lookup finds. Made before the lookup begins, so that its answer is never taken for
/// younger than it is.
#[derive(Clone, Debug)]
pub struct Keep {
    files: Rc<OpenFiles>,
    key: Box<[u8]>,
    life: Life,
    headers: Rc<Headers>,
}

impl Keep {
    /// For what `key` leads to by way of `view`; `None` where it is not kept. `headers`
    /// are those of the route.
    #[must_use]
    pub fn new(
        files: &Rc<OpenFiles>,
        key: &[u8],
        view: &View,
        revalidate_ms: u64,
        headers: &Rc<Headers>,
    ) -> Option<Keep> {
        let is_kept = key.len() <= OPEN_FILE_NAME_BYTES_MAX && files.entries_max > 0;
        is_kept.then(|| Keep {
            files: Rc::clone(files),
            key: key.into(),
            life: Life {
                until_ms: monotonic_coarse_ms().saturating_add(revalidate_ms),
                generation: view.generation(),
            },
            headers: Rc::clone(headers),
        })
    }

    /// Keeps a file, and answers with it. What was known of the same version before goes on to be known.
    pub(super) fn file(
        &self,
        facts: Facts,
        content: Option<Vec<u8>>,
        asked: &Asked<'_>,
        making: Option<Making>,
    ) -> Answer {
        let mut life = self.life;
        if facts.coding.is_some() {
            // A look at a sidecar says nothing of its original, which may have been edited since.
            life.until_ms = life.until_ms.min(monotonic_coarse_ms() + SIDECAR_BELIEVED_MS_MAX);
        }
        let kept = content.as_deref().filter(|content| self.files.takes(content.len() as u64));
        let mut entry = Entry::new(facts, &self.headers, life, kept);
        let mut found = self.files.found.borrow_mut();
        let now_ms = monotonic_coarse_ms();
        if let Some(before) = found.get(&self.key, now_ms) {
            entry.inherit(before);
        }
        if !entry.is_of_one_version() {
            found.remove(&self.key);
            drop(found);
            return entry.answer(content, asked, making);
        }
        entry.file_is_kept();
        let entry = Rc::new(entry);
        found.insert(&self.key, Rc::clone(&entry), entry.bytes_kept(), now_ms);
        drop(found);
        self.files.missing.borrow_mut().remove(&self.key);
        serve(entry, &self.files, &self.key, content, asked, making)
    }

    /// Keeps that there is nothing.
    pub(super) fn nothing(&self) {
        self.files.found.borrow_mut().remove(&self.key);
        self.files.missing.borrow_mut().insert(&self.key, self.life, 0, monotonic_coarse_ms());
    }

    /// Keeps nothing any more: what was found is not of a kind that is kept.
    pub(super) fn forget(&self) {
        self.files.found.borrow_mut().remove(&self.key);
    }
}

/// The answer of a file that is kept. Where a worker may not read it, the pool does, once: then its bytes
/// are in memory.
pub(super) fn serve(
    entry: Rc<Entry>,
    files: &Rc<OpenFiles>,
    key: &[u8],
    content: Option<Vec<u8>>,
    asked: &Asked<'_>,
    making: Option<Making>,
) -> Answer {
    let file = match entry.to_be_read(asked) {
        Some(file) if content.is_none() => file,
        _ => return entry.answer(content, asked, making),
    };
    let job = match read::whole_in_pool(file) {
        Ok(job) => job,
        Err(full) => return Answer::Ready(miss::pool_full(full)),
    };
    facts::hop(Why::NoNowait);
    let (files, key): (_, Box<[u8]>) = (Rc::clone(files), key.into());
    Answer::Wait(Box::pin(async move {
        match job.await {
            Err(miss) => miss::reply(&miss),
            Ok((content, is_settled)) => {
                if is_settled
                    && files.takes(content.len() as u64)
                    && let Some(bytes) = entry.keep_bytes(&content)
                {
                    files.grew(&key, bytes);
                }
                entry.answer(Some(content), &Asked::default(), making).settled().await
            }
        }
    }))
}

/// Looks up and opens at once. Where descriptors are short, those of `files` give way.
pub(super) fn open(
    view: &View,
    files: Option<&Rc<OpenFiles>>,
    path: &[u8],
    endings: &[&'static str],
) -> Step<Result<Chosen, Miss>> {
    let opened = view.open(path, endings);
    if let Step::Ready(Err(miss)) = &opened
        && miss.is_for_descriptors()
        && files.is_some_and(|files| files.shrink())
    {
        return view.open(path, endings);
    }
    opened
}

/// The same in the pool.
pub(super) fn open_in_pool(
    view: &Rc<View>,
    files: Option<&Rc<OpenFiles>>,
    sought: Vec<Sought>,
) -> Result<impl Future<Output = Result<(usize, Chosen), Miss>> + use<>, Full> {
    let again = files.map(|files| (Rc::clone(files), Rc::clone(view), sought.clone()));
    let job = view.open_in_pool(sought)?;
    Ok(async move {
        let opened = job.await;
        let is_short = opened.as_ref().is_err_and(Miss::is_for_descriptors);
        if is_short
            && let Some((files, view, sought)) = again
            && files.shrink()
            && let Ok(job) = view.open_in_pool(sought)
        {
            return job.await;
        }
        opened
    })
}
