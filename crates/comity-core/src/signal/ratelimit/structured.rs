//! `RateLimit` and `RateLimit-Policy` as structured fields (RFC 9651): Lists in the newer drafts
//! (`"policy";r=20;t=20`), a Dictionary in draft 07 (`limit=100, remaining=50, reset=30`).

use core::time::Duration;

use sfv::{BareItem, Dictionary, Item, List, ListEntry, Parser};

use super::counts::Counts;
use super::name::Role;
use super::reset::{plausible, reset};
use crate::signal::Quota;
use crate::signal::date::ServerClock;
use crate::signal::number;
use crate::signal::text::text;

/// One member of `RateLimit-Policy`: so many requests in a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    /// Its name; the older drafts know none.
    pub(super) name: Option<String>,
    /// Requests the window allows; `None` where something else is counted.
    pub(super) limit: Option<u64>,
    /// The window's length.
    pub(super) window: Option<Duration>,
}

impl Policy {
    /// The quota of which nothing but the policy is known.
    pub(super) fn quota(&self) -> Quota {
        Quota { limit: self.limit, window: self.window, remaining: None, resets_in: None }
    }
}

/// Reads `RateLimit-Policy`. A field that does not parse is ignored as a whole.
pub(super) fn policies<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Vec<Policy> {
    let list = joined(lines).and_then(|field| Parser::new(&field).parse::<List>().ok());
    items(&list.unwrap_or_default()).map(policy).collect()
}

/// Reads `RateLimit`, and takes from `policies` what it is the state of. A field that parses neither as a List nor as a
/// Dictionary is ignored as a whole.
pub(super) fn quotas<'a>(
    lines: impl Iterator<Item = &'a [u8]>,
    policies: &mut Vec<Policy>,
    clock: &ServerClock<'_>,
) -> Vec<Quota> {
    let Some(field) = joined(lines) else { return Vec::new() };
    if let Ok(list) = Parser::new(&field).parse::<List>() {
        return items(&list).map(|item| named_quota(item, policies, clock)).collect();
    }
    if Parser::new(&field).parse::<Dictionary>().is_err() {
        return Vec::new();
    }
    // Some send a key twice, once a policy. A Dictionary keeps only the last of each, so the members are read here.
    let mut counts = Counts::default();
    for (key, value) in field.split(',').filter_map(|member| member.split_once('=')) {
        let role = match key.trim() {
            "limit" => Role::Limit,
            "remaining" => Role::Remaining,
            "reset" => Role::Reset,
            _ => continue,
        };
        counts.add(role, Some(value.trim()), clock);
    }
    counts.quotas(policies)
}

/// The lines of a field as one; `None` where there is none or one is no text.
fn joined<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<String> {
    let lines: Option<Vec<_>> = lines.map(text).collect();
    lines.filter(|lines| !lines.is_empty()).map(|lines| lines.join(", "))
}

fn items(list: &List) -> impl Iterator<Item = &Item> {
    list.iter().filter_map(|entry| match entry {
        ListEntry::Item(item) => Some(item),
        ListEntry::InnerList(_) => None,
    })
}

fn policy(item: &Item) -> Policy {
    let window = number(item, "w").and_then(|secs| number::seconds(&secs)).and_then(plausible);
    let window = window.filter(|window| !window.is_zero());
    let counts_requests = item.params.get("qu").is_none_or(|unit| name(unit).as_deref() == Some("requests"));
    let quota = match &item.bare_item {
        BareItem::Integer(_) | BareItem::Decimal(_) => written(&item.bare_item),
        _ => number(item, "q"),
    };
    let limit = quota.and_then(|quota| number::count(&quota)).filter(|limit| *limit > 0 && counts_requests);
    Policy { name: name(&item.bare_item), limit, window }
}

fn named_quota(item: &Item, policies: &mut Vec<Policy>, clock: &ServerClock<'_>) -> Quota {
    let name = name(&item.bare_item);
    let at = policies.iter().position(|policy| name.is_some() && policy.name == name);
    let policy = at.map(|at| policies.remove(at));
    Quota {
        limit: policy.as_ref().and_then(|policy| policy.limit),
        window: policy.and_then(|policy| policy.window),
        remaining: number(item, "r").and_then(|remaining| number::count(&remaining)),
        resets_in: number(item, "t").and_then(|reset_at| reset(&reset_at, clock)),
    }
}

/// The name of a policy; some write it without quotes.
fn name(item: &BareItem) -> Option<String> {
    match item {
        BareItem::String(name) => Some(name.as_str().to_owned()),
        BareItem::Token(name) => Some(name.as_str().to_owned()),
        _ => None,
    }
}

fn number(item: &Item, parameter: &str) -> Option<String> {
    item.params.get(parameter).and_then(written)
}

fn written(item: &BareItem) -> Option<String> {
    match item {
        BareItem::Integer(number) => Some(number.to_string()),
        BareItem::Decimal(number) => Some(number.to_string()),
        _ => None,
    }
}
