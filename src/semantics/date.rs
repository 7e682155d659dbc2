//! HTTP dates (RFC 9110 §5.6.7) and log times (RFC 3339) from plain seconds since the Unix epoch.
//!
//! Own code because the server's dates come from CLOCK_REALTIME_COARSE as integers, and the known
//! crates panic on or refuse files from before 1970 (case B08).

/// The time that a field value says, in any of the three forms of RFC 9110 §5.6.7; `None` for
/// anything else. Read by `httpdate`; whatever it takes is a time from 1970 on.
#[must_use]
pub fn parse_http_date(value: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(value.trim_ascii()).ok()?;
    let time = httpdate::parse_http_date(text).ok()?;
    let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}

/// Length of an IMF-fixdate.
pub const HTTP_DATE_BYTES: usize = 29;

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

struct Civil {
    year: i64,
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

/// The IMF-fixdate of a time; `None` outside the years 0–9999, which the form cannot say.
#[must_use]
pub fn http_date(seconds: i64) -> Option<String> {
    let Civil { year, month, day, weekday, hour, minute, second } = civil(seconds);
    (0..=9999).contains(&year).then(|| {
        let (weekday, month) = (DAYS[weekday], MONTHS[month]);
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
        let check =
            |value: &str, expected| assert_eq!(parse_http_date(value.as_bytes()), expected, "{value}");
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777));
        check("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777));
        check(" Sun Nov  6 08:49:37 1994 ", Some(784_111_777));
        for bad in ["", "784111777", "Sun, 06 Nov 1994 08:49:37", "Sun, 32 Nov 1994 08:49:37 GMT", "\u{e9}"] {
            check(bad, None);
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
