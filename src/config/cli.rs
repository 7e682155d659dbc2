//! The command line: what is to be done, and with which config.
//!
//! Flags are text here; `config::load` checks them like values of the file, so that one run shows
//! the mistakes of both.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::{DEFAULT_FILE, FILE_VARIABLE, Flags, Source};
use crate::semantics::method::Method;

/// Exit code of a clean end.
pub const EXIT_OK: u8 = 0;
/// Exit code when the server cannot start or fails.
pub const EXIT_FAILURE: u8 = 1;
/// Exit code of a wrong command line.
pub const EXIT_USAGE: u8 = 2;
/// Exit code of a wrong config (`EX_CONFIG`, sysexits.h).
pub const EXIT_CONFIG: u8 = 78;

/// A command line, taken apart.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// What to do.
    pub command: Command,
    /// With which config; the environment is read already.
    pub source: Source,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Serve until a signal.
    Serve,
    /// Check the config.
    Check,
    /// Show the effective config, or what would answer a request.
    Explain {
        /// Method and URL.
        request: Option<(Method, String)>,
    },
    /// Print the JSON Schema of the config.
    ConfigSchema,
    /// Ask a running server whether it is well.
    Healthcheck,
}

/// Docker-first HTTP server.
#[derive(Debug, Parser)]
#[command(name = "scalws", version, about, subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0 clean, 1 failure, 2 usage, 78 bad config.")]
struct Line {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Serve a directory, or the routes of the config
    Serve {
        /// Directory to serve when the config has no routes [default: /srv]
        #[arg(value_name = "DIR")]
        directory: Option<PathBuf>,
        /// Development mode: pages in a browser reload when a file changes [listens on 127.0.0.1:8080
        /// unless told otherwise]
        #[arg(long)]
        dev: bool,
        #[command(flatten)]
        options: Options,
    },
    /// Check the config offline: every mistake, one line each
    Check {
        #[command(flatten)]
        options: Options,
    },
    /// Show the effective config and where each value comes from, or what would answer a request
    Explain {
        /// Method of the request
        #[arg(requires = "url", value_parser = read_method)]
        method: Option<Method>,
        /// URL of the request
        url: Option<String>,
        #[command(flatten)]
        options: Options,
    },
    /// About the config file itself
    Config {
        #[command(subcommand)]
        verb: ConfigVerb,
    },
    /// Ask a running server whether it is well: exit code 0 or 1
    Healthcheck {
        #[command(flatten)]
        options: Options,
    },
}

#[derive(Debug, Subcommand)]
enum ConfigVerb {
    /// Print the JSON Schema of the config file
    Schema {
        #[command(flatten)]
        options: Options,
    },
}

/// Every subcommand takes them, so that `explain` and `healthcheck` see what `serve` saw.
#[derive(Debug, Args)]
struct Options {
    /// Config file [default: $SCALWS_CONFIG, else /etc/scalws/scalws.toml if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address for plain HTTP, such as 0.0.0.0:8080; may be given several times
    #[arg(long, value_name = "ADDR")]
    listen: Vec<String>,
    /// Worker threads
    #[arg(long, value_name = "N|auto")]
    workers: Option<String>,
    /// Address of /livez and /readyz
    #[arg(long, value_name = "ADDR|off")]
    admin: Option<String>,
}

