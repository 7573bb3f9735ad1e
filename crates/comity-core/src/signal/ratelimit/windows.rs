//! Quotas declared as windows: `X-App-Rate-Limit: 20:1,100:120` is 20 requests in 1 s and 100 in 120 s, and
//! `X-App-Rate-Limit-Count: 3:1,7:120` says how many of each are used.

use core::time::Duration;

use super::name::{Name, Role};
use super::reset::plausible;
use crate::signal::Quota;
use crate::signal::number;
use crate::signal::text::{elements, text};

/// The quotas a group of fields declares in this form; `None` where it declares none.
pub(super) fn read<'n, 'a: 'n>(
    fields: &(impl Iterator<Item = &'n (Name<'a>, &'a [u8])> + Clone),
) -> Option<Vec<Quota>> {
    let pairs = |role| fields.clone().filter(move |(name, _)| name.role == role).flat_map(|(_, value)| pairs(value));
    let used = |window| pairs(Role::Count).filter(|(_, of)| *of == window).map(|(count, _)| count).max();
    let quotas: Vec<_> = pairs(Role::Whole)
        .filter(|(limit, _)| *limit > 0)
        .map(|(limit, window)| Quota {
            limit: Some(limit),
            window: Some(window),
            remaining: used(window).map(|used| limit.saturating_sub(used)),
            resets_in: None,
        })
        .collect();
    (!quotas.is_empty()).then_some(quotas)
}

/// `count:seconds`, as many as are well-formed.
fn pairs(value: &[u8]) -> impl Iterator<Item = (u64, Duration)> {
    elements(text(value).unwrap_or_default()).filter_map(|element| {
        let (count, window) = element.split_once(':')?;
        let window = number::seconds(window.trim()).and_then(plausible).filter(|window| !window.is_zero())?;
        Some((number::count(count.trim())?, window))
    })
}
