//! Programs that are asked and end: found, bounded in time, and what they said.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Refusal;

/// Where servers are beside PATH: a plain user often has no sbin in it.
const PLACES: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// A program by its name or path.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        let path = std::path::absolute(program).ok()?;
        return is_program(&path).then_some(path);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(PLACES.iter().map(PathBuf::from))
        .map(|place| place.join(program))
        .find(|path| is_program(path))
}

/// A path from the root, without links: servers run in directories of their own.
#[expect(clippy::disallowed_methods, reason = "the lab's own paths: nobody races for them")]
pub(super) fn whole(path: &Path) -> Result<PathBuf, Refusal> {
    std::fs::canonicalize(path).map_err(|error| Refusal::new(format!("{}: {error}", path.display())))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// A command that ends after some seconds, and with the lab: `timeout` of coreutils beneath `setpriv` of
/// util-linux. A terminal's Ctrl-C reaches it.
pub(super) fn bounded(seconds: u32, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--", "timeout", "--foreground", "--kill-after=5"]);
    command.arg(seconds.to_string()).arg(program).stdin(std::process::Stdio::null());
    command
}

/// What a program says within 5 s, on both outputs; nothing where it fails to start.
pub(super) fn says(program: impl AsRef<OsStr>, arguments: &[&str]) -> String {
    let Ok(output) = bounded(5, program).args(arguments).output() else { return String::new() };
    let both = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// What it says if it ends well, trimmed.
pub(super) fn answers(program: impl AsRef<OsStr>, arguments: &[&str]) -> Option<String> {
    let output =
        bounded(5, program).args(arguments).output().ok().filter(|output| output.status.success())?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (!said.is_empty()).then_some(said)
}

/// The last line that says anything.
pub(super) fn last_line(text: &str) -> &str {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("nothing was said")
}

/// The first line that does.
pub(super) fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_name_and_path() {
        let sh = find("sh").unwrap();
        assert_eq!(find(sh.to_str().unwrap()), Some(sh));
        assert_eq!(find("no-such-program-anywhere"), None);
        assert_eq!(find("/etc/passwd"), None);
        assert_eq!(find("/etc"), None);
    }

    #[test]
    fn both_outputs_are_heard_and_failure_is_no_answer() {
        assert_eq!(says("sh", &["-c", "echo one; echo two >&2"]), "one\ntwo\n");
        assert_eq!(answers("sh", &["-c", "echo one; echo two >&2"]).unwrap(), "one");
        assert_eq!(answers("sh", &["-c", "echo one; exit 3"]), None);
        assert_eq!(last_line("a\nb\n\n  \n"), "b");
        assert_eq!(last_line(""), "nothing was said");
        assert_eq!(first_line("\n v1 \nb"), "v1");
    }
}
