//! The state of one scope: its limits and the clocks that keep them.

use alloc::sync::Arc;
use core::time::Duration;

use super::all::Claim;
use super::gcra::{DENSE, Gcra};
use super::pause::Pause;
use super::quota::AdvertisedQuota;
use super::route::Part;
use super::said::Limits;
use super::share::Share;
use super::snapshot::Snapshot;
use super::window::Windows;
use super::{Because, late_by};
use crate::policy::{Change, Fact, Learned, Outcome};
use crate::signal::{Inferred, Refusal, Signal};
use crate::time::{Instant, nanos};

/// The state of one scope.
#[derive(Clone, Debug)]
pub struct Cell {
    limits: Arc<Limits>,
    /// What a person set.
    spacing: Gcra,
    /// What was learned or declared; counted from the last start, whoever's limits it had (T5).
    pace: Gcra,
    last_start: Instant,
    pause: Pause,
    crawl_delay: u64,
    in_flight: u32,
    /// Requests in flight under limits that a caller brought: they take none of the places that a person set, but count
    /// towards a concurrency that was learned, and keep the scope in the table.
    guests: u32,
    learned: Learned,
    windows: Option<Box<Windows>>,
    quota: Option<Box<AdvertisedQuota>>,
    tally: Option<Box<Tally>>,
}

/// What was counted of a scope, where there was anything but served answers (field case H16).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Refusals that said for how long.
    pub refusals_with_advice: u32,
    /// Refusals that did not.
    pub refusals_without_advice: u32,
    /// Requests that gave up because they were asked to wait too long.
    pub give_ups: u32,
    /// Requests that got no answer: the strongest inferred signal (A3).
    pub no_answers: u32,
    /// Server errors that were no refusals.
    pub server_errors: u32,
    /// The last refusal's status.
    pub last_refusal: Option<u16>,
    /// The last wait a refusal asked for.
    pub last_wait: Option<Duration>,
    /// When it came.
    pub last_refused: Instant,
}

/// What an answer did to a scope, for those that wait on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Effect {
    /// Those that wait may go sooner than they were told.
    pub(super) sooner: bool,
    /// A place came free.
    pub(super) freed: bool,
}

/// What a start cost a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Charged {
    /// It is the trial after a pause.
    pub(super) trial: bool,
    /// How late it may be used; `None` where no spacing holds.
    pub(super) late_by: Option<Duration>,
}

impl Cell {
    /// A scope nobody has asked yet.
    pub fn new(limits: Arc<Limits>) -> Self {
        Self {
            learned: limits.policy.fresh(),
            limits,
            spacing: Gcra::default(),
            pace: Gcra::default(),
            last_start: Instant::ZERO,
            pause: Pause::default(),
            crawl_delay: 0,
            in_flight: 0,
            guests: 0,
            windows: None,
            quota: None,
            tally: None,
        }
    }

    /// The limits that hold.
    pub fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    /// Other limits from now on. What was learned stays where the policy is the same kind.
    pub fn set_limits(&mut self, limits: Arc<Limits>) {
        self.learned = if core::mem::discriminant(&limits.policy) == core::mem::discriminant(&self.limits.policy) {
            self.learned.within(&limits.policy)
        } else {
            limits.policy.fresh()
        };
        self.limits = limits;
    }

    /// The Crawl-delay its robots.txt declares (authoritative: a floor under every pace); zero where there is none.
    pub fn set_crawl_delay(&mut self, delay: Duration) {
        self.crawl_delay = nanos(delay);
    }

    /// The declared Crawl-delay.
    pub fn crawl_delay(&self) -> Duration {
        Duration::from_nanos(self.crawl_delay)
    }

    /// Requests in flight, each counted with its cost; those under limits that a caller brought are not counted here.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Requests in flight as a store counts them that several processes share.
    pub fn set_in_flight(&mut self, in_flight: u32) {
        self.in_flight = in_flight;
    }

    /// Requests in flight under limits that a caller brought (T5).
    pub fn guests(&self) -> u32 {
        self.guests
    }

