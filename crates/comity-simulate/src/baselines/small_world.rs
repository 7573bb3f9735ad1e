//! A world just big enough to replay what real programs were measured to do: 600 URLs, 120 s at most, 20 ms an answer, no
//! Retry-After, one server or five. The programs' own settings are in their modules.
//!
//! Each measurement below was taken twice or more on real servers and programs. Where two of them differ the test holds the
//! replay to both.

use core::time::Duration;
use std::collections::VecDeque;

use comity_core::time::Instant;

use super::{Again, Answered, Baseline, Settings, Start, named};

/// What the server allows.
enum Limit {
    /// Tokens a second, what the bucket holds, tokens in it, filled when.
    Bucket(f64, f64, f64, Instant),
    /// How many in how long, how many so far, since when: from the first request after the last window.
    Window(u32, Duration, u32, Option<Instant>),
    /// When each worker is free, and what a service takes.
    Queue(Vec<Instant>, Duration),
}

impl Limit {
    fn bucket(rate: f64, burst: f64) -> Self {
        Self::Bucket(rate, burst, burst, Instant::ZERO)
    }

    fn window(most: u32, seconds: u64) -> Self {
        Self::Window(most, Duration::from_secs(seconds), 0, None)
    }

    fn queue(workers: usize, millis: u64) -> Self {
        Self::Queue(vec![Instant::ZERO; workers], Duration::from_millis(millis))
    }

    /// Whether it serves a request that arrives now, and when the answer leaves.
    fn arrives(&mut self, now: Instant) -> (bool, Instant) {
        let soon = now.after(Duration::from_millis(20));
        match self {
            Self::Bucket(rate, burst, tokens, filled) => {
                *tokens = (*tokens + now.since(*filled).as_secs_f64() * *rate).min(*burst);
                *filled = now;
                let served = *tokens >= 1.0 - 1e-9;
                *tokens -= if served { 1.0 } else { 0.0 };
                (served, soon)
            }
            Self::Window(most, length, so_far, since) => {
                if since.is_none_or(|since| now.since(since) >= *length) {
                    (*since, *so_far) = (Some(now), 0);
                }
                let served = *so_far < *most;
                *so_far += u32::from(served);
                (served, soon)
            }
            Self::Queue(workers, service) => {
                workers.sort_unstable();
                workers[0] = workers[0].max(now).after(*service);
                (true, workers[0])
            }
        }
    }
}

/// What a run came to.
#[derive(Debug)]
struct Run {
    got: u32,
    refused: u32,
    /// When the last URL was got or given up, or the time was over.
    seconds: f64,
}

/// A URL: its server, and how often it was tried.
type Url = (usize, u32);

/// A request on its way back: when its answer is there, when it started, whether it is served, and its URL.
type Flight = (Instant, Instant, bool, Url);

/// What a program gets of so many URLs in 120 s, each of the server after the last one's, where the program itself takes
/// `overhead` a request besides the server's time.
fn run(baseline: &mut dyn Baseline, servers: &mut [Limit], urls: usize, overhead: Duration) -> Run {
    let mut waiting: VecDeque<Url> = (0..urls).map(|url| (url % servers.len(), 0)).collect();
    let mut resting: Vec<(Instant, Url)> = Vec::new();
    let mut flights: Vec<Flight> = Vec::new();
    let (mut now, mut run) = (Instant::ZERO, Run { got: 0, refused: 0, seconds: 0.0 });
    while now < END && !(waiting.is_empty() && resting.is_empty() && flights.is_empty()) {
        resting.sort_unstable();
        while let Some((_, url)) = resting.first().copied().filter(|(until, _)| *until <= now) {
            resting.remove(0);
            waiting.push_front(url);
        }
        let mut next = resting.first().map_or(END, |(until, _)| *until);
        if let Some(url) = waiting.front().copied() {
            match baseline.may_start(now, u32::try_from(flights.len()).unwrap_or(u32::MAX)) {
                Start::Now => {
                    waiting.pop_front();
                    baseline.started(now);
                    let (served, leaves) = servers[url.0].arrives(now);
                    flights.push((leaves.after(overhead), now, served, url));
                    continue;
                }
                Start::At(at) => next = next.min(at),
                Start::AfterAnswer => {}
            }
        }
        flights.sort_unstable();
        if let Some((at, started, served, (server, tried))) = flights.first().copied().filter(|flight| flight.0 <= next)
        {
            flights.remove(0);
            now = at;
            let status = Some(if served { 200 } else { 429 });
            let answer = Answered { started, status, latency: now.since(started), retry_after: None, tried };
            baseline.answered(now, &answer);
            run.got += u32::from(served);
            run.refused += u32::from(!served);
            if !served && tried < baseline.retries() {
                let url = (server, tried + 1);
                match baseline.again() {
                    Again::First => waiting.push_front(url),
                    Again::Last => waiting.push_back(url),
                    Again::Rested(rest) => resting.push((now.after(rest), url)),
                }
            }
        } else {
            now = next;
        }
    }
    run.seconds = now.min(END).since(Instant::ZERO).as_secs_f64();
    run
}

/// One server, 600 URLs.
fn replay(name: &str, settings: &Settings, limit: Limit, overhead_millis: u64) -> Run {
    on(name, settings, &mut [limit], 600, overhead_millis)
}

