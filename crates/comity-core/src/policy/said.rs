//! What a policy has to say for itself: what it learned, from what, and what it does next.

use core::fmt;
use core::time::Duration;

use crate::time::Instant;

/// What was learned of one scope, for people. [`Said::in_words`] words it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// The rate that the host is known to accept; `None` where that is not known (yet).
    pub rate: Option<Rate>,
    /// Requests in flight at most; `None` where the policy has no say.
    pub concurrency: Option<u32>,
    /// What holds the pace where it is.
    pub why: Why,
    /// The last refusal that taught anything.
    pub last_refused: Option<Instant>,
    /// When a little more is tried.
    pub next_probe: Option<Instant>,
    /// Whether the host answers in two ways: from a cache, and from what lies behind it (A6).
    pub bimodal: bool,
    /// Refusals that taught the rate.
    pub refusals: u32,
}

/// What holds a learned pace where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The host has not objected yet: the pace rises until it does, or until more is not asked for.
    Searching,
    /// The host refuses: the pace falls until it accepts.
    BackingOff,
    /// The host's rate is known, and is kept a little under.
    Learned,
    /// A little more than the known rate is tried.
    Probing,
    /// Others seem to use the same limit: the pace gives way to them, and takes what they leave.
    Sharing,
    /// Errors, answers that did not come, or that came far later than usual.
    Strained,
    /// A floor or ceiling that a person, a preset or the profile set.
    Bounded,
}

/// Starts per time, as the spacing they have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(Duration);

impl Rate {
    /// One start each so long.
    pub const fn every(interval: Duration) -> Self {
        Self(interval)
    }

    /// The time between two starts.
    pub const fn interval(self) -> Duration {
        self.0
    }
}

/// `9.8/s`, `42/min`, `3/h`: in the unit of which there is one at least.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let a_second = 1.0 / self.0.as_secs_f64();
        if !a_second.is_finite() {
            return f.write_str("any rate");
        }
        let (rate, unit) = match a_second {
            rate if rate >= LEAST_OF_A_UNIT => (rate, "s"),
            rate if rate * 60.0 >= LEAST_OF_A_UNIT => (rate * 60.0, "min"),
            rate => (rate * 3600.0, "h"),
        };
        // Two digits, or all that stand before the point: more nobody knows.
        let text = if rate < 9.95 { format!("{rate:.1}") } else { format!("{rate:.0}") };
        write!(f, "{}/{unit}", text.strip_suffix(".0").unwrap_or(&text))
    }
}

impl Said {
    /// As a person reads it: `learned 9.8/s from two refusals, the last 3 min ago; next probe in 4 min`. What it says of
    /// concurrency and bimodality stands in the fields.
    pub fn in_words(&self, now: Instant) -> String {
        self.worded(|at| format!("{} ago", rough(now.since(at))), |at| format!("in {}", rough(at.since(now))))
    }

    /// The same with other words for a moment that was and for one that will be: `at 12:03` beside `3 min ago`.
    pub fn worded(&self, was: impl Fn(Instant) -> String, will_be: impl Fn(Instant) -> String) -> String {
        let mut words = match (self.why, self.rate) {
            (Why::Searching, None) => "searching for the host's rate".to_owned(),
            (Why::Searching, Some(rate)) => format!("searching above {rate}"),
            (Why::BackingOff, None) => "backing off".to_owned(),
            (Why::BackingOff, Some(rate)) => format!("backing off from {rate}"),
            (Why::Learned, None) => "learned".to_owned(),
            (Why::Learned, Some(rate)) => format!("learned {rate}"),
            (Why::Probing, None) => "trying a little more".to_owned(),
            (Why::Probing, Some(rate)) => format!("trying a little more than {rate}"),
            (Why::Sharing, None) => "sharing the host's limit with others".to_owned(),
            (Why::Sharing, Some(rate)) => format!("sharing the host's limit with others, at about {rate}"),
            (Why::Strained, None) => "slowed by errors and late or missing answers".to_owned(),
            (Why::Strained, Some(rate)) => format!("slowed by errors and late or missing answers, under {rate}"),
            (Why::Bounded, None) => "at the bound that was set".to_owned(),
            (Why::Bounded, Some(rate)) => format!("at the bound that was set, under {rate}"),
        };
        let from = match self.why {
            Why::Searching if self.refusals == 0 && self.last_refused.is_none() => ": not refused yet",
            Why::Learned => " from ",
            Why::BackingOff => " after ",
            _ => "; ",
        };
        match (self.refusals, self.last_refused) {
            (0, None) if self.why == Why::Searching => words.push_str(from),
            (0, None) => {}
            (0 | 1, Some(at)) => words.push_str(&format!("{from}one refusal, {}", was(at))),
            (count, Some(at)) => words.push_str(&format!("{from}{}, the last {}", refusals(count), was(at))),
            (count, None) => words.push_str(&format!("{from}{}", refusals(count))),
        }
        if let Some(at) = self.next_probe {
            words.push_str(&format!("; next probe {}", will_be(at)));
        }
        words
    }
}

