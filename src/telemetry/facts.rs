//! What is known of how the request that this thread works on was answered: which route, whether it was
//! kept, whether it went to the pool and why. Eight bytes, written by whoever decides, read by the engine.
//!
//! A worker is one thread and works on one request at a time, so the page that is written on belongs to the
//! thread. The engine lays a clean one out before it asks for an answer and takes it up afterwards; around
//! each look at an answer that waits it lays out the page of that request ([`within`]). A page costs a store
//! and a load, and no handler has to carry it along (docs/adr/0035-the-record-of-a-request.md).

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;

use crate::offload::Why;
use crate::sys::clock;

/// What the cache of open files knew of the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Kept {
    /// It was not asked.
    #[default]
    NotAsked,
    /// The file, and it has not changed.
    File,
    /// That there is nothing.
    Nothing,
    /// A file that has changed since.
    Changed,
    /// Nothing at all.
    Unknown,
}

impl Kept {
    /// All of them with the words of labels and attributes; none for what was not asked.
    pub const ALL: [(Kept, &'static str); 5] = [
        (Kept::NotAsked, ""),
        (Kept::File, "hit"),
        (Kept::Nothing, "hit_missing"),
        (Kept::Changed, "changed"),
        (Kept::Unknown, "miss"),
    ];
}

/// How the file system of the answer is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum FileSystem {
    /// No file took part.
    #[default]
    None,
    /// On the worker, which knows what is resident.
    Inline,
    /// Always in memory.
    Memory,
    /// Opened on the worker, read in the pool.
    OpenInline,
    /// In the pool alone.
    Remote,
}

impl FileSystem {
    /// The word of attributes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FileSystem::None => "",
            FileSystem::Inline => "inline",
            FileSystem::Memory => "memory",
            FileSystem::OpenInline => "open_inline",
            FileSystem::Remote => "remote",
        }
    }
}

/// Where a path was looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum LookedUp {
    /// Nowhere: nothing was opened by name.
    #[default]
    No,
    /// On the worker.
    Inline,
    /// In the pool.
    Pool,
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Number of the route in the config, from 1; 0 where none answered.
    pub route: u16,
    /// A bit for each reason for which the request went to the pool.
    pub hops: u16,
    /// The first of these reasons.
    pub why: Option<Why>,
    /// Where the path was looked up.
    pub looked_up: LookedUp,
    /// What the cache knew.
    pub kept: Kept,
    /// How the file system is read.
    pub file_system: FileSystem,
}

impl Facts {
    /// A clean page.
    pub const NONE: Facts = Facts {
        route: 0,
        hops: 0,
        why: None,
        looked_up: LookedUp::No,
        kept: Kept::NotAsked,
        file_system: FileSystem::None,
    };

    /// Whether there is nothing but a route.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.looked_up == LookedUp::No && self.kept == Kept::NotAsked && self.hops == 0
    }

    /// Notes a trip to the pool.
    pub fn add_hop(&mut self, why: Why) {
        self.hops |= 1 << why as u16;
        self.why.get_or_insert(why);
    }

    /// The reasons for which the request went to the pool.
    pub fn reasons(&self) -> impl Iterator<Item = Why> + use<> {
        let hops = self.hops;
        Why::ALL.into_iter().filter(move |why| hops & (1 << *why as u16) != 0)
    }
}

impl Default for Facts {
    fn default() -> Facts {
        Facts::NONE
    }
}

const NOBODY_ASKS: u64 = u64::MAX;

thread_local! {
    static PAGE: Cell<Facts> = const { Cell::new(Facts::NONE) };
    /// When the route was found: 0 until then, [`NOBODY_ASKS`] where nobody asks.
    static ROUTED_US: Cell<u64> = const { Cell::new(NOBODY_ASKS) };
}

/// Lays out a clean page; `is_timed` where somebody will ask when the route was found.
pub fn begin(is_timed: bool) {
    PAGE.set(Facts::NONE);
    if is_timed {
        ROUTED_US.set(0);
    }
}

/// When the route was found, if one was and somebody asked; once.
#[must_use]
pub fn routed_us() -> Option<u64> {
    let routed_us = ROUTED_US.replace(NOBODY_ASKS);
    (![0, NOBODY_ASKS].contains(&routed_us)).then_some(routed_us)
}

/// What was written on the page.
#[must_use]
pub fn taken() -> Facts {
    PAGE.get()
}

/// Looks at `work` with this page laid out.
pub async fn within<T>(page: &Cell<Facts>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(|task| {
        PAGE.set(page.get());
        let polled = work.as_mut().poll(task);
        page.set(PAGE.get());
        polled
    })
    .await
}

fn write(change: impl FnOnce(&mut Facts)) {
    let mut facts = PAGE.get();
    change(&mut facts);
    PAGE.set(facts);
}

/// The route answers whose number this is, counted from 1.
pub fn route(number: u16) {
    write(|facts| facts.route = number);
    if ROUTED_US.get() == 0 {
        ROUTED_US.set(clock::monotonic_us());
    }
}

/// The cache was asked.
pub fn kept(kept: Kept) {
    write(|facts| facts.kept = kept);
}

/// A file of such a file system is the answer.
pub fn file_system(file_system: FileSystem) {
    write(|facts| facts.file_system = file_system);
}

/// A path was looked up on the worker.
pub fn looked_up() {
    write(|facts| {
        if facts.looked_up == LookedUp::No {
            facts.looked_up = LookedUp::Inline;
        }
    });
}

/// The lookup of a path goes to the pool.
pub fn sent_to_pool(why: Why) {
    write(|facts| {
        facts.looked_up = LookedUp::Pool;
        facts.add_hop(why);
    });
}

/// Something else than the lookup goes there.
pub fn hop(why: Why) {
    write(|facts| facts.add_hop(why));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_keeps_the_first_reason() {
        assert_eq!(size_of::<Facts>(), 8);
        begin(false);
        route(7);
        assert_eq!(routed_us(), None, "nobody asked");
        begin(true);
        route(7);
        assert!(routed_us().is_some() && routed_us().is_none(), "once");
        begin(false);
        looked_up();
        sent_to_pool(Why::ColdName);
        hop(Why::NoNowait);
        hop(Why::NoNowait);
        let facts = taken();
        assert_eq!((facts.why, facts.looked_up), (Some(Why::ColdName), LookedUp::Pool));
        assert_eq!(facts.reasons().collect::<Vec<_>>(), [Why::ColdName, Why::NoNowait]);
        begin(false);
        assert_eq!(taken(), Facts::NONE);
    }

    /// Two requests that wait at the same time, looked at in turn: each writes on its own page.
    #[test]
    fn pages_of_requests_that_wait_are_not_mixed_up() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let pages = [Cell::new(Facts::NONE), Cell::new(Facts::NONE)];
        let work = |number: u16| async move {
            route(number);
            tokio::task::yield_now().await;
            hop(if number == 1 { Why::Remote } else { Why::ColdData });
            tokio::task::yield_now().await;
        };
        runtime.block_on(async {
            tokio::join!(within(&pages[0], work(1)), within(&pages[1], work(2)));
        });
        let seen = pages.map(|page| (page.get().route, page.get().why));
        assert_eq!(seen, [(1, Some(Why::Remote)), (2, Some(Why::ColdData))]);
    }
}