fn on(name: &str, settings: &Settings, servers: &mut [Limit], urls: usize, overhead_millis: u64) -> Run {
    let Some(mut baseline) = named(name, settings) else { panic!("{name} is no baseline") };
    run(baseline.as_mut(), servers, urls, Duration::from_millis(overhead_millis))
}

/// The five servers of the measurements.
fn five() -> [Limit; 5] {
    [
        Limit::bucket(10.0, 20.0),
        Limit::bucket(1.0, 5.0),
        Limit::bucket(100.0, 50.0),
        Limit::window(60, 60),
        Limit::queue(4, 200),
    ]
}

/// All five at once, 120 URLs each, for a program that treats each host for itself.
fn five_apart(name: &str, overhead_millis: u64) -> Run {
    let mut all = Run { got: 0, refused: 0, seconds: 0.0 };
    for (seed, server) in (0..).zip(five()) {
        let settings = Settings { seed, ..Settings::default() };
        let one = on(name, &settings, &mut [server], 120, overhead_millis);
        all.got += one.got;
        all.refused += one.refused;
        all.seconds = all.seconds.max(one.seconds);
    }
    all
}

/// The same for a program that is serial over all hosts.
fn five_in_turn(name: &str, settings: &Settings, overhead_millis: u64) -> Run {
    on(name, settings, &mut five(), 600, overhead_millis)
}

/// Whether a replay is within a fifth of what was measured; a measured zero is to be zero.
fn agrees(replayed: u32, measured: u32) -> bool {
    replayed.abs_diff(measured) * 5 <= measured
}

fn assert_agrees(run: &Run, got: u32, refused: u32) {
    assert!(agrees(run.got, got), "{got} were got: {run:?}");
    assert!(agrees(run.refused, refused), "{refused} were refused: {run:?}");
}

const END: Instant = Instant::from_millis(120_000);

fn rate(millis: u64) -> Settings {
    Settings { interval: Duration::from_millis(millis), ..Settings::default() }
}

#[test]
fn wget_behaves_as_measured() {
    let settings = Settings::default();
    assert_agrees(&replay("wget", &settings, Limit::bucket(10.0, 20.0), 3), 600, 45);
    assert_agrees(&replay("wget", &settings, Limit::bucket(1.0, 5.0), 3), 124, 115);
    let fast = replay("wget", &settings, Limit::bucket(100.0, 50.0), 3);
    assert_agrees(&fast, 600, 0);
    // 43 % of 100 a second.
    assert!((f64::from(fast.got) / fast.seconds - 43.0).abs() < 43.0 / 5.0, "{fast:?}");
    // A quarter of 20 a second over 120 s.
    assert_agrees(&replay("wget", &settings, Limit::queue(4, 200), 3), 595, 0);
}

#[test]
fn curl_behaves_as_measured() {
    assert_agrees(&replay("curl", &rate(100), Limit::bucket(10.0, 20.0), 3), 600, 0);
    assert_agrees(&replay("curl", &rate(100), Limit::window(60, 60), 3), 120, 21);
    assert_agrees(&replay("curl", &rate(1_000), Limit::window(60, 60), 3), 120, 0);
}

#[test]
fn five_hosts_at_once_are_as_measured() {
    assert_agrees(&five_in_turn("curl", &rate(100), 3), 600, 42);
    assert_agrees(&five_in_turn("wget", &Settings::default(), 3), 600, 78);
    assert_agrees(&five_apart("lychee", 1), 564, 312);
    assert_agrees(&five_apart("scrapy", 9), 432, 582);
}

#[test]
fn lychee_behaves_as_measured() {
    let settings = Settings::default();
    let run = replay("lychee", &settings, Limit::bucket(10.0, 20.0), 1);
    assert_agrees(&run, 576, 507);
    assert_agrees(&run, 571, 506);
    let run = replay("lychee", &settings, Limit::bucket(1.0, 5.0), 1);
    assert_agrees(&run, 124, 402);
    assert_agrees(&run, 124, 419);
    assert_agrees(&replay("lychee", &settings, Limit::queue(4, 200), 1), 598, 0);
}

#[test]
fn aria2_behaves_as_measured() {
    let run = replay("aria2", &Settings::default(), Limit::bucket(10.0, 20.0), 1);
    assert_agrees(&run, 47, 553);
    assert_agrees(&replay("aria2", &Settings::default(), Limit::queue(4, 200), 1), 596, 0);
}

#[test]
fn scrapy_behaves_as_measured() {
    for seed in 0..5 {
        let settings = Settings { seed, ..Settings::default() };
        let run = replay("scrapy", &settings, Limit::bucket(10.0, 20.0), 9);
        assert_agrees(&run, 438, 774);
        assert_agrees(&run, 385, 927);
    }
}

#[test]
fn crawlee_behaves_as_measured() {
    let one = Settings { in_flight: 1, ..Settings::default() };
    assert_agrees(&replay("crawlee", &one, Limit::window(60, 60), 10), 120, 6);
    let many = Settings { in_flight: 100, ..Settings::default() };
    assert_agrees(&replay("crawlee", &many, Limit::window(60, 60), 10), 120, 60);
}
