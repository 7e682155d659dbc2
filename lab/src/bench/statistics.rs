//! Medians with their spread, and ratios of rounds: a median of ratios, never a ratio of medians.

/// What several rounds gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle one; of an even number the mean of both in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of all values; `None` where there is none, or one that is no number.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().collect();
        if values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Spread { median, min, max })
    }

    /// As a ratio it says nothing: 1 is within what the rounds gave.
    #[must_use]
    pub fn is_tie(&self) -> bool {
        self.min <= 1.0 && 1.0 <= self.max
    }
}

/// The ratio of two rows by what both measured in the same round: `(round, value)` on each side. A round
/// that one of them lacks is left out.
#[must_use]
pub fn ratio(of: &[(u32, f64)], to: &[(u32, f64)]) -> Option<Spread> {
    Spread::of(of.iter().filter_map(|(round, value)| {
        let (_, other) = to.iter().find(|(other, _)| other == round)?;
        Some(value / other)
    }))
}

/// The places in round `round` (from 0): A B C, then B C A, then C A B.
#[must_use]
pub fn rotation(round: usize, number: usize) -> Vec<usize> {
    (0..number).map(|place| (place + round) % number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(values: &[f64], median: f64, min: f64, max: f64) {
        assert_eq!(Spread::of(values.iter().copied()), Some(Spread { median, min, max }));
    }

    #[test]
    fn medians() {
        check(&[3.0], 3.0, 3.0, 3.0);
        check(&[9.0, 1.0, 2.0], 2.0, 1.0, 9.0);
        check(&[4.0, 1.0, 3.0, 2.0], 2.5, 1.0, 4.0);
        check(&[5.0, 5.0, 1.0, 100.0, 6.0], 5.0, 1.0, 100.0);
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([1.0, f64::NAN]), None);
        assert_eq!(Spread::of([1.0, f64::INFINITY]), None);
    }

    /// A machine that slows down by half in the second round moves both sides: the ratios stay, while the
    /// medians of each side would give 12 ÷ 10.
    #[test]
    fn ratios_are_those_of_the_rounds() {
        let of = [(1, 5.0), (2, 12.0), (3, 18.0)];
        let to = [(1, 10.0), (2, 24.0), (3, 9.0)];
        let found = ratio(&of, &to).unwrap();
        assert_eq!(found, Spread { median: 0.5, min: 0.5, max: 2.0 });
        assert!(found.is_tie());
        assert!(!ratio(&of[..2], &to).unwrap().is_tie());
        assert_eq!(ratio(&of[..1], &to[1..]), None);
        assert_eq!(ratio(&of, &[(1, 0.0)]), None, "nothing is divided by nothing");
    }

    #[test]
    fn rounds_rotate() {
        assert_eq!(rotation(0, 3), [0, 1, 2]);
        assert_eq!(rotation(1, 3), [1, 2, 0]);
        assert_eq!(rotation(5, 3), [2, 0, 1]);
        assert_eq!(rotation(4, 1), [0]);
        assert!(rotation(4, 0).is_empty());
    }
}
