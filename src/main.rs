//! Arguments, then the config, then the work, then the exit code.

use std::process::ExitCode;

use scalws::config::cli::{self, Command, EXIT_FAILURE, EXIT_OK};
use scalws::config::{self, explain, schema};

fn main() -> ExitCode {
    let invocation = match cli::parse(std::env::args_os(), std::env::vars_os()) {
        Ok(invocation) => invocation,
        Err(error) => error.exit(),
    };
    if invocation.command == Command::ConfigSchema {
        cli::print(&schema::schema());
        return ExitCode::from(EXIT_OK);
    }
    let loaded = match config::load(&invocation.source) {
        Ok(loaded) => loaded,
        Err(problems) => {
            cli::complain(&problems.to_string());
            return ExitCode::from(problems.exit_code());
        }
    };
    for warning in &loaded.warnings {
        cli::complain(&format!("warning: {warning}\n"));
    }
    match invocation.command {
        Command::Check | Command::ConfigSchema => ExitCode::from(EXIT_OK),
        Command::Explain { request: None } => {
            cli::print(&explain::effective(&loaded));
            ExitCode::from(EXIT_OK)
        }
        Command::Explain { .. } | Command::Serve | Command::Healthcheck => ExitCode::from(EXIT_FAILURE),
    }
}
