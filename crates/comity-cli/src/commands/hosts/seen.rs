//! What a store knows, on the wall clock: as programs read it, and what the texts for people are made of.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::time::Duration;

use comity_core::limits::Restart;
use comity_core::policy::{Said, Why};
use comity_core::time::Instant;
use comity_fetch::keep::Timestamp;
use comity_store::{Known, Listing, MemberInfo};
use jiff::ZonedDateTime;
use serde::Serialize;

use crate::screen::words::span;

/// An instant, on the wall clock and relative to the reading.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Moment {
    /// On the wall clock of this machine.
    at: Timestamp,
    /// Seconds from the reading, negative where it is past.
    in_secs: f64,
}

/// A scope, as it is printed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) interval_secs: f64,
    pub(crate) interval_from: IntervalFrom,
    pub(crate) learned_interval_secs: Option<f64>,
    pub(crate) learned: Option<Learned>,
    pub(crate) crawl_delay_secs: Option<f64>,
    pub(crate) next_start: Option<Moment>,
    pub(crate) last_start: Option<Moment>,
    pub(crate) in_flight: u32,
    pub(crate) most_in_flight: Option<u32>,
    pub(crate) places: Vec<Places>,
    pub(crate) waiting: Vec<String>,
    pub(crate) pause: Option<Pause>,
    pub(crate) trial: Option<Trial>,
    pub(crate) refusals: Refusals,
    pub(crate) no_answers: u32,
    pub(crate) server_errors: u32,
    pub(crate) give_ups: u32,
    pub(crate) lowered: Option<Lowered>,
    pub(crate) quota: Option<Quota>,
}

/// Whose word an interval is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IntervalFrom {
    /// A person, a preset or the profile.
    Set,
    /// What the policy learned.
    Learned,
    /// The host's robots.txt.
    CrawlDelay,
}

/// What a policy has to say for itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Learned {
    pub(crate) why: &'static str,
    /// The rate that the host accepts, where it is known.
    pub(crate) rate_per_sec: Option<f64>,
    /// Requests in flight at most.
    pub(crate) concurrency: Option<u32>,
    pub(crate) refusals: u32,
    pub(crate) last_refused: Option<Moment>,
    pub(crate) next_probe: Option<Moment>,
    /// Whether the host answers in two ways.
    pub(crate) bimodal: bool,
    /// All of it as a sentence.
    pub(crate) words: String,
    #[serde(skip)]
    said: Said,
}

/// Places in flight that a member holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Places {
    pub(crate) member: String,
    pub(crate) places: u32,
}

/// A pause that lasts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Pause {
    pub(crate) until: Moment,
    /// The status of the refusal.
    pub(crate) status: Option<u16>,
    /// What the refusal asked for; nothing where it did not say for how long.
    pub(crate) retry_after_secs: Option<f64>,
}

/// The careful end of a pause: one request first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Trial {
    /// The next start is the trial.
    Next,
    /// Its answer is waited for.
    InFlight,
}

/// Refusals that were counted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Refusals {
    pub(crate) count: u32,
    pub(crate) with_retry_after: u32,
    pub(crate) last_status: Option<u16>,
    pub(crate) last: Option<Moment>,
}

/// The last time a scope was made slower.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Lowered {
    pub(crate) by: String,
    pub(crate) status: Option<u16>,
    pub(crate) at: Moment,
    pub(crate) from_secs: f64,
    pub(crate) to_secs: f64,
}

/// What is left of an advertised quota.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Quota {
    pub(crate) remaining: u64,
    pub(crate) limit: Option<u64>,
    pub(crate) resets: Moment,
}

/// A process that shares the store.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Member {
    pub(crate) id: String,
    pub(crate) joined: Moment,
    pub(crate) seen: Moment,
    /// Places in flight that it holds, over all scopes.
    pub(crate) places: u32,
}

/// The store's clock and the wall clock, read together.
#[derive(Clone, Debug)]
pub(crate) struct Clocks {
    store: Instant,
    wall: ZonedDateTime,
}

impl Clocks {
    /// The store's clock at a reading, and the wall clock right after it.
    pub(crate) fn new(store: Instant, wall: ZonedDateTime) -> Self {
        Self { store, wall }
    }

