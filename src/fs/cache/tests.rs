//! What stays and what goes.

use super::*;

fn key(number: usize) -> [u8; 8] {
    number.to_be_bytes()
}

/// Counts hits of `requests` in a cache that keeps what it did not have.
fn hits(cache: &mut Cache<usize>, requests: impl Iterator<Item = usize>) -> usize {
    let mut hits = 0;
    for number in requests {
        match cache.get(&key(number), 0) {
            Some(found) => {
                assert_eq!(*found, number);
                hits += 1;
            }
            None => cache.insert(&key(number), number, 1, 0),
        }
        check(cache);
    }
    hits
}

/// The queues hold the keys of the map, each once; weights add up; nothing is over its bound.
fn check<V>(cache: &Cache<V>) {
    let (entries, weight) = cache.size();
    assert!(entries <= cache.entries_max && weight <= cache.weight_max);
    assert_eq!(cache.small.len() + cache.main.len(), entries);
    let small: usize = cache.slots.values().filter(|slot| !slot.is_main).map(|slot| slot.weight).sum();
    assert_eq!(cache.small_weight, small);
    assert!(cache.ghosts.len() <= cache.entries_max && cache.ghost_order.len() <= cache.entries_max);
}

#[test]
fn names_asked_for_once_leave_the_hot_ones() {
    let mut cache = Cache::new(1_000, usize::MAX);
    let hot = 0..800;
    let mut warm_up = Vec::new();
    (0..3).for_each(|_| warm_up.extend(hot.clone()));
    assert_eq!(hits(&mut cache, warm_up.into_iter()), 1_600);
    // One request of ten is for a hot name, the others for names that never come back.
    let scan = (0..200_000).map(|number| if number % 10 == 0 { number / 10 % 800 } else { 10_000 + number });
    let mut cache_hits = 0;
    for number in scan {
        match cache.get(&key(number), 0) {
            Some(_) => cache_hits += 1,
            None => cache.insert(&key(number), number, 1, 0),
        }
    }
    check(&cache);
    assert_eq!(cache_hits, 20_000, "each hot name was a hit each time");
}

/// The same where weight is what is short: newcomers that weigh much have a tenth of it.
#[test]
fn heavy_names_asked_for_once_leave_the_hot_ones() {
    let mut cache = Cache::new(1_000, 10_000);
    let mut cache_hits = 0;
    let warm_up = (0..150).map(|number| number % 50);
    let scan = (0..20_000).map(|number| if number % 10 == 0 { number / 10 % 50 } else { 10_000 + number });
    for number in warm_up.chain(scan) {
        match cache.get(&key(number), 0) {
            Some(_) => cache_hits += 1,
            None => cache.insert(&key(number), number, 100, 0),
        }
        check(&cache);
    }
    assert_eq!(cache_hits, 100 + 2_000, "each hot name was a hit each time");
}

#[test]
fn who_comes_back_soon_stays() {
    let mut cache = Cache::new(100, usize::MAX);
    hits(&mut cache, 0..100);
    // Pushed out, with its hash remembered.
    hits(&mut cache, 100..200);
    assert!(cache.get(&key(0), 0).is_none());
    cache.insert(&key(0), 0, 1, 0);
    assert!(cache.slots[&key(0)[..]].is_main);
    check(&cache);
}

#[test]
fn weight_is_bounded_too() {
    let mut cache = Cache::new(100, 1_000);
    for number in 0..50 {
        cache.insert(&key(number), number, 10, 0);
        cache.add_weight(&key(number), 90);
        check(&cache);
    }
    assert_eq!(cache.size(), (10, 1_000));
    cache.insert(&key(49), 7, 5, 0);
    assert_eq!((cache.get(&key(49), 0).copied(), cache.size()), (Some(7), (10, 905)));
    cache.add_weight(b"not there", 1);
    cache.insert(b"too heavy for anything", 1, 2_000, 0);
    check(&cache);
    assert_eq!(cache.get(b"too heavy for anything", 0), None);
}

#[test]
fn what_is_idle_or_in_the_way_goes() {
    let mut cache = Cache::new(100, usize::MAX);
    for number in 0..60 {
        cache.insert(&key(number), number, 1, number as u64);
    }
    cache.get(&key(3), 1_000);
    cache.sweep(50);
    check(&cache);
    assert_eq!(cache.size(), (11, 11));
    cache.remove(&key(3));
    cache.remove(b"not there");
    check(&cache);
    assert_eq!(cache.size(), (10, 10));
    cache.shrink(4);
    check(&cache);
    assert_eq!(cache.size(), (4, 4));
    cache.shrink(0);
    assert_eq!(cache.size(), (0, 0));
    cache.sweep(u64::MAX);
    let mut none = Cache::new(0, 100);
    none.insert(b"x", 1, 1, 0);
    assert_eq!(none.size(), (0, 0));
}

/// Keys that are put in, taken out and asked for in any order leave the queues and the map of one mind.
#[test]
fn queues_and_map_agree_whatever_happens() {
    let mut cache = Cache::new(20, 300);
    let mut state = 7_u64;
    for step in 0..20_000_u64 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = usize::try_from(state >> 58).unwrap();
        match (state >> 40) % 8 {
            0 => cache.remove(&key(number)),
            1 => cache.add_weight(&key(number), 3),
            2 => cache.sweep(step.saturating_sub(30)),
            3 | 4 => drop(cache.get(&key(number), step).copied()),
            _ => cache.insert(&key(number), number, number, step),
        }
        check(&cache);
        assert_eq!(cache.weight, cache.slots.values().map(|slot| slot.weight).sum::<usize>());
    }
}
