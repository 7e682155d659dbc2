//! The certificates of the process: opened at the start, looked at again and again by a thread of their own, and
//! exchanged when their files have (docs/adr/0039-tls.md). A file system that hangs holds up this thread alone.
//!
//! Looks are by content: links of `..data` that are swapped, renamed files and files written in place are all the
//! same to them (case G01).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use rustls::ServerConfig;
use serde_json::{Value, json};

use crate::config::checked::Certificate;
use crate::limits::TLS_LOOK_MS;
use crate::semantics::date::rfc3339;
use crate::sys::clock::wall_coarse_s;
use crate::telemetry::log::{self, Level};
use crate::tls::{self, Certificates, Ending, Fault, Files, Pair};

/// What the label of a certificate without a file is.
const SELF_SIGNED: &str = "self-signed";

/// What is told about one certificate.
pub(super) struct Status {
    /// Its file.
    pub(super) name: String,
    pub(super) expires_s: AtomicI64,
    pub(super) taken: AtomicU64,
    pub(super) refused: AtomicU64,
}

/// All of them, and who looks after them.
pub(super) struct Keeper {
    chooser: Arc<Certificates>,
    held: Vec<Held>,
}

/// One certificate.
struct Held {
    pair: Pair,
    status: Arc<Status>,
    /// `None` where it was made.
    watched: Option<Watched>,
    /// What was said of its end.
    told: Ending,
}

/// What was seen of its files.
struct Watched {
    files: Files,
    /// What is in force.
    in_force: [u8; 32],
    /// At the last look.
    seen: Seen,
    /// What was taken or refused last: looked at no more.
    judged: Seen,
    /// Whether that was refused.
    is_bad: bool,
}

/// What a look saw.
#[derive(Clone, PartialEq)]
enum Seen {
    Content([u8; 32]),
    Unread(Fault),
}

impl Keeper {
    /// Opens all of them. May hang as long as a file system does.
    ///
    /// # Errors
    /// One line that names the file and the reason.
    pub(super) fn open(certificates: &[Certificate]) -> Result<(Keeper, Arc<ServerConfig>), String> {
        let now_s = wall_coarse_s();
        let held: Vec<_> =
            certificates.iter().map(|from| Held::open(from, now_s)).collect::<Result<_, _>>()?;
        let (default, others) = pairs(&held).ok_or("expected a certificate, found none")?;
        let chooser = Arc::new(Certificates::new(default, &others));
        let config = tls::server_config(Arc::clone(&chooser))
            .map_err(|error| format!("cannot make tickets for TLS: {error}"))?;
        Ok((Keeper { chooser, held }, config))
    }

    /// What is told about them, in the order of the config.
    pub(super) fn statuses(&self) -> Vec<Arc<Status>> {
        self.held.iter().map(|held| Arc::clone(&held.status)).collect()
    }

    /// Looks after them from now on.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start(mut self) -> io::Result<()> {
        std::thread::Builder::new().name("certificates".to_owned()).spawn(move || {
            loop {
                std::thread::sleep(Duration::from_millis(TLS_LOOK_MS));
                self.look();
            }
        })?;
        Ok(())
    }

    fn look(&mut self) {
        let mut has_changed = false;
        for held in &mut self.held {
            has_changed |= held.look();
        }
        if has_changed && let Some((default, others)) = pairs(&self.held) {
            self.chooser.exchange(default, &others);
        }
        self.held.iter_mut().for_each(Held::tell_end);
    }
}

fn pairs(held: &[Held]) -> Option<(&Pair, Vec<&Pair>)> {
    let (default, others) = held.split_first()?;
    Some((&default.pair, others.iter().map(|held| &held.pair).collect()))
}

