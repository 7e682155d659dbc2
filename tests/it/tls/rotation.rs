//! Certificates that change under the server (case G01).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustls::ALL_VERSIONS;
use rustls::HandshakeKind;

use crate::support::secure::{Authority, Made, Secure, Secured, own, start, table};
use crate::support::{Launch, Scrape, Server, Site, until};

/// A version of a mounted secret, and the swap to it, as the kubelet makes it.
fn swap(mount: &Path, version: &str, certificate: &str, key: &str) {
    let directory = mount.join(format!("..{version}"));
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("tls.crt"), certificate).unwrap();
    fs::write(directory.join("tls.key"), key).unwrap();
    own(&directory.join("tls.key"));
    let before = fs::read_link(mount.join("..data")).ok();
    symlink(format!("..{version}"), mount.join("..data_tmp")).unwrap();
    fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
    if let Some(before) = before {
        fs::remove_dir_all(mount.join(before)).unwrap();
    }
}

/// A server with a secret mounted as Kubernetes does.
struct Mounted {
    secured: Secured,
    site: Site,
}

impl Mounted {
    fn of(made: &Made, authority: Authority) -> Mounted {
        let site = Site::sample();
        let mount = site.directory().join("secret");
        fs::create_dir(&mount).unwrap();
        swap(&mount, "0", &made.chain, &made.key);
        let (certificate, key) = (mount.join("tls.crt"), mount.join("tls.key"));
        symlink("..data/tls.crt", &certificate).unwrap();
        symlink("..data/tls.key", &key).unwrap();
        let tables = format!("{}{}{}", table(&certificate, &key), site.route(), Server::RESPOND);
        let (server, address) = start(Launch::new(&site, "workers = 2", &tables));
        Mounted { secured: Secured { server, address, authority }, site }
    }

    fn swap(&self, version: &str, certificate: &str, key: &str) {
        swap(&self.site.directory().join("secret"), version, certificate, key);
    }

    /// The certificate that a new client without a session gets.
    fn shows(&self, made: &Made) -> bool {
        let mut client = self.secured.client();
        assert_eq!(client.get("/x.txt").status, 200);
        client.certificate() == made.der
    }

    fn changes(&self, result: &str) -> u64 {
        let file = self.site.directory().join("secret/tls.crt");
        let labels = format!("certificate=\"{}\",result=\"{result}\"", file.display());
        Scrape::of(&self.secured.server).count(&format!("scalws_certificate_changes_total{{{labels}}}"))
    }

    fn lines(&self, event: &str) -> usize {
        let name = format!("\"event\":\"{event}\"");
        self.secured.server.errors.all().iter().filter(|line| line.contains(&name)).count()
    }
}

const ROTATIONS: u64 = 20;

/// Case G01. A watch on the file that the link led to sees the first swap and none after it. Here twenty swaps in a
/// row, each seen by new handshakes, while clients ask all the time and none of them fails; a connection from before
/// the first lives on, and a session goes on across them.
#[test]
fn twenty_swaps_are_seen_and_nobody_fails() {
    let authority = Authority::new();
    let first = authority.numbered(100);
    let mounted = Mounted::of(&first, authority);
    let config = mounted.secured.authority.client(ALL_VERSIONS);
    let mut kept = Secure::connect(mounted.secured.address, &config);
    assert_eq!(kept.get("/x.txt").status, 200);
    let (is_done, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    let mut client = mounted.secured.client();
                    assert_eq!(client.get("/x.txt").text(), "x marks the spot\n");
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for number in 1..=ROTATIONS {
            let made = mounted.secured.authority.numbered(100 + number);
            mounted.swap(&number.to_string(), &made.chain, &made.key);
            until("the new certificate", || mounted.shows(&made));
        }
        is_done.store(true, Ordering::Relaxed);
    });
    eprintln!("{} asked meanwhile", asked.load(Ordering::Relaxed));
    assert_eq!((mounted.changes("taken"), mounted.changes("refused")), (ROTATIONS, 0));
    let mut serials = Vec::new();
    for line in mounted.secured.server.errors.all() {
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        if line["event"] == "certificate replaced" {
            serials.push(u64::from_str_radix(line["serial"].as_str().unwrap(), 16).unwrap());
        }
    }
    assert_eq!(serials, (101..=100 + ROTATIONS).collect::<Vec<_>>());
    assert_eq!(kept.get("/y.txt").text(), "why\n");
    let mut again = Secure::connect(mounted.secured.address, &config);
    assert_eq!(again.get("/x.txt").status, 200);
    assert_eq!(again.kind(), HandshakeKind::Resumed);
}

