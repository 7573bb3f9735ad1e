//! How long things took, of one process or of several.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context;
use hdrhistogram::Histogram;

/// Spans up to [`MOST`], in nanoseconds, each known within a thousandth.
#[derive(Clone)]
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self(Histogram::new_with_bounds(1, MOST.as_nanos() as u64, 3)?))
    }

    pub(crate) fn record(&mut self, span: Duration) {
        self.0.saturating_record(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn add(&mut self, other: &Self) -> anyhow::Result<()> {
        Ok(self.0.add(&other.0)?)
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// Microseconds that so large a part of all took no longer than.
    pub(crate) fn micros(&self, part: f64) -> f64 {
        self.0.value_at_quantile(part) as f64 / 1e3
    }

    /// Microseconds of the longest.
    pub(crate) fn worst(&self) -> f64 {
        self.0.max() as f64 / 1e3
    }

    /// As words of one line: nanoseconds, a colon and how often.
    pub(crate) fn to_words(&self) -> String {
        self.0.iter_recorded().fold(String::new(), |mut line, step| {
            let _ = write!(line, " {}:{}", step.value_iterated_to(), step.count_at_value());
            line
        })
    }

    /// Reads [`Latencies::to_words`].
    pub(crate) fn from_words<'a>(words: impl Iterator<Item = &'a str>) -> anyhow::Result<Self> {
        let mut read = Self::new()?;
        for word in words {
            let (nanos, count) = word.split_once(':').with_context(|| format!("`{word}` is no latency"))?;
            read.0.record_n(nanos.parse()?, count.parse()?)?;
        }
        Ok(read)
    }
}

/// Longer than any round.
const MOST: Duration = Duration::from_secs(600);
