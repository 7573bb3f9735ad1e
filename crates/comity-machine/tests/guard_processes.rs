//! Guards that are processes of one machine hold one limit, whatever becomes of some of them.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use comity_core::guard::{NamedLimit, TokenBucket};
use comity_machine::{BucketSettings, MachineBuckets};
use comity_store::guard::{Buckets as _, Charge, Charges, Key, conformance::settled};

#[test]
fn x1_any_number_of_processes_that_take_as_fast_as_they_can_hold_one_limit() {
    for processes in [1, 2, 4, 6] {
        let directory = tempfile::tempdir().expect("a directory");
        let takers: Vec<Child> = (0..processes).map(|_| taker(directory.path(), Duration::from_secs(2))).collect();
        let instants = takers.into_iter().flat_map(let_in).collect();
        held(instants, 1.0, &format!("{processes} processes"));
    }
}

#[test]
fn x3_those_that_are_killed_while_they_take_stop_nobody() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut others: Vec<Child> = (0..6).map(|_| taker(directory.path(), Duration::from_secs(2))).collect();
    let stay = others.split_off(4);
    let mut instants = Vec::new();
    for (nth, mut killed) in others.into_iter().enumerate() {
        // Each has begun to take by then.
        let mut first = [0; 8];
        killed.stderr.as_mut().expect("a pipe").read_exact(&mut first).expect("its first");
        instants.push(u64::from_le_bytes(first));
        pause(Duration::from_millis(50 * nth as u64));
        killed.kill().expect("it runs");
        instants.extend(let_in(killed));
    }
    instants.extend(stay.into_iter().flat_map(let_in));
    // A few that were charged were not told of any more.
    held(instants, 0.99, "four of six killed");
}

#[test]
fn x9_a_file_that_is_deleted_meanwhile_makes_them_slower_and_not_faster() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut takers: Vec<Child> = (0..3).map(|_| taker(directory.path(), Duration::from_secs(2))).collect();
    let mut first = [0; 8];
    takers[0].stderr.as_mut().expect("a pipe").read_exact(&mut first).expect("its first");
    for _ in 0..3 {
        pause(Duration::from_millis(300));
        std::fs::remove_file(directory.path().join("pace.guard")).expect("it is there");
    }
    let mut instants: Vec<u64> = takers.into_iter().flat_map(let_in).collect();
    instants.push(u64::from_le_bytes(first));
    held(instants, 0.5, "deleted three times");
}

/// The law of a bucket: no more than its capacity and what came back, whichever of them it let in; and of that at least so
/// much, for all take as fast as they can.
fn held(mut instants: Vec<u64>, at_least: f64, what: &str) {
    instants.sort_unstable();
    let (first, last) = (instants[0], instants[instants.len() - 1]);
    let most = CAPACITY as u64 + (last - first).div_ceil(STEP) * STEP_REFILL as u64;
    let let_in = instants.len() as u64;
    assert!(let_in <= most, "{what}: {let_in} of {most} in {} ms", (last - first) / 1000);
    assert!(last - first >= 1_000_000, "{what}: they took for {} µs", last - first);
    let least = (most as f64 * at_least) as u64 - STEP_REFILL as u64 * 20;
    assert!(let_in >= least, "{what}: {let_in} of {most} in {} ms", (last - first) / 1000);
}

/// A process that takes for so long.
fn taker(directory: &Path, span: Duration) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "takes", "--ignored", "--nocapture", "--test-threads", "1"])
        .env(WHERE, directory.join("pace"))
        .env(HOW_LONG, span.as_micros().to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a process")
}

/// When it was let in, in microseconds, as far as it could say so.
fn let_in(mut taker: Child) -> Vec<u64> {
    let mut bytes = Vec::new();
    taker.stderr.take().expect("a pipe").read_to_end(&mut bytes).expect("what it says");
    taker.wait().expect("it ends");
    bytes.chunks_exact(8).map(|eight| u64::from_le_bytes(eight.try_into().expect("eight bytes"))).collect()
}

#[test]
#[ignore = "it is the process that the other tests start"]
fn takes() {
    let (Ok(path), Ok(micros)) = (std::env::var(WHERE), std::env::var(HOW_LONG)) else {
        panic!("only for other tests")
    };
    let buckets = MachineBuckets::open(path, BucketSettings::default()).expect("a store");
    let each = TokenBucket::new(CAPACITY, STEP_REFILL, Duration::from_micros(STEP)).expect("a limit");
    let each = NamedLimit::new("each", each.into()).expect("a name");
    let charges = [Charge { limit: &each, key: Key::new(b"192.0.2.1").expect("a key"), cost: 1 }];
    let charges = Charges::new(&charges).expect("charges");
    let clock = buckets.clock();
    let end = clock().after(Duration::from_micros(micros.parse().expect("a number")));
    // The other way out is the harness's.
    let mut out = std::io::stderr();
    loop {
        let now = clock();
        if now >= end {
            break;
        }
        if settled(buckets.take(now, charges)).refused().is_none() {
            out.write_all(&(now.as_nanos() / 1000).to_le_bytes()).expect("whoever started it hears");
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the others are processes: only time brings what they do")]
fn pause(span: Duration) {
    std::thread::sleep(span);
}

const CAPACITY: i64 = 5000;
const STEP_REFILL: i64 = 4;
/// Four a millisecond, in microseconds.
const STEP: u64 = 1000;
const WHERE: &str = "COMITY_TEST_TAKES_AT";
const HOW_LONG: &str = "COMITY_TEST_TAKES_MICROS";
