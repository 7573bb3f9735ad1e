//! Measures the machine store: processes that claim as fast as they can, or so often a second.
//!
//! `hammer PROCESSES SECONDS HOSTS RATE`: `RATE` claims a second and process, 0 for as fast as they can. Each claim falls
//! under three scopes, its host, `*.example` and `*`, and each start gives its place back.
//!
//! With `GUARD` in the environment they take from guards' buckets instead, under a limit for each of so many keys and one over
//! all.

use std::env;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use comity_core::guard::{NamedLimit, TokenBucket};
use comity_core::limits::all::Claim;
use comity_core::limits::{Limits, Partial};
use comity_core::scope::{Pattern, Rules, Target};
use comity_machine::{BucketSettings, Machine, MachineBuckets, Settings};
use comity_store::guard::{Buckets as _, Charge, Charges, Key};
use comity_store::{Asked, Claimed, Memory, MemorySettings, Shared, Store as _};

#[expect(clippy::print_stdout, reason = "what it measured is what it is for")]
fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "worker") {
        return if env::var_os("GUARD").is_some() { guard(&arguments[1..]) } else { work(&arguments[1..]) };
    }
    let number = |at: usize, otherwise: u64| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    let (processes, seconds, hosts, rate) = (number(0, 6), number(1, 3), number(2, 1), number(3, 0));
    let path = env::temp_dir().join(format!("hammer-{}", std::process::id())).join("pace");
    let worker = || {
        Command::new(env::current_exe().expect("this program"))
            .arg("worker")
            .arg(&path)
            .args([seconds, hosts, rate].map(|number| number.to_string()))
            .stdout(Stdio::piped())
            .spawn()
            .expect("a worker")
    };
    let workers: Vec<_> = (0..processes).map(|_| worker()).collect();
    let mut latencies: Vec<u32> = Vec::new();
    for mut worker in workers {
        let mut bytes = Vec::new();
        worker.stdout.take().expect("a pipe").read_to_end(&mut bytes).expect("its latencies");
        latencies.extend(bytes.chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]])));
        worker.wait().expect("its end");
    }
    latencies.sort_unstable();
    let at = |part: f64| latencies[((latencies.len() - 1) as f64 * part) as usize] as f64 / 1e3;
    println!(
        "{processes} processes, {hosts} hosts, rate {rate}: {} claims/s; p50 {:.1} µs, p99 {:.1} µs, p99.9 {:.1} µs, worst {:.1} µs",
        latencies.len() as u64 / seconds,
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0),
    );
    drop(std::fs::remove_dir_all(path.parent().expect("a directory")));
}

#[expect(clippy::disallowed_methods, clippy::print_stderr, reason = "it measures time, and says what went wrong")]
fn work(arguments: &[String]) {
    let number = |at: usize| arguments[at].parse::<u64>().expect("a number");
    let (seconds, hosts, rate) = (number(1), number(2), number(3));
    let mut rules = Rules::builder(Limits::none());
    for pattern in ["*.example", "*"] {
        rules.rule(Pattern::parse(pattern).expect("a pattern"), Partial::default());
    }
    let mut memory = Memory::new(Arc::new(rules.build()), MemorySettings::default());
    let mut machine = Machine::open(&arguments[0], Settings::default()).expect("a store");
    let clock = machine.clock();
    let names: Vec<String> = (0..hosts).map(|n| format!("h{n}.example")).collect();
    let places = env::var_os("NO_RELEASE").is_none();
    let mut latencies: Vec<u8> = Vec::new();
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut n = std::process::id() as usize;
    let mut why = None;
    let mut due = Instant::now();
    loop {
        let began = Instant::now();
        if began >= end {
            break;
        }
        n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let name = &names[(n >> 33) % names.len()];
        let now = clock();
        let route = memory.route(now, &Target::host(name), None).expect("room");
        let claim = Claim::at_once(route.members(), 1, now);
        let answer = machine.claim(&mut memory, now, &claim, Asked { id: 0, waiting: 1 });
        let took = began.elapsed().as_nanos().min(u128::from(u32::MAX)) as u32;
        match machine.standing().lost {
            None => latencies.extend_from_slice(&took.to_le_bytes()),
            Some((_, reason)) => why = Some(reason),
        }
        if let Claimed::Now(Ok(grant)) = answer
            && places
        {
            machine.release(&mut memory, clock(), route.members(), &grant);
        }
        if rate > 0 {
            due += Duration::from_secs(1) / rate as u32;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }
    if let Some(why) = why {
        eprintln!("lost {} times: {why}", machine.standing().losses);
    }
    std::io::stdout().write_all(&latencies).expect("its parent");
}

#[expect(clippy::disallowed_methods, clippy::print_stderr, reason = "it measures time, and says what went wrong")]
fn guard(arguments: &[String]) {
    let number = |at: usize| arguments[at].parse::<u64>().expect("a number");
    let (seconds, keys) = (number(1), number(2));
    let buckets = MachineBuckets::open(&arguments[0], BucketSettings::default()).expect("a store");
    let limit = |name| {
        let limit = TokenBucket::new(1_000_000, 1000, Duration::from_millis(1)).expect("a limit");
        NamedLimit::new(name, limit.into()).expect("a name")
    };
    let (each, all) = (limit("each"), limit("all"));
    let clock = buckets.clock();
    let mut latencies: Vec<u8> = Vec::new();
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut n = u64::from(std::process::id());
    loop {
        let began = Instant::now();
        if began >= end {
            break;
        }
        n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = ((n >> 33) % keys).to_le_bytes();
        let charges = [
            Charge { limit: &each, key: Key::new(&key).expect("a key"), cost: 1 },
            Charge { limit: &all, key: Key::ALL, cost: 1 },
        ];
        buckets.take_now(clock(), Charges::new(&charges).expect("charges"));
        let took = began.elapsed().as_nanos().min(u128::from(u32::MAX)) as u32;
        latencies.extend_from_slice(&took.to_le_bytes());
    }
    if buckets.standing().losses > 0 {
        eprintln!("lost {} times", buckets.standing().losses);
    }
    std::io::stdout().write_all(&latencies).expect("its parent");
}