    /// The wall clock at the reading.
    pub(crate) fn wall(&self) -> &ZonedDateTime {
        &self.wall
    }

    /// The reading.
    pub(crate) fn timestamp(&self) -> Timestamp {
        Timestamp::from_millis(self.wall.timestamp().as_millisecond())
    }

    /// An instant of the store.
    fn moment(&self, at: Instant) -> Moment {
        let (micros, sign) = match at.cmp(&self.store) {
            Ordering::Less => (self.store.since(at).as_micros(), -1),
            _ => (at.since(self.store).as_micros(), 1),
        };
        let micros = sign * i64::try_from(micros).unwrap_or(i64::MAX);
        let wall = self.wall.timestamp().as_microsecond().saturating_add(micros);
        Moment { at: Timestamp::from_millis(wall.div_euclid(1000)), in_secs: micros as f64 / 1e6 }
    }

    /// An instant that may never have been, or may never come.
    fn some(&self, at: Instant) -> Option<Moment> {
        (at != Instant::ZERO && at != Instant::FAR).then(|| self.moment(at))
    }
}

impl Moment {
    /// How long until then; `None` where it is past.
    pub(crate) fn ahead(&self) -> Option<Duration> {
        Some(seconds(self.in_secs)).filter(|ahead| !ahead.is_zero())
    }

    /// How long ago it was.
    pub(crate) fn ago(&self) -> Duration {
        seconds(-self.in_secs)
    }

    /// The time of day, with the date where that is another day than the reading's.
    pub(crate) fn time_of_day(&self, clocks: &Clocks) -> String {
        let now = clocks.wall();
        let at = jiff::Timestamp::from_millisecond(self.at.as_millis()).unwrap_or_default();
        let at = at.to_zoned_datetime(now.time_zone().clone());
        let format = if at.date() == now.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
        at.strftime(format).to_string()
    }
}

impl Seen {
    /// What is known of a scope.
    pub(crate) fn of(known: &Known, clocks: &Clocks) -> Self {
        let state = &known.state;
        let (learned, crawl_delay, tally) = (state.learned.interval(), state.crawl_delay, state.tally);
        let some = |span: Duration| (!span.is_zero()).then(|| secs(span));
        let interval = known.interval.max(learned).max(crawl_delay);
        let refusals = tally.refusals_with_advice.saturating_add(tally.refusals_without_advice);
        Self {
            name: known.name.clone(),
            interval_secs: secs(interval),
            interval_from: IntervalFrom::of(interval, learned, crawl_delay),
            learned_interval_secs: some(learned),
            learned: state.learned.said(clocks.store).map(|said| Learned::of(&said, clocks)),
            crawl_delay_secs: some(crawl_delay),
            next_start: (known.next_start != Instant::FAR).then(|| clocks.moment(known.next_start.max(clocks.store))),
            last_start: clocks.some(state.last_start),
            in_flight: state.in_flight,
            most_in_flight: known.most_in_flight,
            places: known
                .places
                .iter()
                .map(|(member, places)| Places { member: member.clone(), places: *places })
                .collect(),
            waiting: known.waiting.clone(),
            pause: (state.pause.until() > clocks.store).then(|| Pause {
                until: clocks.moment(state.pause.until()),
                status: tally.last_refusal,
                retry_after_secs: tally.last_wait.map(secs),
            }),
            trial: match state.pause.restart() {
                Restart::Free => None,
                Restart::Due => Some(Trial::Next),
                Restart::Out => Some(Trial::InFlight),
            },
            refusals: Refusals {
                count: refusals,
                with_retry_after: tally.refusals_with_advice,
                last_status: tally.last_refusal,
                last: clocks.some(tally.last_refused),
            },
            no_answers: tally.no_answers,
            server_errors: tally.server_errors,
            give_ups: tally.give_ups,
            lowered: known.lowered.as_ref().map(|lowered| Lowered {
                by: lowered.by.clone(),
                status: lowered.status,
                at: clocks.moment(lowered.at),
                from_secs: secs(lowered.from),
                to_secs: secs(lowered.to),
            }),
            quota: state.quota.filter(|quota| quota.resets > clocks.store).map(|quota| Quota {
                remaining: quota.remaining,
                limit: quota.limit,
                resets: clocks.moment(quota.resets),
            }),
        }
    }
}

