//! Files that come with the image, in a layer of it, and files of a tmpfs: large ones take no more trips
//! to the pool than `explain` says, which is one a MiB and none.

use crate::support::{Container, Folder, Image, get, noise, say};

const MIB: usize = 1 << 20;
const LARGE: usize = 100 * MIB;

const CONFIG: &[u8] = b"[[route]]\npath = \"/layer/\"\nstatic = { root = \"/site\" }\n\
    [[route]]\npath = \"/memory/\"\nstatic = { root = \"/memory\" }\n";

/// A test image with its files, and the tmpfs.
struct Served {
    image: Image,
    volume: String,
    one: Vec<u8>,
    large: Vec<u8>,
}

impl Served {
    /// Downloads one file in a container of its own: trips to the pool in all of its life.
    fn hops(&self, target: &str) -> u64 {
        let container = Container::start_of(self.image.name(), &["--volume", &self.volume], &[]);
        container.event("listening");
        let answer = get(container.address(8080), target).expect("an answer");
        let content = if target.ends_with("/one") { &self.one } else { &self.large };
        assert!(answer.status == 200 && answer.body == *content, "not the file: {}", answer.head);
        let end = container.stop(20);
        assert_eq!(end.code, 0, "{:?}", end.errors);
        let count = &container.event("stopped")["offload"]["of_files"];
        count.as_u64().unwrap_or_else(|| panic!("no count: {:?}", end.errors))
    }

    /// The line of `explain` about the body, and the number of trips in it.
    fn explained(&self, target: &str) -> (String, u64) {
        let words = ["explain", "GET", target];
        let end = Container::start_of(self.image.name(), &["--volume", &self.volume], &words).finished();
        let line = end.output.lines().find(|line| line.starts_with("body "));
        let line = line.unwrap_or_else(|| panic!("no line about the body: {end:?}")).to_owned();
        if line.ends_with("no hop to the pool") {
            return (line, 0);
        }
        let before = line.split(" for ").next().and_then(|text| text.rsplit(' ').nth(1));
        let hops = before.and_then(|hops| hops.parse().ok()).unwrap_or_else(|| panic!("no number: {line}"));
        (line, hops)
    }

    /// As many trips as promised, and two at most to open and close the file. On a machine that is so busy
    /// that a MiB takes a second, there may be more of them: one of three tries has to do.
    fn check(&self, target: &str, around: u64) -> u64 {
        let (line, promised) = self.explained(target);
        let mut tries = vec![self.hops(target)];
        while tries.len() < 3 && *tries.last().unwrap() > promised + around {
            tries.push(self.hops(target));
        }
        say(&format!("{target}: {tries:?} hops; {line}"));
        let last = *tries.last().unwrap();
        assert!(last <= promised + around, "{target}: {tries:?} hops; {line}");
        promised
    }
}

#[test]
fn files_of_a_layer_take_one_hop_a_mib_and_those_of_a_tmpfs_none() {
    needs_docker!();
    let large = noise(LARGE);
    let one = large[1..=MIB].to_vec();
    let (layer, memory) = (Folder::new(), Folder::in_memory());
    for (folder, prefix) in [(&layer, "site/"), (&memory, "")] {
        folder.file(&format!("{prefix}one"), &one);
        folder.file(&format!("{prefix}large"), &large);
    }
    layer.file("etc/scalws/scalws.toml", CONFIG);
    let served =
        Served { image: Image::with_layer(&layer), volume: memory.mounted_at("/memory"), one, large };

    let promised = ["/layer/one", "/layer/large"].map(|target| served.check(target, 2));
    let container = Container::start_of(served.image.name(), &["--volume", &served.volume], &[]);
    container.event("listening");
    let roots: Vec<serde_json::Value> =
        container.log().iter().flat_map(|line| serde_json::from_str(line)).collect();
    let of = |root: &str| roots.iter().find(|event| event["root"] == root).unwrap()["file_system"].clone();
    match of("/site").as_str().unwrap() {
        // What engines lay images out on: overlayfs, or fuse-overlayfs where they run without its rights.
        "overlayfs" | "fuse" => assert_eq!(promised, [1, 100]),
        // Storage drivers that copy: there a worker asks what is resident.
        other => say(&format!("layers are on {other} here: {promised:?} hops for what is cold")),
    }
    assert_eq!(of("/memory"), "tmpfs");
    assert_eq!(["/memory/one", "/memory/large"].map(|target| served.check(target, 0)), [0, 0]);
}
