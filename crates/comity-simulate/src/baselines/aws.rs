//! The AWS SDKs' retry mode "adaptive": a token bucket on the client's side whose rate a CUBIC curve moves, above the
//! retries of mode "standard".
//!
//! Source: botocore 1.44.8, `retries/adaptive.py`, `throttling.py`, `bucket.py`, `standard.py`, `quota.py`; the same
//! numbers are in aws-sdk-go-v2 `aws/retry/adaptive_ratelimit.go`.
//!
//! - Nothing is limited before the first refusal. Afterwards each start takes a token; the bucket fills at the rate, holds a
//!   second's worth (one token at least), and its rate is never below 0.5/s. It fills from the beginning.
//! - The rate at which answers come is measured in half seconds, each weighing 0.8.
//! - A refusal: w = the measured rate (or the bucket's, where that is less); the rate becomes 0.7 w. Otherwise it is
//!   0.4 (t − K)³ + w, t seconds after the last refusal, K = ∛(0.3 w ÷ 0.4). Never more than twice the measured rate.
//! - A refused request is tried again twice. It waits U × min(2^i, 20) seconds, U drawn from 0 to 1, and its place is not
//!   given to another meanwhile. Each retry costs 5 of a quota of 500, which successes give back.
//!
//! A 429 is throttling by its status; a 503 is by its error code ("SlowDown") with the services that throttle so, and is
//! here. The SDK starts as many requests at once as its user has threads: that is `in_flight`. HTTP's Retry-After is not read.

use core::time::Duration;

use comity_core::time::Instant;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{Again, Answered, Baseline, Start, gate, seconds};

/// See the module.
#[derive(Debug)]
pub(super) struct Aws {
    most: u32,
    cubic: Cubic,
    meter: Meter,
    bucket: Bucket,
    /// Whether starts take tokens: from the first refusal on.
    limited: bool,
    quota: u32,
    /// Whether the quota paid for the last refusal's retry.
    paid: bool,
    /// When the places of requests that wait to be tried again are free.
    resting: Vec<Instant>,
    rest: Duration,
    jitter: Pcg64Mcg,
}

impl Aws {
    pub(super) fn new(in_flight: u32, seed: u64) -> Self {
        Self {
            most: in_flight.max(1),
            cubic: Cubic { most: 0.0, refused: Instant::ZERO },
            meter: Meter::default(),
            bucket: Bucket { rate: 1.0, holds: 1.0, tokens: 0.0, filled: Instant::ZERO },
            limited: false,
            quota: QUOTA,
            paid: true,
            resting: Vec::new(),
            rest: Duration::ZERO,
            jitter: Pcg64Mcg::seed_from_u64(seed),
        }
    }
}

impl Baseline for Aws {
    fn may_start(&mut self, now: Instant, in_flight: u32) -> Start {
        self.resting.retain(|until| now < *until);
        let held = in_flight.saturating_add(u32::try_from(self.resting.len()).unwrap_or(u32::MAX));
        if held >= self.most {
            return match self.resting.iter().min() {
                Some(first) if in_flight < self.most => Start::At(*first),
                _ => Start::AfterAnswer,
            };
        }
        let token = if self.limited { self.bucket.token(now) } else { now };
        gate(now, in_flight, self.most, token)
    }

    fn started(&mut self, now: Instant) {
        if self.limited {
            self.bucket.fill(now);
            self.bucket.tokens -= 1.0;
        }
    }

    fn answered(&mut self, now: Instant, answer: &Answered) {
        let measured = self.meter.answered(now);
        let rate = if answer.refused() {
            let from = if self.limited { measured.min(self.bucket.rate) } else { measured };
            self.limited = true;
            self.cubic.refused(now, from)
        } else {
            self.cubic.served(now)
        };
        self.bucket.keep(now, rate.min(MOST_OF_MEASURED * measured));
        if answer.refused() {
            let scale = f64::exp2(f64::from(answer.tried.min(10))).min(LONGEST_REST);
            self.rest = seconds(self.jitter.random::<f64>() * scale);
            if answer.tried < RETRIES {
                self.paid = self.quota >= RETRY_COSTS;
                if self.paid {
                    self.quota -= RETRY_COSTS;
                    self.resting.push(now.after(self.rest));
                }
            }
        } else if answer.served() {
            let back = if answer.tried > 0 { RETRY_COSTS } else { 1 };
            self.quota = (self.quota + back).min(QUOTA);
        }
    }

