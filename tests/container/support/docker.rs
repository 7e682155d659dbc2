//! The docker command, the image under test, and containers that are removed when dropped.

use std::ffi::OsStr;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use super::{Folder, Response, get, until};

/// Rights as `compose.yaml` gives them.
const HARDENED: [&str; 7] =
    ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", "65532"];

const IMAGE: &str = "scalws:test";

static COUNT: AtomicU32 = AtomicU32::new(0);

fn unique_name() -> String {
    format!("scalws-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Runs the docker command, whatever its outcome.
fn run<S: AsRef<OsStr>>(arguments: &[S]) -> Output {
    let mut command = Command::new("docker");
    command.args(arguments).stdin(Stdio::null()).current_dir(env!("CARGO_MANIFEST_DIR"));
    command.env("SCALWS_IMAGE", IMAGE).env("SCALWS_PORT", "0");
    command.output().expect("the docker command can be started (SKIP_DOCKER=1 leaves these tests out)")
}

/// Runs the docker command, which must succeed, and gives its trimmed stdout.
#[track_caller]
pub fn docker<S: AsRef<OsStr>>(arguments: &[S]) -> String {
    let output = run(arguments);
    let shown: Vec<_> = arguments.iter().map(|argument| argument.as_ref().to_string_lossy()).collect();
    assert!(output.status.success(), "docker {}: {}", shown.join(" "), text(&output.stderr));
    text(&output.stdout).trim().to_owned()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The image, built by Compose from the real Dockerfile when the first test asks for it.
#[track_caller]
pub fn image() -> &'static str {
    static BUILT: OnceLock<Result<(), String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let engine = run(&["info", "--format", "{{.ServerVersion}}"]);
        if !engine.status.success() {
            let why = text(&engine.stderr);
            return Err(format!("Docker does not answer: {why}(SKIP_DOCKER=1 leaves these tests out)"));
        }
        let build = run(&["compose", "--project-name", &unique_name(), "build", "scalws"]);
        build.status.success().then_some(()).ok_or_else(|| {
            let said = format!("{}{}", text(&build.stdout), text(&build.stderr));
            format!("the image does not build (no registry? scripts/local-bases.sh makes the base):\n{said}")
        })
    });
    if let Err(why) = built {
        panic!("{why}");
    }
    IMAGE
}

/// An image made of the one under test, removed when dropped.
pub struct Image(String);

impl Image {
    /// With all of the folder laid over its root directory, in a layer.
    #[track_caller]
    pub fn with_layer(folder: &Folder) -> Image {
        let (name, recipe) = (format!("{}:test", unique_name()), Folder::new());
        let file = recipe.file("Dockerfile", format!("FROM {}\nCOPY . /\n", image()).as_bytes());
        let (file, context) = (file.display().to_string(), folder.path().display().to_string());
        docker(&["build", "--quiet", "--tag", &name, "--file", &file, &context]);
        Image(name)
    }

    pub fn name(&self) -> &str {
        &self.0
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = run(&["image", "rm", "--force", &self.0]);
    }
}

/// A container of the server, removed when dropped.
pub struct Container {
    name: String,
}

/// How a container ended.
#[derive(Debug)]
pub struct Finished {
    pub code: i64,
    /// All of stdout.
    pub output: String,
    /// Lines on stderr.
    pub errors: Vec<String>,
}

impl Container {
    /// Starts the server with the rights that `compose.yaml` gives it. `options` are for `docker run`,
    /// `arguments` for the server (none: the image's own).
    #[track_caller]
    pub fn start(options: &[&str], arguments: &[&str]) -> Container {
        Self::start_of(image(), options, arguments)
    }

    /// The same from another image.
    #[track_caller]
    pub fn start_of(image: &str, options: &[&str], arguments: &[&str]) -> Container {
        let container = Container { name: unique_name() };
        let mut words = vec!["run", "--detach", "--name", &container.name];
        words.extend(HARDENED);
        words.extend(options);
        words.push(image);
        words.extend(arguments);
        docker(&words);
        container
    }

    /// A container that was created and not started, to look inside.
    #[track_caller]
    pub fn created() -> Container {
        let container = Container { name: unique_name() };
        docker(&["create", "--name", &container.name, image()]);
        container
    }

