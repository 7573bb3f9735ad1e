//! The rules as they are asked: which of them a request falls under, and what of them is ready to be sent.

use comity_core::guard::MOST_LIMITS;

use super::route::Asked;
use super::{Counts, Rule, Settings};
use crate::answer::PolicyField;
use crate::key::Head;

/// The rules of settings, in the order in which they are asked: each client's before those over all (G22).
#[derive(Debug)]
pub(crate) struct Plan {
    rules: Vec<(Rule, PolicyField)>,
}

/// Which rules a request falls under.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ruled {
    rules: [u16; MOST_LIMITS],
    count: u8,
}

impl Plan {
    pub(crate) fn of(settings: &Settings) -> Self {
        let mut rules: Vec<&Rule> = settings.rules.iter().collect();
        rules.sort_by_key(|rule| rule.counts() == Counts::AllTogether);
        rules.truncate(usize::from(u16::MAX));
        Self { rules: rules.into_iter().map(|rule| (rule.clone(), PolicyField::of(rule.named()))).collect() }
    }

    /// The rules that are about a request; `None` where it is exempt.
    ///
    /// A path that servers read in several ways falls under the rules of all readings, up to the most that are asked.
    pub(crate) fn ruled(&self, settings: &Settings, head: &Head<'_>) -> Option<Ruled> {
        let asked = Asked::of(head);
        if settings.exempt.iter().any(|route| route.exempts(&asked)) {
            return None;
        }
        let mut ruled = Ruled::default();
        for (nth, (rule, _)) in (0u16..).zip(&self.rules) {
            if rule.route().holds(&asked)
                && let Some(free) = ruled.rules.get_mut(usize::from(ruled.count))
            {
                *free = nth;
                ruled.count += 1;
            }
        }
        Some(ruled)
    }

    /// A rule by its place, as [`Ruled::places`] has it.
    pub(crate) fn rule(&self, place: u16) -> Option<&(Rule, PolicyField)> {
        self.rules.get(usize::from(place))
    }

    /// All of them.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().map(|(rule, _)| rule)
    }
}

impl Ruled {
    pub(crate) fn places(&self) -> &[u16] {
        self.rules.get(..usize::from(self.count)).unwrap_or_default()
    }
}

impl Settings {
    /// That no request falls under more rules than are asked together.
    ///
    /// # Errors
    /// The name of a rule whose requests do.
    pub(crate) fn check_overlap(&self) -> Result<(), String> {
        for rule in &self.rules {
            let together = self.rules.iter().filter(|other| other.route().may_meet_above(rule.route())).count();
            if together > MOST_LIMITS {
                return Err(rule.name().to_owned());
            }
        }
        Ok(())
    }
}
