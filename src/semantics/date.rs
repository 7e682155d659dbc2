//! HTTP dates (RFC 9110 §5.6.7) and log times (RFC 3339) from plain seconds since the Unix epoch.
//!
//! Own code because the server's dates come from CLOCK_REALTIME_COARSE as integers, and the known
//! crates panic on or refuse times from before 1970 (case B08): with `httpdate` an If-Unmodified-Since
//! of 1969 was no date, and so held for every file.

use crate::semantics::head::trim;

/// The time that a field value says, in any of the three forms of RFC 9110 §5.6.7; `None` for
/// anything else. The name of the day has to be one, and need not be that of the date: the RFC asks
/// for robustness there. `now_s` gives two digits of a year their century.
#[must_use]
pub fn parse_http_date(value: &[u8], now_s: i64) -> Option<i64> {
    let value = trim(value);
    let comma = memchr::memchr(b',', value);
    let (name, rest) = value.split_at_checked(comma.unwrap_or(3))?;
    let is_name =
        |letters: usize| DAY_NAMES.iter().any(|day| name == &day.as_bytes()[..letters.min(day.len())]);
    let mut date = match comma {
        Some(3) if is_name(3) => fill(b", dd bbb yyyy hh:mm:ss GMT", rest)?,
        Some(_) if is_name(usize::MAX) => fill(b", dd-bbb-yy hh:mm:ss GMT", rest)?,
        None if is_name(3) => fill(b" bbb ed hh:mm:ss yyyy", rest)?,
        _ => return None,
    };
    if comma.is_some_and(|at| at > 3) {
        // What seems to be more than 50 years in the future is the past.
        date.year += civil(now_s).year.div_euclid(100) * 100;
        let fifty_earlier = Civil { year: date.year - 50, ..date };
        date.year -= if fifty_earlier.seconds() > now_s { 100 } else { 0 };
    }
    date.is_valid().then(|| date.seconds())
}

/// Reads `value` by a form: `y`, `d`, `h`, `m`, `s` are digits, `e` a digit or a space, `bbb` a month,
/// and the rest is itself.
fn fill(form: &[u8], value: &[u8]) -> Option<Civil> {
    if form.len() != value.len() {
        return None;
    }
    let mut date = Civil { year: 0, month: 0, day: 0, weekday: 0, hour: 0, minute: 0, second: 0 };
    let mut month = [0; 3];
    for (place, byte) in form.iter().zip(value) {
        let number = match place {
            b'y' => &mut date.year,
            b'd' | b'e' => &mut date.day,
            b'h' => &mut date.hour,
            b'm' => &mut date.minute,
            b's' => &mut date.second,
            b'b' => {
                month = [month[1], month[2], *byte];
                continue;
            }
            literal if literal == byte => continue,
            _ => return None,
        };
        match byte {
            b'0'..=b'9' => *number = *number * 10 + i64::from(byte - b'0'),
            b' ' if *place == b'e' => {}
            _ => return None,
        }
    }
    date.month = MONTHS.iter().position(|known| known.as_bytes() == month)?;
    Some(date)
}

/// Length of an IMF-fixdate.
pub const HTTP_DATE_BYTES: usize = 29;

/// The epoch was a Thursday; the short names are the first three letters.
const DAY_NAMES: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

#[derive(Clone, Copy)]
struct Civil {
    year: i64,
    /// From 0.
    month: usize,
    day: i64,
    weekday: usize,
    hour: i64,
    minute: i64,
    second: i64,
}

/// Days to civil date by the era arithmetic of the proleptic Gregorian calendar.
fn civil(seconds: i64) -> Civil {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Eras of 400 years that begin on 1 March of year 0.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let month = (month_from_march + 2) % 12;
    Civil {
        year: year_of_era + era * 400 + i64::from(month <= 1),
        month: usize::try_from(month).unwrap_or(0),
        day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
        weekday: usize::try_from(days.rem_euclid(7)).unwrap_or(0),
        hour: rest / 3600,
        minute: rest / 60 % 60,
        second: rest % 60,
    }
}