    fn interval(&self) -> Option<Duration> {
        self.limited.then(|| seconds(1.0 / self.bucket.rate))
    }

    fn most_in_flight(&self) -> u32 {
        self.most
    }

    fn retries(&self) -> u32 {
        if self.paid { RETRIES } else { 0 }
    }

    fn again(&self) -> Again {
        Again::Rested(self.rest)
    }
}

/// The curve of rates.
#[derive(Debug)]
struct Cubic {
    /// The rate at the last refusal, in requests a second.
    most: f64,
    refused: Instant,
}

impl Cubic {
    fn refused(&mut self, now: Instant, rate: f64) -> f64 {
        (self.most, self.refused) = (rate, now);
        rate * BETA
    }

    fn served(&self, now: Instant) -> f64 {
        let back = (self.most * (1.0 - BETA) / SCALE).cbrt();
        SCALE * (now.since(self.refused).as_secs_f64() - back).powi(3) + self.most
    }
}

/// The rate at which answers come.
#[derive(Debug, Default)]
struct Meter {
    rate: f64,
    answers: f64,
    /// The half second that is being counted, from the origin.
    half: u64,
}

impl Meter {
    fn answered(&mut self, now: Instant) -> f64 {
        let half = now.as_nanos() / HALF_SECOND;
        self.answers += 1.0;
        if half > self.half {
            let current = self.answers / ((half - self.half) as f64 / 2.0);
            self.rate = current * WEIGHT + self.rate * (1.0 - WEIGHT);
            (self.answers, self.half) = (0.0, half);
        }
        self.rate
    }
}

/// The token bucket.
#[derive(Debug)]
struct Bucket {
    rate: f64,
    holds: f64,
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    fn fill(&mut self, now: Instant) {
        let more = now.since(self.filled).as_secs_f64() * self.rate;
        self.tokens = (self.tokens + more).min(self.holds);
        self.filled = now;
    }

    fn keep(&mut self, now: Instant, rate: f64) {
        self.fill(now);
        self.rate = rate.max(LEAST_RATE);
        self.holds = rate.max(1.0);
        self.tokens = self.tokens.min(self.holds);
    }

    /// When a token is there.
    fn token(&mut self, now: Instant) -> Instant {
        self.fill(now);
        // A nanosecond more than the wait, since rounding must not name an instant at which a hair is missing.
        let wait = |missing| now.after(seconds(missing / self.rate)).after(Duration::from_nanos(1));
        if self.tokens >= 1.0 - HAIR { now } else { wait(1.0 - self.tokens) }
    }
}

const BETA: f64 = 0.7;

const SCALE: f64 = 0.4;

/// What the last half second weighs in the measured rate.
const WEIGHT: f64 = 0.8;

const HALF_SECOND: u64 = 500_000_000;

/// The bucket fills no slower, in tokens a second.
const LEAST_RATE: f64 = 0.5;

/// The rate is at most so many times the measured one.
const MOST_OF_MEASURED: f64 = 2.0;

/// Standard mode makes three attempts.
const RETRIES: u32 = 2;

/// A retry waits no longer, in seconds.
const LONGEST_REST: f64 = 20.0;

const QUOTA: u32 = 500;

/// What a retry of a throttled request takes from the quota.
const RETRY_COSTS: u32 = 5;

