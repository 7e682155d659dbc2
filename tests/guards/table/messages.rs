//! Guards of framing: a message has one reading, or it is refused and its connection ends.

use super::Guard;

pub(super) const GUARDS: &[Guard] = &[
    Guard {
        name: "length-beside-chunks",
        file: "src/semantics/head.rs",
        old: "if self.chunked && self.length.is_some() {",
        new: "if self.chunked && self.length.is_some() && self.host.is_none() {",
        test: "semantics::head::tests::framing_is_one_thing_or_refused",
    },
    Guard {
        name: "one-length",
        file: "src/semantics/head.rs",
        old: "        if self.length.is_some() {\n            return Err(Refusal::bad(\"more than one Content-Length field\"));\n        }\n",
        new: "",
        test: "semantics::head::tests::framing_is_one_thing_or_refused",
    },
    Guard {
        name: "length-is-a-number",
        file: "src/semantics/head.rs",
        old: "if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {",
        new: "let value = value.strip_prefix(b\"+\").unwrap_or(value);\n        \
              if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {",
        test: "semantics::head::tests::framing_is_one_thing_or_refused",
    },
    Guard {
        name: "one-host",
        file: "src/semantics/head.rs",
        old: "        if self.host.is_some() {\n            return Err(Refusal::bad(\"more than one Host field\"));\n        }\n",
        new: "",
        test: "routes::exactly_one_valid_host",
    },
    Guard {
        name: "host-is-there",
        file: "src/semantics/head.rs",
        old: "if self.host.is_none() && version == Version::Http11 {",
        new: "if self.host.is_none() && version == Version::Http10 && self.chunked {",
        test: "routes::exactly_one_valid_host",
    },
    Guard {
        name: "chunked-is-one-word",
        file: "src/semantics/head.rs",
        old: "if !again && value.eq_ignore_ascii_case(b\"chunked\") {",
        new: "if value.to_ascii_lowercase().ends_with(b\"chunked\") {",
        test: "semantics::head::tests::framing_is_one_thing_or_refused",
    },
    Guard {
        name: "no-chunks-in-1.0",
        file: "src/semantics/head.rs",
        old: "if self.chunked && version == Version::Http10 {",
        new: "if self.chunked && version == Version::Http10 && self.length.is_some() {",
        test: "semantics::head::tests::framing_is_one_thing_or_refused",
    },
    Guard {
        name: "lines-end-with-crlf",
        file: "src/connection/h1/head.rs",
        old: "if line_feed == *line_start || input[line_feed - 1] != b'\\r' {",
        new: "if line_feed == *line_start {",
        test: "corpus::refused_as_the_first_request",
    },
    Guard {
        name: "chunk-size",
        file: "src/connection/h1/body.rs",
        old: "        if !(1..=15).contains(&digits) || !matches!(extensions.first(), None | Some(b';')) {\n            \
              return Err(SIZE);\n        }\n        check_extensions(extensions)?;\n",
        new: "        if !(1..=15).contains(&digits) {\n            return Err(SIZE);\n        }\n",
        test: "connection::h1::body::tests::everything_else_is_refused",
    },
    Guard {
        name: "chunk-extensions",
        file: "src/connection/h1/body.rs",
        old: "        check_extensions(extensions)?;\n",
        new: "",
        test: "connection::h1::body::tests::everything_else_is_refused",
    },
    Guard {
        name: "chunk-end",
        file: "src/connection/h1/body.rs",
        old: "                    [] | [b'\\r'] => 0,\n                    _ => return Err(DATA_END),\n",
        new: "                    [] | [b'\\r'] => 0,\n                    [b'\\n', ..] => self.go(State::Size, 1),\n                    \
              _ => self.go(State::Size, 0).max(1) - 1,\n",
        test: "connection::h1::body::tests::everything_else_is_refused",
    },
    Guard {
        name: "body-is-no-request",
        file: "src/connection/h1/engine.rs",
        old: "if head.rules.framing == Framing::None {",
        new: "if head.rules.framing == Framing::None || head.method == b\"GET\" {",
        test: "bodies::a_body_on_get_is_never_a_request",
    },
    Guard {
        name: "close-is-the-end",
        file: "src/connection/h1/account.rs",
        old: "if !meta.keep_alive && self.end == End::Open {",
        new: "if !meta.keep_alive && self.end == End::Open && status == 0 {",
        test: "bodies::nothing_after_close_is_answered",
    },
    Guard {
        name: "head-has-no-body",
        file: "src/connection/h1/answer.rs",
        old: "            _ if meta.is_head => {}\n",
        new: "",
        test: "head::a_get_pipelined_behind_a_head_is_found",
    },
    Guard {
        name: "log-line",
        file: "src/telemetry/access.rs",
        old: "            b'\"' | b'\\\\' => special(out, *byte),\n",
        new: "",
        test: "logs::a_log_line_cannot_be_forged",
    },
    Guard {
        name: "absolute-form-names-the-host",
        file: "src/connection/h1/request.rs",
        old: "let authority = authority.unwrap_or(head.rules.host);",
        new: "let authority = Some(head.rules.host).filter(|host| !host.is_empty()).or(authority).unwrap_or_default();",
        test: "routes::the_absolute_form_names_the_host",
    },
];
