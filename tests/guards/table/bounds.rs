//! Guards of what a client, a file system or a stranger could take: time, threads, places, memory.

use super::Guard;

pub(super) const GUARDS: &[Guard] = &[
    Guard {
        name: "worker-never-waits",
        file: "src/fs/resolve.rs",
        old: "let mut resolve = links.flags() | file::RESOLVE_CACHED;",
        new: "let mut resolve = links.flags();",
        test: "waits::the_trace_of_a_worker_shows_no_call_that_waits",
    },
    Guard {
        name: "remote-is-never-touched",
        file: "src/fs/root.rs",
        old: "if directory.mode == Mode::Remote || !self.root.support.cached {",
        new: "if !self.root.support.cached {",
        test: "fs::root::tests::a_remote_root_is_left_to_the_pool",
    },
    Guard {
        name: "unknown-is-remote",
        file: "src/fs/device.rs",
        old: "\"ceph\" | \"afs\" | \"unknown\" => Mode::Remote,",
        new: "\"ceph\" | \"afs\" => Mode::Remote,",
        test: "fs::device::tests::what_is_not_known_to_be_local_is_remote",
    },
    Guard {
        name: "mounts-beneath",
        file: "src/fs/root.rs",
        old: "        !beneath || right",
        new: "        !beneath || !right.is_empty() || right",
        test: "fs::root::tests::mounts_beneath_a_root_are_judged_by_type",
    },
    Guard {
        name: "a-second-try",
        file: "src/fs/resolve.rs",
        old: "if tries < RESOLVE_TRIES_AT_ONCE {",
        new: "if tries < RESOLVE_TRIES_AT_ONCE && start.elapsed() < Duration::from_millis(RESOLVE_MS_MAX) {",
        test: "fs::resolve::tests::a_walk_that_lost_its_core_is_tried_again",
    },
    Guard {
        name: "pool-bound",
        file: "src/offload.rs",
        old: "if self.pool.jobs() > self.pool.jobs_max {",
        new: "if self.pool.jobs() > self.pool.jobs_max.saturating_mul(1000) {",
        test: "offload::tests::a_full_pool_refuses_and_a_panic_is_not_lost_from_the_count",
    },
    Guard {
        name: "closing-waits-elsewhere",
        file: "src/fs/file.rs",
        old: "Mode::Remote => true,",
        new: "Mode::Remote => false,",
        test: "fs::file::tests::only_a_close_that_may_block_goes_to_the_pool",
    },
    Guard {
        name: "connections",
        file: "src/server/shared.rs",
        old: "< self.connections_max).then_some(place)",
        new: "< self.connections_max * 1000).then_some(place)",
        test: "server::shared::tests::places_are_given_back",
    },
    Guard {
        name: "head-size",
        file: "src/connection/h1/head.rs",
        old: "    (input.len() > as_usize(limits.head_bytes_max)).then_some(HEAD_TOO_LARGE)\n",
        new: "    None\n",
        test: "connection::h1::head::tests::sizes_are_told_apart",
    },
    Guard {
        name: "body-size",
        file: "src/connection/h1/body.rs",
        old: "if self.decoded + size > limits.body_bytes_max {",
        new: "if size > limits.body_bytes_max {",
        test: "connection::h1::body::tests::everything_else_is_refused",
    },
    Guard {
        name: "extension-bytes",
        file: "src/connection/h1/body.rs",
        old: "if self.extension_bytes > limits.chunk_extension_bytes_max {",
        new: "if self.extension_bytes > limits.chunk_extension_bytes_max * 1000 {",
        test: "connection::h1::body::tests::everything_else_is_refused",
    },
    Guard {
        name: "empty-lines",
        file: "src/connection/h1/engine.rs",
        old: "if self.empty_lines > EMPTY_LINES_MAX {",
        new: "if self.empty_lines > EMPTY_LINES_MAX * 50 {",
        test: "limits::other_protocols_are_turned_away",
    },
];
