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
    /// Where it is itself.
    #[serde(flatten)]
    pub spot: Spot,
    /// Those that are at least as good in both and better in one, by their names: nobody, where ours is not beaten.
    pub better_in_both: Vec<String>,
    /// Those that are better in one and pay for it in another: in the other of the two, or with a longer queue at the host.
    pub better_in_one: Vec<String>,
    /// The others, in their order.
    pub rivals: Vec<Rival>,
}

/// Where one policy stands beside ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rival {
    /// Its name.
    pub policy: String,
    /// Where it is.
    #[serde(flatten)]
    pub spot: Spot,
    /// Where that is, beside ours.
    pub standing: Standing,
}

/// A spot on the plane, and how long the queue is there.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spot {
    /// Its share of what was possible from the second minute on, 0 to 1; of a world with lists, how well it got through.
    pub capacity: f64,
    /// Its share of refused requests, 0 to 1.
    pub refused: f64,
    /// Requests that waited at the host, on the mean.
    pub queue: f64,
}

/// Where a policy stands beside ours, at the precision of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// At least as good in both, and better in one.
    BetterInBoth,
    /// The same, at the price of a longer queue at the host.
    LongerQueue,
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
/// What is finer than that is chance. All of the capacity is all there is: more than that was saved up before.
pub fn dominated(world: &World, ours: &str) -> Option<Plane> {
    let own = world.arms.iter().find(|arm| arm.policy == ours)?;
    let spot = Spot::of(own, world)?;
    let rivals: Vec<Rival> = world
        .arms
        .iter()
        .filter(|arm| arm.policy != ours)
        .filter_map(|arm| Spot::of(arm, world).map(|theirs| (arm.policy.clone(), theirs)))
        .map(|(policy, theirs)| Rival {
            standing: if is_told(&policy) { Standing::Told } else { theirs.beside(&spot) },
            policy,
            spot: theirs,
        })
        .collect();
    let named = |standings: &[Standing]| {
        let so = rivals.iter().filter(|rival| standings.contains(&rival.standing));
        so.map(|rival| rival.policy.clone()).collect()
    };
    let better_in_both = named(&[Standing::BetterInBoth]);
    let better_in_one = named(&[Standing::LongerQueue, Standing::MoreCapacity, Standing::FewerRefusals]);
    (!rivals.is_empty()).then(|| Plane { ours: ours.to_owned(), spot, better_in_both, better_in_one, rivals })
}

impl Spot {
    fn of(arm: &Arm, world: &World) -> Option<Self> {
        Some(Self {
            capacity: arm.mean(world.capacity_figure())?,
            refused: arm.mean(Figure::Refused)?,
            queue: arm.mean(Figure::Queue)?,
        })
    }

