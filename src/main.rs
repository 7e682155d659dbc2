//! Arguments, then the config, then the work, then the exit code.

use std::process::ExitCode;

use scalws::config::cli::{self, Command, EXIT_FAILURE, EXIT_OK};
use scalws::config::{self, Loaded, explain, schema};
use scalws::{server, telemetry};

fn main() -> ExitCode {
    telemetry::start::begin();
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
    let outcome = match invocation.command {
        Command::Serve => serve(loaded),
        Command::Healthcheck => {
            server::health::check(&loaded.config.server, loaded.config.tls.as_ref()).map(|()| EXIT_OK)
        }
        Command::Check | Command::Explain { .. } | Command::ConfigSchema => {
            for warning in &loaded.warnings {
                cli::complain(&format!("warning: {warning}\n"));
            }
            look(&invocation.command, &loaded)
        }
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(reason) => {
            telemetry::log::flush();
            cli::complain(&format!("scalws: {reason}\n"));
            ExitCode::from(EXIT_FAILURE)
        }
    }
}

fn serve(loaded: Loaded) -> Result<u8, String> {
    telemetry::log::start().map_err(|error| format!("cannot start the log: {error}"))?;
    telemetry::start::configured(loaded.file.as_deref(), &loaded.digest, &loaded.warnings);
    server::run(loaded.config, loaded.digest)
}

/// What is said about a config without serving it.
fn look(command: &Command, loaded: &Loaded) -> Result<u8, String> {
    match command {
        Command::Explain { request: None } => cli::print(&explain::effective(loaded)),
        Command::Explain { request: Some((method, url)) } => {
            cli::print(&server::explain::request(&loaded.config, *method, url)?);
        }
        _ => {}
    }
    Ok(EXIT_OK)
}
