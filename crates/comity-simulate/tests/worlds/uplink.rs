//! Our own uplink: what saturates it is seen by the guard above all hosts, and none of them is blamed (A10).

use core::num::NonZeroU32;
use core::time::Duration;

use comity_simulate::outcome::{Outcome, Sample, UplinkOutcome};
use comity_simulate::scenario::Report;
use comity_simulate::world::{RunOptions, run};

use crate::support::file;

#[test]
fn a10_behind_a_saturated_uplink_no_host_is_blamed_and_little_waits_in_it() {
    for policy in ["adaptive", "aimd", "pressure"] {
        let free = Run::of(policy, true, false);
        let guarded = Run::of(policy, true, true);
        let control = Run::of(policy, false, true);
        assert!(free.uplink.used < 0.1, "{policy}: {free:?}");
        assert!(guarded.keeps_it_busy_and_short(), "{policy}: {guarded:?}");
        assert!(!guarded.blames_more_than(&free), "{policy}: {guarded:?}, {free:?}");
        assert!(!control.keeps_it_busy_and_short(), "{policy}, unguarded: {control:?}");
        assert!(control.blames_more_than(&free), "{policy}, unguarded: {control:?}, {free:?}");
    }
}

#[test]
fn a10_the_guard_has_no_say_where_there_is_room_for_all() {
    let (guarded, control) = (Run::of("adaptive", true, false), Run::of("adaptive", false, false));
    assert_eq!((guarded.slowest, guarded.fewest, guarded.got), (control.slowest, control.fewest, control.got));
}

/// What a run came to.
#[derive(Debug)]
struct Run {
    uplink: UplinkOutcome,
    got: u64,
    /// The slowest learned interval of all hosts, in seconds, and the lowest concurrency.
    slowest: f64,
    fewest: u32,
}

impl Run {
    /// Of fewer hosts than the scenario's and for a shorter time, with the guard or without, with an uplink that becomes narrow
    /// or with one that stays wide.
    fn of(policy: &str, guarded: bool, narrows: bool) -> Self {
        let mut scenario = file("uplink");
        scenario.report = Report::Each;
        scenario.hosts[0].hosts = HOSTS;
        scenario.clients.uplink_guard = guarded;
        if let Some(uplink) = &mut scenario.uplink {
            uplink.from = Duration::from_secs(40);
            uplink.bytes_per_second *= if narrows { 0.4 } else { 40.0 };
        }
        let options = RunOptions { samples: true, time: Some(Duration::from_secs(80)) };
        let outcome: Outcome = run(&scenario, policy, 1, &options).unwrap_or_else(|error| panic!("{error}"));
        let hosts = &outcome.hosts;
        let last: Vec<&Sample> = hosts.iter().filter_map(|host| host.samples.last()).collect();
        Self {
            uplink: outcome.uplink.unwrap_or_default(),
            got: hosts.iter().map(|host| host.got).sum(),
            slowest: last.iter().map(|sample| sample.interval).fold(0.0, f64::max),
            fewest: last.iter().map(|sample| sample.most_in_flight).fold(u32::MAX, u32::min),
        }
    }

    fn keeps_it_busy_and_short(&self) -> bool {
        self.uplink.used >= 0.9 && self.uplink.wait < 0.1 && self.uplink.lost == 0
    }

    /// Whether some host is taken for slower than in another run. A tenth is chance: hosts are at different places of their
    /// search.
    fn blames_more_than(&self, other: &Self) -> bool {
        self.slowest > other.slowest * 1.1 || self.fewest < other.fewest
    }
}

const HOSTS: NonZeroU32 = NonZeroU32::new(20).unwrap();
