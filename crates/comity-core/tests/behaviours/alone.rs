//! A member that goes on alone, with its share of every limit (decision 7): together never faster than promised.
use core::num::NonZeroU32;
use core::time::Duration;
use std::sync::Arc;

use comity_core::limits::all::{self, Begin, Cells, Claim, Grant};
use comity_core::limits::{AdvertisedQuota, Cell, Limits, Member, Part, ScopeId, Share};
use comity_core::time::Instant;

struct Alone(Vec<Cell>, Share);
impl Cells for Alone {
    fn cell(&self, s: ScopeId) -> &Cell {
        &self.0[s.0 as usize]
    }
    fn cell_mut(&mut self, s: ScopeId) -> &mut Cell {
        &mut self.0[s.0 as usize]
    }
    fn share(&self) -> Share {
        self.1
    }
}
const M: [Member; 1] = [Member { scope: ScopeId(0), part: Part::Own }];
const SEC: Duration = Duration::from_secs(1);
fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}
fn claim(t: &mut Alone, now: Instant) -> Result<Grant, comity_core::limits::Wait> {
    all::claim(t, now, &Claim::at_once(&M, 1, now))
}
fn two(cell: &Cell) -> [Alone; 2] {
    let n = NonZeroU32::MIN.saturating_add(1);
    [0, 1].map(|rank| Alone(vec![cell.clone()], Share::of_members(n, rank, Duration::ZERO)))
}

/// Decision 7: quotas ÷ members.
#[test]
fn decision_7_a_quota_is_divided_among_degraded_members() {
    let mut cell = Cell::new(Arc::new(Limits::none()));
    let mut s = cell.snapshot();
    s.quota = Some(AdvertisedQuota { limit: None, window: None, remaining: 10, heard: at(1000), resets: at(61_000) });
    cell.restore(&s);
    let mut used = 0;
    for mut one in two(&cell) {
        let mut now = at(1000);
        while now < at(60_999) {
            match claim(&mut one, now) {
                Ok(grant) => {
                    used += 1;
                    all::release(&mut one, &M, &grant);
                }
                Err(wait) => now = wait.until,
            }
        }
    }
    assert!(used <= 10, "{used} starts of a quota of 10");
}

/// Re-join: what was used while alone is used.
#[test]
fn decision_7_a_quota_used_while_alone_is_not_used_again_after_it() {
    let mut store = Cell::new(Arc::new(Limits::none()));
    let mut s = store.snapshot();
    s.quota = Some(AdvertisedQuota { limit: None, window: None, remaining: 10, heard: at(1000), resets: at(61_000) });
    store.restore(&s);
    let mut alone = s.clone();
    alone.quota.as_mut().unwrap().remaining = 0;
    store.raise(&alone);
    assert_eq!(store.quota().unwrap().remaining, 0);
}

/// A degraded grant may be used a tenth of *members* intervals late: with 16 assumed members that is 1.6 turns.
#[test]
fn decision_7_a_late_degraded_grant_does_not_leave_in_anothers_turn() {
    let limits = Arc::new(Limits { interval: SEC, ..Limits::none() });
    let n = NonZeroU32::new(16).unwrap();
    let mut mine = Alone(vec![Cell::new(Arc::clone(&limits))], Share::of_members(n, 0, Duration::ZERO));
    let mut other = Alone(vec![Cell::new(limits)], Share::of_members(n, 1, Duration::ZERO));
    let mut grant = claim(&mut mine, at(16_000)).unwrap();
    // Member 1 starts on its turn; this one's task was late by a second.
    assert!(claim(&mut other, at(17_000)).is_ok());
    let used = all::begin(&mut mine, at(17_001), &M, &mut grant);
    assert_eq!(
        used,
        Begin::TooLate,
        "it left 1 ms after another member, 1 s apart was promised; late_by {:?}",
        grant.late_by
    );
}

/// Members that learned different paces have turns of different lengths: the floor that holds for all is broken.
#[test]
fn decision_7_turns_hold_the_crawl_delay_whatever_each_member_learned() {
    let policy = comity_core::policy::Policy::refusal();
    let limits = Arc::new(Limits { policy: policy.clone(), ..Limits::none() });
    let mut cell = Cell::new(limits);
    cell.set_crawl_delay(SEC);
    let n = NonZeroU32::new(2).unwrap();
    let mut a = Alone(vec![cell.clone()], Share::of_members(n, 0, Duration::ZERO));
    let mut b = Alone(vec![cell], Share::of_members(n, 1, Duration::ZERO));
    // b alone hears refusals without advice and learns 1.5 s or so.
    let fact = |started| comity_core::policy::Fact {
        started,
        outcome: comity_core::policy::Outcome::Refused { advice: None },
        latency: None,
    };
    let mut s = b.0[0].snapshot();
    for n in 1..=4 {
        s.learned.taught(at(n * 100), &fact(at(n * 100)), &policy);
    }
    b.0[0].restore(&s);
    let mut starts = Vec::new();
    for one in [&mut a, &mut b] {
        let mut now = at(100_000);
        while now < at(200_000) {
            match claim(one, now) {
                Ok(grant) => {
                    starts.push(now);
                    all::release(one, &M, &grant);
                }
                Err(wait) => now = wait.until,
            }
        }
    }
    starts.sort_unstable();
    let least = starts.windows(2).map(|p| p[1].since(p[0])).min().unwrap();
    assert!(
        least >= Duration::from_millis(900),
        "Crawl-delay 1 s, b learned {:?}: least gap {least:?}",
        b.0[0].interval()
    );
}

/// A cost above a member's part is not let start by each of them.
#[test]
fn decision_7_a_cost_above_a_degraded_members_part_does_not_start_everywhere() {
    let windows = vec!["4/60s".parse().unwrap()];
    for limits in [Limits { windows, ..Limits::none() }, Limits { in_flight: NonZeroU32::new(4), ..Limits::none() }] {
        let cell = Cell::new(Arc::new(limits));
        let started = two(&cell)
            .into_iter()
            .filter_map(|mut one| all::claim(&mut one, at(1000), &Claim::at_once(&M, 4, at(1000))).ok())
            .count();
        assert!(started <= 1, "{} of a limit of 4", started * 4);
    }
}

/// A cost above what an advertised quota leaves waits for its reset.
#[test]
fn a_cost_above_what_is_left_of_a_quota_waits() {
    let mut cell = Cell::new(Arc::new(Limits::none()));
    let mut s = cell.snapshot();
    s.quota = Some(AdvertisedQuota {
        limit: Some(100),
        window: Some(SEC * 60),
        remaining: 2,
        heard: at(1000),
        resets: at(2000),
    });
    cell.restore(&s);
    let mut one = Alone(vec![cell], Share::WHOLE);
    let got = all::claim(&mut one, at(1999), &Claim::at_once(&M, 50, at(1999)));
    assert!(got.is_err(), "50 of 2 left");
}
