//! What was said of a scope: by a person, by a preset, by the profile.

use alloc::sync::Arc;
use core::num::NonZeroU32;
use core::time::Duration;

use super::window::Window;
use crate::policy::Policy;
use crate::signal::Reading;

/// What holds for one scope.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Least time between two starts; zero is no spacing.
    pub interval: Duration,
    /// Starts that may come at once after a rest (1 = none but the first).
    pub burst: NonZeroU32,
    /// Requests in flight.
    pub in_flight: Option<NonZeroU32>,
    /// True sliding windows, all of which hold.
    pub windows: Vec<Window>,
    /// How the pace is learned.
    pub policy: Policy,
    /// The longest a request waits for a Retry-After; asked for more, it gives up at once (T7).
    pub retry_after_limit: Duration,
    /// The longest an advertised quota on a served answer may hold the scope (A40).
    pub quota_hold_limit: Duration,
    /// The longest Crawl-delay obeyed; past it the host is skipped with that reason (decision 13).
    pub crawl_delay_limit: Duration,
    /// How answers are read.
    pub reading: Arc<Reading>,
    /// Times a refused request is tried again (T10).
    pub retries: u32,
    /// Whether a 503 may be retried for methods that are not idempotent (T10).
    pub retry_unsafe_503: bool,
    /// Statuses retried after `fallback`, for idempotent methods, beside the refusals (T10: a 504, say).
    pub retry_statuses: Vec<u16>,
    /// Where each field comes from, for `explain`.
    pub sources: Vec<(&'static str, Source)>,
}

/// Who said it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The profile's own word.
    Profile(&'static str),
    /// A person: the rule's pattern, or `[default]`, or a flag.
    Person(Arc<str>),
    /// A published limit: the preset's name.
    Preset(Arc<str>),
}

/// What was said of some of a scope's limits; the rest falls back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Partial {
    /// See [`Limits::interval`].
    pub interval: Option<Duration>,
    /// See [`Limits::burst`].
    pub burst: Option<NonZeroU32>,
    /// See [`Limits::in_flight`].
    pub in_flight: Option<NonZeroU32>,
    /// See [`Limits::windows`].
    pub windows: Option<Vec<Window>>,
    /// See [`Limits::policy`].
    pub policy: Option<Policy>,
    /// See [`Limits::retry_after_limit`].
    pub retry_after_limit: Option<Duration>,
    /// See [`Limits::quota_hold_limit`].
    pub quota_hold_limit: Option<Duration>,
    /// See [`Limits::crawl_delay_limit`].
    pub crawl_delay_limit: Option<Duration>,
    /// See [`Limits::reading`].
    pub reading: Option<Arc<Reading>>,
    /// See [`Limits::retries`].
    pub retries: Option<u32>,
    /// See [`Limits::retry_unsafe_503`].
    pub retry_unsafe_503: Option<bool>,
    /// See [`Limits::retry_statuses`].
    pub retry_statuses: Option<Vec<u16>>,
    /// A person says that these limits win over a preset's stricter ones.
    pub overrides_preset: bool,
    /// Who says it.
    pub source: Option<Source>,
}

impl Limits {
    /// No limit and nothing learned.
    pub fn none() -> Self {
        Self {
            interval: Duration::ZERO,
            burst: NonZeroU32::MIN,
            in_flight: None,
            windows: Vec::new(),
            policy: Policy::Off,
            retry_after_limit: RETRY_AFTER_LIMIT,
            quota_hold_limit: QUOTA_HOLD_LIMIT,
            crawl_delay_limit: CRAWL_DELAY_LIMIT,
            reading: Arc::default(),
            retries: RETRIES,
            retry_unsafe_503: false,
            retry_statuses: Vec::new(),
            sources: Vec::new(),
        }
    }

    /// What a group or a narrowed scope under this base starts from: no limit of its own, but a refusal teaches it (T6).
    #[must_use]
    pub fn group(&self) -> Self {
        let policy = match &self.policy {
            Policy::Off | Policy::Fixed => self.policy.clone(),
            _ => Policy::refusal(),
        };
        Self {
            policy,
            retry_after_limit: self.retry_after_limit,
            quota_hold_limit: self.quota_hold_limit,
            reading: Arc::clone(&self.reading),
            ..Self::none()
        }
    }

    /// Who said what `field` holds.
    pub fn source(&self, field: &str) -> Option<&Source> {
        self.sources.iter().rev().find(|(name, _)| *name == field).map(|(_, source)| source)
    }

