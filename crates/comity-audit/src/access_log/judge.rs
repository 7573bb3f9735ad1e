//! Each client of a log, judged by the pace it promised.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::{Log, Party};
use crate::arrivals::Gaps;

/// Judges every client at every host by the law that in any window of length w there are at most
/// burst + (w + grain + tolerance) / promised arrivals; the worst comes first.
///
/// `promised` is the spacing that was promised, `burst` how many requests may come at once (1 where none may come before
/// its time; 0 counts as 1), `tolerance` what the path there may squeeze together. The log's [`grain`](Log::grain) is
/// added because two times may each be off by nearly that: nothing is blamed that rounding may explain.
pub fn judge(log: &Log, promised: Duration, tolerance: Duration, burst: u32) -> Vec<ClientVerdict> {
    let law = Law { promised, leeway: log.grain.saturating_add(tolerance), burst: burst.max(1) };
    let groups = Groups::of(log);
    let mut verdicts: Vec<_> = groups.all.into_iter().map(|group| group.judge(law, log.grain)).collect();
    verdicts.sort_by(|(excess, one), (other_excess, other)| {
        let rank = |excess: i128, verdict: &ClientVerdict| {
            (verdict.verdict, std::cmp::Reverse(excess), std::cmp::Reverse(verdict.requests))
        };
        rank(*excess, one)
            .cmp(&rank(*other_excess, other))
            .then_with(|| (&one.client, &one.host).cmp(&(&other.client, &other.host)))
    });
    verdicts.into_iter().map(|(_, verdict)| verdict).collect()
}

/// Whether a client kept its promise; the worst is the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Some window has more arrivals than the promise, and all rounding, allow.
    Fails,
    /// No window has.
    Passes,
    /// There are so few arrivals that they would be allowed even at one instant: nothing can be told from them.
    TooFew,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Fails => "fails",
            Self::Passes => "passes",
            Self::TooFew => "too few",
        })
    }
}

/// What a log says about one client at one host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientVerdict {
    /// The client's address or name.
    pub client: String,
    /// The host it asked, where the log says.
    pub host: Option<String>,
    /// The agent that most of its requests named.
    pub agent: Option<String>,
    /// How many requests arrived.
    pub requests: usize,
    /// How many were answered with 429 or 503.
    pub refused: usize,
    /// The shortest gap, as measured; the truth may be up to a grain more or less.
    #[serde(rename = "least_gap_ms", serialize_with = "millis_if_any")]
    pub least_gap: Option<Duration>,
    /// How many gaps there are.
    pub gaps: usize,
    /// How many of them are shorter than was promised, whatever rounding did. A burst may explain them.
    pub short_gaps: usize,
    /// Gaps a second from the first arrival to the last; `None` without a span.
    pub rate_per_second: Option<f64>,
    /// That rate over the promised one.
    pub rate_over_promised: Option<f64>,
    /// The window with the most arrivals beyond what its length allows, or the one that comes nearest to that.
    pub worst_window: Window,
    /// How fine the log's times are.
    #[serde(rename = "grain_ms", serialize_with = "millis")]
    pub grain: Duration,
    /// Whether the promise was kept.
    pub verdict: Verdict,
}

/// A stretch of time from one arrival to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Window {
    /// Arrivals in it, both ends included.
    pub arrivals: usize,
    /// From the first of them to the last, as measured.
    #[serde(rename = "span_ms", serialize_with = "millis")]
    pub span: Duration,
    /// How many the promise, the grain and the tolerance allow in it.
    pub allowed: u64,
}

/// Verdicts as a table to print.
#[derive(Clone, Copy, Debug)]
pub struct LogTable<'a>(pub &'a [ClientVerdict]);

impl fmt::Display for LogTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<_> = std::iter::once(HEADINGS.map(Cow::Borrowed)).chain(self.0.iter().map(cells)).collect();
        let mut widths = [0; COLUMNS];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        for row in &rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let cell =
                    if LEFT.contains(&column) { format!("{cell:<width$}  ") } else { format!("{cell:>width$}  ") };
                line.push_str(&cell);
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

fn cells(verdict: &ClientVerdict) -> [Cow<'_, str>; COLUMNS] {
    let number = |number: Option<f64>| number.map_or("-".into(), |number| format!("{number:.2}").into());
    let window = verdict.worst_window;
    [
        verdict.client.as_str().into(),
        verdict.host.as_deref().unwrap_or("-").into(),
        verdict.requests.to_string().into(),
        verdict.refused.to_string().into(),
        verdict.least_gap.map_or("-".into(), |gap| length(gap).into()),
        format!("{} of {}", verdict.short_gaps, verdict.gaps).into(),
        number(verdict.rate_per_second),
        number(verdict.rate_over_promised),
        format!("{} in {}, {} allowed", window.arrivals, length(window.span), window.allowed).into(),
        format!("{}, times to {}", verdict.verdict, length(verdict.grain)).into(),
    ]
}

/// A length of time, in the unit it is read in best.
fn length(length: Duration) -> String {
    let secs = length.as_secs_f64();
    match length.as_nanos() {
        0 => "0 s".into(),
        1_000_000_000.. => format!("{} s", (secs * 1000.0).round() / 1000.0),
        1_000_000.. => format!("{} ms", (secs * 1e6).round() / 1000.0),
        _ => format!("{} µs", secs * 1e6),
    }
}

