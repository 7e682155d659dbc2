//! `scalws-lab load`: a plan in, an outcome out, for containers that hold nothing but the generator.

use std::io::Read as _;
use std::path::PathBuf;

use clap::Args;

use super::{Bounds, Plan, connect};
use crate::Refusal;

/// A plan is a few hundred bytes.
const PLAN_BYTES_MAX: u64 = 1 << 20;

/// Runs a plan and prints its outcome as JSON.
#[derive(Debug, Args)]
pub struct Load {
    /// The plan as JSON; `-` reads it from stdin.
    #[arg(long, value_name = "FILE|-")]
    plan: PathBuf,
}

impl Load {
    /// Gives what is to be printed.
    ///
    /// # Errors
    /// There is no such plan, or its run was refused.
    pub fn run(&self) -> Result<String, Refusal> {
        let name = self.plan.display();
        let unread = |error: std::io::Error| Refusal::new(format!("the plan {name}: {error}"));
        let mut text = String::new();
        if self.plan.as_os_str() == "-" {
            std::io::stdin().lock().take(PLAN_BYTES_MAX).read_to_string(&mut text).map_err(unread)?;
        } else {
            let file = std::fs::File::open(&self.plan).map_err(unread)?;
            file.take(PLAN_BYTES_MAX).read_to_string(&mut text).map_err(unread)?;
        }
        let plan: Plan =
            serde_json::from_str(&text).map_err(|error| Refusal::new(format!("the plan {name}: {error}")))?;
        let outcome = connect(&plan, Bounds::default())?.run()?;
        serde_json::to_string(&outcome).map_err(|error| Refusal::new(error.to_string()))
    }
}
