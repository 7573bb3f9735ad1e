//! X9: a file that is lost makes everybody slower, never faster.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use comity_core::limits::Because;
use comity_store::StoreError;

use super::*;

/// What was done to the file.
type Loss = (&'static str, fn(&Path));

const LOSSES: [Loss; 6] = [
    ("deleted", |path| std::fs::remove_file(path).unwrap()),
    ("truncated", |path| OpenOptions::new().write(true).open(path).unwrap().set_len(0).unwrap()),
    ("cut short", |path| OpenOptions::new().write(true).open(path).unwrap().set_len(8_000_000).unwrap()),
    ("header damaged", |path| damage(path, 40, 30)),
    ("overwritten", |path| damage(path, 0, 10_000)),
    ("replaced", |path| {
        let other = path.with_extension("other");
        std::fs::write(&other, "something else").unwrap();
        std::fs::rename(other, path).unwrap();
    }),
];

fn damage(path: &Path, at: u64, length: usize) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&vec![0xaa; length], at).unwrap();
}

#[test]
fn x9_every_member_keeps_its_last_starts_and_pauses() {
    for (what, lose) in LOSSES {
        let town = Town::new(&[], every(10_000));
        let mut members = town.members(3);
        members[0].claim(at(0), "spaced.org").unwrap();
        let grant = members[1].claim(at(0), "paused.org").unwrap();
        members[1].learn(at(1), "paused.org", &grant, &refused(Some(SEC * 60)));
        members[1].release(at(1), "paused.org", &grant);
        lose(&town.path());
        // The one that knows nothing comes first; everything begins with its burst spent.
        let wait = members[2].claim(at(5), "spaced.org").unwrap_err();
        assert!(wait.until >= at(10_000), "{what}: {wait:?}");
        let wait = members[1].claim(at(6), "paused.org").unwrap_err();
        assert_eq!((wait.because, wait.until), (Because::Pause, at(60_001)), "{what}");
        let wait = members[2].claim(at(7), "paused.org").unwrap_err();
        assert_eq!((wait.because, wait.until), (Because::Pause, at(60_001)), "{what}: told by the one who knew");
        let wait = members[0].claim(at(8), "spaced.org").unwrap_err();
        assert!(wait.until >= at(10_000), "{what}: {wait:?}");
        members[0].claim(at(20_000), "spaced.org").unwrap_or_else(|wait| panic!("{what}: {wait:?}"));
        assert!(members.iter().all(|member| !member.is_lost()), "{what}: it goes on together");
        let aside = usize::from(!["deleted"].contains(&what));
        assert_eq!(town.set_aside(), aside, "{what}");
    }
}

#[test]
fn x9_places_are_not_given_twice() {
    for (what, lose) in LOSSES {
        let town = Town::new(&[], places(1));
        let mut members = town.members(2);
        let held = members[0].claim(at(0), HOST).unwrap();
        lose(&town.path());
        members[1].claim(at(5), HOST).expect_err(what);
        members[1].claim(at(500), HOST).expect_err(what);
        members[0].news(at(501));
        members[1].claim(at(502), HOST).expect_err(what);
        members[0].release(at(510), HOST, &held);
        members[1].claim(at(600), HOST).unwrap_or_else(|wait| panic!("{what}: {wait:?}"));
    }
}

#[test]
fn x9_a_newcomer_waits_where_others_live_and_does_not_where_nobody_does() {
    let town = Town::new(&[], every(10_000));
    let first = town.member();
    std::fs::remove_file(town.path()).unwrap();
    let mut second = town.member();
    let wait = second.claim(at(0), HOST).unwrap_err();
    assert_eq!(wait.until, at(10_000));
    drop((first, second));
    std::fs::remove_file(town.path()).unwrap();
    town.member().claim(at(0), HOST).expect("nobody started anything");
}

