//! What was found for a name becomes an answer, and is kept where it is to be.

use std::rc::Rc;
use std::sync::Arc;

use crate::fs::{Chosen, Found, Miss, Mode};
use crate::handlers::cache_control::CacheControl;
use crate::handlers::miss;
use crate::handlers::open_files::{Facts, Keep};
use crate::handlers::representation::{self, Asked};
use crate::handlers::sidecars::Probe;
use crate::message::{Answer, Reply};
use crate::telemetry::facts::{self, FileSystem};

/// How the record of a request calls a mode.
pub(super) fn file_system(mode: Mode) -> FileSystem {
    match mode {
        Mode::Inline => FileSystem::Inline,
        Mode::Memory => FileSystem::Memory,
        Mode::OpenInline => FileSystem::OpenInline,
        Mode::Remote => FileSystem::Remote,
    }
}

/// The answer to a path that led to no file.
pub(super) fn nothing(miss: &Miss, keep: Option<&Keep>) -> Answer {
    match (miss, keep) {
        (Miss::NotFound | Miss::NotRegular, Some(keep)) => keep.nothing(),
        (_, Some(keep)) => keep.forget(),
        (_, None) => {}
    }
    Answer::Ready(miss::reply(miss))
}

/// The answer to what was found for `name`, at once or in the pool.
pub(super) fn found(
    chosen: Chosen,
    probe: &Probe,
    name: &[u8],
    asked: &Asked<'_>,
    cache_control: &Rc<CacheControl>,
    keep: Option<&Keep>,
    directory: impl FnOnce() -> Reply,
) -> Answer {
    let form = probe.form(&chosen, name);
    let (file, content) = match chosen.found {
        Found::File(file, content) => {
            facts::file_system(file_system(file.mode()));
            (Arc::new(file), content)
        }
        Found::Directory => {
            if let Some(keep) = keep {
                keep.forget();
            }
            return Answer::Ready(directory());
        }
    };
    let is_made = chosen.sidecar.is_none() && probe.is_made() && !cache_control.forbids_transform(name);
    if let Some(keep) = keep {
        let (content_type, cache_control) = (probe.content_type().clone(), Rc::clone(cache_control));
        let (is_negotiated, coding) = (form.is_negotiated, form.coding);
        let name = name.into();
        let facts = Facts { file, name, content_type, is_negotiated, coding, is_made, cache_control };
        return keep.file(facts, content, asked, probe.making_asked());
    }
    if is_made && let Some(making) = probe.making(&file, asked) {
        let (cache_control, name) = (Rc::clone(cache_control), name.to_vec());
        let answer = making.answer(file, content, probe.content_type().clone(), asked);
        return answer.map(move |reply| cache_control.on(reply, &name));
    }
    Answer::Ready(cache_control.on(representation::reply(file, content, form, asked), name))
}
