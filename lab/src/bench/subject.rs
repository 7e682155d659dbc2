//! A server of a row: a process beside the lab, or one in a container.

use std::net::SocketAddr;

use super::collector::Collector;
use super::contained::Contained;
use crate::Refusal;
use crate::load::{self, Expect, Plan};
use crate::measure::Counters;
use crate::place::Place;
use crate::servers::Running;

/// See the module.
pub enum Subject {
    /// Beside the lab.
    Process(Running),
    /// In its container.
    Container(Contained),
}

impl Subject {
    /// The root of its tree, as this machine numbers it.
    pub fn pid(&self) -> u32 {
        match self {
            Subject::Process(running) => running.pid(),
            Subject::Container(contained) => contained.pid(),
        }
    }

    /// Where the generator asks.
    pub fn address(&self) -> SocketAddr {
        match self {
            Subject::Process(running) => running.address(),
            Subject::Container(contained) => contained.address(),
        }
    }

    /// Whether it runs.
    pub fn is_alive(&mut self) -> bool {
        match self {
            Subject::Process(running) => running.is_alive(),
            Subject::Container(contained) => contained.is_alive(),
        }
    }

    /// Ends it, where it runs beside the lab; the end of what it said.
    pub fn stop(&mut self) -> String {
        match self {
            Subject::Process(running) => running.stop(),
            Subject::Container(contained) => contained.log(),
        }
    }

    /// The end of what it said.
    pub fn log(&self) -> String {
        match self {
            Subject::Process(running) => running.log(),
            Subject::Container(contained) => contained.log(),
        }
    }

    /// The container of its generator; `None`: the lab itself asks.
    pub fn load(&self) -> Option<&Place> {
        match self {
            Subject::Process(_) => None,
            Subject::Container(contained) => contained.load(),
        }
    }

    /// What it has cost so far.
    ///
    /// # Errors
    /// It is gone.
    pub fn cost(&self) -> Result<Counters, Refusal> {
        match self {
            Subject::Process(running) => Counters::of_tree(running.pid()),
            Subject::Container(contained) => contained.cost(),
        }
    }

    /// One request at the edge of a window.
    ///
    /// # Errors
    /// The answer is another, or there is none.
    pub fn check(&self, plan: &Plan) -> Result<(), Refusal> {
        match self {
            Subject::Process(_) => load::check(plan.address, plan.protocol, &plan.request, &plan.expect),
            Subject::Container(contained) => contained.check(plan),
        }
    }
}

/// A server that answered the probe, and what every later answer has to be.
pub struct Target {
    /// The server.
    pub subject: Subject,
    /// What is sent.
    pub request: String,
    /// What has to come.
    pub expect: Expect,
    /// Who takes its spans.
    pub collector: Option<Collector>,
}
