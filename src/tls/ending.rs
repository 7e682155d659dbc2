//! How near the end of a certificate is, for those who tell of it.

use super::pair::Pair;
use crate::limits::TLS_SOON_S;
use crate::sys::clock::wall_coarse_s;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It is not valid yet.
    Early,
    /// There is time.
    Far,
    /// It is time to care for the next one.
    Soon,
    /// It is over.
    Past,
}

impl Ending {
    /// Now, by the wall clock.
    #[must_use]
    pub fn of(pair: &Pair) -> Ending {
        Ending::at(pair.first_s, pair.last_s, wall_coarse_s())
    }

    fn at(first_s: i64, last_s: i64, now_s: i64) -> Ending {
        let soon_s = TLS_SOON_S.min(last_s.saturating_sub(first_s) / 5);
        match last_s.saturating_sub(now_s) {
            ..0 => Ending::Past,
            _ if now_s < first_s => Ending::Early,
            left_s if left_s < soon_s => Ending::Soon,
            _ => Ending::Far,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soon_is_two_weeks_or_a_fifth() {
        const DAY: i64 = 86_400;
        let check =
            |life: i64, at: i64, expected| assert_eq!(Ending::at(0, life * DAY, at), expected, "{life} {at}");
        check(90, -1, Ending::Early);
        check(90, 76 * DAY, Ending::Far);
        check(90, 76 * DAY + 1, Ending::Soon);
        check(90, 90 * DAY, Ending::Soon);
        check(90, 90 * DAY + 1, Ending::Past);
        check(5, 4 * DAY, Ending::Far);
        check(5, 4 * DAY + 1, Ending::Soon);
    }
}
