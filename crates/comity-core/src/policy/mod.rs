//! Policies: what was taught in, one pace out.
//!
//! The seam is tiny: [`Learned::started`] and [`Learned::taught`] bring the facts, [`Learned::interval`] is the pace and
//! [`Learned::in_flight`] the concurrency.
//! Bounds are not a policy's business: what a person set, a Crawl-delay and a pause hold above it (A7).

mod adaptive;
mod aimd;
pub(crate) mod bytes;
mod kept;
mod pressure;
mod refusal;
mod said;

pub use adaptive::{Adaptive, AdaptiveSettings};
pub use aimd::{Aimd, AimdSettings};
pub use kept::LEARNED_BYTES;
pub use pressure::Pressure;
pub use refusal::Refused;
pub use said::{Rate, Said, Why};

use core::time::Duration;

use crate::signal::{Inferred, NoAnswer, Signal};
use crate::time::Instant;

/// Which policy learns a scope's pace, with its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum Policy {
    /// Nothing is learned and nothing is spaced beyond what a person set.
    Off,
    /// What a person set, and nothing else: responses never change it (P10).
    Fixed,
    /// Browser-style pressure (P), with its burst.
    Pressure {
        /// Starts that are free after a rest (P5).
        burst: u32,
    },
    /// Additive increase, multiplicative decrease (A).
    Aimd(AimdSettings),
    /// Refusals teach the rate, latency teaches the concurrency, and both are remembered.
    Adaptive(AdaptiveSettings),
    /// Refusals alone teach (T7–T9).
    Refusal {
        /// The interval that holds anyhow: what is learned begins there, and comes back to it.
        floor: Duration,
    },
}

/// What a policy has learned of one scope.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Learned {
    /// The policy learns nothing.
    #[default]
    Nothing,
    /// See [`Pressure`].
    Pressure(Pressure),
    /// See [`Aimd`].
    Aimd(Aimd),
    /// See [`Refused`].
    Refused(Refused),
    /// See [`Adaptive`].
    Adaptive(Adaptive),
}

/// One exchange, as a policy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fact {
    /// When the request started.
    pub started: Instant,
    /// How it went.
    pub outcome: Outcome,
    /// Time from start to first byte, of a served answer.
    pub latency: Option<Duration>,
}

/// How an exchange went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Served.
    Served,
    /// A client error, or our own uplink's: says nothing about load (A10, A11).
    Neutral,
    /// Refused.
    Refused {
        /// For how long the server wants to be left alone, where it said so.
        advice: Option<Duration>,
    },
    /// A server error that is no refusal.
    ServerError,
    /// No answer.
    NoAnswer,
}

impl Outcome {
    /// As an answer, or that none came, tells it.
    pub fn of(signal: &Signal) -> Self {
        if let Some(refusal) = &signal.authoritative.refusal {
            return Self::Refused { advice: refusal.wait };
        }
        match signal.inferred {
            Inferred::Healthy => Self::Served,
            Inferred::Neutral => Self::Neutral,
            Inferred::ServerError => Self::ServerError,
            Inferred::NoAnswer(NoAnswer::Uplink) => Self::Neutral,
            Inferred::NoAnswer(_) => Self::NoAnswer,
        }
    }
}

/// What a fact did to the pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    None,
    /// Starts come farther apart.
    Slower,
    /// Starts come closer: those that wait may go sooner than they were told.
    Faster,
}

/// A value so long after it was learned: half of what it differs from that of a new scope is forgotten each day.
fn aged(value: u64, fresh: u64, idle: Duration) -> u64 {
    let days = u32::try_from(idle.as_secs() / DAY).unwrap_or(u32::MAX);
    // Straight between the days: at most 1/2 of the rest at the end of each.
    let rest = u128::from(idle.as_secs() % DAY);
    let part = |distance: u64| {
        let halved = u128::from(distance.checked_shr(days).unwrap_or(0));
        u64::try_from(halved - halved * rest / u128::from(2 * DAY)).unwrap_or(distance)
    };
    if value >= fresh { fresh.saturating_add(part(value - fresh)) } else { fresh - part(fresh - value) }
}

/// Younger than this, nothing is forgotten.
const YOUNG: Duration = Duration::from_secs(3600);
/// Seconds.
const DAY: u64 = 86_400;

impl Policy {
    /// The refusal policy without a floor.
    pub const fn refusal() -> Self {
        Self::Refusal { floor: Duration::ZERO }
    }

    /// The pressure policy with its usual burst of 10.
    pub const fn pressure() -> Self {
        Self::Pressure { burst: 10 }
    }

    /// This policy begun at, and never faster than, an interval that a person or a service set.
    #[must_use]
    pub fn bounded_by(&self, interval: Duration) -> Self {
        match self {
            Self::Aimd(settings) => Self::Aimd(settings.bounded_by(interval)),
            Self::Adaptive(settings) => Self::Adaptive(settings.bounded_by(interval)),
            Self::Refusal { .. } => Self::Refusal { floor: interval },
            other => other.clone(),
        }
    }

    /// The interval it never goes under (A8), whoever learned what it goes by.
    pub fn floor(&self) -> Duration {
        match self {
            Self::Aimd(settings) => settings.floor,
            Self::Adaptive(settings) => settings.floor,
            _ => Duration::ZERO,
        }
    }