#[test]
fn x9_the_whole_directory_is_deleted() {
    let town = Town::new(&[], every(10_000));
    let mut members = town.members(2);
    members[0].claim(at(0), HOST).unwrap();
    for entry in town.directory.path().read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { std::fs::remove_dir_all(path).unwrap() } else { std::fs::remove_file(path).unwrap() }
    }
    let wait = members[1].claim(at(100), HOST).unwrap_err();
    assert!(wait.until >= at(10_000));
    let wait = members[0].claim(at(101), HOST).unwrap_err();
    assert!(wait.until >= at(10_000));
    members[0].claim(at(20_000), HOST).unwrap();
    assert_eq!(members[1].claim(at(20_001), HOST).unwrap_err().until, at(30_000), "together again");
}

#[test]
fn x9_a_windows_log_that_is_lost_is_full() {
    let town = Town::new(&[], windows(&["5/60s"]));
    let mut members = town.members(2);
    for n in 0..3 {
        members[0].claim(at(n), HOST).unwrap();
    }
    std::fs::remove_file(town.path()).unwrap();
    for member in &mut members {
        assert_eq!(member.claim(at(10), HOST).unwrap_err().until, at(60_010));
    }
}

#[test]
fn x9_one_damaged_record_is_one_scopes_loss() {
    let town = Town::new(&[], every(10_000));
    let mut members = town.members(2);
    members[0].claim(at(0), "one.org").unwrap();
    members[0].claim(at(0), "other.org").unwrap();
    damage(&town.path(), crate::index::record_at(0) + 40, 8);
    let wait = members[1].claim(at(15_000), "one.org").unwrap_err();
    assert_eq!(wait.until, at(25_000), "it begins with its burst spent");
    assert_eq!(members[1].machine.damaged(), 1);
    members[1].claim(at(15_000), "other.org").expect("the other is whole");
    members[1].claim(at(25_000), "one.org").unwrap();
    assert_eq!(town.set_aside(), 0);
}

#[test]
fn x9_what_was_forgotten_on_purpose_does_not_come_back_from_a_memory() {
    let mut town = Town::new(&[], Partial::default());
    town.settings.lock_deadline = MS * 20;
    let mut members = town.members(2);
    let grant = members[0].claim(at(0), HOST).unwrap();
    members[0].learn(at(1), HOST, &grant, &refused(Some(SEC * 60)));
    members[0].release(at(1), HOST, &grant);
    // The other sees the pause, then is without the store for a while, in which it is forgotten.
    members[1].claim(at(2), HOST).unwrap_err();
    let file = std::fs::File::open(town.path()).unwrap();
    file.lock().unwrap();
    members[1].claim(at(3), HOST).unwrap_err();
    file.unlock().unwrap();
    members[0].forget(at(4), HOST);
    members[1].news(at(5000));
    members[1].claim(at(5001), HOST).expect("it is not raised again");
}

#[test]
fn d3_a_stored_time_ahead_of_any_legal_wait_is_discarded() {
    let town = Town::new(&[], every(1000));
    let mut members = town.members(2);
    // A clock that was far ahead, and then was not.
    let year_and_more = SEC * (400 * 86_400);
    let grant = members[0].claim(at(0).after(year_and_more), HOST).unwrap();
    members[0].learn(at(0).after(year_and_more), HOST, &grant, &refused(Some(SEC * 3600)));
    members[0].release(at(0), HOST, &grant);
    let wait = members[1].claim(at(1), HOST).unwrap_err();
    assert!(wait.until <= at(1001), "{wait:?}");
    members[1].claim(at(1001), HOST).unwrap();
}

