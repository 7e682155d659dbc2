//! The model's reading of RFC 9110, held against ours here without sockets as in `tests/it/model` with.

#[path = "../it/model/codings.rs"]
pub mod codings;
#[path = "../it/model/conditions.rs"]
pub mod conditions;
#[path = "../it/model/dates.rs"]
pub mod dates;
#[path = "../it/model/ranges.rs"]
pub mod ranges;
#[path = "../it/model/tags.rs"]
pub mod tags;