/// Takes a command line apart, its first element the program's name.
///
/// # Errors
/// A usage error, or a request for help or the version: `clap::Error::exit` treats each as it should.
pub fn parse(
    arguments: impl IntoIterator<Item = OsString>,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Invocation, clap::Error> {
    let line = Line::try_parse_from(arguments)?;
    let (mut directory, mut is_dev) = (None, false);
    let (command, options) = match line.verb {
        Verb::Serve { directory: given, dev, options } => {
            (directory, is_dev) = (given, dev);
            (Command::Serve, options)
        }
        Verb::Check { options } => (Command::Check, options),
        Verb::Explain { method, url, options } => (Command::Explain { request: method.zip(url) }, options),
        Verb::Config { verb: ConfigVerb::Schema { options } } => (Command::ConfigSchema, options),
        Verb::Healthcheck { options } => (Command::Healthcheck, options),
    };
    let environment = environment.into_iter();
    let environment =
        environment.filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect();
    let mut source = Source { environment, directory, is_dev, ..Source::default() };
    source.file = options.config.or_else(|| default_file(&source));
    source.flags = Flags { listen: options.listen, workers: options.workers, admin: options.admin };
    source.walks_roots = command == Command::Check;
    source.reads_certificates = matches!(command, Command::Check | Command::Serve);
    Ok(Invocation { command, source })
}

/// An empty `SCALWS_CONFIG` is as good as none: Compose cannot unset a variable.
fn default_file(source: &Source) -> Option<PathBuf> {
    let named = source.environment.get(FILE_VARIABLE).filter(|file| !file.is_empty()).map(PathBuf::from);
    // Only a file that is surely absent is none: one that may not be looked at has to be reported.
    let is_there = || !matches!(std::path::Path::new(DEFAULT_FILE).try_exists(), Ok(false));
    named.or_else(|| is_there().then(|| PathBuf::from(DEFAULT_FILE)))
}

fn read_method(text: &str) -> Result<Method, String> {
    Method::parse(text.as_bytes()).ok_or_else(|| {
        let known: Vec<_> = Method::ALL.iter().map(|(_, name)| *name).collect();
        format!("expected one of {}", known.join(", "))
    })
}

/// Prints for a person, on stdout. A reader that has gone away (`| head`) is no reason to panic, so
/// this is not `print!`.
pub fn print(text: &str) {
    write(&mut std::io::stdout().lock(), text);
}

/// Prints for a person, on stderr.
pub fn complain(text: &str) {
    write(&mut std::io::stderr().lock(), text);
}

/// Only subcommands that end afterwards come here: no worker waits for the reader.
fn write(out: &mut dyn std::io::Write, text: &str) {
    // Nobody is left to be told of a failure.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(arguments: &[&str], environment: &[(&str, &str)]) -> Result<Invocation, i32> {
        let arguments = std::iter::once(&"scalws").chain(arguments).map(OsString::from);
        let environment = environment.iter().map(|(name, value)| (name.into(), value.into()));
        parse(arguments, environment).map_err(|error| error.exit_code())
    }

    #[test]
    fn the_command_line_is_the_one_of_the_contract() {
        let found =
            line(&["serve", "/www", "--listen", "a", "--listen", "b", "--workers", "2"], &[]).unwrap();
        assert_eq!(found.command, Command::Serve);
        assert_eq!(found.source.directory, Some("/www".into()));
        assert_eq!(found.source.flags.listen, ["a", "b"]);
        assert_eq!(found.source.flags.workers.as_deref(), Some("2"));
        assert!(!found.source.is_dev && line(&["serve", "--dev"], &[]).unwrap().source.is_dev);
        let found = line(&["explain", "GET", "/x", "--config", "c"], &[(FILE_VARIABLE, "d")]).unwrap();
        assert_eq!(found.command, Command::Explain { request: Some((Method::Get, "/x".into())) });
        assert_eq!(found.source.file, Some("c".into()));
        assert_eq!(line(&["explain"], &[]).unwrap().command, Command::Explain { request: None });
        let found = line(&["check"], &[(FILE_VARIABLE, "d")]).unwrap();
        assert_eq!((found.command, found.source.file), (Command::Check, Some("d".into())));
        assert_eq!(line(&["config", "schema"], &[]).unwrap().command, Command::ConfigSchema);
        assert_eq!(line(&["healthcheck"], &[]).unwrap().command, Command::Healthcheck);
    }

    #[test]
    fn usage_errors_end_with_2_and_help_with_0() {
        for wrong in [
            &["srve"][..],
            &[],
            &["explain", "GET"],
            &["explain", "GTE", "/"],
            &["check", "--x"],
            &["check", "--dev"],
        ] {
            assert_eq!(line(wrong, &[]).unwrap_err(), 2, "{wrong:?}");
        }
        assert_eq!(line(&["--version"], &[]).unwrap_err(), 0);
        assert_eq!(line(&["serve", "--help"], &[]).unwrap_err(), 0);
    }
}