    /// Its name, as in the configuration.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Fixed => "fixed",
            Self::Pressure { .. } => "pressure",
            Self::Aimd(_) => "aimd",
            Self::Adaptive(_) => "adaptive",
            Self::Refusal { .. } => "refusal",
        }
    }

    /// What is known of a scope nobody has asked yet.
    pub fn fresh(&self) -> Learned {
        match self {
            Self::Off | Self::Fixed => Learned::Nothing,
            Self::Pressure { .. } => Learned::Pressure(Pressure::default()),
            Self::Aimd(settings) => Learned::Aimd(Aimd::new(settings)),
            Self::Adaptive(settings) => Learned::Adaptive(Adaptive::new(settings)),
            Self::Refusal { .. } => Learned::Refused(Refused::default()),
        }
    }

    /// How far a start may run ahead of its theoretical arrival time (P5).
    pub fn tolerance(&self) -> Duration {
        match self {
            Self::Pressure { burst } => Pressure::tolerance(*burst),
            _ => Duration::ZERO,
        }
    }
}

impl Learned {
    /// The pace: least time between two starts.
    pub fn interval(&self) -> Duration {
        match self {
            Self::Nothing => Duration::ZERO,
            Self::Pressure(pressure) => pressure.spacing(),
            Self::Aimd(aimd) => aimd.interval(),
            Self::Refused(refused) => refused.interval(),
            Self::Adaptive(adaptive) => adaptive.interval(),
        }
    }

    /// The concurrency: requests in flight at most; `None` where the policy has no say.
    pub fn in_flight(&self) -> Option<u32> {
        match self {
            Self::Adaptive(adaptive) => Some(adaptive.in_flight()),
            _ => None,
        }
    }

    /// What the policy has to say for itself; `None` where it has no more to say than its interval.
    pub fn said(&self, now: Instant) -> Option<Said> {
        match self {
            Self::Adaptive(adaptive) => Some(adaptive.said(now)),
            _ => None,
        }
    }

    /// The slow-moving floor of the latency, where the policy watches it (A5).
    pub fn latency_floor(&self) -> Option<Duration> {
        match self {
            Self::Aimd(aimd) => aimd.latency_floor(),
            Self::Adaptive(adaptive) => adaptive.latency_floor(),
            _ => None,
        }
    }

    /// What holds requests back as much as both do: the one with the longer interval, with no more places than the other
    /// learned. Of two kinds it is the first.
    #[must_use]
    pub(crate) fn stricter(&self, other: &Self) -> Self {
        if core::mem::discriminant(self) != core::mem::discriminant(other) {
            return *self;
        }
        let (stricter, looser) = if other.interval() > self.interval() { (other, self) } else { (self, other) };
        match (stricter, looser) {
            (Self::Adaptive(stricter), Self::Adaptive(looser)) => {
                Self::Adaptive(stricter.with_no_more_places_than(looser))
            }
            _ => *stricter,
        }
    }

    /// A request starts that came to the head of its queue at `asked`.
    pub fn started(&mut self, asked: Instant) {
        if let Self::Pressure(pressure) = self {
            pressure.started(asked);
        }
    }

    /// An exchange ended.
    pub fn taught(&mut self, now: Instant, fact: &Fact, policy: &Policy) -> Change {
        match (self, policy) {
            (Self::Pressure(pressure), _) => pressure.taught(now, fact),
            (Self::Aimd(aimd), Policy::Aimd(settings)) => aimd.taught(now, fact, settings),
            (Self::Refused(refused), Policy::Refusal { floor }) => refused.taught(now, fact, *floor),
            (Self::Adaptive(adaptive), Policy::Adaptive(settings)) => adaptive.taught(now, fact, settings),
            _ => Change::None,
        }
    }

    /// What is left of it so long after the scope's last start: half of what it differs from a new scope is forgotten each
    /// day, nothing in the first hour. A host is slower or faster today than it was last week, and a first refusal or a few
    /// served answers tell.
    #[must_use]
    pub fn aged(&self, idle: Duration, policy: &Policy) -> Self {
        if idle < YOUNG {
            return *self;
        }
        match (self, policy) {
            (Self::Aimd(aimd), Policy::Aimd(settings)) => Self::Aimd(aimd.aged(idle, settings)),
            (Self::Refused(refused), Policy::Refusal { floor }) => Self::Refused(refused.aged(idle, *floor)),
            (Self::Adaptive(adaptive), Policy::Adaptive(settings)) => Self::Adaptive(adaptive.aged(idle, settings)),
            // Pressure drains by itself.
            _ => *self,
        }
    }

    /// The same, moved inside the bounds of a policy of the same kind with other settings.
    #[must_use]
    pub fn within(&self, policy: &Policy) -> Self {
        match (self, policy) {
            (Self::Aimd(aimd), Policy::Aimd(settings)) => Self::Aimd(aimd.within(settings)),
            (Self::Adaptive(adaptive), Policy::Adaptive(settings)) => Self::Adaptive(adaptive.within(settings)),
            _ => *self,
        }
    }

    /// Whether it is indistinguishable from [`Policy::fresh`].
    pub fn is_fresh(&self, now: Instant, policy: &Policy) -> bool {
        match (self, policy) {
            (Self::Nothing, _) => true,
            (Self::Pressure(pressure), _) => pressure.is_fresh(now),
            (Self::Aimd(aimd), Policy::Aimd(settings)) => aimd.is_fresh(settings),
            (Self::Refused(refused), _) => refused.interval().is_zero(),
            (Self::Adaptive(adaptive), Policy::Adaptive(settings)) => adaptive.is_fresh(settings),
            _ => false,
        }
    }
}
