//! The plane of capacity against refusals: who is better in both, and who in one.

use std::fmt;

use serde::Serialize;

use super::{Arm, Figure, World};

/// The policy of ours that the others are held against.
pub const OURS: &str = "adaptive";

/// Whether a policy was told the pace beforehand, so that it is a bound and no rival: `told`, which knows what the host serves,
/// and all that were given an interval in their names, such as `curl 100ms`.
pub fn is_told(policy: &str) -> bool {
    policy == "told" || policy.contains(' ')
}

/// Where all other policies of a world stand beside one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plane {
    /// The policy they are held against.
    pub ours: String,
    /// Its share of capacity, 0 to 1; of a world with lists, how well it got through.
    pub capacity: f64,
    /// Its share of refused requests, 0 to 1.
    pub refused: f64,
    /// The others, in their order.
    pub rivals: Vec<Rival>,
}

/// Where one policy stands beside ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rival {
    /// Its name.
    pub policy: String,
    /// Its share of capacity, 0 to 1; of a world with lists, how well it got through.
    pub capacity: f64,
    /// Its share of refused requests, 0 to 1.
    pub refused: f64,
    /// Where that is, beside ours.
    pub standing: Standing,
}

/// Where a policy stands beside ours, at the precision of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// At least as good in both, and better in one.
    BetterInBoth,
    /// It uses more, and is refused more.
    MoreCapacity,
    /// It is refused less, and uses less.
    FewerRefusals,
    /// The same in both.
    Equal,
    /// Ours is at least as good in both, and better in one.
    Worse,
    /// It was told the pace beforehand: a bound, wherever it stands.
    Told,
}

/// Where the other policies of a world stand beside `ours`; `None` where that was not run, or nothing else was.
///
/// Means over the seeds are compared as the table shows them: capacity to a tenth of a per cent, refusals to a hundredth.
/// What is finer than that is chance.
pub fn dominated(world: &World, ours: &str) -> Option<Plane> {
    let place = |arm: &Arm| Some((arm.mean(world.capacity_figure())?, arm.mean(Figure::Refused)?));
    let own = world.arms.iter().find(|arm| arm.policy == ours)?;
    let (capacity, refused) = place(own)?;
    let rivals: Vec<Rival> = world
        .arms
        .iter()
        .filter(|arm| arm.policy != ours)
        .filter_map(|arm| place(arm).map(|place| (arm.policy.clone(), place)))
        .map(|(policy, theirs)| Rival {
            standing: if is_told(&policy) { Standing::Told } else { Standing::of(theirs, (capacity, refused)) },
            policy,
            capacity: theirs.0,
            refused: theirs.1,
        })
        .collect();
    (!rivals.is_empty()).then(|| Plane { ours: ours.to_owned(), capacity, refused, rivals })
}

impl Standing {
    fn of(theirs: (f64, f64), ours: (f64, f64)) -> Self {
        let steps = |share: f64, steps: f64| (share * steps).round();
        let more = steps(theirs.0, CAPACITY_STEPS) - steps(ours.0, CAPACITY_STEPS);
        let fewer = steps(ours.1, REFUSED_STEPS) - steps(theirs.1, REFUSED_STEPS);
        match (more, fewer) {
            (0.0, 0.0) => Self::Equal,
            (0.0.., 0.0..) => Self::BetterInBoth,
            (..=0.0, ..=0.0) => Self::Worse,
            (0.0.., _) => Self::MoreCapacity,
            _ => Self::FewerRefusals,
        }
    }
}

impl Plane {
    /// Those that stand so.
    pub fn standing(&self, standing: Standing) -> impl Iterator<Item = &Rival> {
        self.rivals.iter().filter(move |rival| rival.standing == standing)
    }

    /// Whether any other policy is at least as good in both, and better in one.
    pub fn is_dominated(&self) -> bool {
        self.standing(Standing::BetterInBoth).next().is_some()
    }
}

