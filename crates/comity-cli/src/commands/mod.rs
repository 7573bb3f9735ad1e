//! The commands, one file each.

mod audit;
mod demo;
mod explain;
mod fetch;
mod forget;
mod guard;
mod hosts;
mod presets;
mod simulate;

use anyhow::Result;
use clap::Subcommand;

use crate::exit::Exit;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Fetch(Box<fetch::FetchCommand>),
    Demo(demo::DemoCommand),
    Explain(explain::ExplainCommand),
    Hosts(hosts::HostsCommand),
    Forget(forget::ForgetCommand),
    Presets(presets::PresetsCommand),
    Audit(Box<audit::AuditCommand>),
    Guard(Box<guard::GuardCommand>),
    Simulate(simulate::SimulateCommand),
}

impl Command {
    /// Its name on the command line.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Fetch(_) => "fetch",
            Self::Demo(_) => "demo",
            Self::Explain(_) => "explain",
            Self::Hosts(_) => "hosts",
            Self::Forget(_) => "forget",
            Self::Presets(_) => "presets",
            Self::Audit(_) => "audit",
            Self::Guard(_) => "guard",
            Self::Simulate(_) => "simulate",
        }
    }

    /// Does it.
    pub(crate) fn run(self) -> Result<Exit> {
        match self {
            Self::Fetch(fetch) => fetch.run(),
            Self::Demo(demo) => demo.run(),
            Self::Explain(explain) => explain.run(),
            Self::Hosts(hosts) => hosts.run(),
            Self::Forget(forget) => forget.run(),
            Self::Presets(presets) => presets.run(),
            Self::Audit(audit) => audit.run(),
            Self::Guard(guard) => guard.run(),
            Self::Simulate(simulate) => simulate.run(),
        }
    }
}
