//! A process that dies between any two of its writes makes the others slower at most.

use super::*;

/// One member does `story` and dies after its `n`-th write, for every `n`; then `check` looks at what another is told.
fn at_every_write(town: impl Fn() -> Town, story: impl Fn(&mut Member), check: impl Fn(&mut Member, u32)) {
    for writes in 0.. {
        let town = town();
        let mut other = town.member();
        let mut dying_one = town.member();
        dying::after(Some(writes));
        story(&mut dying_one);
        let died = dying::died();
        dying_one.kill();
        check(&mut other, writes);
        assert!(!other.is_lost());
        if !died {
            assert!(writes > 2, "it wrote something");
            return;
        }
    }
}

#[test]
fn a_death_within_a_first_claim() {
    at_every_write(
        || Town::new(&[("*.example.org", every(300)), ("*", windows(&["3/1s"]))], every(1000)),
        |member| {
            let _ = member.claim(at(0), HOST);
        },
        |other, writes| {
            let mut now = at(1);
            let mut starts = Vec::new();
            while starts.len() < 10 {
                match other.claim(now, HOST) {
                    Ok(_) => starts.push(now),
                    Err(wait) => {
                        assert!(wait.until > now && wait.until.since(now) <= SEC * 2, "{writes}: {wait:?}");
                        now = wait.until;
                    }
                }
            }
            assert!(starts.windows(2).all(|pair| pair[1].since(pair[0]) >= SEC), "{writes}: {starts:?}");
        },
    );
}

#[test]
fn a_death_within_a_claim_that_the_next_holds_to() {
    // The claim of a process that dies after it was granted counts; one that dies before may.
    at_every_write(
        || {
            let town = Town::new(&[("*", places(2))], every(1000));
            let mut first = town.member();
            let grant = first.claim(at(0), HOST).unwrap();
            first.release(at(1), HOST, &grant);
            town
        },
        |member| {
            if member.claim(at(1000), HOST).is_ok() && !dying::died() {
                assert!(!member.is_lost());
            }
        },
        |other, writes| {
            let until = match other.claim(at(1001), HOST) {
                Ok(_) => at(1001),
                Err(wait) => wait.until,
            };
            assert!(until <= at(2000), "{writes}: {until:?}");
        },
    );
}

#[test]
fn a_death_within_a_lesson_and_a_release() {
    at_every_write(
        || Town::new(&[("*.example.org", places(2))], places(1)),
        |member| {
            if let Ok(grant) = member.claim(at(0), HOST) {
                member.learn(at(10), HOST, &grant, &refused(Some(SEC)));
                member.release(at(10), HOST, &grant);
            }
        },
        |other, writes| {
            // Nobody else holds anything, so within a pause and a little everything is free.
            let mut now = at(11);
            let grant = loop {
                match other.claim_of(now, HOST, at(11), 1) {
                    Ok(grant) => break grant,
                    Err(wait) => now = wait.until,
                }
                assert!(now <= at(1100), "{writes}: stuck at {now:?}");
            };
            other.release(now, HOST, &grant);
        },
    );
}

#[test]
fn a_death_while_a_file_is_set_aside_and_made() {
    at_every_write(
        || {
            let town = Town::new(&[], every(1000));
            let mut first = town.member();
            first.claim(at(0), HOST).unwrap();
            town
        },
        |member| {
            let path = std::path::PathBuf::from(member.machine.standing().place);
            let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, &[0xaa; 100], 20).unwrap();
            let _ = member.claim(at(10), HOST);
        },
        |other, writes| {
            let wait = other.claim(at(20), HOST).expect_err("its burst is spent");
            assert!(wait.until >= at(1000) && wait.until <= at(1030), "{writes}: {wait:?}");
            // The one that died may stand before it in line.
            other.claim(at(1060), HOST).unwrap();
        },
    );
}
