//! 4,000 requests that wait for one host at 1,000 a second, beside governor's `until_key_ready`, in one run.
//!
//! `cargo bench -p comity --bench waiting`
//!
//! For each: the rate reached as a share of the nominal one, decisions a
//! request, how many places the farthest was out of its place in the order of arrival, and processor seconds.

#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock and prints")]

use std::future::poll_fn;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use comity::{Answer, Pacer, Partial, Policy, Profile};
use governor::clock::{Clock, DefaultClock, ReasonablyRealtime};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use http::HeaderMap;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use url::Url;

const WAITERS: usize = 4_000;
const PER_SECOND: u32 = 1_000;

struct Outcome {
    span: Duration,
    out_of_place: usize,
    decisions: u64,
    processor: f64,
}

fn main() {
    println!("{WAITERS} waiting requests at {PER_SECOND}/s on one host");
    println!("{:>10} {:>9} {:>12} {:>12} {:>8}", "", "rate", "decisions", "out of place", "CPU s");
    for (name, run) in [("comity", comity as fn() -> Outcome), ("governor", governor)] {
        let Outcome { span, out_of_place, decisions, processor } = run();
        // The first start is free, so so many intervals lie between the first and the last.
        let nominal = Duration::from_secs(1) * (WAITERS as u32 - 1) / PER_SECOND;
        let share = 100.0 * nominal.as_secs_f64() / span.as_secs_f64();
        let decisions = decisions as f64 / WAITERS as f64;
        println!("{name:>10} {share:>7.1} % {decisions:>12.2} {out_of_place:>12} {processor:>8.2}");
    }
}

fn comity() -> Outcome {
    let limits = Partial {
        interval: Some(Duration::from_secs(1) / PER_SECOND),
        policy: Some(Policy::Fixed),
        ..Partial::default()
    };
    let pacer = Pacer::builder(Profile::Api).template(limits).local();
    let url = Url::parse("http://one.example/").expect("a URL");
    let mut outcome = run({
        let pacer = pacer.clone();
        move || {
            let (pacer, url) = (pacer.clone(), url.clone());
            async move {
                let permit = pacer.acquire(&url).await.expect("it starts");
                let started = permit.started();
                let _ = permit.settle(&Answer::response(200, &HeaderMap::new()));
                Some(started)
            }
        }
    });
    outcome.decisions = pacer.decisions();
    outcome
}

/// The default clock, which counts how often it is read: once a check.
#[derive(Clone, Debug, Default)]
struct Counting {
    clock: DefaultClock,
    read: Arc<AtomicUsize>,
}

impl Clock for Counting {
    type Instant = <DefaultClock as Clock>::Instant;

    fn now(&self) -> Self::Instant {
        self.read.fetch_add(1, Ordering::Relaxed);
        self.clock.now()
    }
}

impl ReasonablyRealtime for Counting {}

fn governor() -> Outcome {
    let one = NonZeroU32::MIN;
    let quota = Quota::per_second(NonZeroU32::new(PER_SECOND).unwrap_or(one)).allow_burst(one);
    let clock = Counting::default();
    let read = Arc::clone(&clock.read);
    let hosts: HashMapStateStore<&'static str> = HashMapStateStore::default();
    let limiter =
        Arc::new(RateLimiter::<_, _, _, NoOpMiddleware<<Counting as Clock>::Instant>>::new(quota, hosts, clock));
    let mut outcome = run(move || {
        let limiter = Arc::clone(&limiter);
        async move {
            limiter.until_key_ready(&"one.example").await;
            None // it does not tell when
        }
    });
    outcome.decisions = read.load(Ordering::Relaxed) as u64;
    outcome
}

/// Has the requests come one after the other, wait in tasks of their own, and note when each was let start.
fn run<F: Future<Output = Option<Duration>> + Send + 'static>(wait: impl Fn() -> F) -> Outcome {
    let runtime = Runtime::new().expect("a runtime");
    let (before, origin) = (processor_seconds(), Instant::now());
    let mut starts = runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for n in 0..WAITERS {
            let wait = wait();
            let mut waiting = Box::pin(async move {
                let started = wait.await;
                (started.unwrap_or_else(|| origin.elapsed()), n)
            });
            // A first look gives it its place before the next one comes.
            let started = poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx))).await;
            tasks.spawn(async move {
                match started {
                    Poll::Ready(start) => start,
                    Poll::Pending => waiting.await,
                }
            });
        }
        tasks.join_all().await
    });
    let processor = processor_seconds() - before;
    starts.sort_unstable();
    let out_of_place = starts.iter().enumerate().map(|(rank, (_, n))| rank.abs_diff(*n)).max().unwrap_or_default();
    let span = starts[WAITERS - 1].0 - starts[0].0;
    Outcome { span, out_of_place, decisions: 0, processor }
}

/// User and system time of this process, in seconds (proc_pid_stat(5): fields 14 and 15, in hundredths).
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}
