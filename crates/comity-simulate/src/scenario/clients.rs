//! Who asks.

use core::num::NonZeroU32;
use core::time::Duration;

use comity_core::limits::{Limits, read_span};
use comity_core::policy::{AdaptiveSettings, AimdSettings, Policy};
use serde::Deserialize;

use super::span;
use crate::baselines::Settings;

/// The clients: `[clients]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Clients {
    /// How many there are. 1 where it is left out.
    pub count: NonZeroU32,
    /// Whether they share one store, and so keep one pace together; only our own policies can. True where it is left out.
    pub coordinated: bool,
    /// How many URLs each client has of each host; without end where it is left out.
    pub urls: Option<u64>,
    /// How many requests each client has in flight over all hosts: a crawler's workers. As many as it likes where it is left
    /// out.
    pub in_flight_total: Option<NonZeroU32>,
    /// What the limits of our own policies are where nothing else is said: `"api"` (no floor, start 250 ms, 64 in flight) or
    /// `"crawl"` (floor 500 ms, start 1 s, 1 in flight). `"api"` where it is left out.
    pub profile: Profile,
    /// Requests that our own policies have in flight at a host at most, instead of the profile's.
    pub in_flight: Option<NonZeroU32>,
    /// The least interval of our own policies, instead of the profile's.
    #[serde(deserialize_with = "span::read_some")]
    pub floor: Option<Duration>,
    /// The first interval of our own policies, instead of the profile's.
    #[serde(deserialize_with = "span::read_some")]
    pub start: Option<Duration>,
    /// Whether our own policies watch all hosts together, so that a saturated way out of ours is not blamed on them (A10); false
    /// is for comparison. True where it is left out.
    pub uplink_guard: bool,
    /// How often our own policies try a refused request again. 5 where it is left out.
    pub retries: u32,
    /// After so long a client takes it that no answer comes. 30 s where it is left out.
    #[serde(deserialize_with = "span::read")]
    pub attempt_timeout: Duration,
}

/// What kind of visitor the clients are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// A client of an API.
    #[default]
    Api,
    /// A crawler.
    Crawl,
}

impl Default for Clients {
    fn default() -> Self {
        Self {
            count: NonZeroU32::MIN,
            coordinated: true,
            urls: None,
            in_flight_total: None,
            profile: Profile::Api,
            in_flight: None,
            floor: None,
            start: None,
            uplink_guard: true,
            retries: RETRIES,
            attempt_timeout: ATTEMPT_TIMEOUT,
        }
    }
}

impl Clients {
    /// The limits of one of our own policies; `None` where the name is none of theirs. `interval 100ms` is an interval that a
    /// person set, to the digit, with nothing learned.
    pub fn limits(&self, policy: &str) -> Option<Limits> {
        let (floor, start, in_flight, retry_after_limit) = match self.profile {
            Profile::Api => (Duration::ZERO, API_START, API_IN_FLIGHT, API_RETRY_AFTER_LIMIT),
            Profile::Crawl => (CRAWL_FLOOR, CRAWL_START, NonZeroU32::MIN, CRAWL_RETRY_AFTER_LIMIT),
        };
        let floor = self.floor.unwrap_or(floor);
        let start = self.start.unwrap_or(start).max(floor);
        let mut interval = Duration::ZERO;
        let policy = match policy {
            "adaptive" => Policy::Adaptive(AdaptiveSettings { start, floor, ..AdaptiveSettings::default() }),
            "aimd" => Policy::Aimd(AimdSettings { start, floor, ..AimdSettings::default() }),
            "pressure" => Policy::pressure(),
            "refusal" => Policy::Refusal { floor },
            other => {
                interval = read_span(other.strip_prefix("interval ")?)?;
                Policy::Fixed
            }
        };
        Some(Limits {
            interval,
            in_flight: Some(self.in_flight.unwrap_or(in_flight)),
            policy,
            retry_after_limit,
            retries: self.retries,
            ..Limits::none()
        })
    }

    /// The name and the settings of a baseline: `curl 100ms` is `curl` told an interval of 100 ms.
    pub(crate) fn baseline<'a>(&self, policy: &'a str) -> (&'a str, Settings) {
        let mut settings = Settings::default();
        if let Some(in_flight) = self.in_flight {
            settings.in_flight = in_flight.get();
        } else if self.profile == Profile::Crawl {
            settings.in_flight = 1;
        }
        match policy.split_once(' ').map(|(name, interval)| (name, read_span(interval))) {
            Some((name, Some(interval))) => (name, Settings { interval, ..settings }),
            _ => (policy, settings),
        }
    }
}

/// Our own policies, by their names in a scenario; `interval 100ms` is one too.
pub const OWN_POLICIES: [&str; 4] = ["adaptive", "aimd", "pressure", "refusal"];

const RETRIES: u32 = 5;
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);
const API_START: Duration = Duration::from_millis(250);
const API_IN_FLIGHT: NonZeroU32 = NonZeroU32::new(64).unwrap();
const API_RETRY_AFTER_LIMIT: Duration = Duration::from_secs(300);
const CRAWL_FLOOR: Duration = Duration::from_millis(500);
const CRAWL_START: Duration = Duration::from_secs(1);
const CRAWL_RETRY_AFTER_LIMIT: Duration = Duration::from_secs(3600);