    /// The same as a store counts them that several processes share.
    pub fn set_guests(&mut self, guests: u32) {
        self.guests = guests;
    }

    /// Places left under what a person set and what was learned; `None` where neither limits them.
    pub fn places_left(&self, now: Instant, part: Part) -> Option<u32> {
        let set = self.limits.in_flight.filter(|_| part != Part::Learned);
        let set = set.map(|most| most.get().saturating_sub(self.in_flight));
        let learned = self.learned_at(now).in_flight();
        let learned = learned.map(|most| most.saturating_sub(self.in_flight.saturating_add(self.guests)));
        [set, learned].into_iter().flatten().min()
    }

    /// When the pause ends.
    pub fn paused_until(&self) -> Instant {
        self.pause.until()
    }

    /// When a request last started; the clock's origin where none did.
    pub fn last_start(&self) -> Instant {
        self.last_start
    }

    /// What was learned.
    pub fn learned(&self) -> &Learned {
        &self.learned
    }

    /// What was counted.
    pub fn tally(&self) -> Tally {
        self.tally.as_deref().copied().unwrap_or_default()
    }

    /// The advertised quota, if one holds.
    pub fn quota(&self) -> Option<AdvertisedQuota> {
        self.quota.as_deref().copied()
    }

    /// The interval that holds now: the most of what was set, learned and declared.
    pub fn interval(&self) -> Duration {
        self.limits.interval.max(self.paced())
    }

    /// Forgets what was learned, a pause and an advertised quota (T13).
    pub fn forget(&mut self) {
        self.learned = self.limits.policy.fresh();
        self.pause.lift();
        self.quota = None;
        self.tally = None;
    }

    /// The latest of all clocks, and whose it is; `None` where a request may start at once.
    pub(super) fn check(&self, now: Instant, cost: u32, part: Part, share: Share) -> Option<(Instant, Because)> {
        let mut latest: Option<(Instant, Because)> = None;
        self.clocks(now, cost, part, share, &mut |until, because| {
            if until > now && latest.is_none_or(|(at, _)| until > at) {
                latest = Some((until, because));
            }
        });
        latest
    }

    /// Since when the clocks would have let a request start; later than `now` where they do not yet.
    pub fn free_since(&self, now: Instant, cost: u32, part: Part) -> Instant {
        let mut since = Instant::ZERO;
        self.clocks(now, cost, part, Share::WHOLE, &mut |until, _| since = since.max(until));
        since
    }

    /// The same of its clocks alone, whoever is in flight.
    pub fn ready(&self, now: Instant) -> Instant {
        let mut since = Instant::ZERO;
        self.clocks(now, 1, Part::Own, Share::WHOLE, &mut |until, because| {
            if !because.is_for_a_place() {
                since = since.max(until);
            }
        });
        since
    }

    /// Tells every clock that holds, and until when.
    fn clocks(&self, now: Instant, cost: u32, part: Part, share: Share, bind: &mut impl FnMut(Instant, Because)) {
        let limits = &*self.limits;
        if part != Part::Learned {
            if !limits.interval.is_zero() {
                let interval = share.slower(limits.interval);
                let until = self.spacing.earliest(interval, share.burst(limits.burst));
                bind(until, Because::Interval(interval));
            }
            let earliest = match &self.windows {
                Some(log) => log.earliest(&limits.windows, cost, share),
                None => Windows::default().earliest(&limits.windows, cost, share),
            };
            if let Some((until, window)) = earliest {
                bind(until, Because::Window(window));
            }
            if let Some(most) = limits.in_flight {
                let places = share.of(most.get());
                // One that costs more than there are places starts alone; of several that share out the places, none does.
                let never = places == 0 || !share.is_whole() && cost > places;
                if never || self.in_flight > 0 && self.in_flight.saturating_add(cost) > places {
                    bind(Instant::FAR, Because::InFlight(places));
                }
            }
        }
        let learned = self.learned_at(now);
        if let Some(most) = learned.in_flight() {
            // A member alone keeps one place at least: its turns keep the pace.
            let places = share.of(most).max(1);
            if self.in_flight.saturating_add(self.guests) >= places {
                bind(Instant::FAR, Because::Concurrency(places));
            }
        }
        let learned = share.slower(learned.interval().max(limits.policy.floor()));
        bind(self.pace.earliest_with(learned, share.tolerance(limits.policy.tolerance())), Because::Pace(learned));
        if self.crawl_delay != 0 {
            let delay = share.slower(self.crawl_delay());
            bind(self.pace.earliest(delay, 1), Because::CrawlDelay(delay));
        }
        if !share.is_whole() {
            let turn = self.turn_length(now);
            bind(share.turn(now, turn), Because::Interval(share.slower(turn)));
        }
        bind(self.pause.until(), Because::Pause);
        if self.pause.trial_is_out() {
            bind(Instant::FAR, Because::AfterPause);
        }
        if let Some(quota) = &self.quota {
            bind(quota.earliest(now, self.last_start, cost, share), Because::Quota { remaining: quota.remaining() });
        }
    }

