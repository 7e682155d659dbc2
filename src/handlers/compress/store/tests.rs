//! The store at work: one work a version, and its bounds.

use super::*;
use std::path::PathBuf;

use crate::fs::{Chosen, Found, Links, Root, Step, View};
use crate::limits::{COMPRESSED_ENTRY_BYTES, COMPRESSED_KEPT_MS};
use crate::offload::Offload;
use crate::semantics::encoding::Coding;

const GZIP: Way = Way { coding: Coding::Gzip, level: 6 };

struct Files {
    directory: PathBuf,
    view: View,
    store: Arc<Store>,
}

impl Files {
    fn new(name: &str, compressed_bytes_max: u64) -> Files {
        let directory = std::env::temp_dir().join(format!("scalws-store-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let pool = Offload::start(4, 100).unwrap();
        let root = Root::open(&directory, Links::Inside, pool).unwrap();
        let limits = Limits { compressed_bytes_max, ..Limits::default() };
        Files { directory, view: View::new(&root), store: Store::new(&limits, pool) }
    }

    fn write(&self, name: &str, content: &[u8]) -> OpenFile {
        std::fs::write(self.directory.join(name), content).unwrap();
        match self.view.open(name.as_bytes(), &[]) {
            Step::Ready(Ok(Chosen { found: Found::File(file, _), .. })) => file,
            other => panic!("{name}: {other:?}"),
        }
    }

    fn outcome(&self, file: &OpenFile) -> Outcome {
        match self.store.get(file, GZIP) {
            Look::Known(outcome) => outcome,
            Look::Busy => panic!("busy"),
            Look::Pending(mut pending) => {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let end = runtime.block_on(pending.wait_for(Option::is_some)).unwrap();
                end.clone().unwrap()
            }
        }
    }

    fn made(&self, file: &OpenFile) -> Arc<[u8]> {
        match self.outcome(file) {
            Outcome::Made(bytes) => bytes,
            other => panic!("{other:?}"),
        }
    }

    fn is_known(&self, file: &OpenFile) -> bool {
        matches!(self.store.known(&Version::of(file.stat()), GZIP), Some(Look::Known(_)))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn text(seed: u32, lines: u32) -> Vec<u8> {
    (0..lines).flat_map(|line| format!("{seed} {}\n", line.wrapping_mul(seed)).into_bytes()).collect()
}

#[test]
fn a_version_is_compressed_once_and_another_one_again() {
    let files = Files::new("once", 1 << 20);
    let file = files.write("a", &text(7, 5_000));
    // Whoever comes while it is worked on waits for the same work.
    let looks: Vec<_> = (0..5).map(|_| files.store.get(&file, GZIP)).collect();
    assert_eq!(files.store.lock().pending_bytes, file.stat().size, "one work, not five");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut made = Vec::new();
    for look in looks {
        match look {
            Look::Known(Outcome::Made(bytes)) => made.push(bytes),
            Look::Pending(mut pending) => {
                match runtime.block_on(pending.wait_for(Option::is_some)).unwrap().clone() {
                    Some(Outcome::Made(bytes)) => made.push(bytes),
                    other => panic!("{other:?}"),
                }
            }
            other => panic!("{other:?}"),
        }
    }
    made.push(files.made(&file));
    assert!(made.iter().all(|bytes| Arc::ptr_eq(bytes, &made[0])), "the same bytes");
    assert_eq!(files.store.lock().pending_bytes, 0);

    // Written in place: the same file, and nothing of the old version stays.
    let changed = files.write("a", &text(8, 5_000));
    assert!(!Arc::ptr_eq(&files.made(&changed), &made[0]));
    let state = files.store.lock();
    assert_eq!((state.entries.len(), state.order.len()), (1, 1));
    let kept: u64 = state
        .entries
        .values()
        .map(|entry| match &entry.value {
            Value::Done { outcome, .. } => outcome.cost(),
            Value::Pending(_) => 0,
        })
        .sum();
    assert_eq!(state.kept_bytes, kept);
}

#[test]
fn what_changed_since_it_was_opened_is_not_kept() {
    let files = Files::new("changed", 1 << 20);
    let file = files.write("a", &text(7, 100));
    std::fs::write(files.directory.join("a"), text(9, 200)).unwrap();
    assert!(matches!(files.outcome(&file), Outcome::Failed));
    assert_eq!(files.store.lock().entries.len(), 0);
    assert_eq!(files.store.lock().pending_bytes, 0);
}

#[test]
fn what_does_not_shrink_is_remembered_as_such() {
    let files = Files::new("noise", 1 << 20);
    let mut word = 1_u64;
    let noise: Vec<u8> = (0..5_000)
        .map(|_| {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            word.to_be_bytes()[0]
        })
        .collect();
    let file = files.write("a", &noise);
    let outcome = files.outcome(&file);
    assert!(matches!(outcome, Outcome::Useless), "{outcome:?}");
    assert!(files.is_known(&file));
}

#[test]
fn room_is_made_of_what_nobody_asked_for_lately() {
    let files = Files::new("room", 5_000);
    let texts = [text(3, 2_000), text(5, 2_000)];
    let first = files.write("a", &texts[0]);
    let cost = files.made(&first).len() as u64 + COMPRESSED_ENTRY_BYTES;
    assert!(cost <= 5_000 && cost * 2 > 5_000, "{cost}");
    let second = files.write("b", &texts[1]);
    // Made for who asked, not kept: the first is in use.
    files.made(&second);
    assert!(files.is_known(&first) && !files.is_known(&second));
    assert!(matches!(files.store.get(&second, GZIP), Look::Busy), "not again at once");
    make_old(&files.store);
    files.made(&second);
    assert!(!files.is_known(&first) && files.is_known(&second));
    assert!(files.store.lock().kept_bytes <= 5_000);
}

#[test]
fn what_is_larger_than_the_room_is_not_made_again_and_again() {
    let files = Files::new("larger", COMPRESSED_ENTRY_BYTES + 500);
    let small = files.write("small", &text(3, 20));
    files.made(&small);
    let large = files.write("large", &text(5, 2_000));
    assert!(matches!(files.outcome(&large), Outcome::Useless));
    assert!(files.is_known(&small), "nothing leaves for it");
}

#[test]
fn what_is_worked_on_is_bounded() {
    let files = Files::new("pending", 1 << 20);
    let file = files.write("a", &text(7, 100));
    files.store.lock().pending_bytes = COMPRESSING_BYTES_MAX;
    assert!(matches!(files.store.get(&file, GZIP), Look::Busy));
    files.store.lock().pending_bytes = 0;
    files.made(&file);
}

/// Jobs of the pool that are never refused: thousands of small files would leave no room in it for
/// requests, and no descriptor.
#[test]
fn the_files_that_are_worked_on_are_bounded() {
    let files = Files::new("number", 1 << 20);
    let written: Vec<_> =
        (0..=COMPRESSING_FILES_MAX).map(|number| files.write(&number.to_string(), b"x")).collect();
    // Nothing ends meanwhile: they are read in the lane that these jobs hold.
    let (release, parked) = std::sync::mpsc::channel::<()>();
    let parked = Arc::new(Mutex::new(parked));
    for _ in 0..4 {
        let parked = Arc::clone(&parked);
        written[0].lane().detach(move || {
            let _ = parked.lock().unwrap().recv();
        });
    }
    let is_pending = |file: &&OpenFile| matches!(files.store.get(file, GZIP), Look::Pending(_));
    assert_eq!(written.iter().filter(is_pending).count() as u64, COMPRESSING_FILES_MAX);
    drop(release);
    until_none_is_pending(&files.store);
    assert!(matches!(files.outcome(&written[0]), Outcome::Useless));
}

/// Slow clients hold what they are sent. Without a bound, one that asks for each version of a file, or
/// for each file of a large site, would hold more with every request.
#[test]
fn what_slow_clients_hold_is_counted_until_they_let_go() {
    let files = Files::new("loose", 5_000);
    let loose = || {
        let state = files.store.lock();
        state.loose.iter().map(|bytes| bytes.as_ptr()).collect::<Vec<_>>()
    };
    // Replaced by another version, made without room, and made room of.
    let replaced = files.made(&files.write("a", &text(3, 2_000)));
    let file = files.write("a", &text(4, 2_000));
    let evicted = files.made(&file);
    assert_eq!(loose(), [replaced.as_ptr()]);
    let unkept = files.made(&files.write("b", &text(5, 2_000)));
    assert_eq!(loose(), [replaced.as_ptr(), unkept.as_ptr()]);
    make_old(&files.store);
    files.made(&files.write("b", &text(6, 2_000)));
    assert_eq!(loose(), [replaced.as_ptr(), unkept.as_ptr(), evicted.as_ptr()]);

    let large: Arc<[u8]> = vec![0; usize::try_from(COMPRESSING_BYTES_MAX).unwrap()].into();
    files.store.lock().loose.push(Arc::clone(&large));
    let file = files.write("c", &text(7, 100));
    assert!(matches!(files.store.get(&file, GZIP), Look::Busy));
    drop((large, replaced, unkept));
    files.store.lock().full_until_ms = 0;
    assert!(!matches!(files.store.get(&file, GZIP), Look::Busy));
    until_none_is_pending(&files.store);
    assert!(loose().contains(&evicted.as_ptr()) && loose().len() <= 2);
}

/// As if nobody had asked for anything for a minute.
fn make_old(store: &Store) {
    let mut state = store.lock();
    state.full_until_ms = 0;
    for entry in state.entries.values_mut() {
        if let Value::Done { used_ms, .. } = &mut entry.value {
            *used_ms = used_ms.saturating_sub(COMPRESSED_KEPT_MS);
        }
    }
}

fn until_none_is_pending(store: &Store) {
    while store.lock().pending_files > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
}
