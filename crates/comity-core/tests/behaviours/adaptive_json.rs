//! The stories of `vectors/adaptive.json`: hosts with rules of their own, and a client that obeys the policy.
//!
//! `COMITY_WRITE_VECTORS=1 cargo test -p comity-core --test behaviours adaptive_json` writes the file anew.

use core::fmt::Write as _;
use core::time::Duration;
use std::collections::BTreeMap;

use comity_core::policy::{AdaptiveSettings, Fact, Learned, Outcome, Policy, Why};
use comity_core::time::Instant;

use crate::world::{MS, SEC};

#[test]
fn adaptive_json_is_what_the_policy_decides() {
    let path = format!("{}/../../vectors/adaptive.json", env!("CARGO_MANIFEST_DIR"));
    let text = text(&stories());
    if std::env::var_os("COMITY_WRITE_VECTORS").is_some() {
        std::fs::write(&path, &text).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == text,
        "{path} is not what the policy decides; `COMITY_WRITE_VECTORS=1 cargo test -p comity-core --test behaviours \
         adaptive_json` writes it anew"
    );
}

fn stories() -> Vec<Story> {
    let usual = AdaptiveSettings::default();
    let bucket = Rule::Bucket { every: MS * 100, burst: 5 };
    let window = Rule::Window { span: SEC * 10, most: 20 };
    let minute = Rule::Window { span: SEC * 60, most: 30 };
    vec![
        Story::new("cold: faster and faster while nothing is refused and the pace is used", usual, Rule::All)
            .answers(60),
        Story::new("cold: a pace that is not used does not grow", usual, Rule::All).asking_every(SEC).answers(20),
        Story::new("cold: an answer without a latency teaches the rate alone", usual, Rule::All)
            .unmeasured()
            .answers(20),
        Story::new("A8: never faster than the floor", AdaptiveSettings { floor: MS * 100, ..usual }, Rule::All)
            .answers(40),
        Story::new("a first refusal of a bucket, its trial, and the search between two bounds", usual, bucket)
            .until(Why::BackingOff)
            .until(Why::Searching)
            .answers(25),
        Story::new("a bucket's second refusal bounds its rate from both sides", usual, bucket)
            .until(Why::BackingOff)
            .until(Why::Searching)
            .until(Why::BackingOff)
            .until_not(Why::BackingOff)
            .answers(10),
        Story::new("a window: trials farther and farther apart, and its rate when one is admitted", usual, minute)
            .until(Why::BackingOff)
            .until(Why::Learned)
            .answers(10),
        Story::new(
            "A8: trials may be slower than the ceiling",
            AdaptiveSettings { ceiling: MS * 300, ..usual },
            window,
        )
        .until(Why::BackingOff)
        .until(Why::Learned)
        .answers(5),
        Story::new("advice: the host says for how long it wants to be left alone", usual, bucket)
            .advising(SEC * 3)
            .until(Why::BackingOff)
            .until_not(Why::BackingOff)
            .answers(20),
        Story::new("A9: a burst that is refused together teaches once", usual, Rule::All)
            .answers(30)
            .together(12, Outcome::Refused { advice: None })
            .answers(10),
        Story::new("A9: a burst that is refused with advice teaches once", usual, Rule::All)
            .answers(30)
            .together(12, Outcome::Refused { advice: Some(SEC * 2) })
            .answers(10),
        Story::new("A3: errors strain it, each once, and what is served eases it", usual, Rule::All)
            .answers(20)
            .saying(Outcome::ServerError, 4)
            .answers(60),
        Story::new("A3: requests that get no answer strain it, those in flight together once", usual, Rule::All)
            .answers(20)
            .together(6, Outcome::NoAnswer)
            .saying(Outcome::NoAnswer, 2)
            .answers(40),
        Story::new("A11: client errors make it neither faster nor slower", usual, Rule::All)
            .answers(10)
            .saying(Outcome::Neutral, 30)
            .answers(10),
        Story::new("A11: a trial that a client error answers was admitted", usual, bucket)
            .until(Why::BackingOff)
            .saying(Outcome::Neutral, 3)
            .answers(10),
        Story::new("A5: more in flight, as long as latency says that nobody waits at the host", usual, Rule::All)
            .served_by(4, MS * 200)
            .answers(250),
        Story::new(
            "A5: fewer in flight when there are fewer workers, and one where the host struggles",
            usual,
            Rule::All,
        )
        .served_by(4, MS * 200)
        .answers(150)
        .served_by(1, MS * 400)
        .answers(80)
        .served_by(1, SEC * 3)
        .answers(20),
        Story::new("after a rest it goes on from what it knew", usual, window)
            .until(Why::Learned)
            .answers(10)
            .rest(SEC * 600)
            .answers(25),
        Story::new("a rest before anything was refused", usual, Rule::All).answers(30).rest(SEC * 600).answers(15),
        Story::new("a probe that is refused goes back to the pace before it", usual, window)
            .until(Why::Learned)
            .until(Why::Probing)
            .until(Why::BackingOff)
            .until(Why::Learned)
            .answers(5),
        Story::new("a probe that is not refused grows", usual, window)
            .until(Why::Learned)
            .until(Why::Probing)
            .under(Rule::All)
            .answers(80),
    ]
}

