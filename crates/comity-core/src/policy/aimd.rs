//! Additive increase, multiplicative decrease on latency and errors (behaviours A1–A9).

use core::time::Duration;

use super::bytes::{Reader, Writer};
use super::{Change, Fact, Outcome};
use crate::time::{Instant, nanos};

/// Where the policy begins and what it may not leave (A1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AimdSettings {
    /// First interval.
    pub start: Duration,
    /// Where a host is taken to have objected before it ever did.
    pub threshold: Duration,
    /// Never faster (A8).
    pub floor: Duration,
    /// Never slower.
    pub ceiling: Duration,
    /// At most one increase of rate in so many answers (A9).
    pub damping: u8,
}

/// What was learned of one host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aimd {
    /// Nanoseconds, as is the next: half the room of a `Duration` in a table of a million hosts.
    interval: u64,
    threshold: u64,
    /// The last change; only answers to requests started since count (A9).
    changed: Instant,
    served: u8,
    latency: Latency,
}

impl Default for AimdSettings {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(1),
            threshold: Duration::from_secs(4),
            floor: Duration::from_millis(500),
            ceiling: Duration::from_secs(30),
            damping: 4,
        }
    }
}

impl AimdSettings {
    /// The same, begun at an interval that a person or a service set, and never faster.
    #[must_use]
    pub fn bounded_by(&self, interval: Duration) -> Self {
        Self {
            start: interval,
            floor: interval,
            threshold: self.threshold.max(interval),
            ceiling: self.ceiling.max(interval),
            damping: self.damping,
        }
    }
}

impl Aimd {
    /// A host nobody has asked yet.
    pub fn new(settings: &AimdSettings) -> Self {
        Self {
            interval: nanos(settings.start),
            threshold: nanos(settings.threshold),
            changed: Instant::ZERO,
            served: 0,
            latency: Latency::default(),
        }
    }

    /// The same, moved inside other bounds; where nothing was learned yet it begins where they do.
    pub(super) fn within(&self, settings: &AimdSettings) -> Self {
        if self.changed == Instant::ZERO {
            return Self { latency: self.latency, ..Self::new(settings) };
        }
        let interval = self.interval.clamp(nanos(settings.floor), nanos(settings.ceiling).max(nanos(settings.floor)));
        Self { interval, ..*self }
    }

    /// What is left of it after so long a rest.
    pub(super) fn aged(&self, idle: Duration, settings: &AimdSettings) -> Self {
        Self {
            interval: super::aged(self.interval, nanos(settings.start), idle),
            threshold: super::aged(self.threshold, nanos(settings.threshold), idle),
            ..*self
        }
    }

    /// The learned interval.
    pub fn interval(&self) -> Duration {
        Duration::from_nanos(self.interval)
    }

    /// Where the host last objected.
    pub fn threshold(&self) -> Duration {
        Duration::from_nanos(self.threshold)
    }

    /// The share of slow answers in the last window, in percent; a host with two populations shows here (A6).
    pub fn slow_share(&self) -> Option<u8> {
        self.latency.slow_share()
    }

    /// The slow-moving floor of the latency (A5).
    pub fn latency_floor(&self) -> Option<Duration> {
        self.latency.floor()
    }

