//! A second reading of RFC 9110 §8.8, §13, §14 and §15, held against the server over real sockets.
//!
//! The rules stand in `dates`, `tags`, `ranges`, `codings` and `conditions`, written from the text of
//! the RFC and not from `src/`; where it leaves a choice they take ours, with the number of its ADR.
//! `files` and `requests` make thousands of combinations, `answer` says what each must get.
//! `tests/fuzz` uses the same rules.

mod answer;
mod codings;
mod conditions;
mod dates;
mod files;
mod ranges;
mod requests;
mod tags;

use std::time::UNIX_EPOCH;

use proptest::collection::vec;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

use self::files::File;
use self::requests::{Plan, Request};
use crate::support::{Client, Server, Site};

/// Requests of one read: pipelined, so that a body of another length than said shows in the next one.
const PIPELINED_MAX: usize = 16;

/// Sends the requests at once and looks at each answer; the last, plain one shows that the connection
/// still works.
fn check(client: &mut Client, files: &[File], plans: &[Plan]) -> Result<(), String> {
    let requests: Vec<Request> = plans.iter().map(|plan| plan.request(files)).collect();
    let bytes: String = requests.iter().map(|request| request.bytes.as_str()).collect();
    client.send(bytes);
    // Nobody turns the clock: the second of now only has to lie between the files of the past and of 2099.
    let now_s = UNIX_EPOCH.elapsed().unwrap().as_secs().try_into().unwrap();
    for request in &requests {
        let file = &files[request.file];
        let response = if request.method == "HEAD" { client.response_to_head() } else { client.response() };
        if let Some(fault) = answer::fault(request, file, &response, now_s) {
            let (request, came) = (request.bytes.escape_debug(), &response.head);
            return Err(format!("{request}\nfor {}\n{fault}\ncame {came}", file.describe()));
        }
    }
    Ok(())
}

/// Thousands of requests for files in odd states: status, exact fields and bytes of each answer.
#[test]
fn every_answer_is_the_one_of_the_rfc() {
    let (site, files) = (Site::new(), files::files());
    files::write(&site, &files);
    let rule = format!(", cache_control = [{{ glob = \"*.css\", value = \"{}\" }}] }}", files::CACHE_CONTROL);
    let server = Server::with(&site, "", &site.route().replace(" }", &rule));
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(400);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config)
        .run(&vec(requests::plan(files.len()), 1..=PIPELINED_MAX), |plans| {
            check(&mut server.client(), &files, &plans).map_err(TestCaseError::fail)
        });
    match outcome {
        Ok(()) => {}
        Err(TestError::Abort(reason)) => panic!("{reason}"),
        Err(TestError::Fail(reason, plans)) => {
            let bytes: Vec<String> = plans.iter().map(|plan| plan.request(&files).bytes).collect();
            panic!("{reason}\nall that was sent: {}", bytes.concat().escape_debug());
        }
    }
}

/// A model that looks at what it judges agrees with it.
#[test]
fn the_model_knows_nothing_of_the_server() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/model");
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains(concat!("scalws", "::")), "{}", path.display());
    }
}
