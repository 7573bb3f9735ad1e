//! When a request may start.
//!
//! Four clocks a scope, never merged, because a merged one swallows real refusals (decision 5): the spacing a person set,
//! the pace that was learned or declared, the pause a server named, and the places in flight; beside them true windows
//! and quotas. [`all`] asks every clock of every scope, and charges them only when all agree.

pub mod all;
mod cell;
mod gcra;
mod pause;
mod quota;
mod route;
mod said;
mod share;
mod snapshot;
mod window;

pub use cell::{Cell, MEMORY, Tally};
pub use gcra::{Gcra, credit, late_by};
pub use pause::{Pause, Restart};
pub use quota::AdvertisedQuota;
pub use route::{Member, Part, Route, ScopeId};
pub use said::{Limits, Partial, Source, read_rate, read_span};
pub use share::Share;
pub use snapshot::{SNAPSHOT_BYTES, Snapshot, Unreadable};
pub use window::{Window, WindowError, Windows};

use core::time::Duration;

use crate::time::Instant;

/// A request may not start yet: until when, and because of what.
///
/// The instant is exact: not admitted before it, and admitted at it if nothing else happens until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// When to ask again; [`Instant::FAR`] where only an event (a freed place) can help.
    pub until: Instant,
    /// The scope that holds the request back.
    pub scope: ScopeId,
    /// Which of its limits.
    pub because: Because,
}

/// Which limit of a scope holds a request back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// The spacing a person, a preset or the profile set.
    Interval(Duration),
    /// The pace the policy learned.
    Pace(Duration),
    /// The Crawl-delay of the host's robots.txt.
    CrawlDelay(Duration),
    /// An advertised quota that is running out, spread over its window, or used up.
    Quota {
        /// Requests left.
        remaining: u64,
    },
    /// The server asked us to stay away (Retry-After), or refused without saying for how long.
    Pause,
    /// One request tries whether a pause is really over; the others wait for its answer (T7).
    AfterPause,
    /// So many requests are in flight, and that is the limit.
    InFlight(u32),
    /// So many requests are in flight, and more would only wait at the host: learned from its latency.
    Concurrency(u32),
    /// So many requests are in flight to all hosts together, and more would only wait on our own way out (A10).
    Uplink(u32),
    /// A window (`100:120`: a hundred in any 120 s) is full.
    Window(Window),
    /// Others of this scope wait already and go first (T4).
    Order,
    /// The table of hosts is full of hosts that still matter.
    TableFull,
    /// The store that is shared is out of reach, and nothing starts without it (decision 7).
    StoreLost,
}

impl Because {
    /// Whether a place that comes free may end the wait.
    pub fn is_for_a_place(&self) -> bool {
        matches!(self, Self::InFlight(_) | Self::Concurrency(_) | Self::Uplink(_))
    }
}

impl core::fmt::Display for Because {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Interval(span) => write!(f, "interval {span:?}"),
            Self::Pace(span) => write!(f, "learned pace {span:?}"),
            Self::CrawlDelay(span) => write!(f, "Crawl-delay {span:?}"),
            Self::Quota { remaining: 0 } => f.write_str("advertised quota used up"),
            Self::Quota { remaining } => write!(f, "advertised quota running out, {remaining} left"),
            Self::Pause => f.write_str("paused by the server"),
            Self::AfterPause => f.write_str("one request tries whether the pause is over"),
            Self::InFlight(limit) => write!(f, "{limit} in flight"),
            Self::Concurrency(limit) => write!(f, "learned concurrency {limit}"),
            Self::Uplink(limit) => write!(f, "{limit} in flight, our own uplink is slow"),
            Self::Window(window) => write!(f, "window {window}"),
            Self::Order => f.write_str("others wait longer"),
            Self::TableFull => f.write_str("table of hosts full"),
            Self::StoreLost => f.write_str("the shared store is out of reach"),
        }
    }
}