/// What a host admits.
#[derive(Clone, Copy)]
enum Rule {
    All,
    /// One token each so long, and so many at most.
    Bucket {
        every: Duration,
        burst: u32,
    },
    /// So many in each span, the first of which begins with the first request.
    Window {
        span: Duration,
        most: u32,
    },
}

struct Story {
    name: &'static str,
    settings: AdaptiveSettings,
    rule: Rule,
    learned: Learned,
    now: Instant,
    last_start: Option<Instant>,
    paused: Instant,
    /// In flight, by when they are answered and in what order they started.
    flights: BTreeMap<(Instant, u32), Fact>,
    started: u32,
    /// The bucket's next token, or the window's beginning; and what is used of it.
    since: Instant,
    used: u32,
    workers: Vec<Instant>,
    service: Duration,
    advice: Option<Duration>,
    least_gap: Duration,
    measured: bool,
    steps: Vec<String>,
}

impl Story {
    fn new(name: &'static str, settings: AdaptiveSettings, rule: Rule) -> Self {
        Self {
            name,
            settings,
            rule,
            learned: Policy::Adaptive(settings).fresh(),
            now: Instant::from_millis(1000),
            last_start: None,
            paused: Instant::ZERO,
            flights: BTreeMap::new(),
            started: 0,
            since: Instant::ZERO,
            used: 0,
            workers: Vec::new(),
            service: MS * 20,
            advice: None,
            least_gap: Duration::ZERO,
            measured: true,
            steps: Vec::new(),
        }
    }

    /// The client has no more to ask for than that.
    fn asking_every(mut self, span: Duration) -> Self {
        self.least_gap = span;
        self
    }

    fn unmeasured(mut self) -> Self {
        self.measured = false;
        self
    }

    /// Refusals come with a Retry-After, which the client obeys.
    fn advising(mut self, wait: Duration) -> Self {
        self.advice = Some(wait);
        self
    }

    /// From now on there are so many workers, each of which takes so long.
    fn served_by(mut self, workers: usize, service: Duration) -> Self {
        (self.workers, self.service) = (vec![self.now; workers], service);
        self
    }

    fn under(mut self, rule: Rule) -> Self {
        self.rule = rule;
        self
    }

    fn answers(mut self, count: usize) -> Self {
        for _ in 0..count {
            self.answer(None);
        }
        self
    }

    /// So many answers of this kind, whatever the host would say.
    fn saying(mut self, outcome: Outcome, count: usize) -> Self {
        for _ in 0..count {
            self.answer(Some(outcome));
        }
        self
    }

    fn until(self, why: Why) -> Self {
        self.until_it(|said| said == why)
    }

    fn until_not(self, why: Why) -> Self {
        self.until_it(|said| said != why)
    }

    fn until_it(mut self, holds: impl Fn(Why) -> bool) -> Self {
        for _ in 0..2000 {
            let said = self.learned.said(self.now).expect("it has something to say");
            if holds(said.why) {
                return self;
            }
            self.answer(None);
        }
        panic!("{}: it never comes to that, but to {:?}", self.name, self.learned.said(self.now));
    }

    /// So many start almost at once, and are answered together.
    fn together(mut self, count: u32, outcome: Outcome) -> Self {
        self.land();
        let first = self.now.after(MS);
        self.now = first.after(MS * 50);
        for n in 0..count {
            let fact = Fact { started: first.after(MS * n / 10), outcome, latency: None };
            self.taught(&fact);
            self.now = self.now.after(MS);
        }
        self.last_start = Some(first);
        self
    }

    /// Nothing starts for so long.
    fn rest(mut self, span: Duration) -> Self {
        self.land();
        self.now = self.now.after(span);
        self
    }

    fn land(&mut self) {
        while let Some(((at, _), fact)) = self.flights.pop_first() {
            self.now = self.now.max(at);
            self.taught(&fact);
        }
    }

