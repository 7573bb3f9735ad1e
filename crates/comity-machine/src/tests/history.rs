//! Histories of many members against the laws, in arithmetic of their own.

use proptest::prelude::*;

use super::*;

/// What a far end allows: at most one start an interval, so many in flight, so many in a window.
struct Law {
    interval: u128,
    most_in_flight: usize,
    window: (usize, u128),
    starts: Vec<u128>,
    flying: usize,
}

impl Law {
    fn start(&mut self, at: u128) -> Result<(), String> {
        if let Some(last) = self.starts.last()
            && at < last + self.interval
        {
            return Err(format!("{} ns after the last", at - last));
        }
        let (count, per) = self.window;
        if let Some(first) = self.starts.len().checked_sub(count)
            && at < self.starts[first] + per
        {
            return Err(format!("more than {count} in {per} ns"));
        }
        self.flying += 1;
        if self.flying > self.most_in_flight {
            return Err(format!("{} in flight", self.flying));
        }
        self.starts.push(at);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn x3_no_history_of_members_breaks_a_law(seed in any::<u64>()) {
        let mut dice = Dice(seed);
        let (interval, most, count, per) = (10 + dice.below(90), 1 + dice.below(4), 3 + dice.below(6), 400 + dice.below(3000));
        let limits = Partial {
            windows: windows(&[&format!("{count}/{per}ms")]).windows,
            ..Partial { interval: every(interval as u32).interval, ..places(most as u32) }
        };
        let town = Town::new(&[("*.example.org", limits)], Partial::default());
        let mut members = town.members(3);
        let mut law = Law {
            interval: u128::from(interval) * 1_000_000,
            most_in_flight: most as usize,
            window: (count as usize, u128::from(per) * 1_000_000),
            starts: Vec::new(),
            flying: 0,
        };
        // Whose, and what for. Those of the killed are gone at the far end too.
        let mut flights: Vec<(usize, String, Grant)> = Vec::new();
        let mut now = at(0);
        let mut losses = 0;
        for _ in 0..300 {
            now = now.after(MS * dice.below(30) as u32);
            let who = dice.below(members.len() as u64) as usize;
            match dice.below(20) {
                0..11 => {
                    let host = format!("h{}.example.org", dice.below(3));
                    if let Ok(grant) = members[who].claim_of(now, &host, now, 1 + dice.below(2) as u32) {
                        prop_assert!(!members[who].is_lost());
                        let broken = law.start(u128::from(now.as_nanos()));
                        prop_assert_eq!(broken, Ok(()));
                        flights.push((who, host, grant));
                    }
                }
                11..18 => {
                    if let Some(n) = (!flights.is_empty()).then(|| dice.below(flights.len() as u64) as usize) {
                        let (who, host, grant) = flights.swap_remove(n);
                        members[who].learn(now, &host, &grant, &served());
                        members[who].release(now, &host, &grant);
                        law.flying -= 1;
                    }
                }
                18 => {
                    let gone = core::mem::replace(&mut members[who], town.member());
                    if dice.below(2) == 0 { gone.kill() } else { drop(gone) }
                    law.flying -= flights.iter().filter(|(whose, ..)| *whose == who).count();
                    flights.retain(|(whose, ..)| *whose != who);
                }
                _ if dice.below(6) == 0 => {
                    losses += 1;
                    std::fs::remove_file(town.path()).unwrap_or_default();
                }
                _ => {
                    for member in &mut members {
                        member.machine.watch().ask_for_a_look();
                        member.news(now);
                    }
                }
            }
        }
        // A window is full after each loss.
        prop_assert!(losses > 0 || law.starts.len() > 5, "it is not stuck: {} starts", law.starts.len());
    }
}
