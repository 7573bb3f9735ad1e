//! `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-12): what a limit is, and what is left of it.

use std::time::Duration;

use bytes::Bytes;
use comity_core::guard::{Left, NamedLimit, retry_after};
use http::{HeaderMap, HeaderName, HeaderValue};

/// A limit's item of `RateLimit-Policy`, made once: `"each";q=20;w=2`.
#[derive(Clone, Debug)]
pub(crate) struct PolicyField {
    name: String,
    /// How its item of `RateLimit` begins: `"each";r=`.
    left: Box<[u8]>,
    value: HeaderValue,
}

impl PolicyField {
    /// The window is the time in which all that comes at once comes back, in whole seconds; the quota is what comes in such
    /// a window in the long run.
    pub(crate) fn of(named: &NamedLimit) -> Self {
        let (name, (quota, window)) = (named.name(), quota(named));
        // A name has neither quotes nor anything else a header could not hold.
        let value = HeaderValue::try_from(format!("\"{name}\";q={quota};w={window}"));
        let left = format!("\"{name}\";r=").into_bytes().into();
        Self { name: name.to_owned(), left, value: value.unwrap_or_else(|_| HeaderValue::from_static("")) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn value(&self) -> &HeaderValue {
        &self.value
    }
}

/// Adds `RateLimit-Policy`: each limit in a line of its own.
pub(crate) fn add_policies<'a>(headers: &mut HeaderMap, limits: impl Iterator<Item = &'a PolicyField>) {
    limits.for_each(|policy| add_policy(headers, policy.value.clone()));
}

/// Adds the line of one limit.
pub(crate) fn add_policy(headers: &mut HeaderMap, value: HeaderValue) {
    headers.append(RATELIMIT_POLICY, value);
}

/// Adds `RateLimit`.
pub(crate) fn add_left(headers: &mut HeaderMap, left: HeaderValue) {
    headers.append(RATELIMIT, left);
}

/// The value of `RateLimit` for these limits; `None` where there are none.
///
/// `r` is what is let in at once; `t` is how long until more comes, in whole seconds, rounded up as Retry-After is: so a
/// client that keeps to `r` within `t` is never refused, and Retry-After never ends before `t`. Less than a second cannot
/// be said, and rounding it up would hold a client far below a quick limit: then `t` stands only where nothing is left.
pub(crate) fn left<'a>(limits: impl Iterator<Item = (&'a PolicyField, &'a Left)> + Clone) -> Option<HeaderValue> {
    // Made to measure, it becomes the header's value as it is.
    let length: usize = limits.clone().map(|(policy, left)| COMMA.len() + item_length(policy, left)).sum();
    let mut field = Vec::with_capacity(length.checked_sub(COMMA.len())?);
    for (policy, left) in limits {
        if !field.is_empty() {
            field.extend_from_slice(COMMA);
        }
        field.extend_from_slice(&policy.left);
        push_number(&mut field, u64::from(left.remaining));
        if let Some(wait) = wait_said(left) {
            field.extend_from_slice(WAIT);
            push_number(&mut field, wait);
        }
    }
    HeaderValue::from_maybe_shared(Bytes::from(field)).ok()
}

fn item_length(policy: &PolicyField, left: &Left) -> usize {
    let wait = wait_said(left).map_or(0, |wait| WAIT.len() + digits(wait));
    policy.left.len() + digits(u64::from(left.remaining)) + wait
}

fn wait_said(left: &Left) -> Option<u64> {
    let wait = left.retry.unwrap_or(left.next);
    (wait >= LEAST_SAID || left.retry.is_some() || left.remaining == 0).then(|| retry_after(wait))
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// Appends a number in decimal. Every admitted answer has some: `write!` would take most of the time.
fn push_number(text: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[first..]);
}

/// How many requests in how many whole seconds.
fn quota(named: &NamedLimit) -> (u128, u128) {
    let (count, per) = named.limit().rate();
    let (count, per) = (u128::from(count), per.as_micros().max(1));
    let all_back = (u128::from(named.limit().capacity()) * per).div_ceil(count.max(1));
    let window = all_back.div_ceil(SECOND).max(1);
    ((count * window * SECOND / per).min(LARGEST), window.min(LARGEST))
}

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const COMMA: &[u8] = b", ";
const WAIT: &[u8] = b";t=";
const LEAST_SAID: Duration = Duration::from_secs(1);
/// In microseconds.
const SECOND: u128 = 1_000_000;
/// An Integer of structured fields has fifteen digits (RFC 9651 section 3.3.1).
const LARGEST: u128 = 999_999_999_999_999;
