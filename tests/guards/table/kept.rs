//! Guards of what is kept: how long it is believed, for whom, and how much of it there may be.

use super::Guard;

pub(super) const GUARDS: &[Guard] = &[
    Guard {
        name: "cache-looks-first",
        file: "src/handlers/open_files/entry.rs",
        old: "self.facts.file.mode() == Mode::Remote || self.facts.file.is_unchanged()",
        new: "self.facts.file.mode() == Mode::Remote || self.facts.file.stat().size > 0",
        test: "open_files::edits_show_at_once",
    },
    Guard {
        name: "cache-life",
        file: "src/handlers/open_files/mod.rs",
        old: "now_ms < self.until_ms && generation == self.generation",
        new: "now_ms > 0 && generation == self.generation",
        test: "open_files::names_are_looked_up_again",
    },
    Guard {
        name: "cache-by-codings",
        file: "src/handlers/static_files.rs",
        old: "&[sidecars.code(), u8::from(wants_index)]",
        new: "&[0, u8::from(wants_index)]",
        test: "open_files::what_is_kept_is_kept_apart",
    },
    Guard {
        name: "cache-by-slash",
        file: "src/handlers/static_files.rs",
        old: "&[sidecars.code(), u8::from(wants_index)]",
        new: "&[sidecars.code(), u8::from(wants_index) & 2]",
        test: "open_files::what_is_kept_is_kept_apart",
    },
    Guard {
        name: "cache-by-route",
        file: "src/handlers/static_files.rs",
        old: "key.extend_from_slice(&number.to_ne_bytes());",
        new: "key.extend_from_slice(&(number & 0).to_ne_bytes());",
        test: "open_files::what_is_kept_is_kept_apart",
    },
    Guard {
        name: "cache-entries",
        file: "src/fs/cache.rs",
        old: "while self.slots.len() >= self.entries_max {",
        new: "while self.slots.len() >= self.entries_max * 100 {",
        test: "open_files::descriptors_are_bounded_and_given_back",
    },
    Guard {
        name: "cache-weight",
        file: "src/fs/cache.rs",
        old: "while self.weight > self.weight_max && !self.slots.is_empty() {",
        new: "while self.weight / 100 > self.weight_max && !self.slots.is_empty() {",
        test: "fs::cache::tests::weight_is_bounded_too",
    },
    Guard {
        name: "cache-idle",
        file: "src/server/worker.rs",
        old: "open_files.sweep(now_ms);",
        new: "open_files.sweep(now_ms & 1);",
        test: "open_files::descriptors_are_bounded_and_given_back",
    },
    Guard {
        name: "cache-young",
        file: "src/fs/read.rs",
        old: "    if is_young(file) {\n        return None;\n    }\n    let mut content",
        new: "    let mut content",
        test: "fs::file::tests::what_was_just_changed_is_not_kept_in_memory",
    },
    Guard {
        name: "cache-remote",
        file: "src/handlers/open_files/entry.rs",
        old: "self.facts.file.mode() != Mode::Remote || self.bytes.get().is_some()",
        new: "true",
        test: "open_files::what_a_remote_file_answers_is_of_one_version",
    },
    Guard {
        name: "cache-sidecar",
        file: "src/handlers/open_files/mod.rs",
        old: "if facts.coding.is_some() {",
        new: "if false {",
        test: "open_files::edits_of_what_has_a_sidecar_show",
    },
    Guard {
        name: "cache-gives-way-everywhere",
        file: "src/handlers/open_files/mod.rs",
        old: "if self.short_known.replace(short) != short {",
        new: "if self.short_known.replace(short) > short {",
        test: "shortage::what_one_worker_needs_is_given_by_all",
    },
    Guard {
        name: "cache-gives-way-to-the-pool",
        file: "src/handlers/open_files/mod.rs",
        old: "        if is_short\n            && let Some",
        new: "        if !is_short\n            && let Some",
        test: "shortage::what_is_kept_gives_way_to_the_pool",
    },
    Guard {
        name: "cache-gives-way",
        file: "src/handlers/open_files/mod.rs",
        old: "        found.shrink(before / 2);\n",
        new: "",
        test: "open_files::kept_descriptors_give_way",
    },
];
