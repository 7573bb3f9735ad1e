//! The rules as they are asked: which of them a request falls under, and what of them is ready to be sent.

use comity_core::guard::MOST_LIMITS;

pub(crate) use super::route::Asked;
use super::{Counts, Rule, Settings, SettingsError};
use crate::answer::PolicyField;

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

    /// The rules that are about a request.
    ///
    /// A path that servers read in several ways falls under the rules of all readings, up to the most that are asked.
    #[inline]
    pub(crate) fn ruled(&self, asked: &Asked<'_>) -> Ruled {
        let mut ruled = Ruled::default();
        for (nth, (rule, _)) in (0u16..).zip(&self.rules) {
            if rule.route().holds(asked)
                && let Some(free) = ruled.rules.get_mut(usize::from(ruled.count))
            {
                *free = nth;
                ruled.count += 1;
            }
        }
        ruled
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

impl Settings {
    /// Whether nothing holds a request back.
    pub(crate) fn exempts(&self, asked: &Asked<'_>) -> bool {
        self.exempt.iter().any(|route| route.exempts(asked))
    }
}

impl Ruled {
    pub(crate) fn places(&self) -> &[u16] {
        self.rules.get(..usize::from(self.count)).unwrap_or_default()
    }
}

impl Settings {
    /// That no two rules have one name, and no request falls under more rules than are asked together.
    ///
    /// # Errors
    /// Names the rule.
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        for (nth, rule) in self.rules.iter().enumerate() {
            if self.rules.iter().take(nth).any(|other| other.name() == rule.name()) {
                return Err(SettingsError::Twice(rule.name().to_owned()));
            }
            let together = self.rules.iter().filter(|other| other.route().may_meet_above(rule.route())).count();
            if together > MOST_LIMITS {
                return Err(SettingsError::TooMany(rule.name().to_owned()));
            }
        }
        Ok(())
    }
}
