//! The lab in containers: `deployment` is what a server wants of them for a row, `project` a run of
//! compose.yaml that goes with its owner, `layer` an image with the fixture in a layer, `engine` says what is missing, `inside` is what the lab asks in its containers,
//! `collector` takes a server's spans in its network,
//! `processes` finds theirs among those of this machine, `words` is what they say.
//! compose.yaml says what they may do and on which CPUs they run.

pub mod collector;
pub mod deployment;
pub mod engine;
pub mod inside;
pub mod layer;
pub mod processes;
pub mod project;
pub mod words;

pub use collector::{COLLECTOR_PORT, Collector};
pub use deployment::{Deployment, Images};
pub use layer::Layer;
pub use project::Project;

use std::time::Duration;

/// In every container's own network.
pub const PORT: u16 = 8080;
/// For what the engine does at once.
pub const QUICK: Duration = Duration::from_secs(30);
/// From a container's start to its server's first answer.
pub const READY: Duration = Duration::from_secs(30);
/// For containers to start, and to go again.
pub const UP: Duration = Duration::from_secs(120);
/// Between two looks at something that gives no notice.
pub const LOOK_AGAIN: Duration = Duration::from_millis(50);
