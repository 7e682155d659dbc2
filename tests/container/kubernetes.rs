//! The overlay `deploy/kubernetes/overlays/configmap`, run as a kubelet would run it (case A12).
//!
//! 1. A volume is laid out as kubelet's atomic writer does: content in `..2026_x/`, `..data` a link to
//!    that, and every visible name a link through `..data`. All names behind the links are hidden ones.
//! 2. An update writes a new directory, swaps `..data` in one rename and removes the old one.
//! 3. A server that judged hidden names after the links were followed would answer 404 to everything;
//!    one that held on to the old directory would answer 404 after the first update.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use crate::support::{Container, Folder, get, say, until};

/// How long an atomic deploy may take to show, as README.md has it.
const FRESH_AFTER: Duration = Duration::from_secs(1);

const SWAPS: u32 = 8;

fn house() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/kubernetes")
}

/// A ConfigMap volume on the host.
struct Volume {
    folder: Folder,
    version: u32,
}

/// Paths in the volume with their content.
type Files = Vec<(String, Vec<u8>)>;

impl Volume {
    fn new(files: &Files) -> Volume {
        let mut volume = Volume { folder: Folder::new(), version: 0 };
        std::fs::set_permissions(volume.folder.path(), Permissions::from_mode(0o777)).unwrap();
        volume.write(files);
        volume
    }

    /// In the order of kubelet's `AtomicWriter.Write`.
    fn write(&mut self, files: &Files) {
        let root = self.folder.path().to_owned();
        let old = std::fs::read_link(root.join("..data")).ok();
        self.version += 1;
        let stamped = format!("..2026_11_30_12_00_00.{}", self.version);
        for (path, content) in files {
            let file = self.folder.file(&format!("{stamped}/{path}"), content);
            std::fs::set_permissions(file, Permissions::from_mode(0o644)).unwrap();
        }
        symlink(&stamped, root.join("..data_tmp")).unwrap();
        std::fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
        for (path, _) in files {
            // A path with directories gets one link, for the first of them.
            let name = path.split('/').next().unwrap();
            if root.join(name).symlink_metadata().is_err() {
                symlink(Path::new("..data").join(name), root.join(name)).unwrap();
            }
        }
        if let Some(old) = old {
            std::fs::remove_dir_all(root.join(old)).unwrap();
        }
    }
}

/// `--env` options of the Deployment: what stands under `env:` of the base.
fn variables() -> Vec<String> {
    let text = std::fs::read_to_string(house().join("base/deployment.yaml")).unwrap();
    let mut found = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("- name: SCALWS_") {
            let value = lines.next().unwrap().strip_prefix("value: ").unwrap();
            found.push(format!("SCALWS_{name}={}", value.trim_matches('"')));
        }
    }
    assert_eq!(found.len(), 3, "admin, delay and timeout: {found:?}");
    found
}

/// The site of the overlay, with a page in a directory and a version to tell updates apart.
fn site(version: u32) -> Files {
    let mut files: Files = Vec::new();
    for entry in std::fs::read_dir(house().join("overlays/configmap/site")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        files.push((name, std::fs::read(path).unwrap()));
    }
    files.push(("version.txt".to_owned(), version.to_string().into_bytes()));
    files.push(("docs/page.html".to_owned(), format!("page {version}").into_bytes()));
    files
}

/// The image with the volumes, variables and rights of the Deployment.
fn pod(config: &Volume, site: &Volume) -> Container {
    let config = config.folder.mounted_at("/etc/scalws");
    let site = site.folder.mounted_at("/srv");
    let mut options = vec!["--volume", &config, "--volume", &site, "--cpus", "1", "--memory", "512m"];
    let variables = variables();
    for variable in &variables {
        options.extend(["--env", variable]);
    }
    Container::start(&options, &[])
}

fn config() -> Volume {
    let text = std::fs::read(house().join("overlays/configmap/scalws.toml")).unwrap();
    Volume::new(&vec![("scalws.toml".to_owned(), text)])
}

/// Tells the visitors to stop, also when the test fails before it gets there.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_site_in_config_maps_is_served_and_followed() {
    needs_docker!();
    let config = config();
    let mut volume = Volume::new(&site(1));
    let pod = pod(&config, &volume);
    let index = std::fs::read(house().join("overlays/configmap/site/index.html")).unwrap();
    assert_eq!(pod.ready("/").body, index);
    let web = pod.address(8080);
    assert_eq!(get(web, "/version").unwrap().body, b"1\n", "the config out of its ConfigMap is in force");
    // What a request names with a dot is hidden, and so the volume's own workings are.
    for hidden in ["/..data/index.html", "/..2026_11_30_12_00_00.1/index.html"] {
        assert_eq!(get(web, hidden).unwrap().status, 404, "{hidden}");
    }

    let (done, newest) = (AtomicBool::new(false), AtomicU32::new(1));
    std::thread::scope(|scope| {
        let stop = StopOnDrop(&done);
        let visit = |target: &'static str, begin: &'static str| {
            let (done, newest) = (&done, &newest);
            scope.spawn(move || {
                let mut answers = 0_u32;
                while !done.load(Ordering::Relaxed) {
                    // Read before the request: an answer may be newer than what was settled by then.
                    let settled = newest.load(Ordering::Relaxed);
                    let answer = get(web, target).expect("an answer");
                    let body = String::from_utf8_lossy(&answer.body).into_owned();
                    assert_eq!(answer.status, 200, "{target}, answer {answers}: {}", answer.head);
                    let version = body.strip_prefix(begin).and_then(|text| text.parse::<u32>().ok());
                    assert!(version >= Some(settled), "{target}: {body:?} a second after version {settled}");
                    answers += 1;
                }
                answers
            })
        };
        let visitors = [visit("/version.txt", ""), visit("/docs/page.html", "page ")];
        for version in 2..=SWAPS + 1 {
            volume.write(&site(version));
            // From here on nobody may see an older one, and a slow machine cannot fail this.
            std::thread::sleep(FRESH_AFTER);
            newest.store(version, Ordering::Relaxed);
        }
        std::thread::sleep(FRESH_AFTER / 4);
        drop(stop);
        let answers: u32 = visitors.into_iter().map(|visitor| visitor.join().unwrap()).sum();
        say(&format!("{answers} answers over {SWAPS} swaps, each 200 and new within {FRESH_AFTER:?}"));
    });
}

#[test]
fn a_pod_is_probed_and_drained() {
    needs_docker!();
    let (config, volume) = (config(), Volume::new(&site(1)));
    let pod = pod(&config, &volume);
    pod.ready("/version.txt");
    let (web, admin) = (pod.address(8080), pod.address(8081));
    let status = |target: &str| get(admin, target).map(|answer| answer.status);
    assert_eq!((status("/livez"), status("/readyz")), (Some(200), Some(200)));

    // As a kubelet ends a pod: endpoints learn of it while the server still answers.
    pod.signal("TERM");
    until("that it is not ready", || status("/readyz") == Some(503));
    assert_eq!(status("/livez"), Some(200), "a liveness probe must not end a drain");
    assert_eq!(get(web, "/version.txt").unwrap().status, 200);
    let drain = pod.event("draining");
    assert_eq!((&drain["delay_ms"], &drain["timeout_ms"]), (&5000.into(), &20000.into()));
    assert_eq!(pod.finished().code, 0);
}