    /// What holds, in words: each limit's name and value. What does not hold is left out.
    pub fn in_words(&self) -> Vec<(&'static str, String)> {
        let mut words = Vec::new();
        if !self.interval.is_zero() {
            words.push(("interval", format!("{:?}", self.interval)));
        }
        if self.burst.get() > 1 {
            words.push(("burst", self.burst.to_string()));
        }
        if let Some(in_flight) = self.in_flight {
            words.push(("in_flight", in_flight.to_string()));
        }
        for window in &self.windows {
            words.push(("windows", window.to_string()));
        }
        words.push(("policy", self.policy.name().to_owned()));
        words.push(("retry_after_limit", format!("{:?}", self.retry_after_limit)));
        words.push(("retries", self.retries.to_string()));
        if *self.reading != Reading::default() {
            words.push(("reading", self.reading.to_string()));
        }
        words
    }

    fn note(&mut self, field: &'static str, source: Option<&Source>) {
        if let Some(source) = source {
            self.sources.retain(|(name, _)| *name != field);
            self.sources.push((field, source.clone()));
        }
    }
}

impl core::fmt::Display for Source {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Profile(name) => write!(f, "profile {name}"),
            Self::Person(rule) => write!(f, "{rule}"),
            Self::Preset(name) => write!(f, "preset {name}"),
        }
    }
}

impl Partial {
    /// These limits on top of a base.
    pub fn over(&self, base: &Limits) -> Limits {
        let mut limits = base.clone();
        self.apply(&mut limits);
        limits
    }

    /// Replaces what is said here.
    pub fn apply(&self, limits: &mut Limits) {
        macro_rules! replace {
            ($($field:ident),*) => {$(
                if let Some(value) = &self.$field {
                    limits.$field = value.clone();
                    limits.note(stringify!($field), self.source.as_ref());
                }
            )*};
        }
        replace!(
            interval,
            burst,
            windows,
            policy,
            retry_after_limit,
            quota_hold_limit,
            crawl_delay_limit,
            reading,
            retries,
            retry_unsafe_503,
            retry_statuses
        );
        if self.in_flight.is_some() {
            limits.in_flight = self.in_flight;
            limits.note("in_flight", self.source.as_ref());
        }
        // A person's interval is where a policy begins and a bound it never goes under (P10).
        if let (Some(interval), None) = (self.interval, &self.policy) {
            limits.policy = limits.policy.bounded_by(interval);
        }
    }

    /// Takes from what is said here only what is stricter.
    pub fn tighten(&self, limits: &mut Limits) {
        let source = self.source.as_ref();
        if let Some(interval) = self.interval
            && interval > limits.interval
        {
            limits.interval = interval;
            limits.burst = self.burst.unwrap_or(NonZeroU32::MIN);
            limits.policy = limits.policy.bounded_by(interval);
            limits.note("interval", source);
        }
        if let Some(in_flight) = self.in_flight
            && limits.in_flight.is_none_or(|own| own > in_flight)
        {
            limits.in_flight = Some(in_flight);
            limits.note("in_flight", source);
        }
        if let Some(windows) = &self.windows {
            limits.windows.extend(windows.iter().copied());
            limits.note("windows", source);
        }
        if let Some(reading) = &self.reading {
            limits.reading = Arc::new(merged_reading(&limits.reading, reading));
            limits.note("reading", source);
        }
        if let Some(policy) = &self.policy {
            limits.policy = policy.clone();
            limits.note("policy", source);
        }
        if self.retry_unsafe_503 == Some(true) {
            limits.retry_unsafe_503 = true;
            limits.note("retry_unsafe_503", source);
        }
    }

    /// These limits, and for what they leave open those of `fallback`.
    #[must_use]
    pub fn merged_over(&self, fallback: &Self) -> Self {
        Self {
            interval: self.interval.or(fallback.interval),
            burst: self.burst.or(fallback.burst),
            in_flight: self.in_flight.or(fallback.in_flight),
            windows: self.windows.clone().or_else(|| fallback.windows.clone()),
            policy: self.policy.clone().or_else(|| fallback.policy.clone()),
            retry_after_limit: self.retry_after_limit.or(fallback.retry_after_limit),
            quota_hold_limit: self.quota_hold_limit.or(fallback.quota_hold_limit),
            crawl_delay_limit: self.crawl_delay_limit.or(fallback.crawl_delay_limit),
            reading: self.reading.clone().or_else(|| fallback.reading.clone()),
            retries: self.retries.or(fallback.retries),
            retry_unsafe_503: self.retry_unsafe_503.or(fallback.retry_unsafe_503),
            retry_statuses: self.retry_statuses.clone().or_else(|| fallback.retry_statuses.clone()),
            overrides_preset: self.overrides_preset || fallback.overrides_preset,
            source: self.source.clone().or_else(|| fallback.source.clone()),
        }
    }
}

