//! How the answers of one host are to be read.

use core::time::Duration;

/// How the answers of one host are read, where it differs from the standards. The default is to follow them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Statuses that refuse, beside 429, 503 and 405 with a valid Retry-After (behaviour T6): 403, 420, 430 …
    pub refuse_also: Vec<u16>,
    /// Statuses that never refuse, whatever else says so; only [`Reading::refuse_when`] is stronger.
    pub never_refuse: Vec<u16>,
    /// Answers that refuse because of one of their header fields.
    pub refuse_when: Vec<HeaderMatch>,
    /// Header fields beside Retry-After that say how long a refused client is to wait, such as `X-Retry-In`: a number
    /// of seconds, a span with units (`105.7ms`, `1m30s`) or a time. Asked in this order where Retry-After gives no
    /// advice; the first that is valid wins.
    pub reset_headers: Vec<String>,
    /// `X-App-Rate-Limit: 20:1,100:120` declares windows: 20 requests in 1 s and 100 in 120 s. `X-App-Rate-Limit-Count`
    /// says in the same form how many are used.
    pub riot: bool,
    /// The wait of a refusal that comes without advice. How it grows on repetition is the policy's business.
    pub min_refusal_wait: Option<Duration>,
}

/// What makes an answer a refusal by one of its header fields: status 200 with `MediaWiki-API-Error: maxlag`, say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderMatch {
    /// The status the answer must have; any where `None`.
    pub status: Option<u16>,
    /// The header field's name, in any case.
    pub header: String,
    /// What its value must contain, in any case; where `None` it is enough that the field is there.
    pub contains: Option<String>,
}

impl core::fmt::Display for Reading {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut parts = Vec::new();
        if !self.refuse_also.is_empty() {
            parts.push(format!("{:?} refuse too", self.refuse_also));
        }
        if !self.never_refuse.is_empty() {
            parts.push(format!("{:?} never refuse", self.never_refuse));
        }
        for rule in &self.refuse_when {
            parts.push(format!(
                "refused when {} has {:?}",
                rule.header,
                rule.contains.as_deref().unwrap_or("any value")
            ));
        }
        if !self.reset_headers.is_empty() {
            parts.push(format!("waits also from {}", self.reset_headers.join(", ")));
        }
        if self.riot {
            parts.push("windows of X-App-Rate-Limit".to_owned());
        }
        if let Some(least) = self.min_refusal_wait {
            parts.push(format!("a refusal without advice pauses for {least:?} and longer"));
        }
        f.write_str(&parts.join("; "))
    }
}

impl HeaderMatch {
    /// Whether an answer with this status and these header fields is meant.
    pub(super) fn matches<'a>(&self, status: u16, mut headers: impl Iterator<Item = (&'a str, &'a [u8])>) -> bool {
        self.status.is_none_or(|wanted| wanted == status)
            && headers.any(|(name, value)| {
                name.eq_ignore_ascii_case(&self.header)
                    && self.contains.as_ref().is_none_or(|part| contains(value, part.as_bytes()))
            })
    }
}

fn contains(value: &[u8], part: &[u8]) -> bool {
    part.is_empty() || value.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_asks_for_status_name_and_part_of_the_value() {
        let rule = |status, contains: Option<&str>| HeaderMatch {
            status,
            header: "MediaWiki-API-Error".into(),
            contains: contains.map(Into::into),
        };
        let headers = || [("age", &b"1"[..]), ("mediawiki-api-error", b"MaxLag")].into_iter();
        assert!(rule(Some(200), Some("maxlag")).matches(200, headers()));
        assert!(rule(None, None).matches(500, headers()));
        assert!(rule(None, Some("")).matches(500, headers()));
        assert!(!rule(Some(200), Some("maxlag")).matches(201, headers()));
        assert!(!rule(Some(200), Some("badtoken")).matches(200, headers()));
        assert!(!rule(None, None).matches(200, headers().take(1)));
    }
}