#[derive(Clone, Copy)]
struct Law {
    promised: Duration,
    leeway: Duration,
    burst: u32,
}

impl Law {
    /// What (arrivals × promised − span) may be at most in any window; in nanoseconds.
    fn slack(self) -> i128 {
        nanos(self.promised).saturating_mul(self.burst.into()).saturating_add(nanos(self.leeway))
    }

    /// The window where that is most, and what it is there. What comes before a window that is worth nothing only makes it
    /// longer, so one walk finds it.
    fn worst(self, times: &[u64]) -> (i128, Window) {
        let promised = nanos(self.promised);
        let (mut from, mut worth, mut last) = (0, 0_i128, None);
        let (mut most, mut worst) = (0, (0, 0));
        for (to, &time) in times.iter().enumerate() {
            worth -= i128::from(last.map_or(0, |last| time - last));
            if worth <= 0 {
                (from, worth) = (to, 0);
            }
            worth += promised;
            last = Some(time);
            if worth > most {
                (most, worst) = (worth, (from, to));
            }
        }
        let (from, to) = worst;
        let span = match (times.get(from), times.get(to)) {
            (Some(from), Some(to)) => Duration::from_nanos(to - from),
            _ => Duration::ZERO,
        };
        (most, Window { arrivals: (to + 1 - from).min(times.len()), span, allowed: self.allowed(span) })
    }

    fn allowed(self, span: Duration) -> u64 {
        let room = nanos(span).saturating_add(nanos(self.leeway));
        let more =
            room.checked_div(nanos(self.promised)).map_or(u64::MAX, |more| u64::try_from(more).unwrap_or(u64::MAX));
        more.saturating_add(self.burst.into())
    }
}

fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}

/// The arrivals of one client at one host.
struct Group<'a> {
    party: &'a Party,
    times: Vec<u64>,
    refused: usize,
    agents: BTreeMap<Option<&'a str>, usize>,
}

impl Group<'_> {
    /// The verdict, and by how much the worst window is over the law; in nanoseconds.
    fn judge(mut self, law: Law, grain: Duration) -> (i128, ClientVerdict) {
        self.times.sort_unstable();
        let (most, worst_window) = law.worst(&self.times);
        let at_once = nanos(law.promised).saturating_mul(i128::try_from(self.times.len()).unwrap_or(i128::MAX));
        let verdict = match law.slack() {
            slack if at_once <= slack => Verdict::TooFew,
            slack if most <= slack => Verdict::Passes,
            _ => Verdict::Fails,
        };
        let gaps = Gaps::of(&self.times.iter().map(|&at| Duration::from_nanos(at)).collect::<Vec<_>>());
        let rate_per_second = gaps.per_second();
        let agent = self.agents.iter().max_by_key(|&(_, count)| count).and_then(|(agent, _)| *agent);
        let verdict = ClientVerdict {
            client: self.party.client.clone(),
            host: self.party.host.clone(),
            agent: agent.map(str::to_owned),
            requests: gaps.arrivals(),
            refused: self.refused,
            least_gap: gaps.least(),
            gaps: gaps.count(),
            short_gaps: gaps.below(law.promised.saturating_sub(law.leeway)),
            rate_per_second,
            rate_over_promised: rate_per_second.map(|rate| rate * law.promised.as_secs_f64()),
            worst_window,
            grain,
            verdict,
        };
        (most - law.slack(), verdict)
    }
}

/// A log by client and host.
struct Groups<'a> {
    all: Vec<Group<'a>>,
}

impl<'a> Groups<'a> {
    fn of(log: &'a Log) -> Self {
        let mut all: Vec<Group<'a>> = Vec::new();
        let mut numbers = HashMap::new();
        // Parties that differ by their agent alone are one.
        let by_party: Vec<usize> = log
            .parties
            .iter()
            .map(|party| {
                *numbers.entry((&party.client, &party.host)).or_insert_with(|| {
                    all.push(Group { party, times: Vec::new(), refused: 0, agents: BTreeMap::new() });
                    all.len() - 1
                })
            })
            .collect();
        for entry in &log.entries {
            let party = entry.party as usize;
            let group = by_party.get(party).and_then(|&group| all.get_mut(group));
            if let (Some(group), Some(party)) = (group, log.parties.get(party)) {
                group.times.push(entry.at);
                group.refused += usize::from(entry.status.is_some_and(|status| REFUSALS.contains(&status)));
                *group.agents.entry(party.agent.as_deref()).or_default() += 1;
            }
        }
        Self { all }
    }
}

fn millis<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64() * 1000.0)
}

#[expect(clippy::ref_option, reason = "serde hands over a reference to the field")]
fn millis_if_any<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    duration.map(|duration| duration.as_secs_f64() * 1000.0).serialize(serializer)
}

/// Statuses by which a server says that it was too much (RFC 6585 section 4, RFC 9110 section 15.6.4).
const REFUSALS: [u16; 2] = [429, 503];
const COLUMNS: usize = 10;
const HEADINGS: [&str; COLUMNS] = [
    "client",
    "host",
    "requests",
    "refused",
    "least gap",
    "short gaps",
    "rate/s",
    "of promised",
    "worst window",
    "verdict",
];
/// Columns of words, which begin at their left.
const LEFT: [usize; 3] = [0, 1, 9];
