//! `acquire` and `settle` in memory beside governor's keyed check, in one run; ratios are printed.
//!
//! `cargo bench -p comity --bench decide`

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark reads the clock and prints"
)]

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use comity::{AdaptiveSettings, Answer, Pacer, Partial, Policy, Profile};
use governor::{Quota, RateLimiter};
use http::HeaderMap;
use url::Url;

/// A per-thread pseudo-random walk over the hosts, the same for both.
fn order(hosts: usize, seed: u64) -> impl FnMut() -> usize {
    let mut state = seed | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % hosts as u64) as usize
    }
}

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

fn timed(threads: usize, rounds: usize, hosts: usize, work: impl Fn(usize) + Sync) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let work = &work;
            scope.spawn(move || {
                let mut next = order(hosts, 0x9E37_79B9 + thread as u64);
                for _ in 0..rounds {
                    work(next());
                }
            });
        }
    });
    start.elapsed().as_nanos() as f64 / (rounds * threads) as f64
}

/// 100,000 hosts looked up against 1,000 rules (F14).
fn rules() {
    let mut builder = Pacer::builder(Profile::Crawl);
    for n in 0..1_000 {
        let pattern = if n % 2 == 0 { format!("*.group-{n}.example") } else { format!("host-{n}.example") };
        let limits = Partial { in_flight: NonZeroU32::new(2), ..Partial::default() };
        builder = builder.rule(comity::config::pattern(&pattern).unwrap(), limits);
    }
    let pacer = builder.local();
    let urls: Vec<Url> =
        (0..100_000).map(|n| Url::parse(&format!("http://www-{n}.group-{}.example/", n % 1_000)).unwrap()).collect();
    let start = Instant::now();
    for url in &urls {
        drop(black_box(pacer.try_acquire(url)));
    }
    println!("100,000 new hosts under 1,000 rules: {:.0} ms in all", start.elapsed().as_secs_f64() * 1e3);
}

fn main() {
    rules();
    println!(
        "ns an operation: comity acquire + settle (spacing, in flight, pause, quota, policy) beside governor's keyed check"
    );
    println!("{:>9} {:>7} {:>9} {:>10} {:>10} {:>7}", "hosts", "threads", "policy", "comity", "governor", "ratio");
    for hosts in [1usize, 1_000, 1_000_000] {
        beside(hosts, "refusal", Policy::refusal(), true);
        beside(hosts, "adaptive", unhurried(), false);
    }
}

/// The adaptive policy at a host that it need not wait for: what is measured is a decision and not a wait.
fn unhurried() -> Policy {
    let start = std::time::Duration::from_nanos(1);
    Policy::Adaptive(AdaptiveSettings { start, floor: start, ..AdaptiveSettings::default() })
}

/// A policy at so many hosts, beside governor.
fn beside(hosts: usize, name: &str, policy: Policy, is_first: bool) {
    let names: Vec<String> = (0..hosts).map(|n| format!("host-{n}.example")).collect();
    let urls: Vec<Url> = names.iter().map(|name| Url::parse(&format!("http://{name}/page")).unwrap()).collect();
    let before = resident();
    let limits = Partial {
        interval: Some(std::time::Duration::from_nanos(1)),
        burst: NonZeroU32::new(1_000_000),
        policy: Some(policy),
        ..Partial::default()
    };
    let pacer = Pacer::builder(Profile::Api).template(limits).local();
    let headers = HeaderMap::new();
    let waits = AtomicUsize::new(0);
    let once = |n: usize| {
        let Ok(Ok(permit)) = pacer.try_acquire(&urls[n]) else {
            waits.fetch_add(1, Ordering::Relaxed);
            return;
        };
        black_box(permit.settle(&Answer::response(200, &headers)));
    };
    for n in 0..hosts {
        once(n);
    }
    let bytes = resident().saturating_sub(before);
    let governor = RateLimiter::keyed(Quota::per_second(NonZeroU32::new(1_000_000_000).unwrap()));
    for name in &names {
        let _ = governor.check_key(name);
    }
    for threads in [1, 2] {
        let mut best = (f64::MAX, f64::MAX);
        waits.store(0, Ordering::Relaxed);
        for _ in 0..TIMES {
            let theirs = timed(threads, ROUNDS, hosts, |n| {
                let _ = black_box(governor.check_key(&names[n]));
            });
            let ours = timed(threads, ROUNDS, hosts, once);
            best = (best.0.min(ours), best.1.min(theirs));
        }
        // One that has to wait was decided too, but nothing was settled.
        let waited = match 100 * waits.load(Ordering::Relaxed) / (TIMES * ROUNDS * threads) {
            0 => String::new(),
            share => format!("  ({share} % had to wait)"),
        };
        println!(
            "{hosts:>9} {threads:>7} {name:>9} {:>10.0} {:>10.0} {:>7.2}{waited}",
            best.0,
            best.1,
            best.0 / best.1
        );
    }
    // A second pacer takes the memory that the first one gave back: only the first tells what a host costs.
    if hosts >= 1000 && is_first {
        println!(
            "{hosts:>9} idle hosts: {} bytes each, of which {} are its name",
            bytes / hosts,
            "host-500000.example".len()
        );
    }
}

/// Operations of each thread, and how often they are timed; the quickest counts.
const ROUNDS: usize = 1_000_000;
const TIMES: usize = 3;
