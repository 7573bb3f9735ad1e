//! X8: nobody starves, and what comes free is noticed.

use comity_core::limits::Because;

use super::*;

/// Over any hundred starts each has at least half its equal share.
fn are_fair(starts: &[Start], members: usize, what: &str) {
    assert!(starts.len() >= 200, "{what}: only {} starts", starts.len());
    for window in starts.windows(100).skip(members) {
        for member in 0..members {
            let share = window.iter().filter(|(_, who)| *who == member).count();
            assert!(2 * members * share >= 100, "{what}: member {member} of {members} has {share} of 100");
        }
    }
}

#[test]
fn x8_each_has_its_share_of_a_rate_whoever_asks_first() {
    for (interval, to) in [(500, 150_000), (100, 30_000), (20, 6_000), (5, 2_000), (1, 600)] {
        for count in [2, 5] {
            let town = Town::new(&[], every(interval));
            let mut members = town.members(count);
            let starts = run(&mut members, |_| HOST.into(), MS, at(0), at(to), |_| Duration::ZERO);
            are_fair(&starts, count, &format!("every {interval} ms"));
        }
    }
}

#[test]
fn x8_one_whose_timers_are_late_has_its_share_too() {
    for interval in [100, 20] {
        let town = Town::new(&[], every(interval));
        let mut members = town.members(4);
        let late = |who| if who == 3 { MS * 2 } else { Duration::ZERO };
        let starts = run(&mut members, |_| HOST.into(), MS, at(0), at(u64::from(interval) * 400), late);
        are_fair(&starts, 4, &format!("every {interval} ms, one late"));
    }
}

#[test]
fn x8_each_has_its_share_of_the_places() {
    for (most, takes, to) in [(1, 20, 12_000), (2, 7, 8_000), (3, 150, 25_000)] {
        let town = Town::new(&[], places(most));
        let mut members = town.members(4);
        let starts = run(&mut members, |_| HOST.into(), MS * takes, at(0), at(to), |_| Duration::ZERO);
        are_fair(&starts, 4, &format!("{most} places for {takes} ms"));
        // Not much of them stays unused.
        let used = starts.len() as f64 * f64::from(takes) / (to as f64 * f64::from(most));
        assert!(used > 0.4, "{most} places for {takes} ms: used for {used}");
    }
}

#[test]
fn x8_each_has_its_share_of_a_group_and_of_all_hosts() {
    let town = Town::new(&[("*.example.org", every(20)), ("*", places(3))], Partial::default());
    let mut members = town.members(3);
    let starts = run(&mut members, |who| format!("h{who}.example.org"), MS * 30, at(0), at(8000), |_| Duration::ZERO);
    are_fair(&starts, 3, "a group");
}

#[test]
fn x8_a_freed_place_is_noticed_within_50_ms_however_long_it_took() {
    for held_for in [3, 40, 700, 60_000] {
        let town = Town::new(&[], places(1));
        let mut members = town.members(2);
        let held = members[0].claim(at(0), HOST).unwrap();
        let freed = at(held_for);
        let mut now = at(1);
        let mut released = false;
        let started = loop {
            if now >= freed && !released {
                members[0].release(freed, HOST, &held);
                released = true;
            }
            match members[1].claim_of(now, HOST, at(1), 1) {
                Ok(_) => break now,
                Err(wait) => now = wait.until,
            }
        };
        assert!(started.since(freed) <= MS * 50, "{held_for}: {:?}", started.since(freed));
    }
}

#[test]
fn x8_a_member_that_is_gone_from_its_turn_costs_one_short_wait() {
    let town = Town::new(&[], every(1000));
    let mut members = town.members(3);
    members[0].claim(at(0), HOST).unwrap();
    members[1].claim(at(1), HOST).unwrap_err();
    members[2].claim(at(2), HOST).unwrap_err();
    members.remove(1).kill();
    let wait = members[1].claim(at(1000), HOST).unwrap_err();
    assert_eq!(wait.because, Because::Order);
    assert!(wait.until <= at(1025));
    members[1].claim(wait.until, HOST).unwrap();
    members[0].claim(at(2020), HOST).unwrap_err();
    let next = members[0].claim(at(2025), HOST);
    assert!(next.is_ok(), "and not a second time: {next:?}");
}

#[test]
fn x8_a_claim_that_comes_before_the_watch_tells_what_changed_too() {
    let town = Town::new(&[], Partial::default());
    let mut members = town.members(2);
    for member in &members {
        member.machine.watch().frozen.store(true, Ordering::Relaxed);
    }
    members[1].claim(at(0), "other.org").unwrap();
    members[0].forget(at(2), HOST);
    assert!(!members[0].news(at(3)), "who did it knows");
    members[1].claim(at(3), "other.org").unwrap();
    assert!(members[1].news(at(4)));
}

#[test]
fn x8_what_is_forgotten_is_told_to_those_that_wait_elsewhere() {
    let town = Town::new(&[], Partial::default());
    let mut members = town.members(2);
    let grant = members[0].claim(at(0), HOST).unwrap();
    members[0].learn(at(0), HOST, &grant, &refused(Some(SEC * 600)));
    let wait = members[1].claim(at(1), HOST).unwrap_err();
    // Its timer is set for ten minutes from now by the file's clock.
    let (told, hear) = std::sync::mpsc::channel();
    let told = std::sync::Mutex::new(told);
    let clock = members[1].machine.clock();
    members[1].machine.on_news(Arc::new(move || told.lock().unwrap().send(()).unwrap_or_default()));
    members[1].machine.waits_until(clock().after(wait.until.since(at(1))));
    members[0].forget(at(2), HOST);
    hear.recv_timeout(SEC * 10).expect("it is woken");
    assert!(members[1].news(at(3)));
    assert!(!members[1].news(at(3)), "once");
    members[1].claim(at(3), HOST).expect("and may start");
}