    pub(super) fn write(&self, out: &mut Writer<'_>) {
        out.u64(self.interval);
        out.u64(self.threshold);
        out.instant(self.changed);
        out.u8(self.served);
        out.bytes(&self.latency.codes);
        out.u8(self.latency.len);
        out.u8(self.latency.at);
        out.u16(self.latency.floor);
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Option<Self> {
        let (interval, threshold, changed, served) = (from.u64()?, from.u64()?, from.instant()?, from.u8()?);
        let codes = from.bytes()?;
        let latency = Latency { codes, len: from.u8()?, at: from.u8()?, floor: from.u16()? };
        let whole = usize::from(latency.len) <= WINDOW && usize::from(latency.at) < WINDOW;
        whole.then_some(Self { interval, threshold, changed, served, latency })
    }

    pub(super) fn shift(&mut self, shift: impl Fn(Instant) -> Instant) {
        self.changed = shift(self.changed);
    }

    /// An exchange ended (A2–A4, A9, A11).
    pub fn taught(&mut self, now: Instant, fact: &Fact, settings: &AimdSettings) -> Change {
        if fact.outcome == Outcome::Served
            && let Some(latency) = fact.latency
        {
            self.latency.add(latency);
        }
        if fact.started < self.changed {
            return Change::None;
        }
        let before = self.interval;
        match fact.outcome {
            Outcome::Refused { .. } => {
                self.threshold = self.interval;
                self.interval = self.slower(2, 1).min(nanos(settings.ceiling));
            }
            Outcome::ServerError | Outcome::NoAnswer => self.slow_down(settings),
            Outcome::Served if self.latency.is_slow() => {
                self.slow_down(settings);
                self.latency.start_window();
            }
            Outcome::Served => {
                self.served = self.served.saturating_add(1);
                if self.served < settings.damping {
                    return Change::None;
                }
                self.interval = if self.interval > self.threshold {
                    self.interval / 10 * 9
                } else {
                    self.interval.saturating_sub(nanos(STEP))
                }
                .max(nanos(settings.floor));
            }
            Outcome::Neutral => return Change::None,
        }
        self.served = 0;
        self.changed = self.changed.max(now);
        match self.interval.cmp(&before) {
            core::cmp::Ordering::Less => Change::Faster,
            core::cmp::Ordering::Equal => Change::None,
            core::cmp::Ordering::Greater => Change::Slower,
        }
    }

    /// Whether nothing was learned that a new host would not start with.
    pub fn is_fresh(&self, settings: &AimdSettings) -> bool {
        self.interval == nanos(settings.start)
            && self.threshold == nanos(settings.threshold)
            && self.latency.floor().is_none()
    }

    /// So many times the interval; an interval of zero, which a person may set, would stay zero for ever.
    fn slower(&self, times: u64, by: u64) -> u64 {
        if self.interval == 0 { nanos(FROM_ZERO) } else { self.interval.saturating_mul(times) / by }
    }

    fn slow_down(&mut self, settings: &AimdSettings) {
        self.interval = self.slower(3, 2).min(nanos(settings.ceiling));
    }
}

/// A window of the last latencies in logarithmic codes (8 to the octave), and their slow-moving floor.
///
/// What is compared is the 20th percentile, never a mean or one answer (A5): one slow page moves nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Latency {
    codes: [u8; WINDOW],
    len: u8,
    at: u8,
    /// In 1/16 of a code, so that it can creep up slowly.
    floor: u16,
}

impl Latency {
    fn add(&mut self, latency: Duration) {
        self.codes[usize::from(self.at)] = code(latency);
        self.at = (self.at + 1) % WINDOW as u8;
        self.len = (self.len + 1).min(WINDOW as u8);
        if let Some(low) = self.low() {
            let low = u16::from(low) * 16;
            self.floor = if self.floor == 0 { low } else { low.min(self.floor + FLOOR_CREEP) };
        }
    }

    /// The 20th percentile, once there are enough.
    fn low(&self) -> Option<u8> {
        if usize::from(self.len) < LEAST_SAMPLES {
            return None;
        }
        let mut sorted = self.codes;
        let sorted = &mut sorted[..usize::from(self.len)];
        sorted.sort_unstable();
        Some(sorted[sorted.len() / 5])
    }

    fn is_slow(&self) -> bool {
        self.low().is_some_and(|low| low > self.slow_above())
    }

    /// The code of three times the floor, of which a grain of 10 ms is the least that is compared: below it the network's
    /// own noise is a multiple of the latency.
    fn slow_above(&self) -> u8 {
        u8::try_from(self.floor / 16).unwrap_or(u8::MAX).max(code(GRAIN)).saturating_add(THREE_TIMES)
    }

    fn slow_share(&self) -> Option<u8> {
        if usize::from(self.len) < LEAST_SAMPLES {
            return None;
        }
        let above = self.slow_above();
        let slow = self.codes[..usize::from(self.len)].iter().filter(|code| **code > above).count();
        Some((slow * 100 / usize::from(self.len)) as u8)
    }

    fn floor(&self) -> Option<Duration> {
        (self.floor != 0).then(|| {
            let code = u32::from(self.floor / 16);
            Duration::from_nanos((FIRST_NANOS * (8 + u64::from(code % 8)) / 8) << (code / 8).min(40))
        })
    }

    fn start_window(&mut self) {
        self.len = 0;
        self.at = 0;
    }
}

