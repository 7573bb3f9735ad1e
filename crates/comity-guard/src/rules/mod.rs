//! What a person set: limits by route, who is exempt, how many in flight, and how refusals are answered.

mod file;
mod keys;
mod path;
mod plan;
mod route;
mod rule;

pub use file::SettingsError;
pub use keys::KEYS;
pub use route::{Route, RouteError};
pub use rule::{Counts, Rule};

pub(crate) use plan::{Asked, Plan, Ruled};

use std::num::NonZeroU32;
use std::time::Duration;

use crate::answer::Answers;
use crate::key::KeyBy;

/// All that is set of a guard. What is not said stays as it is here: no limits, nobody exempt, no bound in flight.
///
/// ```
/// use comity_guard::{InFlight, Rule, Settings, TokenBucket};
/// use std::{num::NonZeroU32, time::Duration};
/// let each = Rule::new("each", TokenBucket::rate(10, Duration::from_secs(1), 20)?)?;
/// let settings = Settings { in_flight: InFlight::at_most(64)?, ..Settings::with([each]) };
/// assert_eq!(settings.describe()[0], "each: any method every path: each client: 20 at once, then 1 per 100 ms (10/s)");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The limits. All that are about a request hold.
    pub rules: Vec<Rule>,
    /// Requests that nothing holds back and nothing counts: health checks.
    pub exempt: Vec<Route>,
    /// How many requests are served at once.
    pub in_flight: InFlight,
    /// Who may wait for a place in flight: unless said, nobody at a fixed number; where the number is learned, up to 1,024
    /// requests for a tenth of a second.
    pub queue: Option<Queue>,
    /// Whom a request counts as.
    pub key: KeyBy,
    /// How refusals are answered.
    pub answers: Answers,
    /// Nothing is refused: what would have been is counted, and said to the service inside.
    pub dry_run: bool,
    /// What holds while a shared store is out of reach.
    pub on_store_failure: OnStoreFailure,
}

/// How many requests are served at once (G3), over all clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InFlight {
    /// As many as come.
    #[default]
    Unbounded,
    /// At most so many.
    AtMost(NonZeroU32),
    /// As many as the latency of answers shows the server to bear.
    Auto,
}

/// Who may wait for a place in flight instead of being shed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// So many requests.
    pub most: u32,
    /// No longer than this.
    pub longest: Duration,
}

/// What holds while a shared store is out of reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStoreFailure {
    /// What the store lets this process do alone: its part of each limit, never more.
    #[default]
    Local,
    /// Whatever comes is let in, and counted: the limits do not hold meanwhile.
    Admit,
}

impl Settings {
    /// These limits and nothing else.
    pub fn with(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self { rules: rules.into_iter().collect(), ..Self::default() }
    }

    /// Reads `guard.toml`. [`KEYS`] lists what may stand there.
    ///
    /// ```
    /// let settings = comity_guard::Settings::parse(
    ///     r#"
    ///     max_in_flight = 64
    ///     exempt = ["/healthz"]
    ///     [[limit]]
    ///     name = "each"
    ///     rate = "10/s"
    ///     burst = 20
    ///     [[limit]]
    ///     name = "login"
    ///     path = "/login"
    ///     methods = ["POST"]
    ///     rate = "5/min"
    ///     mode = "delay"
    ///     "#,
    /// )?;
    /// assert_eq!(settings.rules.len(), 2);
    /// # Ok::<(), comity_guard::SettingsError>(())
    /// ```
    ///
    /// # Errors
    /// Names the key, its value and what is allowed.
    pub fn parse(text: &str) -> Result<Self, SettingsError> {
        file::parse(text)
    }

    /// What holds, in words: a line a rule, then the rest.
    pub fn describe(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.rules.iter().map(ToString::to_string).collect();
        lines.extend(self.exempt.iter().map(|route| format!("exempt from all of it: {route}")));
        lines.push(match self.in_flight {
            InFlight::Unbounded => "in flight: as many as come".to_owned(),
            InFlight::AtMost(most) => format!("in flight: at most {most}, {}", self.queue_words()),
            InFlight::Auto => format!("in flight: as many as answers stay quick with, {}", self.queue_words()),
        });
        if self.dry_run {
            lines.push("dry run: nothing is refused, only counted".to_owned());
        }
        lines
    }
}

impl Settings {
    fn queue_words(&self) -> String {
        match (self.queue, self.in_flight) {
            (Some(Queue { most: 0, .. }), _) | (None, InFlight::AtMost(_)) => "the rest is shed at once".to_owned(),
            (Some(Queue { most, longest }), _) => {
                format!("{most} more wait for up to {longest:?}, the rest is shed at once")
            }
            (None, _) => "the rest waits for a moment, or is shed at once".to_owned(),
        }
    }
}

impl InFlight {
    /// At most so many.
    ///
    /// # Errors
    /// When that is not above zero (G5).
    pub fn at_most(most: i64) -> Result<Self, comity_core::guard::ParameterError> {
        let gate = comity_core::guard::Gate::new(most)?;
        Ok(NonZeroU32::new(gate.most()).map_or(Self::Unbounded, Self::AtMost))
    }
}

/// Who waits longer for a place alone has mostly gone away.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_millis(500);