impl Held {
    fn open(from: &Certificate, now_s: i64) -> Result<Held, String> {
        let (name, pair, watched) = match from {
            Certificate::SelfSigned => {
                let pair = tls::self_signed(now_s)
                    .map_err(|error| format!("cannot make a self-signed certificate: {error}"))?;
                (SELF_SIGNED.to_owned(), pair, None)
            }
            Certificate::Files(files) => {
                let name = files.certificate.display().to_string();
                let explain = |fault: Fault| format!("cannot serve {}", told(files, &fault));
                let content = files.read().map_err(explain)?;
                let (pair, digest) = (content.pair().map_err(explain)?, content.digest());
                let seen = Seen::Content(digest);
                let judged = seen.clone();
                let watched = Watched { files: files.clone(), in_force: digest, seen, judged, is_bad: false };
                (name, pair, Some(watched))
            }
        };
        let status = Arc::new(Status {
            name,
            expires_s: AtomicI64::new(pair.last_s),
            taken: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        });
        let mut fields = described(&status.name, &pair);
        if watched.is_some() {
            log::event(Level::Info, "certificate", &fields);
        } else {
            fields["hint"] = "made anew at each start, and nobody trusts it: for development only".into();
            log::event(Level::Warn, "self-signed certificate", &fields);
        }
        // The config was looked at with the same eyes, and its warnings are in the log.
        let told = Ending::of(&pair);
        Ok(Held { pair, status, watched, told })
    }

    /// One look at its files. Whether there is a new pair.
    fn look(&mut self) -> bool {
        let Some(watched) = &mut self.watched else { return false };
        let content = watched.files.read();
        let seen = match &content {
            Ok(content) => Seen::Content(content.digest()),
            Err(fault) => Seen::Unread(fault.clone()),
        };
        let is_settled = watched.seen == seen;
        watched.seen = seen.clone();
        if !is_settled || watched.judged == seen {
            return false;
        }
        watched.judged = seen;
        let was_bad = std::mem::replace(&mut watched.is_bad, false);
        match content.and_then(|content| Ok((content.pair()?, content.digest()))) {
            Ok((_, digest)) if digest == watched.in_force => {
                if was_bad {
                    log::event(
                        Level::Info,
                        "certificate restored",
                        &described(&self.status.name, &self.pair),
                    );
                }
                false
            }
            Ok((pair, digest)) => {
                watched.in_force = digest;
                self.status.expires_s.store(pair.last_s, Ordering::Relaxed);
                self.status.taken.fetch_add(1, Ordering::Relaxed);
                log::event(Level::Info, "certificate replaced", &described(&self.status.name, &pair));
                self.pair = pair;
                true
            }
            Err(fault) => {
                watched.is_bad = true;
                self.status.refused.fetch_add(1, Ordering::Relaxed);
                let fields = json!({ "certificate": self.status.name, "error": told(&watched.files, &fault),
                    "hint": "the pair before it stays in force" });
                log::event(Level::Error, "certificate refused", &fields);
                false
            }
        }
    }

    /// Says once that the end is near, and once that it came.
    fn tell_end(&mut self) {
        let ending = Ending::of(&self.pair);
        if std::mem::replace(&mut self.told, ending) == ending {
            return;
        }
        let fields = described(&self.status.name, &self.pair);
        match ending {
            Ending::Early | Ending::Far => {}
            Ending::Soon => log::event(Level::Warn, "certificate expires soon", &fields),
            Ending::Past => log::event(Level::Error, "certificate expired", &fields),
        }
    }
}

fn described(name: &str, pair: &Pair) -> Value {
    json!({ "certificate": name, "names": pair.names, "expires": rfc3339(pair.last_s, 0),
        "serial": pair.serial, "sha256": pair.fingerprint })
}

/// The file at fault and why.
fn told(files: &Files, fault: &Fault) -> String {
    let file = match fault.part {
        tls::Part::Certificate => &files.certificate,
        tls::Part::Key => &files.key,
    };
    format!("{}: expected {}, found one {}", file.display(), fault.expected(), fault.reason)
}
