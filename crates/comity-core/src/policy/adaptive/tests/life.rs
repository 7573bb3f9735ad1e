//! A host with a rule of its own, and a client that obeys the policy.

use std::collections::BTreeMap;

use super::*;

/// Numbers that follow from a seed.
#[derive(Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `n`, or any where `n` is 0.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let any = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d);
        if n == 0 { any } else { (any >> 16) % n }
    }

    pub(super) fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(super) fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }
}

/// What a host admits.
#[derive(Clone, Debug)]
pub(super) enum Rule {
    /// Everything.
    All,
    /// One token each so long, and so many at most.
    Bucket { every: Duration, burst: u64 },
    /// So many in each span of so long.
    Window { span: Duration, most: u64 },
}

/// How a host answers what it admits.
#[derive(Clone, Debug)]
pub(super) struct Manner {
    /// Latency at the least, and so many at once without a queue.
    pub(super) service: Duration,
    pub(super) workers: u64,
    /// One in so many is answered so; 0: none is.
    pub(super) neutral: u64,
    pub(super) error: u64,
    pub(super) silent: u64,
    /// Whether its refusals say for how long.
    pub(super) advises: bool,
}

impl Manner {
    /// Answers steadily and at once.
    pub(super) fn steady() -> Self {
        Self { service: Duration::from_millis(20), workers: 1000, neutral: 0, error: 0, silent: 0, advises: false }
    }
}

/// A request in flight: when it started, and how it will have gone.
type Flight = (Instant, Outcome, Option<Duration>);

#[derive(Clone)]
pub(super) struct Life {
    pub(super) now: Instant,
    pub(super) adaptive: Adaptive,
    pub(super) settings: AdaptiveSettings,
    pub(super) rule: Rule,
    pub(super) manner: Manner,
    pub(super) dice: Dice,
    /// Starts, and what was refused of them.
    pub(super) starts: u64,
    pub(super) refused: u64,
    last_start: Option<Instant>,
    paused: Instant,
    /// Since when, and how much of it is used.
    window: (Instant, u64),
    tokens_at: Instant,
    flights: BTreeMap<(Instant, u64), Flight>,
    workers_free: Vec<Instant>,
}

impl Life {
    pub(super) fn new(seed: u64, settings: AdaptiveSettings, rule: Rule, manner: Manner) -> Self {
        let now = Instant::from_millis(1_000_000_000);
        Self {
            now,
            adaptive: Adaptive::new(&settings),
            settings,
            rule,
            workers_free: vec![now; manner.workers.clamp(1, 64) as usize],
            manner,
            dice: Dice::new(seed),
            starts: 0,
            refused: 0,
            last_start: None,
            paused: now,
            window: (now, 0),
            tokens_at: now.before(DAY_SPAN),
            flights: BTreeMap::new(),
        }
    }

    /// Any of them all.
    pub(super) fn any(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let millis = |dice: &mut Dice, of: &[u64]| Duration::from_millis(dice.pick(of));
        let settings = AdaptiveSettings {
            start: millis(&mut dice, &[0, 1, 20, 250, 1000, 90_000]),
            floor: millis(&mut dice, &[0, 0, 1, 50, 500, 10_000]),
            ceiling: millis(&mut dice, &[0, 400, 30_000, 60_000, 60_000, 4_000_000]),
        };
        let rule = match dice.below(5) {
            0 => Rule::All,
            1 | 2 => Rule::Bucket { every: millis(&mut dice, &[1, 10, 100, 1000, 20_000]), burst: 1 + dice.below(50) },
            _ => Rule::Window {
                span: millis(&mut dice, &[1000, 10_000, 60_000, 300_000, 3_600_000]),
                most: 1 + dice.below(120),
            },
        };
        let manner = Manner {
            service: millis(&mut dice, &[0, 1, 20, 200, 3000]),
            workers: dice.pick(&[1, 2, 4, 64]),
            neutral: dice.pick(&[0, 0, 3, 20]),
            error: dice.pick(&[0, 0, 5, 50]),
            silent: dice.pick(&[0, 0, 50]),
            advises: dice.once_in(3),
        };
        Self { dice, ..Self::new(seed, settings, rule, manner) }
    }

