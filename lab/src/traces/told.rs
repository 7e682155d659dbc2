//! What a server says of its spans at its end: the line `stopped` of its log.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// See the module. `made` is the sum of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Spans of requests that were chosen.
    pub made: u64,
    /// The collector took them.
    pub exported: u64,
    /// It did not get them, by cause.
    pub dropped: BTreeMap<String, u64>,
}

impl Told {
    /// Out of the end of a log; `None` where the server did not come to its end or knows no spans.
    #[must_use]
    pub fn read(log: &str) -> Option<Told> {
        let lines = log.lines().rev().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let stopped = lines.into_iter().find(|line| line["event"] == "stopped")?;
        serde_json::from_value(stopped.get("spans")?.clone()).ok()
    }

    /// All of them.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.dropped.values().sum()
    }
}

impl fmt::Display for Told {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} made, {} arrived", self.made, self.exported)?;
        for (cause, count) in self.dropped.iter().filter(|(_, count)| **count > 0) {
            write!(formatter, ", {count} dropped ({})", cause.replace('_', " "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_read_and_no_other() {
        let log = "not json\n{\"event\":\"stopped\",\"spans\":{\"made\":9,\"exported\":6,\
                   \"dropped\":{\"queue_full\":3,\"timeout\":0}}}\n";
        let told = Told::read(log).unwrap();
        assert_eq!((told.made, told.exported, told.lost()), (9, 6, 3));
        assert_eq!(told.to_string(), "9 made, 6 arrived, 3 dropped (queue full)");
        assert_eq!(Told::read("{\"event\":\"stopped\"}"), None);
        assert_eq!(Told::read(""), None);
    }
}
