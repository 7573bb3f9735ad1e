//! Comity's stores under limits that are all there, and that hold nobody back.

use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::anyhow;
use comity_core::limits::all::{Claim, Grant, Origin};
use comity_core::limits::{Limits, Member, Partial};
use comity_core::scope::{Pattern, Rules};
use comity_core::time::Instant;
use comity_store::Store;

/// Rules for every host and these groups of hosts: a spacing so small, with so large a burst, that it never counts, and
/// more places in flight than are ever taken.
pub(crate) fn open_rules(groups: impl IntoIterator<Item = String>) -> anyhow::Result<Rules> {
    let open = Partial {
        interval: Some(Duration::from_micros(1)),
        burst: NonZeroU32::new(20_000),
        in_flight: NonZeroU32::new(1_000),
        ..Partial::default()
    };
    let mut groups: Vec<String> = groups.into_iter().collect();
    groups.sort();
    groups.dedup();
    let mut rules = Rules::builder(Limits::none());
    rules.template(open.clone());
    for group in &groups {
        rules.rule(Pattern::parse(group).map_err(|error| anyhow!("{group}: {error}"))?, open.clone());
    }
    Ok(rules.build())
}

/// A grant of the store that is shared. What a process grants itself while it is out of the store's reach does not count.
pub(crate) fn claim(store: &mut impl Store, now: Instant, members: &[Member]) -> Option<Grant> {
    let grant = store.claim(now, &Claim::at_once(members, 1, now)).ok()?;
    if grant.from == Origin::Shared {
        return Some(grant);
    }
    store.release(now, members, &grant);
    None
}