impl fmt::Display for Plane {
    /// Who is better in both and who in one, a line for each that is, without a line's end after the last.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (capacity, refused) = (percent(self.capacity, 1), percent(self.refused, 2));
        write!(f, "{} has {capacity} of the capacity, {refused} refused", self.ours)?;
        if !self.is_dominated() {
            f.write_str("; no other is as good in both")?;
            if self.standing(Standing::Equal).next().is_some() {
                f.write_str(" and better in one")?;
            }
        }
        for (standing, words) in [
            (Standing::BetterInBoth, "as good in both and better in one"),
            (Standing::MoreCapacity, "more capacity"),
            (Standing::FewerRefusals, "fewer refusals"),
            (Standing::Equal, "the same in both"),
            (Standing::Told, "told the pace beforehand"),
        ] {
            let rivals: Vec<String> = self.standing(standing).map(Rival::to_string).collect();
            if !rivals.is_empty() {
                write!(f, "\n{words}: {}", rivals.join(", "))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Rival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {} refused)", self.policy, percent(self.capacity, 1), percent(self.refused, 2))
    }
}

/// A share in per cent, with so many digits.
pub(crate) fn percent(share: f64, digits: usize) -> String {
    format!("{:.digits$} %", 100.0 * share)
}

/// A tenth of a per cent.
const CAPACITY_STEPS: f64 = 1000.0;
/// A hundredth of a per cent.
const REFUSED_STEPS: f64 = 10_000.0;

#[cfg(test)]
mod tests {
    use super::super::testing::{run, world};
    use super::*;

    fn beside(rivals: &[(&str, f64, u64)]) -> World {
        let ours = run(OURS, 1, 0.98, 6);
        let runs = rivals.iter().map(|&(policy, share, refused)| run(policy, 1, share, refused));
        world("bucket-10", "", None, [ours].into_iter().chain(runs).collect())
    }

    #[test]
    fn a_baseline_that_is_better_in_one_and_as_good_in_the_other_dominates() {
        for (share, refused, standing) in [
            (0.99, 5, Standing::BetterInBoth),
            (0.99, 6, Standing::BetterInBoth),
            (0.98, 0, Standing::BetterInBoth),
            (0.98, 6, Standing::Equal),
            (1.0, 300, Standing::MoreCapacity),
            (0.1, 0, Standing::FewerRefusals),
            (0.98, 300, Standing::Worse),
            (0.1, 6, Standing::Worse),
            (0.1, 300, Standing::Worse),
        ] {
            let plane = beside(&[("other", share, refused)]).plane.unwrap();
            assert_eq!(plane.rivals[0].standing, standing, "{share} {refused}");
            assert_eq!(plane.is_dominated(), standing == Standing::BetterInBoth);
        }
    }

    #[test]
    fn what_the_table_does_not_show_decides_nothing() {
        let (ours, near) = ((0.98, 0.001), (0.9804, 0.00104));
        assert_eq!(Standing::of(near, ours), Standing::Equal);
        assert_eq!(Standing::of((0.981, 0.001), ours), Standing::BetterInBoth);
    }

    #[test]
    fn lines_say_who_is_better_in_one() {
        let told = beside(&[("cubic", 1.0, 300), ("fixed", 0.1, 0), ("saw", 0.5, 900)]).plane.unwrap().to_string();
        let lines: Vec<_> = told.lines().collect();
        assert_eq!(
            lines,
            [
                "adaptive has 98.0 % of the capacity, 0.10 % refused; no other is as good in both",
                "more capacity: cubic (100.0 %, 4.76 % refused)",
                "fewer refusals: fixed (10.0 %, 0.00 % refused)",
            ]
        );
        let told = beside(&[("oracle", 1.0, 0)]).plane.unwrap().to_string();
        assert!(
            told.contains("as good in both and better in one: oracle (100.0 %") && !told.contains("no other"),
            "{told}"
        );
    }

    #[test]
    fn who_was_told_the_answer_is_no_rival() {
        let plane = beside(&[("curl 100ms", 1.0, 0), ("told", 1.0, 0)]).plane.unwrap();
        assert!(!plane.is_dominated());
        assert!(plane.to_string().contains("told the pace beforehand: curl 100ms (100.0 %"), "{plane}");
        assert!(!is_told("curl") && !is_told(OURS));
    }

    #[test]
    fn alone_there_is_nobody_to_stand_beside() {
        assert_eq!(beside(&[]).plane, None);
        assert_eq!(dominated(&beside(&[("fixed", 0.1, 0)]), "absent"), None);
    }
}