impl Civil {
    /// Seconds since the epoch: `civil` the other way.
    fn seconds(&self) -> i64 {
        let month = i64::try_from(self.month).unwrap_or(0);
        let year = self.year - i64::from(month <= 1);
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let day_of_year = (153 * ((month + 10) % 12) + 2) / 5 + self.day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = era * 146_097 + day_of_era - 719_468;
        ((days * 24 + self.hour) * 60 + self.minute) * 60 + self.second
    }

    /// Whether there is such a day and such a time of it; 23:59:60 is one (a leap second).
    fn is_valid(&self) -> bool {
        let Civil { year, month, day, hour, minute, second, .. } = *self;
        // A day that its month does not have is one of the next month.
        let midnight = Civil { hour: 0, minute: 0, second: 0, ..*self };
        let is_day = civil(midnight.seconds());
        (is_day.year, is_day.month, is_day.day) == (year, month, day)
            && hour <= 23
            && minute <= 59
            && (second <= 59 || (hour, minute, second) == (23, 59, 60))
    }
}

/// The time of a certificate (RFC 5280 §4.1.2.5): `YYMMDDhhmmssZ`, in which 50 to 99 are years of the last
/// century, or the same with four digits of a year.
#[must_use]
pub fn certificate_time(text: &[u8]) -> Option<i64> {
    let digits = text.strip_suffix(b"Z").filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
    let number = |digits: &[u8]| digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
    let (year, rest) = digits.split_at_checked(digits.len().checked_sub(10)?)?;
    let year = match (year.len(), number(year)) {
        (2, year @ 0..=49) => 2000 + year,
        (2, year) => 1900 + year,
        (4, year) => year,
        _ => return None,
    };
    let part = |at: usize| number(&rest[2 * at..2 * at + 2]);
    let month =
        usize::try_from(part(0)).ok().and_then(|month| month.checked_sub(1)).filter(|month| *month < 12)?;
    let civil =
        Civil { year, month, day: part(1), weekday: 0, hour: part(2), minute: part(3), second: part(4) };
    civil.is_valid().then(|| civil.seconds())
}

/// The IMF-fixdate of a time; `None` outside the years 0–9999, which the form cannot say.
#[must_use]
pub fn http_date(seconds: i64) -> Option<String> {
    let Civil { year, month, day, weekday, hour, minute, second } = civil(seconds);
    (0..=9999).contains(&year).then(|| {
        let (weekday, month) = (&DAY_NAMES[weekday][..3], MONTHS[month]);
        format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
    })
}