    /// To the next answer: the fact, taught, and what changed.
    pub(super) fn step(&mut self) -> (Fact, Change) {
        let (now, fact) = self.next_fact();
        (fact, self.adaptive.taught(now, &fact, &self.settings))
    }

    /// To the next answer, which is not taught.
    pub(super) fn next_fact(&mut self) -> (Instant, Fact) {
        loop {
            let room = self.flights.len() < self.adaptive.in_flight() as usize;
            let paced = self.last_start.map_or(self.now, |last| last.after(self.adaptive.interval()));
            let start = paced.max(self.paused).max(self.now);
            match self.flights.first_key_value() {
                Some((&(end, id), _)) if !room || end <= start => {
                    self.now = self.now.max(end);
                    let (started, outcome, latency) = self.flights.remove(&(end, id)).expect("it flies");
                    return (self.now, Fact { started, outcome, latency });
                }
                _ => self.start(start),
            }
        }
    }

    /// Nothing starts for so long; what flies lands.
    pub(super) fn rest(&mut self, span: Duration) {
        while let Some(((end, _), (started, outcome, latency))) = self.flights.pop_first() {
            self.now = self.now.max(end);
            self.adaptive.taught(self.now, &Fact { started, outcome, latency }, &self.settings);
        }
        self.now = self.now.after(span);
        self.adaptive = self.adaptive.aged(span, &self.settings);
    }

    fn start(&mut self, at: Instant) {
        // A client has a moment of its own between an answer and what it does next.
        self.now = at.after(Duration::from_micros(50));
        self.last_start = Some(self.now);
        self.starts += 1;
        let (outcome, took) = if self.admits() { self.answer() } else { (self.refusal(), Duration::from_millis(5)) };
        let latency = (outcome == Outcome::Served).then_some(took);
        self.flights.insert((self.now.after(took), self.starts), (self.now, outcome, latency));
    }

    fn admits(&mut self) -> bool {
        match &self.rule {
            Rule::All => true,
            Rule::Bucket { every, burst } => {
                let full = every.saturating_mul(u32::try_from(burst - 1).unwrap_or(u32::MAX));
                let at = self.tokens_at.max(self.now.before(full));
                let admits = at <= self.now;
                self.tokens_at = if admits { at.after(*every) } else { at };
                admits
            }
            Rule::Window { span, most } => {
                if self.now.since(self.window.0) >= *span {
                    self.window = (self.now, 0);
                }
                self.window.1 += 1;
                self.window.1 <= *most
            }
        }
    }

    fn refusal(&mut self) -> Outcome {
        self.refused += 1;
        let advice = self.manner.advises.then(|| Duration::from_secs(1 + self.dice.below(20)));
        if let Some(advice) = advice {
            self.paused = self.now.after(advice);
        }
        Outcome::Refused { advice }
    }

    fn answer(&mut self) -> (Outcome, Duration) {
        let once = |dice: &mut Dice, n: u64| n > 0 && dice.once_in(n);
        let Manner { service, neutral, error, silent, .. } = self.manner;
        if once(&mut self.dice, silent) {
            return (Outcome::NoAnswer, Duration::from_secs(10));
        }
        if once(&mut self.dice, error) {
            return (Outcome::ServerError, service);
        }
        if once(&mut self.dice, neutral) {
            return (Outcome::Neutral, service / 2);
        }
        // The worker that is free first, and a jitter of a tenth.
        let worker = self.workers_free.iter_mut().min().expect("there is a worker");
        let takes = service + service.mul_f64(self.dice.below(100) as f64 / 1000.0);
        *worker = (*worker).max(self.now).after(takes);
        (Outcome::Served, worker.since(self.now))
    }
}

const DAY_SPAN: Duration = Duration::from_secs(DAY);
