//! A file that is kept open: its descriptor, what it answers with, its bytes.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::sync::Arc;

use super::Life;
use crate::fs::read::{self, Shared};
use crate::fs::{Mode, Version};
use crate::handlers::Headers;
use crate::handlers::cache_control::CacheControl;
use crate::handlers::compress::Making;
use crate::handlers::found::file_system;
use crate::handlers::representation::{self, Asked, Form, Lasting};
use crate::limits::{FILE_INLINE_BYTES_MAX, OPEN_FILE_BODY_BYTES_MAX};
use crate::message::{Answer, Body, Fields, Reply};
use crate::semantics::conditional::Outcome;
use crate::semantics::encoding::Coding;
use crate::semantics::range::ByteRange;
use crate::telemetry::facts::FileSystem;

/// A file and what is sent of it, for one name and one choice of codings.
#[derive(Debug)]
pub struct Entry {
    facts: Facts,
    life: Life,
    /// Of the route.
    headers: Rc<Headers>,
    /// `None` inside: what is sent of this version is not the same for ever.
    heads: OnceCell<Option<Heads>>,
    bytes: OnceCell<Rc<[u8]>>,
    was_hit: Cell<bool>,
}

/// What was found, and how it is sent.
#[derive(Debug)]
pub struct Facts {
    /// The file, or its sidecar.
    pub file: Shared,
    /// A path beneath the root, by which the fields are chosen.
    pub name: Box<[u8]>,
    /// Of the original.
    pub content_type: Cow<'static, str>,
    /// See [`Form`].
    pub is_negotiated: bool,
    /// See [`Form`].
    pub coding: Option<Coding>,
    /// Requests that ask for it get it compressed on the fly.
    pub is_made: bool,
    /// What is sent by name.
    pub cache_control: Rc<CacheControl>,
}

/// Field lines that do not change while the version is the same.
#[derive(Clone, Debug)]
struct Heads {
    lasting: Lasting,
    whole: Rc<[u8]>,
    unchanged: Rc<[u8]>,
}

impl Entry {
    /// Of a file that was just found, on a route with these fields. `content` is what the pool has read of it.
    pub(super) fn new(facts: Facts, headers: &Rc<Headers>, life: Life, content: Option<&[u8]>) -> Entry {
        let bytes = OnceCell::new();
        if let Some(content) = content.filter(|_| facts.file.is_settled()) {
            let _ = bytes.set(content.into());
        }
        let headers = Rc::clone(headers);
        Entry { facts, life, headers, heads: OnceCell::new(), bytes, was_hit: Cell::new(false) }
    }

    /// Takes over what is known of the same version from the entry before.
    pub(super) fn inherit(&mut self, before: &Entry) {
        let version = |entry: &Entry| Version::of(entry.facts.file.stat());
        let form = |entry: &Entry| (entry.facts.coding, entry.facts.is_negotiated);
        let is_same = version(self) == version(before)
            && form(self) == form(before)
            && self.facts.name == before.facts.name;
        if is_same {
            self.was_hit.set(before.was_hit.get());
            // Not that there are none: a time that was yet to come may have come.
            if let Some(Some(heads)) = before.heads.get() {
                self.heads = OnceCell::from(Some(heads.clone()));
            }
            if self.bytes.get().is_none() {
                self.bytes = before.bytes.clone();
            }
        }
    }

    /// How its file system is read.
    pub(in crate::handlers) fn file_system(&self) -> FileSystem {
        file_system(self.facts.file.mode())
    }

    pub(super) fn life(&self) -> Life {
        self.life
    }

    /// Bytes of the file that are in memory.
    pub(super) fn bytes_kept(&self) -> usize {
        self.bytes.get().map_or(0, |bytes| bytes.len())
    }

    /// Says that its descriptor is kept: then it may be the last one of a file that was deleted meanwhile.
    pub(super) fn file_is_kept(&self) {
        self.facts.file.keep();
    }

    /// The bytes that [`Entry::fill`] would read.
    pub(in crate::handlers) fn size(&self) -> u64 {
        self.facts.file.stat().size
    }

