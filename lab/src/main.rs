//! The lab's command line; what it does stands in the library.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures HTTP servers and refuses numbers that it did not check.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Names every scenario.
    List,
    /// Compares servers in interleaved, rotated rounds.
    Bench(Box<scalws_lab::bench::Arguments>),
    /// Looks into a server: a dated folder with numbers, flamegraphs and a page.
    Profile(Box<scalws_lab::profile::Arguments>),
    /// What the lab asks in its own containers.
    #[command(subcommand, hide = true)]
    Inside(scalws_lab::containers::inside::Inside),
    /// Runs a plan of load and prints its outcome as JSON.
    Load(scalws_lab::load::Load),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Bench(arguments) => scalws_lab::bench::run(&arguments),
        Command::Profile(arguments) => scalws_lab::profile::run(&arguments),
        Command::Inside(inside) => scalws_lab::containers::inside::run(&inside),
        Command::List => {
            for scenario in scalws_lab::scenario::SCENARIOS {
                println!("{:16} {}", scenario.name, scenario.what);
            }
            ExitCode::SUCCESS
        }
        Command::Load(load) => match load.run() {
            Ok(outcome) => {
                println!("{outcome}");
                ExitCode::SUCCESS
            }
            Err(refusal) => {
                eprintln!("scalws-lab: {refusal}");
                ExitCode::FAILURE
            }
        },
    }
}
