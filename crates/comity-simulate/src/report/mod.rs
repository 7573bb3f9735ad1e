//! What runs came to: the figures of each policy in each world over its seeds, and where the policies stand beside one
//! another.
//!
//! ```
//! use comity_simulate::report::{Figure, World};
//! use comity_simulate::scenario::Scenario;
//! use comity_simulate::world::{RunOptions, run};
//!
//! let text = "name = 'ten'\ntime = '2min'\n[[host]]\nname = 'a.example'\nkind = 'bucket'\nrate = '10/s'\nburst = 5";
//! let scenario = Scenario::parse(text)?;
//! let runs = vec![run(&scenario, "interval 200ms", 1, &RunOptions::default())?];
//! let world = World::of(&scenario, None, runs);
//! assert!(world.arms[0].mean(Figure::Used).is_some_and(|used| used > 0.49 && used < 0.51));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod dominated;
mod figure;

use std::time::Duration;

use serde::{Serialize, Serializer};

pub use dominated::{OURS, Plane, Rival, Spot, Standing, dominated, is_told};
pub use figure::{Figure, Spread};

use crate::outcome::Outcome;
use crate::scenario::Scenario;

/// All that was run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// World by world.
    pub worlds: Vec<World>,
}

/// One scenario and what became of each policy in it.
#[derive(Clone, Debug, Serialize)]
pub struct World {
    /// The scenario's name.
    pub name: String,
    /// What it is, in words.
    pub about: String,
    /// How long it lasts, in virtual seconds, where no list ends sooner.
    pub seconds: f64,
    /// How many URLs the clients' lists hold together, where they have lists that end.
    pub urls: Option<u64>,
    /// A policy each, in the order in which they were asked for.
    pub arms: Vec<Arm>,
    /// Where the others stand beside our own policy, where it was run and others were.
    pub plane: Option<Plane>,
}

/// One policy in one world, over all seeds.
#[derive(Clone, Debug, Serialize)]
pub struct Arm {
    /// The policy's name.
    pub policy: String,
    /// Each figure over the runs; none where it means nothing in this world.
    #[serde(serialize_with = "by_key")]
    pub figures: Vec<(Figure, Option<Spread>)>,
    /// A run each seed.
    pub runs: Vec<Outcome>,
}

impl World {
    /// A world from the outcomes of its runs, of all policies and seeds in the order in which they shall be shown.
    ///
    /// `time` is the length that was asked for, where it is not the scenario's own.
    pub fn of(scenario: &Scenario, time: Option<Duration>, outcomes: Vec<Outcome>) -> Self {
        let clients = &scenario.clients;
        let lists = scenario.hosts.iter().map(|host| u64::from(host.hosts.get())).sum::<u64>();
        let lists = lists.saturating_mul(clients.count.get().into());
        let mut world = Self {
            name: scenario.name.clone(),
            about: scenario.about.clone(),
            seconds: time.unwrap_or(scenario.time).as_secs_f64(),
            urls: clients.urls.map(|urls| urls.saturating_mul(lists)),
            arms: Vec::new(),
            plane: None,
        };
        world.judge(outcomes);
        world
    }

    /// Puts the outcomes together by policy.
    fn judge(&mut self, outcomes: Vec<Outcome>) {
        let mut arms: Vec<Arm> = Vec::new();
        for outcome in outcomes {
            match arms.iter_mut().find(|arm| arm.policy == outcome.policy) {
                Some(arm) => arm.runs.push(outcome),
                None => {
                    let policy = outcome.policy.clone();
                    arms.push(Arm { policy, figures: Vec::new(), runs: vec![outcome] });
                }
            }
        }
        for arm in &mut arms {
            let spread = |figure: Figure| Spread::of(arm.runs.iter().map(|run| figure.of(run, self)));
            arm.figures = Figure::ALL.map(|figure| (figure, spread(figure))).to_vec();
        }
        self.arms = arms;
        self.plane = dominated(self, OURS);
    }

    /// The figure that stands for capacity on the plane: what was used of what was possible once the start is over, or, where
    /// there is a list to get through, how well that went.
    pub fn capacity_figure(&self) -> Figure {
        if self.urls.is_some() { Figure::List } else { Figure::PossibleLater }
    }

    /// The figure that capacity is held against on the plane: refusals, or, where nobody is refused, the queue at the host.
    pub fn price_figure(&self) -> Figure {
        let refused = self.arms.iter().any(|arm| arm.mean(Figure::Refused) > Some(0.0));
        let queued = self.arms.iter().any(|arm| arm.mean(Figure::Queue) > Some(0.0));
        if queued && !refused { Figure::Queue } else { Figure::Refused }
    }

