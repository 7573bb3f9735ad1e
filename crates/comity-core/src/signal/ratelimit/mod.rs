//! Quotas a server advertises in header fields: the drafts of `RateLimit` (draft-ietf-httpapi-ratelimit-headers, all
//! its shapes) and the many `X-RateLimit-*` dialects that came before.
//!
//! What cannot be read is unknown and never zero: a broken field must not stop a host.

mod counts;
mod name;
mod reset;
mod structured;
mod windows;

use core::cmp::Reverse;
use core::time::Duration;

pub(super) use name::Name;
pub(super) use reset::reset;

use self::counts::Counts;
use self::name::Role;
use super::Quota;
use super::date::ServerClock;
use super::number;
use super::text::text;

/// The quotas these fields advertise, the most restrictive first, whatever the order of the fields.
pub(super) fn read(mut fields: Vec<(Name<'_>, &[u8])>, clock: &ServerClock<'_>, riot: bool) -> Vec<Quota> {
    if fields.is_empty() {
        return Vec::new();
    }
    fields.sort_by(|(one, _), (other, _)| one.order(other));
    let fields = fields.as_slice();
    let mut policies = structured::policies(values(fields, Role::Policy));
    let mut quotas = structured::quotas(values(fields, Role::Whole), &mut policies, clock);
    for group in groups(fields) {
        let members = || fields.iter().filter(|(name, _)| name.same_group(group));
        if riot && let Some(declared) = windows::read(&members()) {
            quotas.extend(declared);
            continue;
        }
        let mut counts = Counts::of_bucket(group.bucket);
        members().for_each(|(name, value)| counts.add(name.role, text(value), clock));
        let mut none = Vec::new();
        quotas.extend(counts.quotas(if group.is_standard() { &mut policies } else { &mut none }));
    }
    quotas.extend(policies.iter().map(structured::Policy::quota));
    quotas.retain(says_something);
    quotas.sort_by_key(|quota| Reverse(restriction(quota)));
    quotas.dedup();
    quotas
}

/// The values of the standard field in this role.
fn values<'a>(fields: &[(Name<'_>, &'a [u8])], role: Role) -> impl Iterator<Item = &'a [u8]> {
    fields.iter().filter(move |(name, _)| name.is_standard() && name.role == role).map(|(_, value)| *value)
}

/// One name of each group of fields that belong together.
fn groups<'a, 'f>(fields: &'f [(Name<'a>, &[u8])]) -> impl Iterator<Item = &'f Name<'a>> {
    let names = || fields.iter().map(|(name, _)| name).filter(|name| !name.is_structured());
    names()
        .enumerate()
        .filter(move |(at, name)| !names().take(*at).any(|before| before.same_group(name)))
        .map(|(_, name)| name)
}

fn says_something(quota: &Quota) -> bool {
    quota.limit.is_some() || quota.remaining.is_some() || quota.resets_in.is_some()
}

/// What orders quotas: how long an exhausted one lasts, then the spacing it leaves; the rest only makes the order total.
fn restriction(quota: &Quota) -> impl Ord + use<> {
    let Quota { limit, window, remaining, resets_in } = *quota;
    let exhausted = if remaining == Some(0) { resets_in.or(window) } else { None };
    let spacing = |span: Option<Duration>, requests: Option<u64>| number::split(span?, requests?);
    let spacing = spacing(window, limit).max(spacing(resets_in, remaining));
    (exhausted, spacing, Reverse(remaining), resets_in, Reverse(limit), window)
}

#[cfg(test)]
mod tests;