/// `2026-11-30T11:45:34.123Z` (RFC 3339), UTC always.
#[must_use]
pub fn rfc3339(seconds: i64, milliseconds: u32) -> String {
    let Civil { year, month, day, hour, minute, second, .. } = civil(seconds);
    let month = month + 1;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

/// `30/Nov/2026:11:45:34 +0000`, the time of the combined log format.
#[must_use]
pub fn common_log(seconds: i64) -> String {
    let Civil { year, month, day, hour, minute, second, .. } = civil(seconds);
    format!("{day:02}/{}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000", MONTHS[month])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_three_forms_are_read() {
        // Mon, 30 Nov 2026
        let now_s = 1_796_000_000;
        let check =
            |value: &str, expected| assert_eq!(parse_http_date(value.as_bytes(), now_s), expected, "{value}");
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777));
        check("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777));
        check(" Sun Nov  6 08:49:37 1994 ", Some(784_111_777));
        check("Sun Nov 06 08:49:37 1994", Some(784_111_777));
        check("Mon, 06 Nov 1994 08:49:37 GMT", Some(784_111_777));
        check("Sat, 31 Dec 2016 23:59:60 GMT", Some(1_483_228_800));
        check("Tue, 29 Feb 2000 00:00:00 GMT", Some(951_782_400));
        check("Fri, 01 Jan 1960 00:00:00 GMT", Some(-315_619_200));
        check("Sat Jan  1 00:00:00 0000", Some(-62_167_219_200));
        check("Fri, 31 Dec 9999 23:59:59 GMT", Some(253_402_300_799));
        for bad in [
            "",
            "Sun",
            "784111777",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 32 Nov 1994 08:49:37 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Wed, 29 Feb 1995 00:00:00 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:49:60 GMT",
            "Sun, 06 Nov 1994  8:49:37 GMT",
            "sun, 06 nov 1994 08:49:37 gmt",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06-Nov-94 08:49:37 GMT",
            "Sunday, 06 Nov 1994 08:49:37 GMT",
            "Sun Nov 6 08:49:37 1994",
            "Sun Nov  6 08:49:37 94",
            "Foo, 06 Nov 1994 08:49:37 GMT",
            "\u{e9}",
        ] {
            check(bad, None);
        }
    }

    /// "More than 50 years in the future" is the past; anything else is of this century. Fixed centuries
    /// (70 to 99 are the last one) say 1976 for 2076.
    #[test]
    fn times_of_certificates_are_read() {
        let check = |text: &str, expected| assert_eq!(certificate_time(text.as_bytes()), expected, "{text}");
        check("700101000000Z", Some(0));
        check("491231235959Z", Some(2_524_607_999));
        check("500101000000Z", Some(-631_152_000));
        check("20500101000000Z", Some(2_524_608_000));
        check("99991231235959Z", Some(253_402_300_799));
        for wrong in [
            "",
            "Z",
            "0Z",
            "7001010000Z",
            "700101000000",
            "700101000000+0000",
            "701301000000Z",
            "700230000000Z",
            "700101240000Z",
            "70010100000xZ",
            "19700101000000.5Z",
            "700001000000Z",
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn two_digits_of_a_year_are_within_fifty_years() {
        let check = |value: &str, year: &str| {
            let found = parse_http_date(value.as_bytes(), 1_796_000_000).and_then(http_date);
            assert_eq!(found.as_deref().and_then(|date| date.get(12..16)), Some(year), "{value}");
        };
        check("Monday, 30-Nov-26 00:00:00 GMT", "2026");
        check("Monday, 01-Jan-76 00:00:00 GMT", "2076");
        check("Monday, 31-Dec-76 00:00:00 GMT", "1976");
        check("Monday, 01-Jan-77 00:00:00 GMT", "1977");
        check("Monday, 01-Jan-00 00:00:00 GMT", "2000");
    }

    #[test]
    fn what_is_written_is_read_again() {
        for seconds in (-62_167_219_200..253_402_300_800).step_by(86_400 * 37 + 12_347) {
            let written = http_date(seconds).unwrap();
            assert_eq!(parse_http_date(written.as_bytes(), 0), Some(seconds), "{written}");
        }
    }

    #[test]
    fn dates_are_those_of_the_rfc() {
        let check = |seconds, expected: Option<&str>| assert_eq!(http_date(seconds).as_deref(), expected);
        check(784_111_777, Some("Sun, 06 Nov 1994 08:49:37 GMT"));
        check(0, Some("Thu, 01 Jan 1970 00:00:00 GMT"));
        check(-1, Some("Wed, 31 Dec 1969 23:59:59 GMT"));
        check(951_782_400, Some("Tue, 29 Feb 2000 00:00:00 GMT"));
        check(4_102_444_799, Some("Thu, 31 Dec 2099 23:59:59 GMT"));
        check(253_402_300_800, None);
        check(i64::MIN / 4, None);
        assert_eq!(rfc3339(784_111_777, 7), "1994-11-06T08:49:37.007Z");
        assert_eq!(common_log(784_111_777), "06/Nov/1994:08:49:37 +0000");
    }
}
