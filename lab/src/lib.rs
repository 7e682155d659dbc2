//! The profiling lab: any number can be rerun, any request can be looked into.
//!
//! `scenario` names what is asked, `fixture` lays out what is served and `cold` takes it out of the page cache,
//! `servers` starts who serves it, `traces` takes its spans,
//! `load` asks and checks every answer, `measure` reads what it cost from the kernel, `bench` compares
//! in interleaved rounds, `profile` looks inside, `report` writes it down; `place` runs commands, here or in
//! one of the `containers`. Nothing here is part of the server or its image.

pub mod bench;
pub mod cold;
pub mod containers;
pub mod cpus;
pub mod fixture;
pub mod inproc;
pub mod instructions;
pub mod interrupt;
pub mod load;
pub mod measure;
pub mod place;
pub mod profile;
pub mod refusal;
pub mod report;
pub mod scenario;
pub mod servers;
pub mod traces;

pub use refusal::Refusal;