    fn beside(&self, ours: &Self) -> Standing {
        let steps = |share: f64, steps: f64| (share.min(1.0) * steps).round();
        let more = steps(self.capacity, CAPACITY_STEPS) - steps(ours.capacity, CAPACITY_STEPS);
        let fewer = steps(ours.refused, REFUSED_STEPS) - steps(self.refused, REFUSED_STEPS);
        match (more, fewer) {
            (0.0, 0.0) => Standing::Equal,
            (0.0.., 0.0..) if self.queue > ours.queue + QUEUE_STEP => Standing::LongerQueue,
            (0.0.., 0.0..) => Standing::BetterInBoth,
            (..=0.0, ..=0.0) => Standing::Worse,
            (0.0.., _) => Standing::MoreCapacity,
            _ => Standing::FewerRefusals,
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
        !self.better_in_both.is_empty()
    }
}

impl fmt::Display for Plane {
    /// A line that says who is better in both and who in one, and then a line for each way to stand, without a line's end after
    /// the last.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queues = self.rivals.iter().map(|rival| rival.spot.queue).fold(self.spot.queue, f64::max) >= QUEUE_STEP;
        let words = |spot: &Spot| {
            let (capacity, refused) = (percent(spot.capacity, 1), percent(spot.refused, 2));
            let queue = if queues { format!(", queue {:.1}", spot.queue) } else { String::new() };
            format!("{capacity}, {refused} refused{queue}")
        };
        let names = |names: &[String]| if names.is_empty() { "nobody".to_owned() } else { names.join(", ") };
        let (both, one) = (names(&self.better_in_both), names(&self.better_in_one));
        write!(f, "{}: {}; better in both: {both}; in one: {one}", self.ours, words(&self.spot))?;
        for (standing, what) in [
            (Standing::BetterInBoth, "as good in both and better in one"),
            (Standing::LongerQueue, "the same, with a longer queue at the host"),
            (Standing::MoreCapacity, "more capacity, more refused"),
            (Standing::FewerRefusals, "fewer refused, less capacity"),
            (Standing::Equal, "equal in both"),
            (Standing::Told, "told the pace beforehand"),
        ] {
            let rival = |rival: &Rival| format!("{} ({})", rival.policy, words(&rival.spot));
            let rivals: Vec<String> = self.standing(standing).map(rival).collect();
            if !rivals.is_empty() {
                write!(f, "\n{what}: {}", rivals.join(", "))?;
            }
        }
        Ok(())
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
/// A queue that is longer by this is longer: a tenth of a request.
const QUEUE_STEP: f64 = 0.1;

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
        let spot = |capacity, refused| Spot { capacity, refused, queue: 0.0 };
        let ours = spot(0.98, 0.001);
        assert_eq!(spot(0.9804, 0.00104).beside(&ours), Standing::Equal);
        assert_eq!(spot(0.981, 0.001).beside(&ours), Standing::BetterInBoth);
        assert_eq!(spot(1.03, 0.0).beside(&spot(1.0, 0.0)), Standing::Equal, "there is no more than all of it");
    }

    #[test]
    fn a_longer_queue_is_a_price() {
        let spot = |capacity, queue| Spot { capacity, refused: 0.0, queue };
        let ours = spot(0.95, 0.5);
        assert_eq!(spot(1.0, 31.0).beside(&ours), Standing::LongerQueue);
        assert_eq!(spot(1.0, 0.55).beside(&ours), Standing::BetterInBoth);
        assert_eq!(spot(0.95, 31.0).beside(&ours), Standing::Equal, "it is no better in any");
        let mut world = beside(&[("queues", 1.0, 0)]);
        world.arms[0].runs[0].hosts[0].minutes[0].refused = 0;
        world.arms[1].runs[0].hosts[0].queue = 31.0;
        let runs = world.arms.iter().flat_map(|arm| arm.runs.clone()).collect();
        let plane = super::super::testing::world("queue", "", None, runs).plane.unwrap();
        assert!(plane.better_in_both.is_empty() && plane.better_in_one == ["queues"], "{plane:?}");
    }

    #[test]
    fn lines_say_who_is_better_in_one() {
        let told = beside(&[("cubic", 1.0, 300), ("fixed", 0.1, 0), ("saw", 0.5, 900)]).plane.unwrap().to_string();
        let lines: Vec<_> = told.lines().collect();
        assert_eq!(
            lines,
            [
                "adaptive: 98.0 %, 0.10 % refused; better in both: nobody; in one: cubic, fixed",
                "more capacity, more refused: cubic (100.0 %, 4.76 % refused)",
                "fewer refused, less capacity: fixed (10.0 %, 0.00 % refused)",
            ]
        );
        let mut long = beside(&[("oracle", 1.0, 0)]).plane.unwrap();
        let told = long.to_string();
        assert!(
            told.starts_with("adaptive: 98.0 %, 0.10 % refused; better in both: oracle; in one: nobody\n")
                && told.contains("\nas good in both and better in one: oracle (100.0 %"),
            "{told}"
        );
        long.spot.queue = 3.0;
        assert!(long.to_string().contains("queue 3.0"), "{long}");
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
