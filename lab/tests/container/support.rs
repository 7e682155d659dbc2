//! Runs in the real tree, one at a time, on images that are built once; and what Docker has of a run.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{MutexGuard, OnceLock, PoisonError};

use scalws_lab::bench::record::Results;

use super::run::TURN;

pub const LAB_IMAGE: (&str, &str) = ("LAB_IMAGE", "scalws-lab:test");
const IMAGES: [(&str, &str); 2] = [("SCALWS_IMAGE", "scalws:test"), LAB_IMAGE];

pub fn tree() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Whether the caller asked for no container tests.
pub fn is_skipped() -> bool {
    let is_skipped = std::env::var("SKIP_DOCKER").is_ok_and(|value| value == "1");
    if is_skipped {
        eprintln!("SKIPPED, because SKIP_DOCKER=1: this container test did not run");
    }
    is_skipped
}

/// What the docker command prints; it has to succeed.
#[track_caller]
pub fn docker(words: &[&str]) -> String {
    let output =
        Command::new("docker").args(words).current_dir(tree()).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "docker {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Both images, built from this tree when the first test asks.
#[track_caller]
fn images() {
    static BUILT: Built = OnceLock::new();
    build(&BUILT, "release", IMAGES[0].1);
}

/// The same with the server of a profile.
#[track_caller]
pub fn profiling_images() {
    static BUILT: Built = OnceLock::new();
    build(&BUILT, "profiling", "scalws:profiling");
}

type Built = OnceLock<Result<(), String>>;

#[track_caller]
fn build(built: &Built, profile: &str, server: &str) {
    let built = built.get_or_init(|| {
        let mut build = Command::new("docker");
        build.args(["compose", "--profile", "bench", "build", "scalws", "load"]);
        build.envs([("BUILD_PROFILE", profile), ("SCALWS_IMAGE", server), LAB_IMAGE]);
        let output = build.current_dir(tree()).stdin(Stdio::null()).output().unwrap();
        let said = || String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success().then_some(()).ok_or_else(said)
    });
    if let Err(why) = built {
        panic!("the images do not build (no registry? scripts/local-bases.sh --lab makes the bases):\n{why}");
    }
}

/// A run and where its results go.
pub struct Bench {
    out: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Bench {
    #[track_caller]
    pub fn new() -> Bench {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        images();
        let out = std::env::temp_dir().join(format!("scalws-lab-container-{}", std::process::id()));
        Bench { out, _turn: turn }
    }

    /// Of images that are there, with windows as short as they can be.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scalws-lab"));
        command.args(["bench", "--docker", "--seconds", "0.2", "--warmup", "0.1", "--out"]).arg(&self.out);
        command.args(arguments).envs(IMAGES).current_dir(tree());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn results(&self) -> Results {
        scalws_lab::report::json::read(&self.out.join("results.json")).unwrap()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.out);
    }
}

pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Containers of a lab by their label, those that ended too.
pub fn containers(lab: u32) -> Vec<String> {
    let format = "{{.ID}} {{.Label \"com.docker.compose.project\"}}";
    of(
        lab,
        &["ps", "--all", "--no-trunc", "--filter", "label=com.docker.compose.project", "--format", format],
    )
}

/// The container of a service among those.
#[track_caller]
pub fn of_service(containers: &[String], service: &str) -> String {
    let label = "{{index .Config.Labels \"com.docker.compose.service\"}}";
    let is_it = |id: &&String| docker(&["inspect", "--format", label, id]) == service;
    containers.iter().find(is_it).unwrap().clone()
}

/// The first words of the lines that name a project of that lab.
fn of(lab: u32, words: &[&str]) -> Vec<String> {
    let project = format!("scalws-lab-{}-", lab);
    let lines = docker(words);
    let own = lines.lines().filter(|line| line.contains(&project));
    own.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// No container, network, image, directory of a control group or process of a lab that has ended.
#[track_caller]
pub fn is_clean(lab: u32, containers_before: &[String], children: &[u32]) {
    assert_eq!(containers(lab), Vec::<String>::new(), "containers");
    assert_eq!(of(lab, &["network", "ls", "--format", "{{.Name}}"]), Vec::<String>::new(), "networks");
    let layers = docker(&["image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "scalws-lab-layer"]);
    assert!(!layers.contains(&format!("scalws-lab-layer:{}-", lab)), "{layers}");
    for id in containers_before {
        for group in ["cpuset/docker/ID", "docker/ID", "system.slice/docker-ID.scope"] {
            let path = Path::new("/sys/fs/cgroup").join(group.replace("ID", id));
            assert!(!path.exists(), "{}", path.display());
        }
    }
    for child in children {
        let line = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        assert!(line.is_empty(), "process {child} is left: {}", String::from_utf8_lossy(&line));
    }
    assert!(!tree().join(format!(".local/lab/scratch/{}", lab)).exists());
}
