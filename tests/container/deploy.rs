//! A deploy by symlink swap under a running container (case A12).
//!
//! 1. The root is `/site/current`, a link to `releases/1`; the server holds a descriptor of it.
//! 2. The deploy swaps the link to `releases/2` in one rename, later removes `releases/1`.
//! 3. A descriptor opened once at start would serve the old tree, then 404 for ever.

use std::os::unix::fs::symlink;
use std::time::Instant;

use crate::support::{Container, Folder, get, say, until};

#[test]
fn a_swapped_root_is_followed_without_a_miss() {
    needs_docker!();
    let site = Folder::new();
    site.file("releases/1/index.html", b"one\n");
    site.file("releases/2/index.html", b"two\n");
    let current = site.path().join("current");
    symlink("releases/1", &current).unwrap();
    let container = Container::start(&["--volume", &site.mounted_at("/site")], &["serve", "/site/current"]);
    assert_eq!(container.ready("/").body, b"one\n");
    let address = container.address(8080);
    let body = || {
        let answer = get(address, "/").unwrap();
        assert_eq!(answer.status, 200, "{}", answer.head);
        answer.body
    };

    let next = site.path().join("current.tmp");
    symlink("releases/2", &next).unwrap();
    std::fs::rename(&next, &current).unwrap();
    let swapped = Instant::now();
    until("the new release is served", || {
        let found = body();
        assert!(found == b"one\n" || found == b"two\n", "{found:?}");
        found == b"two\n"
    });
    say(&format!("the new release was seen {:?} after the swap", swapped.elapsed()));

    std::fs::remove_dir_all(site.path().join("releases/1")).unwrap();
    for _ in 0..100 {
        assert_eq!(body(), b"two\n");
    }
}
