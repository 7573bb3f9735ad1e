//! The separate numbers of one quota (limit, remaining, reset …), put together.

use core::mem;
use core::time::Duration;

use super::name::Role;
use super::reset::{plausible, reset};
use super::structured::Policy;
use crate::signal::Quota;
use crate::signal::date::ServerClock;
use crate::signal::number;
use crate::signal::text::elements;

/// What the fields of one group said, in order; unknown where a value could not be read.
#[derive(Debug, Default)]
pub(super) struct Counts {
    limits: Vec<Counted>,
    remaining: Vec<Counted>,
    used: Vec<Counted>,
    resets: Vec<Option<Duration>>,
    resets_after: Vec<Option<Duration>>,
    window: Option<Duration>,
}

/// A number with the window it is about: `100;w=21600`.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    number: Option<u64>,
    window: Option<Duration>,
}

impl Counts {
    /// Numbers about a bucket, whose name may be that of its window (`X-RateLimit-Limit-Minute`).
    pub(super) fn of_bucket(bucket: &str) -> Self {
        let named = WINDOWS.iter().find(|(name, _)| name.eq_ignore_ascii_case(bucket));
        Self { window: named.map(|(_, secs)| Duration::from_secs(*secs)), ..Self::default() }
    }

    /// Adds the members of a field's value.
    pub(super) fn add(&mut self, role: Role, value: Option<&str>, clock: &ServerClock<'_>) {
        let Some(value) = value else { return };
        for element in elements(value) {
            match role {
                Role::Limit | Role::Whole => self.limits.push(counted(element)),
                Role::Remaining => self.remaining.push(counted(element)),
                Role::Used => self.used.push(counted(element)),
                Role::Reset => self.resets.push(reset(element, clock)),
                Role::ResetAfter => self.resets_after.push(reset(element, clock)),
                Role::Window => self.window = self.window.max(span(element)),
                Role::Policy | Role::Count => {}
            }
        }
    }

    /// The quotas these numbers make. Lists of one length are as many quotas, member by member; where the lengths
    /// differ, the most restrictive number of each makes one. A policy that a limit names is taken from `policies`.
    pub(super) fn quotas(mut self, policies: &mut Vec<Policy>) -> Vec<Quota> {
        let mut listed = self.take_listed_policies();
        // A relative reset needs no clock to agree with.
        if self.resets_after.iter().any(Option::is_some) {
            self.resets = mem::take(&mut self.resets_after);
        }
        if !self.remaining.iter().any(|remaining| remaining.number.is_some()) && self.used.len() == self.limits.len() {
            self.remaining = self.used.iter().zip(&self.limits).map(|(used, limit)| limit.less(used)).collect();
        }
        if !self.is_even() {
            self.limits = most_restrictive(&self.limits);
            self.remaining = most_restrictive(&self.remaining);
            self.resets = self.resets.into_iter().max().into_iter().collect();
        }
        let mut quotas: Vec<_> = (0..self.longest()).map(|at| self.quota(at)).collect();
        for quota in &mut quotas {
            let window =
                quota.window.or_else(|| taken(quota.limit, &mut listed).or_else(|| taken(quota.limit, policies)));
            quota.window = window;
        }
        quotas.extend(listed.iter().map(Policy::quota));
        quotas
    }

    fn quota(&self, at: usize) -> Quota {
        let limit = self.limits.get(at).copied().unwrap_or_default();
        let remaining = self.remaining.get(at).copied().unwrap_or_default();
        Quota {
            // A limit of nothing is how some say that there is none.
            limit: limit.number.filter(|limit| *limit > 0),
            window: limit.window.or(remaining.window).or(self.window),
            remaining: remaining.number,
            resets_in: self.resets.get(at).copied().flatten(),
        }
    }

    fn longest(&self) -> usize {
        self.limits.len().max(self.remaining.len()).max(self.resets.len())
    }

    fn is_even(&self) -> bool {
        let even = |length: usize| length == 0 || length == self.longest();
        even(self.limits.len()) && even(self.remaining.len()) && even(self.resets.len())
    }

    /// In `100, 100;w=60, 5000;w=3600` the first is the limit in force, and the others are the policies behind it
    /// (drafts 02 to 06, §3.1).
    fn take_listed_policies(&mut self) -> Vec<Policy> {
        let listed = match &*self.limits {
            [first, rest @ ..] if first.window.is_none() && rest.iter().all(|policy| policy.window.is_some()) => {
                self.limits.split_off(1)
            }
            _ => Vec::new(),
        };
        listed.iter().map(|policy| Policy { name: None, limit: policy.number, window: policy.window }).collect()
    }
}

impl Counted {
    /// What is left of this limit once so much is used.
    fn less(&self, used: &Self) -> Self {
        let limit = self.number.filter(|limit| *limit > 0);
        let number = limit.zip(used.number).map(|(limit, used)| limit.saturating_sub(used));
        Self { number, window: used.window }
    }
}

fn most_restrictive(list: &[Counted]) -> Vec<Counted> {
    list.iter()
        .filter(|counted| counted.number.is_some())
        .min_by_key(|counted| counted.number)
        .copied()
        .into_iter()
        .collect()
}

/// Takes the unnamed policy with this limit, if there is one, and gives its window.
fn taken(limit: Option<u64>, policies: &mut Vec<Policy>) -> Option<Duration> {
    let is_it = |policy: &Policy| policy.name.is_none() && policy.limit.is_some() && policy.limit == limit;
    let at = policies.iter().position(is_it)?;
    policies.remove(at).window
}

/// `100`, `598.0` or `100;w=21600;comment=…`.
fn counted(element: &str) -> Counted {
    let mut parts = element.split(';').map(str::trim);
    let number = parts.next().and_then(number::count);
    let window = parts.filter_map(|part| part.split_once('=')).find(|(key, _)| key.trim().eq_ignore_ascii_case("w"));
    Counted { number, window: window.and_then(|(_, window)| span(window.trim())) }
}

/// A window: whole seconds, or a span with units.
fn span(text: &str) -> Option<Duration> {
    let span = number::seconds(text).or_else(|| number::unit_span(text))?;
    plausible(span).filter(|span| !span.is_zero())
}

/// Buckets that bear the name of their window.
const WINDOWS: [(&str, u64); 5] =
    [("second", 1), ("minute", 60), ("hour", 3_600), ("day", 86_400), ("month", 31 * 86_400)];
