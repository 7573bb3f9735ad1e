//! The same measurements, replayed in the [world](crate::world): it is the world that has to agree, not only the formulas.
//! What a program itself takes a request is in the latency here, as in the small world.

use core::fmt::Write as _;

use crate::scenario::Scenario;
use crate::world::{RunOptions, run};

const BUCKET_10: &str = "kind = 'bucket'\nrate = '10/s'\nburst = 20";
const BUCKET_1: &str = "kind = 'bucket'\nrate = '1/s'\nburst = 5";
const BUCKET_100: &str = "kind = 'bucket'\nrate = '100/s'\nburst = 50";
const WINDOW: &str = "kind = 'window'\ncount = 60\nspan = '1min'\nbegins = 'first'";

/// URLs got and refusals, on the mean of three seeds.
fn replay(policy: &str, host: &str, millis: u32, clients: &str) -> (u64, u64) {
    let mut text = "name = 'measured'\nabout = 'measured'\ntime = '120s'\n[[host]]\nname = 'api.example'\n".to_owned();
    write!(
        text,
        "{host}\nlatency = '{millis}ms'\nrefusal_latency = '{millis}ms'\nsigma = 0.1\n[clients]\nurls = 600\n{clients}"
    )
    .unwrap();
    let scenario = Scenario::parse(&text).unwrap();
    let options = RunOptions { samples: false, time: None };
    let (mut got, mut refused) = (0, 0);
    for seed in 0..3 {
        let outcome = run(&scenario, policy, seed, &options).unwrap();
        got += outcome.hosts[0].got;
        refused += outcome.hosts[0].minutes.iter().map(|minute| minute.refused).sum::<u64>();
    }
    (got / 3, refused / 3)
}

fn assert_agrees(replayed: (u64, u64), got: u64, refused: u64) {
    assert!(replayed.0.abs_diff(got) * 5 <= got, "{got} were got, not {}", replayed.0);
    assert!(replayed.1.abs_diff(refused) * 5 <= refused, "{refused} were refused, not {}", replayed.1);
}

#[test]
fn the_real_programs_are_met_again_in_the_world() {
    assert_agrees(replay("wget", BUCKET_10, 23, ""), 600, 45);
    assert_agrees(replay("wget", BUCKET_1, 23, ""), 124, 115);
    assert_agrees(replay("wget", BUCKET_100, 23, ""), 600, 0);
    assert_agrees(replay("curl 100ms", BUCKET_10, 23, ""), 600, 0);
    assert_agrees(replay("lychee", BUCKET_10, 21, ""), 576, 507);
    assert_agrees(replay("lychee", BUCKET_1, 21, ""), 124, 402);
    assert_agrees(replay("aria2", BUCKET_10, 21, ""), 47, 553);
    assert_agrees(replay("scrapy", BUCKET_10, 29, ""), 438, 774);
    assert_agrees(replay("curl 100ms", WINDOW, 23, ""), 120, 21);
    assert_agrees(replay("crawlee", WINDOW, 30, "in_flight = 1"), 120, 6);
    assert_agrees(replay("crawlee", WINDOW, 30, "in_flight = 100"), 120, 60);
}