    /// The same world with no more than so many hosts in each run; the figures are those of all.
    #[must_use]
    pub fn cut_to(mut self, hosts: usize) -> Self {
        for run in self.arms.iter_mut().flat_map(|arm| &mut arm.runs) {
            run.hosts.truncate(hosts);
        }
        self
    }
}

impl Arm {
    /// A figure over the runs; `None` where it means nothing in this world.
    pub fn spread(&self, figure: Figure) -> Option<Spread> {
        self.figures.iter().find(|(which, _)| *which == figure).and_then(|(_, spread)| *spread)
    }

    /// Its mean over the runs.
    pub fn mean(&self, figure: Figure) -> Option<f64> {
        self.spread(figure).map(|spread| spread.mean)
    }
}

fn by_key<S: Serializer>(figures: &[(Figure, Option<Spread>)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(figures.iter().map(|(figure, spread)| (figure.key(), spread)))
}

#[cfg(test)]
pub(crate) mod testing {
    //! Runs that never were.

    use super::World;
    use crate::outcome::{HostOutcome, Minute, Outcome, Sample};

    /// A world of ten minutes.
    pub(crate) fn world(name: &str, about: &str, urls: Option<u64>, outcomes: Vec<Outcome>) -> World {
        let (name, about) = (name.to_owned(), about.to_owned());
        let mut world = World { name, about, seconds: 600.0, urls, arms: Vec::new(), plane: None };
        world.judge(outcomes);
        world
    }

    /// A run of ten minutes at a host of 10/s that serves this share of it and refuses so many in the first minute.
    pub(crate) fn run(policy: &str, seed: u64, share: f64, refused: u64) -> Outcome {
        let served = (600.0 * share).round() as u64;
        let calm = Minute { arrived: served, served, capacity: 600.0, possible: 600.0, ..Minute::default() };
        let first = Minute { arrived: served + refused, refused, ..calm };
        let host = HostOutcome {
            name: "one.example".to_owned(),
            minutes: [vec![first], vec![calm; 9]].concat(),
            possible_later: 5400.0,
            possible_in_all: 6000.0,
            got: 10 * served,
            latency_p95: 0.02,
            served_by_client: vec![10 * served],
            ..HostOutcome::default()
        };
        Outcome {
            scenario: "bucket-10".to_owned(),
            policy: policy.to_owned(),
            seed,
            seconds: 600.0,
            events: 12_000,
            ended: None,
            hosts: vec![host],
            uplink: None,
        }
    }

    /// The same with samples: an interval that comes down to the host's, and a few refusals.
    pub(crate) fn sampled(policy: &str) -> Outcome {
        let mut run = run(policy, 1, 0.98, 7);
        run.hosts[0].samples = (0..6000)
            .map(|step| {
                let at = f64::from(step) / 10.0;
                let wave = (at / 17.0).sin() * 0.01;
                let interval = (1.0 / (1.0 + at / 2.0)).max(0.102) + wave;
                Sample { at, interval, in_flight: 1 + step % 3, most_in_flight: 4 + step / 1000 }
            })
            .collect();
        run.hosts[0].refusals = vec![17.0, 17.2, 18.0, 40.0, 180.0, 181.0, 420.0];
        run
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{run, world};
    use super::*;

    #[test]
    fn runs_are_put_together_by_policy_in_the_order_given() {
        let runs = vec![run("adaptive", 1, 0.98, 6), run("fixed", 1, 0.1, 0), run("adaptive", 2, 0.96, 0)];
        let world = world("bucket-10", "ten a second", None, runs);
        let policies: Vec<_> = world.arms.iter().map(|arm| (arm.policy.as_str(), arm.runs.len())).collect();
        assert_eq!(policies, [("adaptive", 2), ("fixed", 1)]);
        let used = world.arms[0].spread(Figure::Used).unwrap();
        assert!((used.mean - 0.97).abs() < 1e-9, "{used:?}");
        assert_eq!((used.least, used.most), (0.96, 0.98));
        assert_eq!(world.arms[0].mean(Figure::Refusals), Some(3.0));
        assert!(world.plane.is_some());
    }

    #[test]
    fn figures_are_written_by_their_keys() {
        let world = world("bucket-10", "", None, vec![run("adaptive", 1, 0.98, 6)]);
        let written = serde_json::to_value(&world).unwrap();
        let keys: Vec<_> = written["arms"][0]["figures"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(keys.len(), Figure::ALL.len(), "{keys:?}");
        assert_eq!(written["arms"][0]["figures"]["refusals"]["mean"], 6.0);
        assert!(written["arms"][0]["figures"]["ended"].is_null());
        assert_eq!(world.cut_to(0).arms[0].runs[0].hosts.len(), 0);
    }
}
