//! What a worker does: clients that ask for slots, one at a time each.

use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};

use super::gcra;
use crate::workers::{self, Count, Report};

/// What is measured.
pub(crate) struct Case {
    /// Scopes of each slot: the host, its group, all hosts.
    pub(super) scopes: usize,
    /// Who ask at the same time, each by a connection of its own.
    pub(super) clients: usize,
    /// For how long.
    pub(super) span: Duration,
}

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    Comity,
    ComityOneDomain,
    Gcra,
    Bottleneck,
}

/// A connected client.
pub(super) trait Client: Send {
    /// Asks for a slot; `false` where there is none now.
    fn claim(&mut self) -> anyhow::Result<bool>;

    /// Gives its place back.
    fn release(&mut self) -> anyhow::Result<()>;
}

impl Contender {
    /// The one that the others are compared with is first.
    pub(super) const ALL: &[Self] = &[Self::Comity, Self::ComityOneDomain, Self::Gcra, Self::Bottleneck];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Comity => "comity-redis",
            Self::ComityOneDomain => "- all of one domain",
            Self::Gcra => "GCRA script, no places",
            Self::Bottleneck => "Bottleneck (Node.js)",
        }
    }

    /// Whether it is another than the others with so many scopes.
    pub(super) fn takes_part(self, scopes: usize) -> bool {
        match self {
            Self::ComityOneDomain => scopes > 1,
            _ => true,
        }
    }

    fn connect(self, port: u16, scopes: usize) -> anyhow::Result<Box<dyn Client>> {
        Ok(match self {
            Self::Comity => super::comity::connect(port, ["*.example.org", "*"].into_iter().take(scopes - 1))?,
            Self::ComityOneDomain => super::comity::connect(port, ["*.shop.example.org", "*.example.org"].into_iter())?,
            Self::Gcra => Box::new(gcra::connect(port, scopes)?),
            Self::Bottleneck => bail!("Bottleneck is no worker of this program"),
        })
    }
}

impl Case {
    /// The arguments of a worker.
    pub(super) fn words(&self, port: u16) -> [String; 4] {
        [port.to_string(), self.scopes.to_string(), self.clients.to_string(), self.span.as_millis().to_string()]
    }
}

/// Connects, waits for the word, asks, and reports.
pub(crate) fn worker(words: &[&str]) -> anyhow::Result<()> {
    let [contender, port, scopes, clients, millis] = words else { bail!("a worker takes five words") };
    let contender = Contender::ALL.iter().find(|known| format!("{known:?}") == *contender);
    let contender = contender.context("no contender is called so")?;
    let (port, scopes) = (port.parse()?, scopes.parse()?);
    let span = Duration::from_millis(millis.parse()?);
    let mut clients = (0..clients.parse()?)
        .map(|_| contender.connect(port, scopes))
        .collect::<anyhow::Result<Vec<Box<dyn Client>>>>()?;
    for client in &mut clients {
        // Whatever the first slot takes (a script to load, a name to tell) is done before.
        slot(&mut **client)?;
    }
    workers::ready()?;
    work(&mut clients, span)?.print()
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn work(clients: &mut [Box<dyn Client>], span: Duration) -> anyhow::Result<Report> {
    let begun = Instant::now();
    let parts: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            clients.iter_mut().map(|client| scope.spawn(move || ask(&mut **client, begun, span))).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a client panicked"))?).collect()
    });
    let spent = begun.elapsed();
    let mut all = Count::new()?;
    for part in parts {
        all.add(&part?)?;
    }
    Ok(all.report(spent))
}

#[expect(clippy::disallowed_methods, reason = "a benchmark waits")]
fn ask(client: &mut dyn Client, begun: Instant, span: Duration) -> anyhow::Result<Count> {
    let mut count = Count::new()?;
    while begun.elapsed() < span {
        let (took, granted) = slot(client)?;
        count.claim(took, granted);
        if !granted {
            std::thread::sleep(ASK_AGAIN);
        }
    }
    Ok(count)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn slot(client: &mut dyn Client) -> anyhow::Result<(Duration, bool)> {
    let start = Instant::now();
    let granted = client.claim()?;
    let took = start.elapsed();
    if granted {
        client.release()?;
    }
    Ok((took, granted))
}

/// Whoever gets no slot waits a little: it would only keep the processor from those who do.
const ASK_AGAIN: Duration = Duration::from_millis(1);