impl Learned {
    fn of(said: &Said, clocks: &Clocks) -> Self {
        let moment = |at: Option<Instant>| at.and_then(|at| clocks.some(at));
        Self {
            why: match said.why {
                Why::Searching => "searching",
                Why::BackingOff => "backing_off",
                Why::Learned => "learned",
                Why::Probing => "probing",
                Why::Sharing => "sharing",
                Why::Strained => "strained",
                Why::Bounded => "bounded",
            },
            rate_per_sec: said.rate.map(|rate| 1.0 / rate.interval().as_secs_f64()).filter(|rate| rate.is_finite()),
            concurrency: said.concurrency,
            refusals: said.refusals,
            last_refused: moment(said.last_refused),
            next_probe: moment(said.next_probe),
            bimodal: said.bimodal,
            words: said.in_words(clocks.store),
            said: *said,
        }
    }

    /// The same sentence with times of the clock for what was.
    pub(crate) fn on_the_clock(&self, clocks: &Clocks) -> String {
        let ahead = |at: Instant| {
            clocks.moment(at).ahead().map_or_else(|| "now".to_owned(), |ahead| format!("in {}", span(ahead)))
        };
        self.said.worded(|at| format!("at {}", clocks.moment(at).time_of_day(clocks)), ahead)
    }
}

impl Seen {
    /// Requests in flight at most, by what was set and by what was learned.
    pub(crate) fn places(&self) -> Option<u32> {
        let learned = self.learned.as_ref().and_then(|learned| learned.concurrency);
        [self.most_in_flight, learned].into_iter().flatten().min()
    }
}

impl IntervalFrom {
    fn of(interval: Duration, learned: Duration, crawl_delay: Duration) -> Self {
        if interval == crawl_delay && !interval.is_zero() {
            Self::CrawlDelay
        } else if !learned.is_zero() && learned >= interval / 10 * ONE_STEP {
            Self::Learned
        } else {
            Self::Set
        }
    }
}

/// The first `most` members, those seen last first.
pub(crate) fn members(listing: &Listing, clocks: &Clocks, most: usize) -> Vec<Member> {
    let mut places: HashMap<&str, u32> = HashMap::new();
    for (member, count) in listing.scopes.iter().flat_map(|known| &known.places) {
        let sum = places.entry(member).or_default();
        *sum = sum.saturating_add(*count);
    }
    let mut members: Vec<&MemberInfo> = listing.members.iter().collect();
    members.sort_unstable_by(|a, b| b.seen.cmp(&a.seen).then_with(|| a.id.cmp(&b.id)));
    let member = |member: &MemberInfo| Member {
        id: member.id.clone(),
        joined: clocks.moment(member.joined),
        seen: clocks.moment(member.seen),
        places: places.get(&*member.id).copied().unwrap_or_default(),
    };
    members.into_iter().take(most).map(member).collect()
}

/// A span of so many seconds.
pub(crate) fn seconds(secs: f64) -> Duration {
    Duration::try_from_secs_f64(secs).unwrap_or(if secs > 0.0 { Duration::MAX } else { Duration::ZERO })
}

/// In whole microseconds: the stores' clocks have no finer ones.
fn secs(span: Duration) -> f64 {
    span.as_micros() as f64 / 1e6
}

