//! Guards of what is made out of files: compressed bytes, pages for errors, listings; and of who may read
//! them from elsewhere.

use super::Guard;

pub(super) const GUARDS: &[Guard] = &[
    Guard {
        name: "compressed-version",
        file: "src/fs/read.rs",
        old: "(Version::of(&after) == version).then_some(content)",
        new: "(Version::of(&after) == version || true).then_some(content)",
        test: "handlers::compress::store::tests::what_changed_since_it_was_opened_is_not_kept",
    },
    Guard {
        name: "compressed-once-a-version",
        file: "src/handlers/compress/kept.rs",
        old: ".filter(|entry| entry.version == *version)?;",
        new: ".filter(|entry| entry.version == *version || true)?;",
        test: "compress::a_changed_file_is_never_answered_with_its_old_bytes",
    },
    Guard {
        name: "no-range-of-a-made-coding",
        file: "src/handlers/compress/mod.rs",
        old: ".contains(&file.stat().size) && !asked.has_range()",
        new: ".contains(&file.stat().size) && (!asked.has_range() || true)",
        test: "compress::parts_and_what_may_not_be_changed_go_out_as_they_are",
    },
    Guard {
        name: "no-transform",
        file: "src/handlers/found.rs",
        old: " && !cache_control.forbids_transform(name);",
        new: ";",
        test: "compress::parts_and_what_may_not_be_changed_go_out_as_they_are",
    },
    Guard {
        name: "listing-links",
        file: "src/fs/listing.rs",
        old: "Kind::Link | Kind::Other => None,",
        new: "Kind::Link | Kind::Other => Some(stat),",
        test: "listing::what_is_listed_is_what_is_served",
    },
    Guard {
        name: "listing-escapes",
        file: "src/semantics/escape.rs",
        old: "'<' => out.push_str(\"&lt;\"),",
        new: "'<' => out.push('<'),",
        test: "listing::names_are_text_and_links_lead_to_their_files",
    },
    Guard {
        name: "listing-links-are-relative",
        file: "src/semantics/escape.rs",
        old: "    out.push_str(\"./\");\n",
        new: "",
        test: "listing::names_are_text_and_links_lead_to_their_files",
    },
    Guard {
        name: "origin-as-a-whole",
        file: "src/semantics/origin.rs",
        old: "Pattern::Exact(origin) => origin.as_bytes() == value,",
        new: "Pattern::Exact(origin) => value.starts_with(origin.as_bytes()),",
        test: "cors::an_origin_is_allowed_as_a_whole_or_not_at_all",
    },
    Guard {
        name: "vary-origin",
        file: "src/handlers/cors.rs",
        old: "    if varies {\n        reply.fields.vary(\"Origin\");",
        new: "    if varies && lines.is_some() {\n        reply.fields.vary(\"Origin\");",
        test: "cors::the_fields_are_on_all_answers_of_files",
    },
];
