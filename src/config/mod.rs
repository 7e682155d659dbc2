//! From files, variables and flags to one checked config, or to every mistake at once.
//!
//! `raw` is the config as it was typed, `checked` as it is meant; `keys` is the one table of all keys.
//! In between, `check`, `route`, `headers`, `cors`, `respond`, `json`, `redirect`, `statics`, `compress`,
//! `cache_control`, `file_headers`, `error_pages`, `telemetry` and `tls` read one slice each, by the
//! readers in `read`, and tell `report` what they find. This room opens no socket, and no file but the
//! config, a `body_file`, certificates, and the roots and pages that it looks at.

use std::io::Read;
use std::path::{Path, PathBuf};

mod cache_control;
mod check;
pub mod checked;
pub mod cli;
mod compress;
mod cors;
pub mod docs;
pub mod error;
mod error_pages;
pub mod examples;
mod expand;
pub mod explain;
mod file_headers;
mod headers;
mod json;
mod keys;
mod overrides;
mod raw;
mod read;
mod redirect;
mod report;
mod respond;
mod route;
pub mod schema;
mod statics;
mod telemetry;
mod tls;
mod units;

#[cfg(test)]
mod tests;

use self::checked::{Config, ErrorPages, Handler, PathMatch, Route, Static};
use self::error::{Origin, Problem, Problems};
use self::expand::Environment;
pub use self::overrides::Flags;
use self::report::Report;
pub use self::report::Setting;
use crate::limits::CONFIG_BYTES_MAX;

/// The config that is read when nobody names one.
pub const DEFAULT_FILE: &str = "/etc/scalws/scalws.toml";
/// Names the config file unless `--config` does.
pub const FILE_VARIABLE: &str = "SCALWS_CONFIG";
/// The directory that is served when the config has no route.
pub const DEFAULT_ROOT: &str = "/srv";

/// Everything that a config is made of.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The config file; `None` for none.
    pub file: Option<PathBuf>,
    /// The environment.
    pub environment: Environment,
    /// Flags of the command line.
    pub flags: Flags,
    /// `serve DIR`: the directory to serve when the config has no route.
    pub directory: Option<PathBuf>,
    /// `serve --dev`: no key of the file, so that no config takes it along into production.
    pub is_dev: bool,
    /// Look for absolute symbolic links beneath the roots: for `check`, as it may take seconds.
    pub walks_roots: bool,
    /// Judge certificates and keys: for those who serve, and for `check`. Not for a health check, which a pair
    /// that is being exchanged must not fail.
    pub reads_certificates: bool,
}

/// A valid config with what is known about it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The config.
    pub config: Config,
    /// One line each, for stderr.
    pub warnings: Vec<String>,
    /// Every effective value with its origin, in the order of the documentation.
    pub settings: Vec<Setting>,
    /// The config file; `None` for none.
    pub file: Option<PathBuf>,
    /// 16 hexadecimal digits that are the same for the same effective values: do two replicas run
    /// the same config? Values of `${env:…}` are not in it. No protection against forgery.
    pub digest: String,
}

/// Reads, checks and completes a config.
///
/// # Errors
/// Every mistake of the file, the variables and the flags.
pub fn load(source: &Source) -> Result<Loaded, Problems> {
    let Some(file) = &source.file else {
        return load_text(source, "", "");
    };
    let name = file.display().to_string();
    load_text(source, &name, &read_config(file, &name)?)
}

fn load_text(source: &Source, file_name: &str, text: &str) -> Result<Loaded, Problems> {
    let mut report = Report::new(file_name);
    let mut root = raw::parse(text, &mut report);
    raw::prune(&mut root, &mut report);
    raw::expand(&mut root, &source.environment, &mut report);
    overrides::apply_environment(&mut root, &source.environment, &mut report);
    overrides::apply_flags(&mut root, &source.flags);

    let server = check::server(&root, source.is_dev, &mut report);
    let tls = tls::read(&root, &server, source.reads_certificates, &mut report);
    let log = check::log(&root, &mut report);
    let telemetry = telemetry::read(&root, &source.environment, &mut report);
    let limits = check::limits(&root, &mut report);
    let error_pages = error_pages::of_site(&root, &mut report);
    let mut routes = route::routes(&root, &source.environment, &mut report);
    if root.get("route").is_some() || report.has_holes() {
        refuse_directory(source, &mut report);
    } else {
        routes.push(implied_route(source, &mut report));
    }
    if source.walks_roots {
        warn_of_links(&routes, error_pages.as_ref(), &mut report);
    }
    let (settings, warnings) = report.finish()?;
    let digest = digest(&settings, &routes);
    let config = Config { server, tls, log, telemetry, limits, routes, error_pages };
    Ok(Loaded { config, warnings, settings, file: source.file.clone(), digest })
}