    /// The first instant from `now` on of a turn of this member of several.
    pub(super) fn turn(&self, now: Instant, share: Share) -> Instant {
        share.turn(now, self.turn_length(now))
    }

    /// Turns are as long for every member, and each may have learned another pace while they could not agree.
    fn turn_length(&self, now: Instant) -> Duration {
        let set = self.limits.interval.max(self.crawl_delay());
        if set.is_zero() { self.learned_at(now).interval().max(self.limits.policy.floor()) } else { set }
    }

    /// What was learned, less what its age takes from it.
    fn learned_at(&self, now: Instant) -> Learned {
        if self.last_start == Instant::ZERO {
            return self.learned;
        }
        self.learned.aged(now.since(self.last_start), &self.limits.policy)
    }

    /// Charges a start.
    pub(super) fn charge(&mut self, now: Instant, claim: &Claim<'_>, part: Part, share: Share) -> Charged {
        let Claim { cost, asked, due, .. } = *claim;
        self.learned = self.learned_at(now);
        let limits = &*self.limits;
        let mut late_by = None;
        if part == Part::Learned {
            self.guests = self.guests.saturating_add(1);
        } else {
            if !limits.interval.is_zero() {
                let interval = share.slower(limits.interval);
                let credit = self.spacing.charge(now, due, interval, cost);
                // However few turns are this process's own, they are no longer than others'.
                late_by = Some(usable_late(limits.interval).saturating_sub(credit));
            }
            if !limits.windows.is_empty() {
                self.windows.get_or_insert_default().charge(now, &limits.windows, cost);
            }
            self.in_flight = self.in_flight.saturating_add(cost);
        }
        let credit = self.pace.charge(now, due, share.slower(self.paced()), cost);
        // It came to the head of its queue when it asked, or when the one before it started: at that instant it is booked
        // and the host touched (P8, P11).
        self.learned.started(asked.max(self.last_start).min(now));
        let pace = self.paced();
        if !pace.is_zero() {
            let late = usable_late(pace).saturating_sub(credit);
            late_by = Some(late_by.map_or(late, |other: Duration| other.min(late)));
        }
        self.last_start = self.last_start.max(now);
        if let Some(quota) = &mut self.quota {
            // While others use the same quota unseen, each start counts for all of them.
            quota.charge(now, cost.saturating_mul(share.members()));
        }
        Charged { trial: self.pause.started(), late_by }
    }

    /// The pace that was learned or declared.
    fn paced(&self) -> Duration {
        self.learned.interval().max(self.limits.policy.floor()).max(self.crawl_delay())
    }

    /// Whether another start was charged after `started`.
    pub(super) fn started_after(&self, started: Instant) -> bool {
        self.last_start > started
    }

