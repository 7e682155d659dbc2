//! The loop: takes inputs from a target's seeds, mutates, checks, keeps what led to something new, and
//! makes a failing input small before it prints it.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant, UNIX_EPOCH};

use super::input::{Random, mutate};

/// Inputs that were kept because they led to something new.
const KEPT_MAX: usize = 2_000;
/// Tries to make a failing input smaller.
const SHRINKS_MAX: usize = 3_000;

/// What is fuzzed.
pub struct Target {
    pub name: &'static str,
    /// Inputs of the gate, chosen so that a debug build takes a second or two.
    pub inputs: u64,
    pub seeds: Vec<Vec<u8>>,
    /// What means something to it.
    pub words: &'static [&'static str],
    /// Makes an input that is nearly right.
    pub make: fn(&mut Random) -> Vec<u8>,
    /// Fewer kinds of outcome than this: the inputs do not get anywhere.
    pub kinds_min: usize,
}

/// Says of an input which kind of outcome it had, or what is wrong.
pub type Check<'a> = &'a dyn Fn(&[u8]) -> Result<String, String>;

/// Runs a target for `FUZZ_SECONDS`, or through as many inputs as the gate wants.
#[track_caller]
pub fn run(target: &Target, check: Check<'_>) {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let until = number("FUZZ_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    // The gate runs the same inputs each time; a long run others, and says which.
    let clock = until.map_or(0, |_| UNIX_EPOCH.elapsed().unwrap().as_secs());
    let seed = number("FUZZ_SEED").unwrap_or(clock);
    let mut random = Random::new(
        seed ^ target
            .name
            .bytes()
            .fold(0, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte))),
    );
    let (mut kept, mut kinds, mut count) = (Vec::new(), BTreeSet::new(), 0);
    loop {
        let input = match target.seeds.get(usize::try_from(count).unwrap()) {
            Some(seed) => seed.clone(),
            None => next(&mut random, target, &kept),
        };
        match attempt(check, &input) {
            Ok(kind) => {
                if kinds.insert(kind) && kept.len() < KEPT_MAX {
                    kept.push(input);
                }
            }
            Err(reason) => fail(target, check, &input, &format!("input {count} of seed {seed}: {reason}")),
        }
        count += 1;
        let is_over = match until {
            // Looking at the clock costs as much as a small target.
            Some(until) => count % 64 == 0 && Instant::now() >= until,
            None => count >= target.inputs,
        };
        if is_over {
            break;
        }
    }
    println!(
        "fuzz {}: {count} inputs, {} kinds, seed {seed}, CPU {} s",
        target.name,
        kinds.len(),
        cpu_seconds()
    );
    assert!(kinds.len() >= target.kinds_min, "{}: only {kinds:?}", target.name);
}

/// What this thread computed (proc(5), schedstat): on a busy machine an hour by the clock is less than that.
fn cpu_seconds() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split_once(' ').unwrap().0.parse::<u64>().unwrap() / 1_000_000_000
}

fn next(random: &mut Random, target: &Target, kept: &[Vec<u8>]) -> Vec<u8> {
    let pick = |random: &mut Random| {
        let at = random.below(target.seeds.len() + kept.len() + 1);
        match target.seeds.iter().chain(kept).nth(at) {
            Some(input) => input.clone(),
            None => (target.make)(random),
        }
    };
    let mut input = if random.once_in(2) { (target.make)(random) } else { pick(random) };
    if !random.once_in(4) {
        let other = pick(random);
        mutate(random, &mut input, &other, target.words);
    }
    input
}

/// A panic is a fault like any other.
fn attempt(check: Check<'_>, input: &[u8]) -> Result<String, String> {
    catch_unwind(AssertUnwindSafe(|| check(input))).unwrap_or_else(|_| Err("a panic, see above".to_owned()))
}

#[track_caller]
fn fail(target: &Target, check: Check<'_>, input: &[u8], reason: &str) -> ! {
    let (small, small_reason) = shrink(check, input);
    panic!(
        "fuzz {}: {reason}\nb\"{}\"\nas small as it gets, {} bytes: {small_reason}\nb\"{}\"",
        target.name,
        input.escape_ascii(),
        small.len(),
        small.escape_ascii(),
    );
}

/// Takes pieces away, large ones first, as long as something stays wrong.
fn shrink(check: Check<'_>, input: &[u8]) -> (Vec<u8>, String) {
    let (mut small, mut reason) = (input.to_vec(), String::new());
    let (mut size, mut tries) = (input.len(), 0);
    while size > 0 && tries < SHRINKS_MAX {
        let mut at = 0;
        while at < small.len() && tries < SHRINKS_MAX {
            let mut less = small.clone();
            less.drain(at..(at + size).min(less.len()));
            tries += 1;
            match attempt(check, &less) {
                Err(found) => (small, reason) = (less, found),
                Ok(_) => at += size,
            }
        }
        size /= 2;
    }
    (small, reason)
}

/// `Err` with a text unless it holds.
macro_rules! ensure {
    ($holds:expr, $($text:tt)*) => {
        if !$holds {
            return Err(format!($($text)*));
        }
    };
}
pub(crate) use ensure;

/// The loop itself finds, keeps and shrinks: a fuzzer that cannot fail proves nothing.
#[test]
fn a_planted_fault_is_found_and_made_small() {
    let target = Target {
        name: "planted",
        inputs: 200_000,
        seeds: vec![b"some text".to_vec()],
        words: &["needle"],
        make: |random| random.number().into_bytes(),
        kinds_min: 2,
    };
    let check = |input: &[u8]| {
        let at = input.windows(6).position(|window| window == b"needle");
        ensure!(at.is_none_or(|at| at < 20), "found");
        Ok(format!("{}", at.unwrap_or(0).min(15)))
    };
    let outcome = catch_unwind(|| run(&target, &check));
    let message = *outcome.expect_err("nothing was found").downcast::<String>().unwrap();
    assert!(message.contains("as small as it gets, 26 bytes: found\n"), "{message}");
    assert!(message.ends_with("needle\""), "{message}");
}