/// The code of a latency: an octave has 8 of them, the first begins at 16 µs.
fn code(latency: Duration) -> u8 {
    let steps = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX) / (FIRST_NANOS / 8);
    if steps < 8 {
        return 1;
    }
    let octave = steps.ilog2() - 3;
    let within = (steps >> octave) - 8;
    u8::try_from(u64::from(octave) * 8 + within).unwrap_or(u8::MAX).max(1)
}

/// A4: what a served answer takes off below the threshold.
const STEP: Duration = Duration::from_millis(50);
/// What follows an interval of zero, as in the refusal policy (T8).
const FROM_ZERO: Duration = Duration::from_millis(250);
const WINDOW: usize = 16;
const LEAST_SAMPLES: usize = 8;
const FIRST_NANOS: u64 = 16_000;
const GRAIN: Duration = Duration::from_millis(10);
/// Codes that three times a latency lies above it: 8 × log₂ 3 = 12.7.
const THREE_TIMES: u8 = 13;
/// Sixteenths of a code the floor rises with each answer: an octave in 128 answers.
const FLOOR_CREEP: u16 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn served(at: u64, latency: Duration) -> (Instant, Fact) {
        let now = Instant::from_millis(at);
        (now, Fact { started: now, outcome: Outcome::Served, latency: Some(latency) })
    }

    #[test]
    fn codes_rise_with_latency_and_three_times_is_thirteen() {
        let mut last = 0;
        for micros in (10..20_000_000u64).step_by(9973) {
            let code = code(Duration::from_micros(micros));
            assert!(code >= last);
            last = code;
        }
        assert!(code(300 * MS) - code(100 * MS) >= 12);
    }

    #[test]
    fn a5_one_slow_page_moves_nothing() {
        let settings = AimdSettings::default();
        let mut aimd = Aimd::new(&settings);
        for n in 0..40 {
            let latency = if n % 8 == 7 { 2000 * MS } else { 50 * MS };
            let (now, fact) = served(n * 1000, latency);
            assert_ne!(aimd.taught(now, &fact, &settings), Change::Slower);
        }
        assert_eq!(aimd.interval(), settings.floor);
    }

    #[test]
    fn a3_a_host_whose_latency_trebles_is_asked_less_often() {
        let settings = AimdSettings { damping: 1, ..AimdSettings::default() };
        let mut aimd = Aimd::new(&settings);
        let mut slower = 0;
        for n in 0..60 {
            let (now, fact) = served(n * 1000, if n < 20 { 50 * MS } else { 250 * MS });
            if aimd.taught(now, &fact, &settings) == Change::Slower {
                slower += 1;
            }
        }
        assert!(slower >= 1);
    }

    #[test]
    fn a6_two_populations_show_as_a_share() {
        let settings = AimdSettings::default();
        let mut aimd = Aimd::new(&settings);
        for n in 0..32 {
            let (now, fact) = served(n * 1000, if n % 2 == 0 { 5 * MS } else { 400 * MS });
            aimd.taught(now, &fact, &settings);
        }
        assert_eq!(aimd.slow_share(), Some(50));
    }

    #[test]
    fn a9_at_most_one_increase_in_four_answers() {
        let settings = AimdSettings::default();
        let mut aimd = Aimd::new(&settings);
        let faster = (0..8)
            .filter(|n| {
                let (now, fact) = served(n * 1000, 10 * MS);
                aimd.taught(now, &fact, &settings) == Change::Faster
            })
            .count();
        assert_eq!(faster, 2);
        assert_eq!(aimd.interval(), 900 * MS);
    }

    #[test]
    fn a2_an_interval_of_zero_does_not_switch_learning_off() {
        let settings = AimdSettings::default().bounded_by(Duration::ZERO);
        let mut aimd = Aimd::new(&settings);
        let now = Instant::from_millis(1000);
        let refused = Fact { started: now, outcome: Outcome::Refused { advice: None }, latency: None };
        assert_eq!(aimd.taught(now, &refused, &settings), Change::Slower);
        assert_eq!(aimd.interval(), 250 * MS);
    }

    #[test]
    fn a8_the_floor_is_not_negotiable() {
        let settings = AimdSettings { damping: 1, ..AimdSettings::default() };
        let mut aimd = Aimd::new(&settings);
        for n in 0..1000 {
            let (now, fact) = served(n * 1000, MS / 10);
            aimd.taught(now, &fact, &settings);
        }
        assert_eq!(aimd.interval(), settings.floor);
    }
}
