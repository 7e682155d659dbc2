//! Dates that are right, deadlines that do not follow the wall clock (H09).

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::{Client, Launch, Server, Site, assert_same, noise};

#[allow(
    clippy::disallowed_methods,
    reason = "the test compares with the wall clock, it sets no deadline by it"
)]
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Seconds since 1970 of an IMF-fixdate, read strictly and without the code under test.
fn seconds_of(date: &str) -> u64 {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    const DAYS: &str = "ThuFriSatSunMonTueWed";
    let number = |range: std::ops::Range<usize>| date[range].parse::<u64>().unwrap();
    assert_eq!(date.len(), 29, "{date}");
    assert!(date.ends_with(" GMT") && &date[3..5] == ", ", "{date}");
    let month = MONTHS.find(&date[8..11]).expect("a month") as u64 / 3 + 1;
    let (day, year) = (number(5..7), number(12..16));
    // Days since 1970 of a civil date: the year starts in March, so that the leap day is its last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1 - 719_468;
    assert_eq!(DAYS.find(&date[..3]), Some((days % 7 * 3) as usize), "{date} is another day of the week");
    days * 86_400 + number(17..19) * 3600 + number(20..22) * 60 + number(23..25)
}

#[test]
fn the_reader_of_dates_is_right() {
    assert_eq!(seconds_of("Sun, 06 Nov 1994 08:49:37 GMT"), 784_111_777);
    assert_eq!(seconds_of("Thu, 29 Feb 2024 00:00:00 GMT"), 1_709_164_800);
}

/// The Date of an answer lies within what the clock said before and after; a second for the coarse
/// clock, another because the Date is cut to whole seconds.
#[track_caller]
fn check_date(client: &mut Client, target: &str, shift_s: i64) {
    let before = now_s().checked_add_signed(shift_s).unwrap();
    let answer = client.get(target);
    let after = now_s().checked_add_signed(shift_s).unwrap();
    let date = seconds_of(answer.field("date").expect("a Date"));
    assert!(before - 1 <= date && date <= after + 1, "{date} is not within {before}..{after}");
}

/// Case H09. The text of the Date is kept and renewed by a timer, which does not run while the
/// worker sleeps: the first answer after a quiet night has yesterday's date.
#[test]
fn the_date_is_right_after_a_pause() {
    let site = Site::sample();
    let server = Server::with(&site, "workers = 1", &format!("{}{}", site.route(), Server::RESPOND));
    let mut client = server.client();
    for target in ["/x.txt", "/healthz", "/none"] {
        check_date(&mut client, target, 0);
    }
    for target in ["/x.txt", "/healthz", "/none"] {
        std::thread::sleep(Duration::from_secs(3));
        check_date(&mut client, target, 0);
    }
}

/// Case H09. Somebody sets the clock by an hour while a download runs: a deadline in wall time cuts
/// it at once, or holds the connection for an hour; the Date must follow, nothing else.
#[test]
fn a_step_of_the_wall_clock_moves_dates_and_no_deadlines() {
    let libraries = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let library = libraries
        .iter()
        .map(|path| Path::new(path).join("faketime/libfaketime.so.1"))
        .find(|path| path.exists());
    let Some(library) = library else { skip!("needs libfaketime") };
    let site = Site::sample();
    let content = noise(1, 32 << 20);
    site.file("big", &content);
    let clock = site.beside("clock", b"+0");
    let tables = format!("[limits]\nidle_timeout = \"30s\"\n{}{}", site.route(), Server::RESPOND);
    let mut launch = Launch::new(&site, "workers = 1", &tables);
    launch.command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", &clock);
    launch.command.env("FAKETIME_NO_CACHE", "1").env("DONT_FAKE_MONOTONIC", "1");
    let server = launch.start();
    let mut client = server.client();
    let mut download = server.client();
    rustix::net::sockopt::set_socket_recv_buffer_size(&download.stream, 64 * 1024).unwrap();
    download.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    let (_, length) = download.head();
    check_date(&mut client, "/healthz", 0);
    for (text, shift_s) in [("+3600", 3600), ("-3600", -3600)] {
        std::fs::write(&clock, text).unwrap();
        std::thread::sleep(Duration::from_secs(2));
        check_date(&mut client, "/healthz", shift_s);
    }
    assert_same(&download.bytes(length), &content, "the download across two steps");
}