/// Case G01. A certificate without its key, or half of it, is refused in one line, and counted; the pair before it
/// stays. What comes next is looked at as if nothing had been, and the old one put back is told too.
#[test]
fn what_is_no_pair_changes_nothing() {
    let authority = Authority::new();
    let (first, second, third) = (authority.numbered(1), authority.numbered(2), authority.numbered(3));
    let mounted = Mounted::of(&first, authority);
    mounted.swap("mixed", &second.chain, &third.key);
    until("the mixed pair to be refused", || mounted.changes("refused") == 1);
    assert!(mounted.shows(&first));
    mounted.swap("half", &second.chain[..second.chain.len() / 4], &second.key);
    until("the half one to be refused", || mounted.changes("refused") == 2);
    assert!(mounted.shows(&first));
    mounted.swap("back", &first.chain, &first.key);
    mounted.secured.server.errors.containing("\"event\":\"certificate restored\"");
    mounted.swap("second", &second.chain, &second.key);
    until("the second", || mounted.shows(&second));
    // A line for each change, however often it was looked at.
    let lines = ["certificate refused", "certificate restored", "certificate replaced"];
    assert_eq!(lines.map(|event| mounted.lines(event)), [2, 1, 1]);
    let line = mounted.secured.server.errors.containing("\"event\":\"certificate refused\"");
    assert!(
        line.contains("\"error\"")
            && line.contains("tls.key: expected ")
            && line.contains("another certificate"),
        "{line}"
    );
    assert_eq!(mounted.changes("taken"), 1);
}

/// Files written in place (a mount of single files), one after the other with time between, and links that certbot moves:
/// never a new certificate with an old key.
#[test]
fn other_ways_to_change_them_are_seen_too() {
    let site = Site::sample();
    let secured = Secured::of(&site, "", "");
    let shows = |made: &Made| {
        let mut client = secured.client();
        assert_eq!(client.get("/x.txt").status, 200);
        client.certificate() == made.der
    };
    let (certificate, key) = (site.directory().join("tls.crt"), site.directory().join("tls.key"));
    let made = secured.authority.numbered(2);
    fs::write(&certificate, &made.chain).unwrap();
    // Seen twice without its key, which is told, and changes nothing.
    secured.server.errors.containing("\"event\":\"certificate refused\"");
    fs::write(&key, &made.key).unwrap();
    until("the pair written in place", || shows(&made));
    for number in [3, 4] {
        let made = secured.authority.numbered(number);
        made.write(&site, &format!("archive{number}"));
        for (link, ending) in [(&certificate, "crt"), (&key, "key")] {
            symlink(format!("archive{number}.{ending}"), site.directory().join("next")).unwrap();
            fs::rename(site.directory().join("next"), link).unwrap();
        }
        until("the pair behind links", || shows(&made));
    }
    fs::remove_file(&key).unwrap();
    secured.server.errors.containing("which does not exist");
    let expiry = Scrape::of(&secured.server);
    let name =
        format!("scalws_certificate_expiry_timestamp_seconds{{certificate=\"{}\"}}", certificate.display());
    // The first of January 4096.
    assert_eq!(expiry.count(&name), 67_090_118_400);
}
