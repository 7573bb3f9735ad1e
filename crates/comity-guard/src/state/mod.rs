//! What a guard decides and remembers, behind one handle that all its layers share.

mod admit;
mod counted;
mod decision;
mod door;
mod live;
mod places;

pub use counted::Counted;
pub use decision::{Decision, Outcome, WouldRefuse};

pub(crate) use admit::{Admitted, Begun, Refusal};
pub(crate) use door::Place;
pub(crate) use live::{Known, Live};

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use comity_core::time::Instant;
use comity_store::ReadClock;
use comity_store::guard::{BucketTable, BucketTableSettings, Buckets};

use self::counted::Tally;
use self::decision::Watch;
use self::door::Door;
use self::live::InForce;
use crate::clock;
use crate::layer::GuardLayer;
use crate::rules::{Settings, SettingsError};

/// A guard: its limits, and what each client has left of them. Clones, layers and services made from it share all of it:
/// a thousand of them hold one limit.
///
/// ```
/// use comity_guard::{Guard, Rule, Settings, TokenBucket};
/// use std::time::Duration;
/// let each = Rule::new("each", TokenBucket::rate(10, Duration::from_secs(1), 20)?)?;
/// let guard = Guard::new(Settings::with([each]))?;
/// let layer = guard.layer();
/// # drop(layer);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Guard(Arc<Inner>);

struct Inner {
    in_force: InForce,
    door: Door,
    buckets: Kept,
    clock: ReadClock,
    tally: Tally,
    watch: Watch,
}

/// Where the buckets are kept. This process's own table is asked without a detour.
enum Kept {
    Here(BucketTable),
    There(Arc<dyn Buckets>),
}

impl Guard {
    /// A guard that remembers in this process's memory, in a bounded table of a million buckets (G8).
    ///
    /// # Errors
    /// Two rules have one name, or more than eight could hold for one request.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        Self::in_memory(settings, BucketTableSettings::default())
    }

    /// The same in a table of another size.
    ///
    /// # Errors
    /// As [`Guard::new`].
    pub fn in_memory(settings: Settings, table: BucketTableSettings) -> Result<Self, SettingsError> {
        let seed = RandomState::new().hash_one(0u64);
        Self::keeping(settings, Kept::Here(BucketTable::new(table, seed, clock::of_this_process())))
    }

    /// A guard whose buckets are kept in a store that others may share.
    ///
    /// # Errors
    /// As [`Guard::new`].
    pub fn over(settings: Settings, buckets: Arc<dyn Buckets>) -> Result<Self, SettingsError> {
        Self::keeping(settings, Kept::There(buckets))
    }

    fn keeping(settings: Settings, buckets: Kept) -> Result<Self, SettingsError> {
        settings.check()?;
        let clock = buckets.as_dyn().clock();
        Ok(Self(Arc::new(Inner {
            door: Door::of(&settings, clock())?,
            in_force: InForce::new(Live::of(settings, None)),
            buckets,
            clock,
            tally: Tally::default(),
            watch: Watch::default(),
        })))
    }

    /// What to wrap a service in.
    pub fn layer(&self) -> GuardLayer {
        GuardLayer::new(self.clone())
    }

    /// Other settings from now on. Rules whose name is still there go on with what their clients have left; requests in
    /// flight stay counted.
    ///
    /// # Errors
    /// As [`Guard::new`]; the settings before stay in force.
    pub fn reload(&self, settings: Settings) -> Result<(), SettingsError> {
        settings.check()?;
        let now = self.now();
        let before = self.live();
        let in_flight_changed =
            (before.settings.in_flight, before.settings.queue) != (settings.in_flight, settings.queue);
        if in_flight_changed {
            self.0.door.set(&settings, now)?;
            self.0.door.hand_out(self);
        }
        self.0.in_force.replace(|before| Live::of(settings, Some(before)));
        Ok(())
    }

    /// Calls a closure for each decision, on the thread that decides: it must not block. Set once; a second call changes
    /// nothing and returns false. Refusals are `tracing` events at debug level as well, of target `comity_guard`.
    pub fn on_decision(&self, watch: impl Fn(&Decision<'_>) + Send + Sync + 'static) -> bool {
        self.0.watch.set(watch)
    }

    /// What was decided until now, and how it stands.
    pub fn counted(&self) -> Counted {
        let (live, door, buckets) = (self.live(), self.0.door.stands(), self.0.buckets.as_dyn().counts());
        self.0.tally.read(&live, &door, &buckets)
    }

    /// The settings in force, in words.
    pub fn describe(&self) -> Vec<String> {
        self.live().settings.describe()
    }

    /// The settings in force, for a service to keep.
    pub(crate) fn known(&self) -> Known {
        self.0.in_force.known()
    }

    /// What a service keeps, brought up to date.
    #[inline]
    pub(crate) fn latest<'k>(&self, known: &'k mut Known) -> &'k Arc<Live> {
        known.latest(&self.0.in_force)
    }

    fn live(&self) -> Arc<Live> {
        self.0.in_force.get()
    }

    #[inline]
    fn now(&self) -> Instant {
        (self.0.clock)()
    }
}

impl Kept {
    fn as_dyn(&self) -> &dyn Buckets {
        match self {
            Self::Here(table) => table,
            Self::There(buckets) => &**buckets,
        }
    }

    /// Whether a store that others share is out of reach.
    fn is_lost(&self) -> bool {
        matches!(self, Self::There(buckets) if buckets.standing().lost.is_some())
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("rules", &self.live().settings.rules.len()).finish_non_exhaustive()
    }
}
