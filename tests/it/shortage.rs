//! Descriptors that are short: whatever is kept open for later gives way to who comes now, on each worker and
//! where the pool opens.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, prlimit};

use crate::support::fuse_files::Remote;
use crate::support::{Client, Server, Site, is_root, until};

/// Targets of the descriptors that the server has.
fn descriptors(server: &Server) -> Vec<(u64, String)> {
    let directory = format!("/proc/{}/fd", server.pid().as_raw_nonzero());
    let entries = fs::read_dir(directory).unwrap().flatten();
    let found = entries.filter_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?;
        Some((entry.file_name().to_str()?.parse().ok()?, target.display().to_string()))
    });
    found.collect()
}

/// How many files of the site are open.
fn kept(server: &Server, site: &Site) -> usize {
    let start = format!("{}/file-", site.root().display());
    descriptors(server).iter().filter(|(_, target)| target.starts_with(&start)).count()
}

const FILES: usize = 8;

fn files(site: &Site) -> Vec<String> {
    let names: Vec<String> = (0..FILES).map(|number| format!("/file-{number}")).collect();
    names.iter().for_each(|name| drop(site.file(&name[1..], name.as_bytes())));
    names
}

/// Leaves no number above those that are taken now.
fn bound(server: &Server) -> u64 {
    let highest = descriptors(server).iter().map(|(number, _)| *number).max().unwrap();
    let plenty = getrlimit(Resource::Nofile);
    let full = Rlimit { current: Some(highest + 1), maximum: plenty.maximum };
    prlimit(Some(server.pid()), Resource::Nofile, full).unwrap();
    highest
}

/// Takes every number that is free up to `highest` with connections: one at a time, as one too many would be for
/// the accept to find room for.
fn take_the_rest(server: &Server, highest: u64, others: &mut Vec<Client>) {
    let sockets =
        |all: &[(u64, String)]| all.iter().filter(|(_, target)| target.starts_with("socket:")).count();
    loop {
        let all = descriptors(server);
        if all.len() as u64 > highest {
            return;
        }
        others.push(server.client());
        until("it was accepted", || sockets(&descriptors(server)) > sockets(&all));
    }
}

/// One worker was short of descriptors, and the other one went on keeping all that it had.
#[test]
fn what_one_worker_needs_is_given_by_all() {
    let site = Site::sample();
    let names = files(&site);
    let server = Server::with(&site, "workers = 2", &site.route_with(", revalidate = \"24h\""));
    let mut clients = Vec::new();
    until("both workers keep all files", || {
        let mut client = server.client();
        names.iter().for_each(|name| assert_eq!(client.get(name).body, name.as_bytes()));
        clients.push(client);
        kept(&server, &site) == 2 * FILES
    });
    let mut others = Vec::new();
    take_the_rest(&server, bound(&server), &mut others);
    // In use just now: what nobody asks for in ten seconds would be closed for that.
    clients.iter_mut().for_each(|client| names.iter().for_each(|name| drop(client.get(name))));
    let asked = Instant::now();
    assert_eq!(kept(&server, &site), 2 * FILES);
    // The one that is too many; whichever worker it comes to.
    until("one had to give way", || {
        others.push(server.client());
        kept(&server, &site) < 2 * FILES
    });
    until("the other one gives, too", || kept(&server, &site) <= FILES);
    let idle = Duration::from_millis(scalws::limits::OPEN_FILE_IDLE_MS);
    assert!(asked.elapsed() < idle, "nothing can be said any more: all of them were idle");
    assert_eq!(clients[0].get("/file-0").body, b"/file-0");
}

/// The pool had no descriptor for a file of a share, and said 503 while others were kept for later.
#[test]
fn what_is_kept_gives_way_to_the_pool() {
    if !is_root() {
        skip!("needs root for a FUSE mount");
    }
    let site = Site::sample();
    let names = files(&site);
    let mountpoint = site.directory().join("fuse");
    fs::create_dir(&mountpoint).unwrap();
    let _remote = match Remote::mount(&mountpoint, vec![("file", b"far away".to_vec())]) {
        Ok(remote) => remote,
        Err(why) => skip!("needs FUSE: {why}"),
    };
    let fuse = format!("[[route]]\npath = \"/fuse/\"\nstatic = {{ root = '{}' }}\n", mountpoint.display());
    let tables = format!("{fuse}{}", site.route_with(", revalidate = \"24h\""));
    let server = Server::with(&site, "workers = 1", &tables);
    let mut client = server.client();
    names.iter().for_each(|name| assert_eq!(client.get(name).body, name.as_bytes()));
    assert_eq!(kept(&server, &site), FILES);
    let (highest, mut others) = (bound(&server), Vec::new());
    // More than one try: once a second the roots are looked up, and a number that is free then is free again.
    until("what was kept gave way", || {
        take_the_rest(&server, highest, &mut others);
        let answer = client.get("/fuse/file");
        assert_eq!((answer.status, answer.body.as_slice()), (200, b"far away".as_slice()));
        kept(&server, &site) <= FILES / 2
    });
}
