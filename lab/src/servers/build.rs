//! Builds the server under test: this tree, or another commit in a worktree of its own.

use std::path::{Path, PathBuf};
use std::{env, fs};

use super::tool;
use crate::Refusal;

/// A cold release build takes two minutes on two cores; on a busy machine many times that.
const BUILD_SECONDS_MAX: u32 = 3_600;
const GIT_SECONDS_MAX: u32 = 120;

/// Builds `scalws` with a profile of its Cargo.toml (`release`, or `profiling` with frame pointers) and
/// gives its binary. `None` is the tree that the lab runs in, as it is on disk; a git reference is built as
/// it was committed, with its own Cargo.lock and toolchain file, beneath `.local/lab/builds/COMMIT`.
///
/// # Errors
/// There is no such commit, or it does not build: with the first line that says why.
pub fn build(reference: Option<&str>, profile: &str) -> Result<PathBuf, Refusal> {
    let tree = source_tree()?;
    let builds = tree.join(".local/lab/builds");
    let (source, target) = match reference {
        // Other flags than a plain `cargo build`: in one target directory each would undo the other's work.
        None if profile == "profiling" => (tree.clone(), Some(builds.join("tree"))),
        None => (tree.clone(), None),
        Some(reference) => {
            let place = builds.join(commit(&tree, reference)?);
            (worktree(&tree, &place)?, Some(place.join("target")))
        }
    };
    cargo(&source, target.as_deref(), profile).map_err(|reason| {
        Refusal::new(format!("{} does not build ({profile}): {reason}", reference.unwrap_or("this tree")))
    })
}

/// The directory of this tree: the nearest above the working directory.
///
/// # Errors
/// There is none.
pub(super) fn source_tree() -> Result<PathBuf, Refusal> {
    let here = env::current_dir()?;
    let is_tree = |place: &&Path| {
        place.join("lab/Cargo.toml").is_file()
            && fs::read_to_string(place.join("Cargo.toml"))
                .is_ok_and(|text| text.contains("name = \"scalws\""))
    };
    let found = here.ancestors().find(is_tree);
    let missing = || Refusal::new(format!("{} is not within a tree of ScalWS", here.display()));
    found.map(Path::to_owned).ok_or_else(missing)
}

/// Twelve digits of the commit that a reference names.
fn commit(tree: &Path, reference: &str) -> Result<String, Refusal> {
    let missing = || Refusal::new(format!("there is no commit {reference} in {}", tree.display()));
    let wanted = format!("{reference}^{{commit}}");
    let arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted];
    let output = tool::bounded(GIT_SECONDS_MAX, "git").arg("-C").arg(tree).args(arguments).output()?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let is_hash = said.len() >= 40 && said.bytes().all(|byte| byte.is_ascii_hexdigit());
    let short = said.get(..12).filter(|_| output.status.success() && is_hash);
    short.map(str::to_owned).ok_or_else(missing)
}

/// A worktree of that commit at `place/tree`; the one from before where it is still as it was.
fn worktree(tree: &Path, place: &Path) -> Result<PathBuf, Refusal> {
    let path = place.join("tree");
    let commit = place.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let git = |directory: &Path, arguments: &[&str]| {
        tool::bounded(GIT_SECONDS_MAX, "git").arg("-C").arg(directory).args(arguments).output()
    };
    if path.join(".git").exists() {
        let head = git(&path, &["rev-parse", "HEAD"])?;
        let dirt = git(&path, &["status", "--porcelain"])?;
        if head.stdout.starts_with(commit.as_bytes()) && dirt.status.success() && dirt.stdout.is_empty() {
            return Ok(path);
        }
        return Err(Refusal::new(format!("{} was changed: remove it and try again", path.display())));
    }
    fs::create_dir_all(place).map_err(|error| Refusal::new(format!("{}: {error}", place.display())))?;
    // Entries of worktrees whose directory was removed would refuse the same path.
    git(tree, &["worktree", "prune"])?;
    let added = tool::bounded(GIT_SECONDS_MAX, "git")
        .arg("-C")
        .arg(tree)
        .args(["worktree", "add", "--quiet", "--detach"])
        .arg(&path)
        .arg(commit)
        .output()?;
    if added.status.success() {
        return Ok(path);
    }
    let said = String::from_utf8_lossy(&added.stderr);
    Err(Refusal::new(format!("git made no worktree of {commit}: {}", tool::last_line(&said))))
}

fn cargo(source: &Path, target: Option<&Path>, profile: &str) -> Result<PathBuf, String> {
    let mut command = tool::bounded(BUILD_SECONDS_MAX, "cargo");
    command
        .args(["build", "--locked", "--message-format=json-render-diagnostics", "--color=never"])
        .args(["--package", "scalws", "--bin", "scalws", "--profile", profile])
        .current_dir(source)
        // `cargo run` sets it to the lab's own: a tree is built with the toolchain that it names.
        .env_remove("RUSTUP_TOOLCHAIN");
    if let Some(target) = target {
        command.arg("--target-dir").arg(target);
    }
    if profile == "profiling" {
        let flags = env::var("RUSTFLAGS").unwrap_or_default();
        command.env("RUSTFLAGS", format!("{flags} -C force-frame-pointers=yes").trim());
    }
    let output = command.output().map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(match output.status.code() {
            Some(124) => format!("ended after {BUILD_SECONDS_MAX} s"),
            _ => first_error(&String::from_utf8_lossy(&output.stderr)),
        });
    }
    executable(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| "cargo named no binary".to_owned())
}

/// The first line with an error, else the last of all.
fn first_error(said: &str) -> String {
    let error = said.lines().find(|line| line.starts_with("error"));
    error.unwrap_or_else(|| tool::last_line(said)).to_owned()
}

/// The binary out of cargo's messages, one JSON object a line.
fn executable(messages: &str) -> Option<PathBuf> {
    messages.lines().rev().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        (message["target"]["name"] == "scalws").then(|| message["executable"].as_str().map(PathBuf::from))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_is_the_one_that_is_told() {
        let said = "   Compiling scalws v0.1.0\nwarning: unused\nerror[E0432]: unresolved import `x`\n --> a\nerror: aborting\n";
        assert_eq!(first_error(said), "error[E0432]: unresolved import `x`");
        assert_eq!(first_error("killed\n"), "killed");
    }

    #[test]
    fn the_binary_is_the_one_that_cargo_names() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"libc"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"scalws"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"scalws"},"executable":"/t/release/scalws"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executable(messages), Some(PathBuf::from("/t/release/scalws")));
        assert_eq!(executable("no json"), None);
    }

    #[test]
    fn profiles_are_in_the_manifest() {
        let manifest = fs::read_to_string(source_tree().unwrap().join("Cargo.toml")).unwrap();
        for profile in ["release", "profiling"] {
            assert!(manifest.contains(&format!("[profile.{profile}]")), "{profile}");
        }
    }
}