    /// The last start really happens only now.
    pub(super) fn restamp(&mut self, now: Instant, start: Instant, cost: u32, part: Part, share: Share) {
        if part != Part::Learned {
            self.spacing.restamp(now, start, share.slower(self.limits.interval), cost);
            if let Some(windows) = &mut self.windows {
                windows.restamp(now, cost);
            }
        }
        self.pace.restamp(now, start, share.slower(self.paced()), cost);
        self.last_start = self.last_start.max(now);
    }

    /// Learns from an answer. Comes before [`Cell::release`]: a refusal teaches before its place is given up (T8).
    pub(super) fn teach(
        &mut self,
        now: Instant,
        started: Instant,
        signal: &Signal,
        latency: Option<Duration>,
        narrowest: bool,
    ) -> Effect {
        let mut effect = Effect::default();
        let Self { limits, pause, learned, quota, tally, in_flight, .. } = self;
        let outcome = Outcome::of(signal);
        let trial_was_out = pause.trial_is_out();
        if let Some(refusal) = &signal.authoritative.refusal {
            tally.get_or_insert_default().count(now, refusal, limits.retry_after_limit);
            match (refusal.wait, limits.reading.min_refusal_wait) {
                // The reading gave it the least wait, because the server gave none.
                (Some(wait), Some(least)) if wait == least => {
                    pause.set_growing(now, started, least, limits.retry_after_limit);
                }
                (Some(wait), _) => pause.set(now, wait.min(limits.retry_after_limit)),
                (None, _) => {}
            }
        } else if started >= pause.until() && !matches!(signal.inferred, Inferred::NoAnswer(_)) {
            pause.served();
        }
        if matches!(signal.inferred, Inferred::NoAnswer(_)) {
            tally.get_or_insert_default().no_answers += 1;
        }
        if outcome == Outcome::ServerError {
            tally.get_or_insert_default().server_errors += 1;
        }
        if narrowest {
            let others = in_flight.saturating_sub(1);
            let before = quota.as_deref().copied();
            let heard = |said| AdvertisedQuota::heard(now, said, limits.quota_hold_limit, before.as_ref(), others);
            if let Some(heard) = signal.authoritative.quotas.iter().find_map(heard) {
                effect.sooner |= quota.is_some();
                *quota = Some(Box::new(heard));
            }
        }
        effect.sooner |= trial_was_out && !pause.trial_is_out();
        let fact = Fact { started, outcome, latency };
        let places = learned.in_flight();
        effect.sooner |= learned.taught(now, &fact, &limits.policy) == Change::Faster;
        effect.sooner |= learned.in_flight() > places;
        effect
    }

    /// Gives a place back; `trial` is when it started where the request was the trial after a pause.
    pub(super) fn release(&mut self, cost: u32, part: Part, trial: Option<Instant>) -> Effect {
        let mut effect = Effect::default();
        if part == Part::Learned {
            self.guests = self.guests.saturating_sub(1);
            effect.freed = self.learned.in_flight().is_some();
        } else {
            self.in_flight = self.in_flight.saturating_sub(cost);
            effect.freed = true;
        }
        if let Some(started) = trial
            && self.pause.trial_is_out()
        {
            self.pause.trial_ended(started);
            effect.sooner |= !self.pause.trial_is_out();
        }
        effect
    }