    /// Starts what may start until the next answer comes.
    fn answer(&mut self, outcome: Option<Outcome>) {
        loop {
            let paced =
                self.last_start.map_or(self.now, |last| last.after(self.learned.interval().max(self.least_gap)));
            // A client has a moment of its own; and the clock of the vectors counts microseconds.
            let start = paced.max(self.paused).max(self.now.after(MS / 10));
            let start = Instant::from_nanos(start.as_nanos().next_multiple_of(1000));
            let most = self.learned.in_flight().expect("it learns a concurrency") as usize;
            if let Some(flight) = self.flights.first_entry()
                && (flight.key().0 <= start || self.flights.len() >= most)
            {
                let Some(((at, _), fact)) = self.flights.pop_first() else { return };
                self.now = self.now.max(at);
                self.taught(&Fact { outcome: outcome.unwrap_or(fact.outcome), ..fact });
                return;
            }
            self.start(start);
        }
    }

    fn start(&mut self, at: Instant) {
        (self.now, self.last_start) = (at, Some(at));
        self.started += 1;
        let (outcome, ends) = if self.admits(at) {
            (Outcome::Served, self.served_at(at))
        } else {
            (Outcome::Refused { advice: self.advice }, at.after(MS * 5))
        };
        let latency = Some(ends.since(at)).filter(|_| self.measured);
        self.flights.insert((ends, self.started), Fact { started: at, outcome, latency });
    }

    fn admits(&mut self, at: Instant) -> bool {
        match self.rule {
            Rule::All => true,
            Rule::Bucket { every, burst } => {
                let token = self.since.max(at.before(every * (burst - 1)));
                let admits = token <= at;
                self.since = if admits { token.after(every) } else { token };
                admits
            }
            Rule::Window { span, most } => {
                if at.since(self.since) >= span {
                    (self.since, self.used) = (at, 0);
                }
                self.used += 1;
                self.used <= most
            }
        }
    }

    /// The worker that is free first takes it; without any it waits for nobody.
    fn served_at(&mut self, at: Instant) -> Instant {
        let Some(worker) = self.workers.iter_mut().min() else { return at.after(self.service) };
        // Not all alike: a few milliseconds more each time, and then from the beginning.
        *worker = (*worker).max(at).after(self.service + MS * (self.started % 8));
        *worker
    }

    /// The fact is a step, with what holds after it.
    fn taught(&mut self, fact: &Fact) {
        let latency = fact.latency.filter(|_| fact.outcome == Outcome::Served);
        let fact = Fact { latency, ..*fact };
        self.learned.taught(self.now, &fact, &Policy::Adaptive(self.settings));
        let (outcome, wait) = match fact.outcome {
            Outcome::Served => ("ok", None),
            Outcome::Neutral => ("neutral", None),
            Outcome::ServerError => ("error", None),
            Outcome::NoAnswer => ("no_answer", None),
            Outcome::Refused { advice } => ("refused", advice),
        };
        if let Some(wait) = wait {
            self.paused = self.paused.max(self.now.after(wait));
        }
        let mut step = format!(
            r#"{{"at_ms": {}, "event": "answer", "started_ms": {}, "outcome": "{outcome}""#,
            millis(self.now.since(Instant::ZERO)),
            millis(fact.started.since(Instant::ZERO)),
        );
        for (name, span) in [("retry_after_ms", wait), ("latency_ms", latency)] {
            if let Some(span) = span {
                let _ = write!(step, r#", "{name}": {}"#, millis(span));
            }
        }
        let in_flight = self.learned.in_flight().expect("it learns a concurrency");
        let interval = millis(self.learned.interval());
        let _ = write!(step, r#", "expect": {{"interval_ms": {interval}, "in_flight": {in_flight}}}}}"#);
        self.steps.push(step);
    }
}

fn text(stories: &[Story]) -> String {
    let cases: Vec<String> = stories.iter().map(case).collect();
    format!(
        "{{\n  \"name\": \"adaptive\",\n  \"source\": \"the policy itself; behaviours A3, A5, A8, A9, A11\",\n  \
         \"tolerance_ns\": 0,\n  \"cases\": [\n{}\n  ]\n}}\n",
        cases.join(",\n")
    )
}

fn case(story: &Story) -> String {
    let AdaptiveSettings { start, floor, ceiling } = story.settings;
    let [start, floor, ceiling] = [start, floor, ceiling].map(millis);
    format!(
        "    {{\n      \"name\": \"{}\",\n      \"policy\": {{\"kind\": \"adaptive\", \"interval_ms\": {start}, \
         \"floor_ms\": {floor}, \"ceiling_ms\": {ceiling}}},\n      \"steps\": [\n        {}\n      ]\n    }}",
        story.name,
        story.steps.join(",\n        ")
    )
}

/// Milliseconds, to the nanosecond and no digit more.
fn millis(span: Duration) -> String {
    let nanos = span.as_nanos();
    let text = format!("{}.{:06}", nanos / 1_000_000, nanos % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
