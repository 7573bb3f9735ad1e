//! Processes that work at the same time, and what they report.
//!
//! A worker says `ready`, waits for a line on its stdin, works, and says in one line how it went.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};

use crate::latencies::Latencies;

/// What one worker, or all of them together, did.
pub(crate) struct Report {
    /// Claims that were granted, a second; of several workers the sum.
    pub(crate) rate: f64,
    /// How long those took.
    pub(crate) latencies: Latencies,
    /// Claims that were not granted.
    pub(crate) refused: u64,
    /// How long the longest claim of all took, in microseconds.
    pub(crate) worst: f64,
}

/// What a worker counts.
pub(crate) struct Count {
    granted: Latencies,
    refused: Latencies,
}

impl Count {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self { granted: Latencies::new()?, refused: Latencies::new()? })
    }

    /// A claim took so long, and was granted or not.
    pub(crate) fn claim(&mut self, took: Duration, granted: bool) {
        let latencies = if granted { &mut self.granted } else { &mut self.refused };
        latencies.record(took);
    }

    pub(crate) fn add(&mut self, other: &Self) -> anyhow::Result<()> {
        self.granted.add(&other.granted)?;
        self.refused.add(&other.refused)
    }

    /// Of a worker that spent so long.
    pub(crate) fn report(self, spent: Duration) -> Report {
        Report {
            rate: self.granted.count() as f64 / spent.as_secs_f64(),
            refused: self.refused.count(),
            worst: self.granted.worst().max(self.refused.worst()),
            latencies: self.granted,
        }
    }
}

impl Report {
    /// Tells it whoever started this process.
    pub(crate) fn print(&self) -> anyhow::Result<()> {
        let line = format!("{} {} {}{}", self.rate, self.refused, self.worst, self.latencies.to_words());
        Ok(writeln!(std::io::stdout(), "{line}")?)
    }

    fn read(line: &str) -> anyhow::Result<Self> {
        let mut words = line.split_whitespace();
        let mut number = || words.next().with_context(|| format!("a worker said `{}`", line.trim_end()));
        let (rate, refused, worst) = (number()?.parse()?, number()?.parse()?, number()?.parse()?);
        Ok(Self { rate, refused, worst, latencies: Latencies::from_words(words)? })
    }

    fn add(&mut self, other: &Self) -> anyhow::Result<()> {
        self.rate += other.rate;
        self.refused += other.refused;
        self.worst = self.worst.max(other.worst);
        self.latencies.add(&other.latencies)
    }
}

/// Says that all is prepared, and waits until all others are.
pub(crate) fn ready() -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{READY}")?;
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}

/// Started processes that wait for the word to go. Dropped, they are ended.
pub(crate) struct Workers(Vec<(Child, BufReader<ChildStdout>)>);

impl Workers {
    /// Starts them and waits until each is ready.
    pub(crate) fn start(commands: impl Iterator<Item = Command>) -> anyhow::Result<Self> {
        let mut workers = Self(Vec::new());
        for mut command in commands {
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
            let stdout = child.stdout.take().context("a worker has no stdout")?;
            workers.0.push((child, BufReader::new(stdout)));
        }
        for (_, stdout) in &mut workers.0 {
            let mut line = String::new();
            stdout.read_line(&mut line)?;
            if line.trim_end() != READY {
                bail!("a worker is not ready: `{}`", line.trim_end());
            }
        }
        Ok(workers)
    }

    /// Lets them go, and waits for all they report.
    pub(crate) fn go(&mut self) -> anyhow::Result<Report> {
        for (child, _) in &mut self.0 {
            child.stdin.as_mut().context("a worker has no stdin")?.write_all(b"go\n")?;
        }
        let mut all: Option<Report> = None;
        for (_, stdout) in &mut self.0 {
            let mut line = String::new();
            stdout.read_line(&mut line)?;
            let one = Report::read(&line)?;
            match &mut all {
                Some(all) => all.add(&one)?,
                None => all = Some(one),
            }
        }
        all.context("there were no workers")
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for (child, _) in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

const READY: &str = "ready";