    /// Its state as plain numbers.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            spacing: self.spacing,
            pace: self.pace,
            last_start: self.last_start,
            pause: self.pause,
            crawl_delay: self.crawl_delay(),
            in_flight: self.in_flight,
            learned: self.learned,
            windows: self.windows.as_deref().cloned().unwrap_or_default(),
            quota: self.quota(),
            tally: self.tally(),
        }
    }

    /// Takes the state that a store kept. What was learned under another kind of policy is not taken.
    pub fn restore(&mut self, kept: &Snapshot) {
        self.spacing = kept.spacing;
        self.pace = kept.pace;
        self.last_start = kept.last_start;
        self.pause = kept.pause;
        self.crawl_delay = nanos(kept.crawl_delay);
        self.in_flight = kept.in_flight;
        if core::mem::discriminant(&kept.learned) == core::mem::discriminant(&self.limits.policy.fresh()) {
            self.learned = kept.learned;
        }
        replace(&mut self.windows, (!kept.windows.is_empty()).then(|| kept.windows.clone()));
        replace(&mut self.quota, kept.quota);
        replace(&mut self.tally, (kept.tally != Tally::default()).then_some(kept.tally));
    }

    /// Is nowhere sooner than another state of the same scope allows: what a process remembers of a scope that a store has
    /// lost (X9). Places in flight stay as they are.
    pub fn raise(&mut self, floor: &Snapshot) {
        self.spacing.raise(floor.spacing);
        self.pace.raise(floor.pace);
        self.last_start = self.last_start.max(floor.last_start);
        if floor.pause.until() > self.pause.until() {
            self.pause = floor.pause;
        }
        self.crawl_delay = self.crawl_delay.max(nanos(floor.crawl_delay));
        self.learned = self.learned.stricter(&floor.learned);
        if !floor.windows.is_empty() {
            let log = self.windows.take().unwrap_or_default();
            self.windows = Some(Box::new(log.with(&floor.windows)));
        }
        match (&mut self.quota, &floor.quota) {
            (Some(quota), Some(floor)) => **quota = quota.at_most(floor),
            (none, floor) => *none = none.take().or(floor.map(Box::new)),
        }
        if self.tally.is_none() && floor.tally != Tally::default() {
            self.tally = Some(Box::new(floor.tally));
        }
    }

    /// As after a start at `at` that used up the whole burst: what a store that has lost its state begins with (X9).
    pub fn spend_burst(&mut self, at: Instant) {
        let Limits { interval, burst, policy, .. } = &*self.limits;
        self.spacing.raise(Gcra::started(at.after(interval.saturating_mul(burst.get() - 1))));
        self.pace.raise(Gcra::started(at.after(policy.tolerance())));
        self.last_start = self.last_start.max(at);
    }

    /// Whether it is indistinguishable from a new one, so that dropping it loses nothing (decision 8). What was learned
    /// counts for an hour after the last start.
    pub fn is_as_new(&self, now: Instant) -> bool {
        let limits = &*self.limits;
        self.in_flight == 0
            && self.guests == 0
            && self.crawl_delay == 0
            && self.spacing.is_over(now, limits.interval)
            && self.pace.is_over(now, self.learned.interval())
            && self.windows.as_ref().is_none_or(|windows| windows.is_over(now, &limits.windows))
            && self.quota.as_ref().is_none_or(|quota| quota.is_over(now))
            && (self.last_start.after(MEMORY) <= now && self.pause.until().after(MEMORY) <= now
                || (self.pause.is_over(now) && self.learned.is_fresh(now, &limits.policy)))
    }
}

impl Tally {
    fn count(&mut self, now: Instant, refusal: &Refusal, limit: Duration) {
        match refusal.wait {
            Some(_) => self.refusals_with_advice += 1,
            None => self.refusals_without_advice += 1,
        }
        if refusal.wait.is_some_and(|wait| wait > limit) {
            self.give_ups += 1;
        }
        self.last_refusal = Some(refusal.status);
        self.last_wait = refusal.wait;
        self.last_refused = now;
    }
}

/// Puts a value where one is, without a new allocation where there is room.
fn replace<T>(slot: &mut Option<Box<T>>, value: Option<T>) {
    match (slot.as_deref_mut(), value) {
        (Some(held), Some(value)) => *held = value,
        (None, Some(value)) => *slot = Some(Box::new(value)),
        (_, None) => *slot = None,
    }
}

/// How late a start may be used at this spacing.
fn usable_late(interval: Duration) -> Duration {
    if interval < DENSE { DENSE_LATE_BY } else { late_by(interval) }
}

/// How long after its last start what a host taught is remembered.
pub const MEMORY: Duration = Duration::from_secs(3600);
/// Where the promise is the rate over any 100 ms, and not each gap, a start may be used so late.
const DENSE_LATE_BY: Duration = Duration::from_millis(50);
