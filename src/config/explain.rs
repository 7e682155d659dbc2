//! The effective config for a person: every value, and who said so.

use super::checked::{Handler, Route};
use super::error::{Origin, one_line};
use super::{Loaded, Setting};

/// One line a value, such as `server.workers = "auto"   # default`, then the table of routes.
#[must_use]
pub fn effective(loaded: &Loaded) -> String {
    let file = loaded.file.as_ref().map(|file| one_line(&file.display().to_string()));
    let mut text =
        format!("# config {}, digest {}\n", file.as_deref().unwrap_or("without a file"), loaded.digest);
    let line = |setting: &Setting| format!("{} = {}", setting.key, setting.shown);
    for setting in &loaded.settings {
        let origin = match &setting.origin {
            Origin::File { line, .. } => format!("{}:{line}", file.as_deref().unwrap_or_default()),
            Origin::Variable(name) => name.clone(),
            Origin::Flag(name) => (*name).to_owned(),
            Origin::Default => "default".to_owned(),
        };
        // Wide enough for nearly all lines, so that the origins stand in a column.
        text.push_str(&format!("{:<48}   # {origin}\n", line(setting)));
    }
    text.push_str("\n# routes: host, then exact (=) before the longest prefix, then method\n");
    let width = loaded.config.routes.iter().map(|route| route.name.chars().count()).max().unwrap_or(0);
    for route in &loaded.config.routes {
        let name = one_line(&route.name);
        text.push_str(&format!("# {name:<width$}  {}\n", one_line(&answer(route))));
    }
    text
}

/// What answers a route, in a few words; values that may be secret are not among them.
fn answer(route: &Route) -> String {
    match &route.handler {
        Handler::Respond(respond) => {
            format!("responds {} with {} bytes", respond.status, respond.body.len())
        }
        Handler::Redirect(redirect) => format!("redirects with {}", redirect.status),
        Handler::Static(files) if files.follow_symlinks => "serves files, symbolic links inside".to_owned(),
        Handler::Static(_) => "serves files, no symbolic links".to_owned(),
    }
}