/// `two refusals`, `40 refusals`.
fn refusals(count: u32) -> String {
    match count {
        1 => "one refusal".to_owned(),
        count => match usize::try_from(count).ok().and_then(|count| NUMBERS.get(count)) {
            Some(number) => format!("{number} refusals"),
            None => format!("{count} refusals"),
        },
    }
}

/// A span in the unit of which there are two at least, for nobody counts the seconds of an hour: `40 s`, `3 min`, `5 h`.
fn rough(span: Duration) -> String {
    match span.as_secs() {
        0 => format!("{} ms", span.as_millis()),
        secs @ ..120 => format!("{secs} s"),
        secs @ ..7200 => format!("{} min", secs / 60),
        secs @ ..172_800 => format!("{} h", secs / 3600),
        secs => format!("{} days", secs / 86_400),
    }
}

const NUMBERS: [&str; 11] = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
/// What is a hair less for rounding is one as well.
const LEAST_OF_A_UNIT: f64 = 0.999;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_millis(1_000_000_000);

    fn ago(secs: u64) -> Option<Instant> {
        Some(NOW.before(Duration::from_secs(secs)))
    }

    fn learned() -> Said {
        Said {
            rate: Some(Rate::every(Duration::from_micros(102_040))),
            concurrency: Some(4),
            why: Why::Learned,
            last_refused: ago(200),
            next_probe: Some(NOW.after(Duration::from_secs(250))),
            bimodal: false,
            refusals: 2,
        }
    }

    #[test]
    fn what_was_learned_is_said_with_what_from_and_what_next() {
        assert_eq!(learned().in_words(NOW), "learned 9.8/s from two refusals, the last 3 min ago; next probe in 4 min");
        let once = Said { refusals: 1, next_probe: None, ..learned() };
        assert_eq!(once.in_words(NOW), "learned 9.8/s from one refusal, 3 min ago");
        let often = Said { refusals: 40, ..once };
        assert_eq!(often.in_words(NOW), "learned 9.8/s from 40 refusals, the last 3 min ago");
    }

    #[test]
    fn a_clock_time_may_stand_for_how_long_ago() {
        let said = learned().worded(|_| "at 12:03".to_owned(), |_| "at 12:10".to_owned());
        assert_eq!(said, "learned 9.8/s from two refusals, the last at 12:03; next probe at 12:10");
    }

    #[test]
    fn every_reason_has_words_with_and_without_a_rate() {
        let fresh = Said { rate: None, refusals: 0, last_refused: None, next_probe: None, ..learned() };
        let word = |why, rate| Said { why, rate, ..fresh }.in_words(NOW);
        let rate = learned().rate;
        assert_eq!(word(Why::Searching, None), "searching for the host's rate: not refused yet");
        assert_eq!(word(Why::Searching, rate), "searching above 9.8/s: not refused yet");
        assert_eq!(word(Why::BackingOff, rate), "backing off from 9.8/s");
        assert_eq!(word(Why::Probing, rate), "trying a little more than 9.8/s");
        assert_eq!(word(Why::Strained, None), "slowed by errors and late or missing answers");
        assert_eq!(word(Why::Bounded, rate), "at the bound that was set, under 9.8/s");
        let first = Said { why: Why::BackingOff, refusals: 1, last_refused: ago(3), ..fresh };
        assert_eq!(first.in_words(NOW), "backing off after one refusal, 3 s ago");
        let known = Said { rate, refusals: 3, ..first };
        assert_eq!(known.in_words(NOW), "backing off from 9.8/s after three refusals, the last 3 s ago");
        let strained = Said { why: Why::Strained, ..known };
        assert_eq!(
            strained.in_words(NOW),
            "slowed by errors and late or missing answers, under 9.8/s; three refusals, the last 3 s ago"
        );
    }

    #[test]
    fn a_rate_is_told_in_the_unit_of_which_there_is_one() {
        for (millis, told) in [
            (1, "1000/s"),
            (33, "30/s"),
            (102, "9.8/s"),
            (500, "2/s"),
            (1000, "1/s"),
            (1030, "58/min"),
            (60_000, "1/min"),
            (90_000, "40/h"),
            (0, "any rate"),
        ] {
            assert_eq!(Rate::every(Duration::from_millis(millis)).to_string(), told, "{millis} ms");
        }
    }

    #[test]
    fn spans_are_rough() {
        for (secs, told) in
            [(5, "5 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"), (7200, "2 h"), (200_000, "2 days")]
        {
            assert_eq!(rough(Duration::from_secs(secs)), told);
        }
        assert_eq!(rough(Duration::from_millis(300)), "300 ms");
    }
}
