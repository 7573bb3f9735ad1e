//! What the name of a quota field says: whose family it is of, what it counts and in which role.

use core::cmp::Ordering;

/// The name of a quota field, taken apart: `x-` `ratelimit-` `remaining` `-requests`.
#[derive(Clone, Copy, Debug)]
pub(in crate::signal) struct Name<'a> {
    whole: &'a str,
    /// What stands before `ratelimit`: empty for the standard fields, `x-`, or a vendor's prefix.
    family: &'a str,
    /// What the numbers are about where a name says so: `requests`, `minute`.
    pub(super) bucket: &'a str,
    /// What the value says.
    pub(super) role: Role,
}

/// What the value of a quota field says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The whole state, or a vendor's limit (`X-Discogs-Ratelimit: 60`).
    Whole,
    Policy,
    Limit,
    Remaining,
    Used,
    Reset,
    ResetAfter,
    Window,
    /// What is used of each window (`X-App-Rate-Limit-Count`).
    Count,
}

impl<'a> Name<'a> {
    /// Takes a header field's name apart, in any case; `None` where it speaks of no quota of requests.
    pub(in crate::signal) fn parse(name: &'a str) -> Option<Self> {
        let (family, rest) = split_at_marker(name)?;
        let rest = match rest.strip_prefix('-') {
            Some(rest) => rest,
            None if rest.is_empty() => rest,
            None => return None,
        };
        let (role, bucket) = role_and_bucket(rest)?;
        // Quotas of tokens are counted in another coin than requests.
        (!find(bucket, "token")).then_some(Self { whole: name, family, bucket, role })
    }

    /// Orders fields by their names in any case, so that the order they came in does not matter.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        let lower = |name: &'a str| name.bytes().map(|byte| byte.to_ascii_lowercase());
        lower(self.whole).cmp(lower(other.whole))
    }

    /// Whether it is of the standard's own fields, without a prefix.
    pub(super) fn is_standard(&self) -> bool {
        self.family.is_empty()
    }

    /// Whether it is `RateLimit` or `RateLimit-Policy`, which are structured fields.
    pub(super) fn is_structured(&self) -> bool {
        self.is_standard() && matches!(self.role, Role::Whole | Role::Policy)
    }

    /// Whether both describe the same quota.
    pub(super) fn same_group(&self, other: &Self) -> bool {
        self.family.eq_ignore_ascii_case(other.family)
            && self.bucket.eq_ignore_ascii_case(other.bucket)
            && self.is_structured() == other.is_structured()
    }
}

/// The name before and after `ratelimit` or `rate-limit`, which begins a word.
fn split_at_marker(name: &str) -> Option<(&str, &str)> {
    let bytes = name.as_bytes();
    (0..bytes.len()).filter(|at| *at == 0 || bytes.get(at - 1) == Some(&b'-')).find_map(|at| {
        let (family, marked) = name.split_at_checked(at)?;
        let rest = ["ratelimit", "rate-limit"].iter().find_map(|marker| strip_word(marked, marker))?;
        Some((family, rest))
    })
}

/// The role stands first (`remaining-minute`) or last (`requests-remaining`); the bucket is what else there is.
fn role_and_bucket(rest: &str) -> Option<(Role, &str)> {
    if rest.is_empty() {
        return Some((Role::Whole, ""));
    }
    ROLES.iter().find_map(|(word, role)| {
        let first = || match strip_word(rest, word)? {
            "" => Some(""),
            tail => tail.strip_prefix('-'),
        };
        let last = || {
            let (head, tail) = rest.split_at_checked(rest.len().checked_sub(word.len())?)?;
            tail.eq_ignore_ascii_case(word).then_some(head)?.strip_suffix('-')
        };
        first().or_else(last).map(|bucket| (*role, bucket))
    })
}

fn strip_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (head, tail) = text.split_at_checked(word.len())?;
    head.eq_ignore_ascii_case(word).then_some(tail)
}

fn find(text: &str, word: &str) -> bool {
    text.as_bytes().windows(word.len()).any(|window| window.eq_ignore_ascii_case(word.as_bytes()))
}

/// Longer words before those they begin with.
const ROLES: [(&str, Role); 9] = [
    ("reset-after", Role::ResetAfter),
    ("reset", Role::Reset),
    ("limit", Role::Limit),
    ("remaining", Role::Remaining),
    ("used", Role::Used),
    ("interval", Role::Window),
    ("window", Role::Window),
    ("policy", Role::Policy),
    ("count", Role::Count),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart_in_any_case_and_spelling() {
        let read = |name| Name::parse(name).map(|name| (name.family, name.bucket, name.role));
        assert_eq!(read("ratelimit"), Some(("", "", Role::Whole)));
        assert_eq!(read("RateLimit-Policy"), Some(("", "", Role::Policy)));
        assert_eq!(read("X-Rate-Limit-Limit"), Some(("X-", "", Role::Limit)));
        assert_eq!(read("x-rate-limit-interval"), Some(("x-", "", Role::Window)));
        assert_eq!(read("x-ratelimit-reset-after"), Some(("x-", "", Role::ResetAfter)));
        assert_eq!(read("x-ratelimit-reset-requests"), Some(("x-", "requests", Role::Reset)));
        assert_eq!(read("vendor-ratelimit-requests-remaining"), Some(("vendor-", "requests", Role::Remaining)));
        assert_eq!(read("x-ratelimit-limit-minute"), Some(("x-", "minute", Role::Limit)));
        assert_eq!(read("X-Discogs-Ratelimit"), Some(("X-Discogs-", "", Role::Whole)));
        assert_eq!(read("x-app-rate-limit-count"), Some(("x-app-", "", Role::Count)));
    }

    #[test]
    fn names_that_speak_of_something_else_are_left_alone() {
        for name in [
            "",
            "date",
            "x-envoy-ratelimited",
            "x-shop-api-call-limit",
            "x-ratelimit-resource",
            "x-ratelimit-bucket",
            "x-ratelimit-remaining-tokens",
            "pirate-limits",
            "xratelimit-limit",
            "x-ratelimit-é",
            "é-ratelimité",
        ] {
            assert!(Name::parse(name).is_none(), "{name}");
        }
    }
}
