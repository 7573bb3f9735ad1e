//! Profiles: what holds where nobody says anything.

use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use comity_core::limits::{Limits, Source};
use comity_core::policy::{AdaptiveSettings, Policy};

/// What kind of visitor this program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// A crawler: robots.txt is obeyed, one request in flight a host, the `adaptive` policy from 1 s on with a floor of
    /// 0.5 s.
    Crawl,
    /// A client of an API: no robots.txt, 64 in flight a host at most, the `adaptive` policy from 250 ms on without a floor.
    Api,
    /// A browser: only top-level navigations are paced, by pressure (P1–P12).
    Browse,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Crawl, Self::Api, Self::Browse];

    /// Its name, as in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crawl => "crawl",
            Self::Api => "api",
            Self::Browse => "browse",
        }
    }

    /// Whether robots.txt is asked for and obeyed.
    pub const fn obeys_robots(self) -> bool {
        matches!(self, Self::Crawl)
    }

    /// Whether only top-level navigations are paced (P2).
    pub const fn navigations_only(self) -> bool {
        matches!(self, Self::Browse)
    }

    /// Whether IP literals with different ports are different hosts (P1: not for a browser).
    pub const fn ports_matter_for_addresses(self) -> bool {
        !matches!(self, Self::Browse)
    }

    /// A host's limits.
    pub fn limits(self) -> Limits {
        let (in_flight, policy, retry_after_limit) = match self {
            Self::Crawl => (NonZeroU32::new(1), Policy::Adaptive(CRAWL), Duration::from_secs(3600)),
            Self::Api => (NonZeroU32::new(64), Policy::Adaptive(API), Duration::from_secs(300)),
            Self::Browse => (None, Policy::pressure(), Duration::from_secs(60)),
        };
        let source = Source::Profile(self.name());
        let fields = ["interval", "in_flight", "policy", "retry_after_limit", "retries"];
        Limits {
            in_flight,
            policy,
            retry_after_limit,
            sources: fields.into_iter().map(|field| (field, source.clone())).collect(),
            ..Limits::none()
        }
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|profile| profile.name() == text)
            .ok_or_else(|| format!("`{text}` is no profile: allowed are crawl, api and browse"))
    }
}

/// Nobody asked a crawler to come: it begins slowly, and is never quick.
const CRAWL: AdaptiveSettings = AdaptiveSettings {
    start: Duration::from_secs(1),
    floor: Duration::from_millis(500),
    ceiling: Duration::from_secs(60),
};
/// A service expects its clients, and its limits are often far above what a page's server is asked.
const API: AdaptiveSettings =
    AdaptiveSettings { start: Duration::from_millis(250), floor: Duration::ZERO, ceiling: Duration::from_secs(60) };