    /// Whether the file is the version that was found, by a look at it; on a remote file system, where the
    /// look may hang, it is for as long as the entry lives.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        self.facts.file.mode() == Mode::Remote || self.facts.file.is_unchanged()
    }

    /// Reads a small file into memory when it is asked for again. How many bytes that are.
    pub(in crate::handlers) fn fill(&self) -> Option<usize> {
        let file = &self.facts.file;
        if self.bytes.get().is_some()
            || file.stat().size > OPEN_FILE_BODY_BYTES_MAX
            || !matches!(file.mode(), Mode::Inline | Mode::Memory)
            || !self.was_hit.replace(true)
        {
            return None;
        }
        let content = read::settled(file)?;
        self.keep_bytes(&content)
    }

    /// Keeps what the pool has read between two looks that agree.
    pub(super) fn keep_bytes(&self, content: &[u8]) -> Option<usize> {
        self.bytes.set(content.into()).is_ok().then_some(content.len())
    }

    /// Whether what is kept is all of one version: a remote file is not looked at before it answers, so its
    /// descriptor may lead to the next one, under the length and the tag of this.
    pub(super) fn is_of_one_version(&self) -> bool {
        self.facts.file.mode() != Mode::Remote || self.bytes.get().is_some()
    }

    /// The file, where a worker cannot read it and its bytes are not in memory, but would be.
    pub(super) fn to_be_read(&self, asked: &Asked<'_>) -> Option<&Shared> {
        let file = &self.facts.file;
        let is_wanted = self.bytes.get().is_none()
            && file.stat().size <= FILE_INLINE_BYTES_MAX
            && file.mode() == Mode::OpenInline
            && asked.is_plain();
        is_wanted.then_some(file)
    }

    /// The answer to a request for the file. `content` is all of it, where it was read already.
    #[must_use]
    pub fn answer(&self, content: Option<Vec<u8>>, asked: &Asked<'_>, making: Option<Making>) -> Answer {
        let Facts { file, name, cache_control, .. } = &self.facts;
        let content = content.or_else(|| self.bytes_of_remote(asked));
        if let Some(making) = making.filter(|making| self.facts.is_made && making.applies(file, asked)) {
            let (cache_control, name) = (Rc::clone(cache_control), name.clone());
            let answer = making.answer(Arc::clone(file), content, self.facts.content_type.clone(), asked);
            return answer.map(move |reply| cache_control.on(reply, &name));
        }
        if let Some(heads) = self.heads()
            && !asked.has_range()
        {
            match heads.lasting.outcome(asked) {
                Outcome::Proceed { .. } => return Answer::Ready(self.whole(heads, content)),
                Outcome::NotModified => {
                    let fields = Fields::Complete(Rc::clone(&heads.unchanged));
                    return Answer::Ready(Reply::bodiless(304, fields));
                }
                Outcome::Failed => {}
            }
        }
        let reply = representation::reply(Arc::clone(file), content, self.form(), asked);
        Answer::Ready(cache_control.on(reply, name))
    }

    /// What is in memory of a remote file, for who does not take all of it as it stands.
    fn bytes_of_remote(&self, asked: &Asked<'_>) -> Option<Vec<u8>> {
        let is_needed = self.facts.file.mode() == Mode::Remote && (asked.has_range() || self.facts.is_made);
        self.bytes.get().filter(|_| is_needed).map(|bytes| bytes.to_vec())
    }

    fn form(&self) -> Form<'_> {
        let Facts { content_type, is_negotiated, coding, .. } = &self.facts;
        Form { content_type, is_negotiated: *is_negotiated, coding: *coding }
    }

    /// The whole file: from memory, or by its descriptor.
    fn whole(&self, heads: &Heads, content: Option<Vec<u8>>) -> Reply {
        let body = match (self.bytes.get(), content) {
            (Some(bytes), _) => Body::Shared(Rc::clone(bytes)),
            (None, Some(content)) => Body::Owned(content),
            (None, None) => {
                let whole = ByteRange { start: 0, end: self.facts.file.stat().size };
                Body::File(Arc::clone(&self.facts.file), whole)
            }
        };
        Reply { status: 200, fields: Fields::Complete(Rc::clone(&heads.whole)), body }
    }

    fn heads(&self) -> Option<&Heads> {
        let make = || {
            let lasting = representation::lasting(&self.facts.file, self.form())?;
            let lines = |reply: Reply| -> Rc<[u8]> {
                let reply = self.facts.cache_control.on(reply, &self.facts.name);
                self.headers.on_reply(reply).fields.as_bytes().into()
            };
            let whole = lines(representation::reply(
                Arc::clone(&self.facts.file),
                None,
                self.form(),
                &Asked::default(),
            ));
            let unchanged = lines(Reply::bodiless(304, lasting.unchanged(&self.form())));
            Some(Heads { lasting, whole, unchanged })
        };
        self.heads.get_or_init(make).as_ref()
    }
}