/// Tenths. The interval is that of the last start, and a policy may have eased by one step since: a tenth at most.
const ONE_STEP: u32 = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::hosts::fake::{NOW, adaptive, ago, clocks, known, listing, refused};
    use comity_core::policy::Rate;

    fn seen(known: &Known) -> Seen {
        Seen::of(known, &clocks())
    }

    #[test]
    fn an_instant_of_the_store_is_a_time_of_the_wall_clock() {
        let moment = clocks().moment(NOW.after(Duration::from_millis(1500)));
        assert_eq!((moment.at.to_string().as_str(), moment.in_secs), ("2026-11-30T13:48:01.500Z", 1.5));
        assert_eq!(moment.ahead(), Some(Duration::from_millis(1500)));
        let past = clocks().moment(ago(90));
        assert_eq!((past.at.to_string().as_str(), past.in_secs), ("2026-11-30T13:46:30.000Z", -90.0));
        assert_eq!((past.ahead(), past.ago()), (None, Duration::from_secs(90)));
        assert!(clocks().moment(Instant::FAR).at.to_string().starts_with("2611-"), "never is 584 years ahead");
    }

    #[test]
    fn a_time_of_another_day_has_a_date() {
        let of = |secs| clocks().moment(NOW.after(Duration::from_secs(secs))).time_of_day(&clocks());
        assert_eq!([of(30), of(86_400)], ["13:48:30", "2026-12-01 13:48:00"]);
    }

    #[test]
    fn an_interval_says_whose_word_it_is() {
        let from = |interval, learned, delay| {
            let ms = Duration::from_millis;
            IntervalFrom::of(ms(interval), ms(learned), ms(delay))
        };
        assert_eq!(from(1000, 0, 0), IntervalFrom::Set);
        assert_eq!(from(1000, 500, 0), IntervalFrom::Set);
        assert_eq!(from(1000, 1000, 0), IntervalFrom::Learned);
        assert_eq!(from(1000, 950, 0), IntervalFrom::Learned, "eased since the last start");
        assert_eq!(from(10_000, 1000, 10_000), IntervalFrom::CrawlDelay);
        assert_eq!(from(0, 0, 0), IntervalFrom::Set);
    }

    #[test]
    fn what_was_declared_since_the_last_start_holds_already() {
        let mut known = known("a.example");
        known.state.crawl_delay = Duration::from_secs(10);
        let seen = seen(&known);
        assert_eq!((seen.interval_secs, seen.interval_from), (10.0, IntervalFrom::CrawlDelay));
    }

    #[test]
    fn a_pause_that_is_over_is_none_and_its_refusal_stays_counted() {
        let mut known = refused("a.example");
        assert_eq!(seen(&known).pause.unwrap().retry_after_secs, Some(30.0));
        known.state.pause = comity_core::limits::Pause::kept(ago(1), Restart::Out, 0);
        let seen = seen(&known);
        assert_eq!((seen.pause, seen.trial, seen.refusals.count), (None, Some(Trial::InFlight), 3));
    }

    #[test]
    fn what_an_adaptive_policy_learned_is_told_in_numbers_and_words() {
        let learned = seen(&adaptive("a.example")).learned.unwrap();
        assert!(learned.concurrency.is_some_and(|places| places > 0), "{learned:?}");
        assert!(!learned.words.is_empty() && !learned.on_the_clock(&clocks()).is_empty());
        let said = Said {
            rate: Some(Rate::every(Duration::from_micros(102_040))),
            concurrency: Some(4),
            why: Why::Learned,
            last_refused: Some(ago(200)),
            next_probe: Some(NOW.after(Duration::from_secs(240))),
            bimodal: true,
            refusals: 2,
        };
        let learned = Learned::of(&said, &clocks());
        assert_eq!(learned.words, "learned 9.8/s from two refusals, the last 3 min ago; next probe in 4 min");
        let told = "learned 9.8/s from two refusals, the last at 13:44:40; next probe in 4 min";
        assert_eq!(learned.on_the_clock(&clocks()), told);
        assert_eq!(learned.rate_per_sec.map(|rate| (rate * 10.0).round()), Some(98.0));
        assert_eq!((learned.why, learned.bimodal, learned.last_refused.unwrap().in_secs), ("learned", true, -200.0));
        assert_eq!(seen(&known("a.example")).learned, None, "other policies have no more to say than their interval");
    }

    #[test]
    fn a_scope_never_started_has_no_last_start() {
        let mut known = known("a.example");
        known.state.last_start = Instant::ZERO;
        known.next_start = Instant::FAR;
        assert_eq!((seen(&known).last_start, seen(&known).next_start), (None, None));
    }

    #[test]
    fn a_members_places_are_those_of_all_scopes() {
        let mut two = [known("a.example"), known("b.example")];
        for known in &mut two {
            known.places = vec![("one:1".to_owned(), 2)];
        }
        let members = members(&listing(two.into()), &clocks(), 9);
        let told: Vec<(&str, u32)> = members.iter().map(|member| (&*member.id, member.places)).collect();
        assert_eq!(told, [("one:1", 4), ("two:22", 0)], "the one seen last comes first");
    }
}
