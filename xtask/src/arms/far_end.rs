//! The far end as a process: the witness shares nothing with what is measured, not even this program.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::limit::Limit;

/// Servers that record what arrives. Dropped, they end.
pub(super) struct FarEnd {
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
    pub(super) port: u16,
}

/// What arrived.
#[derive(Debug, Deserialize)]
pub(super) struct Log {
    /// What could not be recorded: with any of it there is no verdict.
    pub(super) unrecorded: u64,
    pub(super) arrivals: Vec<Arrival>,
}

/// One request; times in microseconds of the far end's clock.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Arrival {
    pub(super) host: String,
    pub(super) target: String,
    at_us: u64,
    answered_us: Option<u64>,
    queued_us: Option<u64>,
    pub(super) status: Option<u16>,
}

impl FarEnd {
    /// Starts the program, which plays these hosts, rested.
    pub(super) fn start(program: &Path, hosts: &[(String, Limit)]) -> anyhow::Result<Self> {
        let specs: Map<String, Value> = hosts.iter().map(|(name, limit)| (name.clone(), limit.spec())).collect();
        let mut command = Command::new(program);
        command.arg(Value::Object(specs).to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let asks = child.stdin.take().context("the far end has no stdin")?;
        let answers = BufReader::new(child.stdout.take().context("the far end has no stdout")?);
        let mut far_end = Self { child, asks, answers, port: 0 };
        far_end.port = far_end.line()?.parse().context("the far end names its port first")?;
        Ok(far_end)
    }

    /// Time since its start.
    pub(super) fn now(&mut self) -> anyhow::Result<Duration> {
        Ok(Duration::from_micros(self.ask("now")?.parse()?))
    }

    /// All that arrived since its start or the last report, which forgets it.
    pub(super) fn report(&mut self) -> anyhow::Result<Log> {
        let log = serde_json::from_str(&self.ask("report")?)?;
        self.ask("clear")?;
        Ok(log)
    }

    fn ask(&mut self, what: &str) -> anyhow::Result<String> {
        writeln!(self.asks, "{what}")?;
        self.line()
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }
}

impl Drop for FarEnd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Arrival {
    /// When it arrived.
    pub(super) fn at(&self) -> Duration {
        Duration::from_micros(self.at_us)
    }

    /// When its answer left.
    pub(super) fn answered(&self) -> Option<Duration> {
        self.answered_us.map(Duration::from_micros)
    }

    /// How long it waited in the host's queue, where that has one.
    pub(super) fn queued(&self) -> Option<Duration> {
        self.queued_us.map(Duration::from_micros)
    }

    #[cfg(test)]
    pub(super) fn of(host: &str, target: &str, at: u64, took: u64, status: u16) -> Self {
        let (host, target) = (host.to_owned(), target.to_owned());
        let (at_us, answered_us) = (at * 1000, Some((at + took) * 1000));
        Self { host, target, at_us, answered_us, queued_us: None, status: Some(status) }
    }

    #[cfg(test)]
    pub(super) fn queued_for(self, millis: u64) -> Self {
        Self { queued_us: Some(millis * 1000), ..self }
    }
}