/// What a token may miss, for the sake of rounding.
const HAIR: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::tests::answer;

    #[test]
    fn the_window_at_given_times_is_cubics() {
        let mut cubic = Cubic { most: 0.0, refused: Instant::ZERO };
        // Refused at 10/s: 7/s at once; K = ∛(10 × 0.3 ÷ 0.4) = ∛7.5 = 1.957 434.
        assert!((cubic.refused(Instant::from_millis(4_000), 10.0) - 7.0).abs() < 1e-9);
        let at = |millis: u64| cubic.served(Instant::from_millis(4_000 + millis));
        // 0.4 × (−K)³ + 10 = −3 + 10.
        assert!((at(0) - 7.0).abs() < 1e-9);
        // 0.4 × (1 − 1.957 434)³ + 10 = 10 − 0.4 × 0.877 661.
        assert!((at(1_000) - 9.648_936).abs() < 1e-5, "{}", at(1_000));
        assert!((at(1_957) - 10.0).abs() < 1e-6);
        // 0.4 × (4 − 1.957 434)³ + 10 = 10 + 0.4 × 8.521 724.
        assert!((at(4_000) - 13.408_690).abs() < 1e-4, "{}", at(4_000));
    }

    #[test]
    fn the_measured_rate_is_that_of_half_seconds_smoothed() {
        let mut meter = Meter::default();
        for milli in [0, 100, 200, 300, 400] {
            assert!(meter.answered(Instant::from_millis(milli)).abs() < 1e-9);
        }
        // The sixth falls into the next half second: 6 ÷ 0.5 s = 12/s, × 0.8.
        assert!((meter.answered(Instant::from_millis(500)) - 9.6).abs() < 1e-9);
        // One answer in the second and a half from there: 1 ÷ 1.5 × 0.8 + 9.6 × 0.2.
        assert!((meter.answered(Instant::from_millis(2_000)) - (0.8 / 1.5 + 1.92)).abs() < 1e-9);
    }

    #[test]
    fn nothing_is_limited_before_the_first_refusal_and_half_a_request_a_second_at_least_after_it() {
        let mut aws = Aws::new(4, 1);
        assert_eq!(aws.interval(), None);
        assert_eq!(aws.may_start(Instant::ZERO, 3), Start::Now);
        assert_eq!(aws.may_start(Instant::ZERO, 4), Start::AfterAnswer);
        aws.answered(Instant::from_millis(20), &answer(Instant::ZERO, 429, Duration::from_millis(20)));
        assert_eq!(aws.interval(), Some(Duration::from_secs(2)));
        let Start::At(at) = aws.may_start(Instant::from_millis(20), 0) else { panic!("a token was there at once") };
        // 0.02 of a token have come in at 1/s; the rest takes 0.98 ÷ 0.5 s.
        assert!((1_980_000_000..1_980_000_010).contains(&at.as_nanos()), "{at:?}");
        assert_eq!(aws.may_start(at, 0), Start::Now);
    }

    #[test]
    fn the_rate_is_at_most_twice_the_measured_one() {
        let mut aws = Aws::new(4, 1);
        for tenth in 1..=30 {
            aws.answered(Instant::from_millis(tenth * 100), &answer(Instant::ZERO, 200, Duration::from_millis(20)));
        }
        aws.answered(Instant::from_millis(3_050), &answer(Instant::ZERO, 429, Duration::from_millis(20)));
        for second in 4..60 {
            aws.answered(Instant::from_millis(second * 1_000), &answer(Instant::ZERO, 200, Duration::from_millis(20)));
        }
        // One answer a second was measured; the curve alone would be far above.
        let rate = aws.bucket.rate;
        assert!((rate - 2.0).abs() < 0.01, "{rate}");
    }

    #[test]
    fn a_refused_request_rests_with_its_place_held_and_the_quota_ends() {
        let mut aws = Aws::new(1, 3);
        let refused = |tried| Answered { tried, ..answer(Instant::ZERO, 429, Duration::from_millis(20)) };
        aws.answered(Instant::from_millis(20), &refused(1));
        let Again::Rested(rest) = aws.again() else { panic!("it did not rest") };
        assert!(rest <= Duration::from_secs(2), "{rest:?}");
        assert_eq!(aws.may_start(Instant::from_millis(20), 0), Start::At(Instant::from_millis(20).after(rest)));
        assert_eq!(aws.retries(), 2);
        for _ in 0..99 {
            aws.answered(Instant::from_millis(20), &refused(0));
        }
        assert_eq!(aws.retries(), 2);
        aws.answered(Instant::from_millis(20), &refused(0));
        assert_eq!(aws.retries(), 0);
        for _ in 0..5 {
            aws.answered(Instant::from_millis(30), &answer(Instant::ZERO, 200, Duration::from_millis(20)));
        }
        aws.answered(Instant::from_millis(40), &refused(0));
        assert_eq!(aws.retries(), 2);
    }
}
