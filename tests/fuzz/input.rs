//! Where inputs come from: a generator of random numbers, and mutations of inputs that are there.

/// Longest input: beyond every bound of a target's own limits, and short enough for thousands a second.
const BYTES_MAX: usize = 8 * 1024;

/// splitmix64: small, and the same everywhere for the same seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Less than `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub fn of<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }

    /// Some of `make`, up to `most`, with `between` them.
    pub fn several(&mut self, most: usize, between: &str, make: impl Fn(&mut Random) -> String) -> String {
        let made: Vec<String> = (0..self.below(most + 1)).map(|_| make(self)).collect();
        made.join(between)
    }

    /// A number where they go wrong: small, at a power of two, or beyond all.
    pub fn number(&mut self) -> String {
        match self.below(4) {
            0 | 1 => self.below(60).to_string(),
            2 => {
                let power = 1_u128 << self.below(70);
                (power + self.below(3) as u128 - u128::from(power > 0)).to_string()
            }
            _ => "9".repeat(1 + self.below(25)),
        }
    }
}

/// Changes an input in one to eight places. `other` is an input to take pieces from, `words` what
/// means something to the target.
pub fn mutate(random: &mut Random, input: &mut Vec<u8>, other: &[u8], words: &[&str]) {
    for _ in 0..1 << random.below(4) {
        once(random, input, other, words);
    }
    input.truncate(BYTES_MAX);
}

fn once(random: &mut Random, input: &mut Vec<u8>, other: &[u8], words: &[&str]) {
    let (start, end) = piece(random, input.len());
    let at = random.below(input.len() + 1);
    match random.below(10) {
        0 => {
            let bit = 1_u8 << random.below(8);
            input.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= bit);
        }
        1 => {
            let byte = random.next().to_le_bytes()[0];
            input.iter_mut().skip(at).take(1).for_each(|old| *old = byte);
        }
        2 => drop(input.drain(start..end)),
        3 => {
            let twice = input[start..end].to_vec();
            input.splice(at..at, twice);
        }
        4 | 5 => {
            let word = random.of(words).as_bytes().to_vec();
            input.splice(at..at, word);
        }
        6 => {
            let word = random.of(words).as_bytes().to_vec();
            input.splice(start..end, word);
        }
        7 => {
            let (from, to) = piece(random, other.len());
            input.splice(start..end, other[from..to].to_vec());
        }
        8 => {
            // Another number in place of one.
            let Some(digits) = input.iter().skip(at).position(u8::is_ascii_digit).map(|found| at + found)
            else {
                return;
            };
            let length = input[digits..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number = random.number().into_bytes();
            input.splice(digits..digits + length, number);
        }
        _ => {
            // Long runs find the bounds.
            let run = input[start..end.min(start + 40)].to_vec();
            let count = random.below(400);
            input.splice(at..at, run.repeat(count));
        }
    }
}

/// Start and end of a piece, seldom a long one.
fn piece(random: &mut Random, length: usize) -> (usize, usize) {
    let start = random.below(length + 1);
    let bound = if random.once_in(4) { length - start } else { (length - start).min(8) };
    (start, start + random.below(bound + 1))
}
