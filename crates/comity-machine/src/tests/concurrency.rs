//! A concurrency that was learned is one for all members of a file.

use comity_core::limits::Because;
use comity_core::limits::all::Cells as _;
use comity_core::policy::AdaptiveSettings;
use comity_store::OwnLimits;

use super::*;

/// The pace is no hindrance.
fn adaptive() -> Partial {
    let settings = AdaptiveSettings { start: MS, floor: MS, ..AdaptiveSettings::default() };
    Partial { policy: Some(Policy::Adaptive(settings)), ..Partial::default() }
}

fn learned_by_nobody() -> u32 {
    adaptive().policy.unwrap().fresh().in_flight().unwrap()
}

impl Member {
    /// A claim under limits that a caller brought, or the host's own; its pace and its turn waited out.
    fn flies(&mut self, now: &mut Instant, brought: bool) -> Result<(Route, Grant), Wait> {
        let own = OwnLimits { set: 1, limits: Arc::new(Limits::none()) };
        let route = self.memory.route(*now, &Target::host(HOST), brought.then_some(&own)).unwrap();
        loop {
            let claim = Claim { members: route.members(), cost: 1, asked: *now, due: *now };
            match self.machine.claim(&mut self.memory, *now, &claim, Asked { id: 1, waiting: 1 }) {
                Claimed::Now(Err(wait)) if !wait.because.is_for_a_place() => *now = wait.until,
                Claimed::Now(answer) => return answer.map(|grant| (route, grant)),
                Claimed::Later => panic!("a machine answers at once"),
            }
        }
    }

    fn lands(&mut self, now: Instant, route: &Route, grant: &Grant) {
        self.machine.release(&mut self.memory, now, route.members(), grant);
    }

    /// Starts until there is no place.
    fn fills(&mut self, now: &mut Instant, brought: bool) -> Vec<(Route, Grant)> {
        core::iter::from_fn(|| self.flies(now, brought).ok()).collect()
    }
}

#[test]
fn x1_a_learned_concurrency_holds_for_all_members_together() {
    let town = Town::new(&[], adaptive());
    let mut members = town.members(3);
    let most = learned_by_nobody();
    let mut now = at(0);
    let mut flying = Vec::new();
    for n in (0..3).cycle() {
        match members[n].flies(&mut now, n == 1) {
            Ok((route, grant)) => flying.push((n, route, grant)),
            Err(wait) => {
                assert_eq!(wait.because, Because::Concurrency(most));
                break;
            }
        }
    }
    assert_eq!(flying.len() as u32, most, "guests and all");
    for (n, member) in members.iter_mut().enumerate() {
        let wait = member.flies(&mut now, n == 1).unwrap_err();
        assert!(wait.until <= now.after(MS * 25), "others may give theirs back: it asks again soon");
    }
    for round in 0..6 {
        let (n, route, grant) = flying.remove(0);
        members[n].lands(now, &route, &grant);
        let other = (n + 1 + round % 2) % 3;
        let (route, grant) = members[other].flies(&mut now, other == 1).expect("a place came free");
        flying.push((other, route, grant));
        members[n].flies(&mut now, n == 1).expect_err("one place, and no more");
    }
}

#[test]
fn e11_a_killed_members_places_and_guests_are_free_at_once() {
    for brought in [false, true] {
        let town = Town::new(&[], adaptive());
        let mut members = town.members(2);
        let mut now = at(0);
        assert_eq!(members[0].fills(&mut now, brought).len() as u32, learned_by_nobody());
        members[1].flies(&mut now, false).expect_err("all places are taken");
        members.remove(0).kill();
        assert_eq!(members[0].fills(&mut now, false).len() as u32, learned_by_nobody());
    }
}

#[test]
fn e10_a_member_that_leaves_gives_its_guests_places_back() {
    let town = Town::new(&[], adaptive());
    let mut members = town.members(2);
    let mut now = at(0);
    members[0].fills(&mut now, true);
    drop(members.remove(0));
    assert_eq!(members[0].fills(&mut now, false).len() as u32, learned_by_nobody());
}

#[test]
fn x9_after_a_loss_a_learned_concurrency_waits_until_all_places_are_told() {
    let town = Town::new(&[], adaptive());
    let mut members = town.members(2);
    let mut now = at(0);
    let held = members[0].fills(&mut now, false);
    std::fs::write(town.path(), b"no pace any more").unwrap();
    // The other finds it, makes a new one, and does not know of the places yet.
    let wait = members[1].flies(&mut now, true).unwrap_err();
    assert!(wait.because.is_for_a_place(), "{wait:?}");
    members[0].news(now);
    members[0].flies(&mut now, false).expect_err("its own are all taken");
    members[1].flies(&mut now, true).expect_err("and now that is known");
    for (route, grant) in &held {
        members[0].lands(now, route, grant);
    }
    now = now.after(SEC);
    members[1].flies(&mut now, true).expect("all are free");
}

#[test]
fn decision_4_what_one_member_learned_all_go_by_and_a_burst_teaches_once() {
    let town = Town::new(&[], adaptive());
    let mut members = town.members(2);
    let mut alone = town.member();
    let interval = |member: &mut Member| {
        let scope = member.route(HOST).members()[0].scope;
        member.memory.cell(scope).learned().interval()
    };
    let mut now = at(0);
    let (route, one) = members[0].flies(&mut now, false).unwrap();
    let (others_route, other) = members[1].flies(&mut now, false).unwrap();
    now = now.after(SEC);
    members[0].learn(now, HOST, &one, &refused(None));
    members[1].learn(now.after(MS), HOST, &other, &refused(None));
    let taught = interval(&mut members[0]);
    assert!(taught > MS, "{taught:?}");
    assert_eq!(interval(&mut members[1]), taught, "the other's refusal is the same objection");
    members[0].lands(now, &route, &one);
    members[1].lands(now, &others_route, &other);
    alone.flies(&mut now, false).unwrap();
    assert_eq!(interval(&mut alone), taught, "and a third goes by it");
}

#[test]
fn a_full_concurrency_is_no_time_to_wait_for() {
    use comity_store::Readable as _;
    let town = Town::new(&[], adaptive());
    let mut member = town.member();
    let mut now = at(0);
    member.fills(&mut now, false);
    let listing = member.machine.list().unwrap();
    let known = listing.scopes.iter().find(|known| known.name == HOST).unwrap();
    assert!(known.next_start <= now.after(SEC), "{:?}", known.next_start);
    assert_eq!(known.state.in_flight, learned_by_nobody());
    assert_eq!(known.state.learned.in_flight(), Some(learned_by_nobody()));
}
