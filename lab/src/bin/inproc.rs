//! The program that is counted by callgrind: `scalws-inproc respond|file COUNT DIRECTORY` serves so many
//! requests in memory and ends. `scalws-inproc check|record` runs it and compares.

use std::path::Path;
use std::process::ExitCode;

use scalws_lab::inproc::{OneFile, PING, REQUEST, RESPOND, UNCHANGED, kept, serve, site};
use scalws_lab::{Refusal, instructions};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["check"] => instructions::check(),
        ["record"] => instructions::record(),
        [what, count, directory] => run(what, count, Path::new(directory)),
        _ => Err(Refusal::new("expected check, record, or respond|file COUNT DIRECTORY")),
    };
    match outcome {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(refusal) => {
            eprintln!("scalws-inproc: {refusal}");
            ExitCode::FAILURE
        }
    }
}

fn run(what: &str, count: &str, directory: &Path) -> Result<String, Refusal> {
    let count = count.parse().map_err(|_| Refusal::new(format!("expected a number, found {count:?}")))?;
    let bytes = match what {
        "respond" => serve(Box::new(site(RESPOND, directory)?), PING, count)?,
        "file" => serve(Box::new(OneFile::new(&directory.join("1k.bin"))?), REQUEST, count)?,
        "kept" => serve(Box::new(kept(directory)?), REQUEST, count)?,
        "unchanged" => serve(Box::new(kept(directory)?), UNCHANGED, count)?,
        "missing" => serve(Box::new(site(RESPOND, directory)?), REQUEST, count)?,
        _ => {
            return Err(Refusal::new(format!(
                "expected respond, file, kept, unchanged or missing, found {what:?}"
            )));
        }
    };
    Ok(format!("{bytes} bytes"))
}