#[test]
fn a_store_is_looked_at_where_there_is_one_and_before_that_nothing_is_known() {
    use comity_store::Readable as _;
    let town = Town::new(&[], every(1000));
    let mut early = Machine::look(town.path()).unwrap();
    let listing = early.list().unwrap();
    assert_eq!((listing.scopes.len(), listing.members.len(), early.forget_by_name(None)), (0, 0, Ok(0)));
    assert!(listing.now > Instant::ZERO);
    let mut member = town.member();
    let grant = member.claim(at(0), HOST).unwrap();
    member.learn(at(0), HOST, &grant, &refused(Some(SEC * 60)));
    let mut look = Machine::look(town.path()).unwrap();
    let listing = look.list().unwrap();
    assert_eq!((listing.scopes.len(), listing.members.len()), (1, 1), "whoever looks is no member");
    assert_eq!(early.list().unwrap().scopes.len(), 1, "it is there as soon as somebody has made it");
    let known = &listing.scopes[0];
    assert_eq!((known.name.as_str(), known.interval, known.state.in_flight), (HOST, SEC, 1));
    assert_eq!(known.next_start, at(60_000));
    assert_eq!(look.forget_by_name(Some("other.org")).unwrap(), 0);
    assert_eq!(look.forget_by_name(Some(HOST)).unwrap(), 1);
    assert_eq!(member.claim(at(1), HOST).unwrap_err().until, at(1000), "its spacing is no lesson");
    member.claim(at(1000), HOST).expect("the pause is forgotten");
}

#[test]
fn t13_a_pace_forgotten_by_somebody_who_looks_is_forgotten_by_all() {
    use comity_core::limits::all::Cells as _;
    use comity_store::Readable as _;
    let town = Town::new(&[], Partial::default());
    let mut member = town.member();
    let grant = member.claim(at(0), HOST).unwrap();
    member.learn(at(1), HOST, &grant, &refused(None));
    assert_eq!(member.claim(at(2), HOST).unwrap_err().until, at(250));
    assert_eq!(Machine::look(town.path()).unwrap().forget_by_name(None).unwrap(), 1);
    member.claim(at(3), HOST).expect("the learned pace is forgotten");
    let scope = member.route(HOST).members()[0].scope;
    assert_eq!(member.memory.cell(scope).interval(), Duration::ZERO);
}

#[test]
fn a_file_of_somebodys_is_left_alone() {
    let there = tempfile::tempdir().unwrap();
    let path = there.path().join("notes.txt");
    std::fs::write(&path, "dear diary").unwrap();
    match Machine::open(&path, Settings::default()) {
        Err(StoreError::Unusable(why)) => assert!(why.contains("notes.txt") && why.contains("another file"), "{why}"),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("opened"),
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "dear diary");
}

#[test]
fn another_time_namespace_cannot_share() {
    let town = Town::new(&[], Partial::default());
    let _member = town.member();
    let boot = crate::clock::Boot::of_this_machine();
    let other = crate::clock::Boot { namespace: boot.namespace ^ 1, ..boot };
    match Machine::open_as(&town.path(), town.settings, other) {
        Err(StoreError::Unusable(why)) => assert!(why.contains("time namespace"), "{why}"),
        _ => panic!("opened"),
    }
}

#[test]
fn e13_after_a_boot_the_clock_goes_on() {
    let town = Town::new(&[], Partial::default());
    let before = town.member().machine.clock()();
    let boot = crate::clock::Boot { id: 42, ..crate::clock::Boot::of_this_machine() };
    let after = Machine::open_as(&town.path(), town.settings, boot).unwrap().clock()();
    assert!(after >= before && after.since(before) < SEC * 60, "{before:?} {after:?}");
}

#[test]
fn t7_a_pause_heard_while_degraded_overtakes_a_grant() {
    let mut town = Town::new(&[], Partial::default());
    town.settings.lock_deadline = MS * 5;
    let mut one = town.member();
    let first = one.claim(at(0), HOST).unwrap();
    let mut second = one.claim(at(0), HOST).unwrap();
    let held = OpenOptions::new().read(true).write(true).open(town.path()).unwrap();
    held.lock().unwrap();
    one.learn(at(1), HOST, &first, &refused(Some(SEC * 60)));
    assert!(one.is_lost());
    assert_eq!(one.begin(at(2), HOST, &mut second), Begin::TooLate);
}