    /// Copies one file out of the container.
    #[track_caller]
    pub fn copy_out(&self, inside: &str, outside: &Path) {
        docker(&["cp", &format!("{}:{inside}", self.name), &outside.display().to_string()]);
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    #[track_caller]
    pub fn inspect(&self) -> Value {
        let all: Value = serde_json::from_str(&docker(&["inspect", &self.name])).unwrap();
        all[0].clone()
    }

    /// Its address on the bridge network: no published port, no proxy between.
    #[track_caller]
    pub fn address(&self, port: u16) -> SocketAddr {
        let networks = self.inspect()["NetworkSettings"]["Networks"].clone();
        let first = networks.as_object().unwrap().values().next().unwrap()["IPAddress"].clone();
        let address = first.as_str().unwrap().parse::<IpAddr>();
        SocketAddr::new(address.unwrap_or_else(|_| panic!("no address: {:?}", self.log())), port)
    }

    /// Waits for the first answer to `GET target` with 200 on port 8080.
    #[track_caller]
    pub fn ready(&self, target: &str) -> Response {
        let mut answer = None;
        until("the first 200", || {
            assert!(self.is_running(), "the container ended: {:?}", self.log());
            answer = get(self.address(8080), target).filter(|answer| answer.status == 200);
            answer.is_some()
        });
        answer.unwrap()
    }

    pub fn is_running(&self) -> bool {
        self.inspect()["State"]["Running"] == true
    }

    /// Lines on stderr so far: events, never the access log.
    #[track_caller]
    pub fn log(&self) -> Vec<String> {
        let output = run(&["logs", &self.name]);
        text(&output.stderr).lines().map(str::to_owned).collect()
    }

    /// Waits for an event by its name.
    #[track_caller]
    pub fn event(&self, name: &str) -> Value {
        let mut found = None;
        until(&format!("the event {name:?}"), || {
            let mut events =
                self.log().into_iter().filter_map(|line| serde_json::from_str::<Value>(&line).ok());
            found = events.find(|event| event["event"] == name);
            found.is_some()
        });
        found.unwrap()
    }

    #[track_caller]
    pub fn signal(&self, name: &str) {
        docker(&["kill", "--signal", name, &self.name]);
    }

    /// `docker stop`: TERM, then KILL after so many seconds, which would show as exit code 137.
    #[track_caller]
    pub fn stop(&self, kill_after_seconds: u32) -> Finished {
        docker(&["stop", "--time", &kill_after_seconds.to_string(), &self.name]);
        self.finished()
    }

    /// Waits for its end.
    #[track_caller]
    pub fn finished(&self) -> Finished {
        until("the end of the container", || !self.is_running());
        let code = self.inspect()["State"]["ExitCode"].as_i64().unwrap();
        let output = text(&run(&["logs", &self.name]).stdout);
        Finished { code, output, errors: self.log() }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = run(&["rm", "--force", "--volumes", &self.name]);
    }
}

impl Finished {
    /// The one line that says why it could not start: all that is not an ordinary event.
    #[track_caller]
    pub fn complaint(&self) -> &str {
        let ordinary = |line: &str| {
            let event = serde_json::from_str::<Value>(line).unwrap_or_default();
            event["level"] == "info" || event["level"] == "warn"
        };
        let left: Vec<_> = self.errors.iter().filter(|line| !ordinary(line)).collect();
        let [only] = left[..] else { panic!("not one line but {}: {:#?}", left.len(), self.errors) };
        only
    }
}

/// A Compose project of a test's own, taken down when dropped.
pub struct Project {
    name: String,
}

impl Project {
    /// `docker compose up --wait` of the real compose.yaml, on a port that the engine chooses.
    #[track_caller]
    pub fn up() -> Project {
        image();
        let project = Project { name: unique_name() };
        project.compose(&["up", "--detach", "--wait", "scalws"]);
        project
    }

    #[track_caller]
    pub fn compose(&self, arguments: &[&str]) -> String {
        let mut words = vec!["compose", "--project-name", &self.name];
        words.extend(arguments);
        docker(&words)
    }

    /// Whether a command in the service's container succeeds.
    pub fn can_exec(&self, command: &[&str]) -> bool {
        let mut words = vec!["compose", "--project-name", &self.name, "exec", "-T", "scalws"];
        words.extend(command);
        run(&words).status.success()
    }

    /// The published address, as a visitor of this machine uses it.
    #[track_caller]
    pub fn published(&self) -> SocketAddr {
        let shown = self.compose(&["port", "scalws", "8080"]);
        let port = shown.rsplit(':').next().unwrap().parse().unwrap();
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[track_caller]
    pub fn inspect(&self) -> Value {
        let id = self.compose(&["ps", "--quiet", "scalws"]);
        let all: Value = serde_json::from_str(&docker(&["inspect", &id])).unwrap();
        all[0].clone()
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        let _ = run(&["compose", "--project-name", &self.name, "down", "--volumes", "--timeout", "2"]);
    }
}
