//! A concurrency that a policy learned: a limit of its own beside the places that a person set.

use core::num::NonZeroU32;
use core::time::Duration;
use std::sync::Arc;

use comity_core::limits::all::{self, Cells, Claim, Grant};
use comity_core::limits::{Because, Cell, Limits, Member, Part, Route, ScopeId, Share, Wait};
use comity_core::policy::{AdaptiveSettings, Policy};
use comity_core::time::Instant;

use crate::world::{MS, SEC, World, at, free, host, reply, signal};

/// Nothing but the policy holds, and it begins at a pace that is no hindrance here.
fn adaptive() -> Limits {
    let settings = AdaptiveSettings { start: MS, floor: MS, ..AdaptiveSettings::default() };
    Limits { policy: Policy::Adaptive(settings), ..free() }
}

fn guest() -> Route {
    Route::Host(Member { scope: ScopeId(0), part: Part::Learned })
}

/// Starts one after another until something else than the pace holds; the grants, and what holds.
fn fill(cells: &mut impl Cells, now: &mut Instant, route: &Route) -> (Vec<Grant>, Wait) {
    let mut grants = Vec::new();
    for _ in 0..10_000 {
        match all::claim(cells, *now, &Claim::at_once(route.members(), 1, *now)) {
            Ok(grant) => grants.push(grant),
            Err(wait) if matches!(wait.because, Because::Pace(_)) => *now = wait.until,
            Err(wait) => return (grants, wait),
        }
    }
    panic!("{} started and nothing holds", grants.len());
}

fn learned(cells: &[Cell]) -> u32 {
    cells[0].learned().in_flight().expect("it learns a concurrency")
}

#[test]
fn a_learned_concurrency_binds_and_says_so() {
    let (mut cells, mut now) = (vec![Cell::new(adaptive().into())], at(1000));
    let (grants, wait) = fill(&mut cells, &mut now, &host(0));
    assert_eq!(grants.len() as u32, learned(&cells));
    assert_eq!((wait.because, wait.until), (Because::Concurrency(learned(&cells)), Instant::FAR));
    assert_eq!(cells[0].places_left(now, Part::Own), Some(0));
    assert!(cells[0].ready(now) < now.after(SEC), "its clocks do not wait for a place");
    let effects = all::release(&mut cells, host(0).members(), &grants[0]);
    assert_eq!(effects.freed, 1);
    let (again, _) = fill(&mut cells, &mut now, &host(0));
    assert_eq!(again.len(), 1, "one place came free, and one starts");
}

#[test]
fn what_a_person_set_and_what_was_learned_hold_both() {
    for set in [1, 2, 1000] {
        let limits = Limits { in_flight: NonZeroU32::new(set), ..adaptive() };
        let (mut cells, mut now) = (vec![Cell::new(limits.into())], at(1000));
        let (grants, wait) = fill(&mut cells, &mut now, &host(0));
        let learned = learned(&cells);
        assert_eq!(grants.len() as u32, set.min(learned));
        let because = if set <= learned { Because::InFlight(set) } else { Because::Concurrency(learned) };
        assert_eq!(wait.because, because, "{set} set");
    }
}

#[test]
fn t5_guests_take_places_of_what_was_learned_and_none_of_what_was_set() {
    let limits = Limits { in_flight: NonZeroU32::new(1), ..adaptive() };
    let (mut cells, mut now) = (vec![Cell::new(limits.into())], at(1000));
    let (guests, wait) = fill(&mut cells, &mut now, &guest());
    assert_eq!(guests.len() as u32, learned(&cells), "their own limits hold, not the host's");
    assert_eq!(wait.because, Because::Concurrency(learned(&cells)));
    let (none, wait) = fill(&mut cells, &mut now, &host(0));
    assert_eq!((none.len(), wait.because), (0, Because::Concurrency(learned(&cells))));
    let effects = all::release(&mut cells, guest().members(), &guests[0]);
    assert_eq!(effects.freed, 1, "a guest's place is one that others wait for");
    let (one, wait) = fill(&mut cells, &mut now, &host(0));
    assert_eq!((one.len(), wait.because), (1, Because::InFlight(1)));
    assert_eq!((cells[0].in_flight(), cells[0].guests()), (1, guests.len() as u32 - 1));
}