/// The text of the config file without a byte order mark.
fn read_config(file: &Path, name: &str) -> Result<String, Problems> {
    let problem = |origin: Origin, message: String| {
        Problems(vec![Problem { file: name.to_owned(), origin, message, hint: None }])
    };
    let unread = |reason: String| {
        problem(Origin::Default, format!("expected a readable config file, found {name:?}, {reason}"))
    };
    if std::fs::metadata(file).map_err(|error| unread(io_reason(&error)))?.is_dir() {
        return Err(unread("which is a directory".to_owned()));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(file)
        .and_then(|file| file.take(CONFIG_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| unread(io_reason(&error)))?;
    if bytes.len() as u64 > CONFIG_BYTES_MAX {
        return Err(unread("which is larger than 16 MiB".to_owned()));
    }
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    match std::str::from_utf8(text) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => {
            let valid = std::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or_default();
            let (line, column) = raw::Lines::new(valid).position(valid.len());
            Err(problem(Origin::File { line, column }, "expected UTF-8, found another byte".to_owned()))
        }
    }
}

/// What the system says about a file, without its number.
fn io_reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "which does not exist".to_owned(),
        std::io::ErrorKind::PermissionDenied => "which this user may not read".to_owned(),
        _ => error.to_string(),
    }
}

/// A directory beside routes would either hide them or be ignored.
fn refuse_directory(source: &Source, report: &mut Report<'_>) {
    if let Some(directory) = &source.directory {
        let found = directory.display();
        let message =
            format!("expected no directory, as the config has routes of its own, found \"{found}\"");
        report.problem(&Origin::Flag("DIR"), message, None);
    }
}

/// The route of a config without routes: the given directory, or `/srv`.
fn implied_route(source: &Source, report: &mut Report<'_>) -> Route {
    report.route = 1;
    let (root, origin) = match &source.directory {
        Some(directory) => (directory.clone(), Origin::Flag("DIR")),
        None => (PathBuf::from(DEFAULT_ROOT), Origin::Default),
    };
    if let Some(reason) = statics::root_fault(&root) {
        let message = format!("expected a readable directory, found {root:?}, {reason}");
        match origin {
            // Nobody wrote it, so it is no mistake in the config: `serve` fails when it opens it.
            Origin::Default => report.warning(&origin, &format!("route.static.root: {message}")),
            _ => report.problem(&origin, message, None),
        }
    }
    report.set("route.path", "\"/\"".to_owned(), None);
    report.set_from("route.static.root", format!("{root:?}"), origin);
    let index = vec!["index.html".to_owned()];
    report.set("route.static.symlinks", "\"inside\"".to_owned(), None);
    report.set("route.static.index", format!("{index:?}"), None);
    report.set("route.static.listing", "false".to_owned(), None);
    report.set("route.static.clean_urls", "false".to_owned(), None);
    report.set("route.static.precompressed", "true".to_owned(), None);
    report.set("route.static.revalidate", format!("{:?}", units::show_ms(statics::REVALIDATE_MS)), None);
    Route {
        name: "/".to_owned(),
        hosts: Vec::new(),
        path: PathMatch::Prefix(Vec::new()),
        methods: None,
        headers: headers::of_implied_route(),
        cors: None,
        handler: Handler::Static(Static {
            root,
            follow_symlinks: true,
            index,
            listing: false,
            clean_urls: false,
            revalidate_ms: statics::REVALIDATE_MS,
            precompressed: true,
            compress: None,
            cache_control: Vec::new(),
            headers: Vec::new(),
            spa: None,
            error_pages: Vec::new(),
        }),
    }
}

fn warn_of_links(routes: &[Route], error_pages: Option<&ErrorPages>, report: &mut Report<'_>) {
    let mut walked: Vec<&Path> = Vec::new();
    let of_routes = routes.iter().zip(1..).filter_map(|(route, number)| match &route.handler {
        Handler::Static(Static { root, follow_symlinks: true, .. }) => {
            Some((root, format!("route.{number}.static.root")))
        }
        _ => None,
    });
    let of_site = error_pages.map(|pages| (&pages.root, "error_pages.root".to_owned()));
    for (root, key) in of_routes.chain(of_site) {
        let origin = report.origin_of(&key);
        if walked.contains(&root.as_path()) {
            continue;
        }
        walked.push(root);
        for warning in statics::absolute_links(root) {
            report.warning(&origin, &warning);
        }
    }
}

/// FNV-1a (64 bits) over the shown values and the bodies, without their origins.
fn digest(settings: &[Setting], routes: &[Route]) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut add = |bytes: &[u8]| {
        // A zero between the parts, so that none can borrow from its neighbour.
        for byte in bytes.iter().chain(&[0]) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for setting in settings {
        add(setting.key.as_bytes());
        add(setting.shown.as_bytes());
    }
    let uses_file = |key: &str| settings.iter().any(|setting| setting.key == key);
    for (index, route) in routes.iter().enumerate() {
        if let Handler::Respond(respond) = &route.handler
            && uses_file(&format!("route.{}.respond.body_file", index + 1))
        {
            add(&respond.body);
        }
    }
    format!("{hash:016x}")
}