/// Both readings: what one of them reads as a refusal is one.
fn merged_reading(own: &Reading, preset: &Reading) -> Reading {
    let mut both = own.clone();
    both.refuse_also.extend(preset.refuse_also.iter().copied());
    both.refuse_when.extend(preset.refuse_when.iter().cloned());
    both.reset_headers.extend(preset.reset_headers.iter().cloned());
    both.riot |= preset.riot;
    both.min_refusal_wait = both.min_refusal_wait.max(preset.min_refusal_wait);
    both
}

/// Reads a span of time: `500ms`, `1.5s`, `2m`, `1h`, `1d`, `min`, `day`, a bare number of seconds.
///
/// Fractions are rounded up to the nanosecond. `None` for anything else, negative, not finite or above a century.
pub fn read_span(text: &str) -> Option<Duration> {
    let text = text.trim();
    let unit_at = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = (&text[..unit_at], text[unit_at..].trim());
    let scale: f64 = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "" | "s" | "sec" | "second" | "seconds" => 1e9,
        "m" | "min" | "minute" | "minutes" => 60e9,
        "h" | "hour" | "hours" => 3600e9,
        "d" | "day" | "days" => 86_400e9,
        _ => return None,
    };
    let number: f64 = if number.is_empty() && !unit.is_empty() { 1.0 } else { number.parse().ok()? };
    let nanos = (number * scale).ceil();
    (0.0..=LONGEST_SPAN_NANOS).contains(&nanos).then_some(Duration::from_nanos(nanos as u64))
}

/// Reads a rate as the spacing it means: `2/s`, `15/min`, `1/5s`, `1/day`, a bare number a second. `None` for zero,
/// negative and unreadable ones.
pub fn read_rate(text: &str) -> Option<Duration> {
    let (count, per) = text.split_once('/').unwrap_or((text, "1s"));
    let count: f64 = count.trim().parse().ok()?;
    let per = read_span(per)?;
    if !(count.is_finite() && count > 0.0) || per.is_zero() {
        return None;
    }
    let nanos = (per.as_nanos() as f64 / count).ceil();
    (1.0..=LONGEST_SPAN_NANOS).contains(&nanos).then_some(Duration::from_nanos(nanos as u64))
}

/// A century: what is longer is no limit but a mistake.
const LONGEST_SPAN_NANOS: f64 = 3.156e18;
const RETRY_AFTER_LIMIT: Duration = Duration::from_secs(300);
const QUOTA_HOLD_LIMIT: Duration = Duration::from_secs(300);
const CRAWL_DELAY_LIMIT: Duration = Duration::from_secs(120);
const RETRIES: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c14_rates_mean_spacings() {
        for (text, secs) in [("0.2", 5), ("1/5s", 5), ("12/min", 5), ("1/day", 86_400)] {
            assert_eq!(read_rate(text), Some(Duration::from_secs(secs)), "{text}");
        }
    }

    #[test]
    fn c15_rates_that_mean_nothing_are_refused() {
        for text in ["0", "-1", "0/s", "1/0s", "inf", "NaN", "", "/", "1/", "x/s", "1e400", "1/fortnight"] {
            assert_eq!(read_rate(text), None, "{text}");
        }
    }

    #[test]
    fn spans_are_read_with_their_units_and_rounded_up() {
        let cases = [
            ("500ms", 500_000_000),
            ("1.5s", 1_500_000_000),
            ("2", 2_000_000_000),
            ("0", 0),
            ("0.0000000001s", 1),
            ("min", 60_000_000_000),
        ];
        for (text, nanos) in cases {
            assert_eq!(read_span(text), Some(Duration::from_nanos(nanos)), "{text}");
        }
        for text in ["-1s", "", "1 fortnight", "ms1", "1e30", "99999999999d", "1.2.3s"] {
            assert_eq!(read_span(text), None, "{text}");
        }
    }
}
