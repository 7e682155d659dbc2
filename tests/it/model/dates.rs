//! HTTP-date (RFC 9110 §5.6.7): read in its three forms, written in them, years counted one by one.

/// Year, month from 1, day, hour, minute, second.
type Moment = (i64, usize, i64, i64, i64, i64);

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// The epoch was a Thursday.
const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Imf,
    Rfc850,
    Asctime,
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of_year(year: i64) -> i64 {
    if is_leap(year) { 366 } else { 365 }
}

fn days_of_month(year: i64, month: usize) -> i64 {
    [31, if is_leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1]
}

fn to_seconds(moment: Moment) -> i64 {
    let (year, month, day, hour, minute, second) = moment;
    let years: i64 = match year {
        1970.. => (1970..year).map(days_of_year).sum(),
        _ => -(year..1970).map(days_of_year).sum::<i64>(),
    };
    let months: i64 = (1..month).map(|month| days_of_month(year, month)).sum();
    (((years + months + day - 1) * 24 + hour) * 60 + minute) * 60 + second
}

fn to_moment(seconds: i64) -> Moment {
    let (mut days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (mut year, mut month) = (1970, 1);
    while days < 0 {
        year -= 1;
        days += days_of_year(year);
    }
    while days >= days_of_year(year) {
        days -= days_of_year(year);
        year += 1;
    }
    while days >= days_of_month(year, month) {
        days -= days_of_month(year, month);
        month += 1;
    }
    (year, month, days + 1, rest / 3600, rest / 60 % 60, rest % 60)
}

/// A time in one of the forms; two digits of the year in the second.
pub fn print(seconds: i64, form: Form) -> String {
    let (year, month, day, hour, minute, second) = to_moment(seconds);
    let day_name = DAYS[usize::try_from(seconds.div_euclid(86_400).rem_euclid(7)).expect("below 7")];
    let (short, month, time) =
        (&day_name[..3], MONTHS[month - 1], format!("{hour:02}:{minute:02}:{second:02}"));
    match form {
        Form::Imf => format!("{short}, {day:02} {month} {year:04} {time} GMT"),
        Form::Rfc850 => format!("{day_name}, {day:02}-{month}-{:02} {time} GMT", year % 100),
        Form::Asctime => format!("{short} {month} {day:2} {time} {year:04}"),
    }
}

/// What a value says, in seconds since the epoch. The name of the day has to be one, and need not be
/// that of the date: §5.6.7 encourages to be robust, and the grammar cannot say it.
pub fn read(value: &[u8], now_s: i64) -> Option<i64> {
    let text = std::str::from_utf8(value).ok()?;
    let words: Vec<&str> = text.split(' ').collect();
    let moment = match words[..] {
        [day_name, day, month, year, time, "GMT"] if is_day(day_name.strip_suffix(',')?, 3) => {
            moment(number(year, 4)?, month, number(day, 2)?, time)?
        }
        [day_name, date, time, "GMT"] if is_day(day_name.strip_suffix(',')?, 0) => {
            let [day, month, year] = date.split('-').collect::<Vec<_>>()[..] else { return None };
            two_digit_year(moment(number(year, 2)?, month, number(day, 2)?, time)?, now_s)?
        }
        [day_name, month, "", day, time, year] if is_day(day_name, 3) => {
            moment(number(year, 4)?, month, number(day, 1)?, time)?
        }
        [day_name, month, day, time, year] if is_day(day_name, 3) => {
            moment(number(year, 4)?, month, number(day, 2)?, time)?
        }
        _ => return None,
    };
    // A day that its month does not have.
    (moment.2 <= days_of_month(moment.0, moment.1)).then(|| to_seconds(moment))
}

/// "MUST interpret a timestamp that appears to be more than 50 years in the future as representing the
/// most recent year in the past that had the same last two digits."
fn two_digit_year(moment: Moment, now_s: i64) -> Option<Moment> {
    let now = to_moment(now_s);
    let mut moment = moment;
    moment.0 += now.0 - now.0 % 100;
    if (moment.0 - 50, moment.1, moment.2, moment.3, moment.4, moment.5) > now {
        moment.0 -= 100;
    }
    Some(moment)
}

/// The whole name, or its first `letters`.
fn is_day(name: &str, letters: usize) -> bool {
    DAYS.iter().any(|day| name == if letters == 0 { day } else { &day[..letters] })
}

/// `number` is "2DIGIT" and the like: exactly so many.
fn number(text: &str, digits: usize) -> Option<i64> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

fn moment(year: i64, month: &str, day: i64, time: &str) -> Option<Moment> {
    let month = MONTHS.iter().position(|known| *known == month)? + 1;
    let [hour, minute, second] = time.split(':').collect::<Vec<_>>()[..] else { return None };
    let (hour, minute, second) = (number(hour, 2)?, number(minute, 2)?, number(second, 2)?);
    // "00:00:00 - 23:59:60 (leap second)"
    let is_time = hour <= 23 && minute <= 59 && (second <= 59 || (hour, minute, second) == (23, 59, 60));
    (day >= 1 && is_time).then_some((year, month, day, hour, minute, second))
}
