//! Files on overlayfs, where every image keeps its site: nobody can ask there whether data is in memory.

use std::path::Path;

use crate::hops::{self, LARGE, MIB};
use crate::support::fuse_files::Remote;
use crate::support::{Client, Mounted, Server, Site, assert_same, is_root, noise, raise_descriptors};

const SLOW: usize = 300;
const BIG: usize = 20 << 20;

/// Measured with 300 readers: 1 MiB. A buffer of one read for each of them would be 75 MiB.
const GROWTH_BYTES_MAX: u64 = 16 << 20;

/// Every read there takes the pool, and what came from it was kept until the client had taken it: a
/// chunk of 256 KiB for each phone in a tunnel. What a socket has no room for is read again instead.
#[test]
fn slow_readers_of_an_overlay_keep_nothing() {
    if !is_root() {
        skip!("needs root for an overlay");
    }
    if !raise_descriptors() {
        skip!("needs 8,192 descriptors");
    }
    let site = Site::sample();
    let content = noise(1, BIG);
    site.file("big", &content);
    let overlay = match Mounted::overlay(&site) {
        Ok(overlay) => overlay,
        Err(why) => skip!("needs overlayfs: {why}"),
    };
    slow_readers(&site, overlay.path(), "overlayfs", &content);
}

/// The same where the pool reads windows of 1 MiB that are kept until they are sent: a worker has four
/// of them, whoever reads.
#[test]
fn slow_readers_of_a_remote_file_system_keep_no_more_than_a_few_windows() {
    if !is_root() {
        skip!("needs root for a FUSE mount");
    }
    if !raise_descriptors() {
        skip!("needs 8,192 descriptors");
    }
    let site = Site::new();
    let content = noise(1, BIG);
    let files = vec![("big", content.clone()), ("x.txt", b"x marks the spot\n".to_vec())];
    let remote = match Remote::mount(&site.root(), files) {
        Ok(remote) => remote,
        Err(why) => skip!("needs FUSE: {why}"),
    };
    slow_readers(&site, &site.root(), "fuse", &content);
    drop(remote);
}

/// An image layer: at most one trip to the pool a MiB, and `explain` promises it.
#[test]
fn a_mib_of_an_image_layer_takes_one_hop() {
    if !is_root() {
        skip!("needs root for an overlay");
    }
    let site = Site::new();
    let (one, large) = hops::files();
    site.file("one", one);
    site.file("large", large);
    let overlay = match Mounted::overlay(&site) {
        Ok(overlay) => overlay,
        Err(why) => skip!("needs overlayfs: {why}"),
    };
    let says = |hops: &str, bytes| {
        format!(
            "read through the pool, then sent by the worker, at most 1 hop per MiB: {hops} for {bytes} bytes;"
        )
    };
    // The first look at a name may take the pool too.
    hops::check(&site, overlay.path(), ("/one", one), 1..=2, &says("1 hop", MIB));
    hops::check(&site, overlay.path(), ("/large", large), 100..=101, &says("100 hops", LARGE));
}

fn slow_readers(site: &Site, root: &Path, file_system: &str, content: &[u8]) {
    let route = format!("[[route]]\npath = \"/\"\nstatic = {{ root = '{}' }}\n", root.display());
    let limits = "[limits]\nwrite_timeout = \"10m\"\nidle_timeout = \"10m\"\n";
    let server = Server::with(site, "workers = 1", &format!("{limits}{route}"));
    assert!(server.errors.containing("\"root\"").contains(&format!("{file_system:?}")));
    // Fast, whole, and it warms up what the server needs once.
    assert_same(&server.get("/big").body, content, "a fast download");
    let at_rest = server.pss_bytes();

    let mut slow: Vec<Client> = (0..SLOW)
        .map(|_| {
            let mut client = Client::connect_with_buffer(server.address, 16 * 1024);
            client.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    for client in &mut slow {
        assert_eq!(client.head().1, BIG);
    }
    // Rounds of the worker and of the pool in which the slow ones could get something.
    let mut most = 0;
    for _ in 0..20 {
        for _ in 0..20 {
            assert_eq!(server.get("/x.txt").body, b"x marks the spot\n");
        }
        most = most.max(server.pss_bytes());
    }
    let growth = most.saturating_sub(at_rest);
    eprintln!("PSS: {at_rest} at rest, {growth} more with {SLOW} slow readers");
    assert!(growth < GROWTH_BYTES_MAX, "{growth} bytes more with {SLOW} slow readers");
    // What is read again must be the right bytes.
    for mut client in slow.into_iter().step_by(75) {
        assert_same(&client.bytes(BIG), content, "a slow download");
        assert_eq!(client.get("/x.txt").status, 200);
    }
}