#[test]
fn a_freed_place_wakes_the_one_that_waits_longest() {
    // The world checks at every step that nobody waits who could start.
    let mut world = World::of([adaptive()]).answering(|start| reply(200, 500 + start.id));
    world.ask_many(&host(0), 40);
    world.ask_many(&guest(), 20);
    world.run();
    assert_eq!((world.starts.len(), world.cells[0].in_flight(), world.cells[0].guests()), (60, 0, 0));
    let own: Vec<u64> = world.order().into_iter().filter(|id| *id <= 40).collect();
    assert!(own.is_sorted(), "in order of arrival: {own:?}");
}

#[test]
fn a_concurrency_that_rises_wakes_those_that_wait() {
    let mut world = World::of([adaptive()]).answering(|_| reply(200, 50));
    world.ask_many(&host(0), 2000);
    let first = learned(&world.cells);
    let mut most = first;
    while world.waiting() > 0 {
        world.step(world.now.after(SEC * 60));
        most = most.max(learned(&world.cells));
    }
    assert!(most > first, "a host that answers steadily takes more than {first} at once");
}

#[test]
fn members_that_cannot_agree_share_the_places_and_each_keeps_one() {
    let whole = learned(&[Cell::new(adaptive().into())]);
    for members in [1, 2, 3, 100] {
        let mut started = 0;
        for rank in 0..members {
            let share = Share::of_members(NonZeroU32::new(members).expect("some"), rank, Duration::ZERO);
            let mut alone = Alone { cells: vec![Cell::new(adaptive().into())], share };
            let mut now = at(1000);
            let (grants, wait) = fill(&mut alone, &mut now, &host(0));
            assert_eq!(wait.because, Because::Concurrency(grants.len() as u32));
            assert!(!grants.is_empty());
            started += grants.len() as u32;
        }
        assert_eq!(started, whole.max(members), "{members} members");
    }
}

#[test]
fn what_is_remembered_of_a_lost_store_is_the_stricter_of_both() {
    let refusing = || {
        let (mut cells, now) = (vec![Cell::new(adaptive().into())], at(1000));
        let grant = all::claim(&mut cells, now, &Claim::at_once(host(0).members(), 1, now)).expect("the first");
        all::settle(&mut cells, now.after(SEC), host(0).members(), &grant, &signal(429), None);
        cells.remove(0)
    };
    let (slow, mut fresh) = (refusing(), Cell::new(adaptive().into()));
    assert!(slow.learned().interval() > fresh.learned().interval(), "the refusal taught");
    fresh.raise(&slow.snapshot());
    assert_eq!(fresh.learned(), slow.learned());
    let mut both = refusing();
    both.raise(&Cell::new(Arc::new(adaptive())).snapshot());
    assert_eq!(both.learned(), slow.learned());
}

#[test]
fn of_two_memories_the_longer_interval_and_the_fewer_places_hold() {
    let after = |count: usize| {
        let mut world = World::of([adaptive()]).answering(|_| reply(200, 50));
        world.ask_many(&host(0), count);
        world.run();
        world.cells.remove(0)
    };
    let mut slow = after(2000);
    let slower = AdaptiveSettings { floor: SEC, ..AdaptiveSettings::default() };
    slow.set_limits(Arc::new(Limits { policy: Policy::Adaptive(slower), ..free() }));
    let narrow = after(3);
    let places = |cell: &Cell| cell.learned().in_flight();
    assert!(slow.learned().interval() > narrow.learned().interval() && places(&slow) > places(&narrow));
    for (of, floor) in [(&slow, &narrow), (&narrow, &slow)] {
        let mut raised = of.clone();
        raised.raise(&floor.snapshot());
        assert_eq!((raised.learned().interval(), places(&raised)), (SEC, places(&narrow)));
    }
}

/// A table of a process that goes on alone.
struct Alone {
    cells: Vec<Cell>,
    share: Share,
}

impl Cells for Alone {
    fn cell(&self, scope: ScopeId) -> &Cell {
        self.cells.cell(scope)
    }

    fn cell_mut(&mut self, scope: ScopeId) -> &mut Cell {
        self.cells.cell_mut(scope)
    }

    fn share(&self) -> Share {
        self.share
    }
}
