//! One request's way in: the gate, then all its limits at once (G4).
//!
//! What can be decided at once is decided on borrowed values; only a request that waits takes its own along.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use comity_core::guard::{Left, MOST_LIMITS, Ruling, Shed, Verdict};
use comity_core::time::Instant;
use comity_store::guard::{Charge, ChargeError, Charges, Key, Taken};
use http::{HeaderMap, HeaderValue, Response};

use super::counted::count;
use super::decision::{Decision, Outcome, WouldRefuse};
use super::door::{Entered, Place, Waiting};
use super::live::Live;
use super::{Guard, Kept};
use crate::answer::{self, PolicyField};
use crate::key::{ClientKey, Head};
use crate::rules::{Asked, Counts, OnStoreFailure, Ruled};

/// What became of a request at first sight.
pub(crate) enum Begun {
    /// It goes to the service.
    Admitted(Admitted),
    /// It is answered.
    Refused(Refusal),
    /// It waits: for a place, for the store, or for its turn under a limit.
    Later(Later),
}

/// The answer of a refusal.
pub(crate) type Refusal = Box<Response<Bytes>>;

/// What becomes of one that waits. Dropped, it leaves no trace but what it was charged.
pub(crate) type Later = Pin<Box<dyn Future<Output = Result<Admitted, Refusal>> + Send>>;

/// A request that goes to the service.
#[derive(Default)]
pub(crate) struct Admitted {
    /// Held until its answer is written or abandoned.
    pub(crate) place: Option<Place>,
    told: Option<Box<Told>>,
    /// In a dry run, what would have become of it.
    pub(crate) would: Option<Box<WouldRefuse>>,
}

/// What its answer tells of the limits.
struct Told {
    policy: HeaderValue,
    /// Of the limits after the first.
    more: Vec<HeaderValue>,
    left: HeaderValue,
}

/// A request as it is asked of the limits.
#[derive(Clone, Copy)]
struct Asking<'a> {
    guard: &'a Guard,
    live: &'a Arc<Live>,
    ruled: &'a Ruled,
    key: Option<ClientKey>,
}

/// The same of one that waits.
struct Patient {
    guard: Guard,
    live: Arc<Live>,
    ruled: Ruled,
    key: Option<ClientKey>,
    /// Whether it asked for problem details.
    problem: bool,
}

/// What a request waits for.
enum Step {
    Place(Waiting),
    Store(Option<Place>, Pin<Box<dyn Future<Output = Verdict> + Send>>),
    Turn(Option<Place>, Option<Box<Told>>, Duration),
}

/// What a verdict came to.
enum Decided {
    Admitted(Admitted),
    Refused(Refusal),
    Waits(Step),
}

impl Guard {
    /// Decides about a request, as far as that can be done at once.
    pub(crate) fn begin(&self, live: &Arc<Live>, head: &Head<'_>) -> Begun {
        let asked = Asked::of(head);
        if live.settings.exempts(&asked) {
            count(&self.0.tally.exempt);
            return Begun::Admitted(Admitted::default());
        }
        let problem = || answer::is_problem_asked_for(head.headers);
        let (now, dry_run) = (self.now(), live.settings.dry_run);
        let (place, waiting) = match self.0.door.enter(self, now, !dry_run) {
            Entered::In(place) => (Some(place), None),
            Entered::Waits(waiting) => (None, Some(waiting)),
            Entered::Shed if dry_run => (None, None),
            Entered::Shed => return Begun::Refused(self.shed(live, problem())),
        };
        let ruled = live.plan.ruled(&asked);
        let key = live.asks_for_key(&ruled).then(|| live.settings.key.key(head));
        if key.is_some_and(ClientKey::is_unknown) {
            self.warn_of_unknown();
        }
        let asking = Asking { guard: self, live, ruled: &ruled, key };
        let decided = match waiting {
            Some(waiting) => {
                count(&self.0.tally.queued);
                Decided::Waits(Step::Place(waiting))
            }
            None => asking.limits(place, now, problem),
        };
        match decided {
            Decided::Admitted(admitted) => Begun::Admitted(admitted),
            Decided::Refused(response) => Begun::Refused(response),
            Decided::Waits(step) => {
                let (guard, live, problem) = (self.clone(), Arc::clone(live), problem());
                Begun::Later(Box::pin(Patient { guard, live, ruled, key, problem }.goes_on(step)))
            }
        }
    }

    fn shed(&self, live: &Live, problem: bool) -> Refusal {
        count(&self.0.tally.shed);
        self.0.watch.tell(&Decision { key: None, outcome: Outcome::Shed, dry_run: false });
        Box::new(live.settings.answers.shed(problem))
    }

    fn warn_of_unknown(&self) {
        if self.0.tally.unknown.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(
                target: "comity_guard",
                "requests come without their peer's address and share one bucket: hand it on as `PeerAddress`"
            );
        }
    }
}

impl Asking<'_> {
    /// Asks all limits at once. Only in a dry run does one come without a place.
    fn limits(&self, place: Option<Place>, now: Instant, problem: impl FnOnce() -> bool) -> Decided {
        let key = self.key.map(ClientKey::to_bytes);
        let key = key.as_ref().and_then(|bytes| Key::new(bytes).ok()).unwrap_or(Key::ALL);
        let rules = self.ruled.places().iter().filter_map(|place| self.live.plan.rule(*place));
        let mut charged = rules.map(|(rule, _)| Charge {
            limit: rule.named(),
            key: if rule.counts() == Counts::EachClient { key } else { Key::ALL },
            cost: rule.cost_of_one(),
        });
        let Some(first) = charged.next() else { return self.admitted(place, None) };
        let Some(second) = charged.next() else { return self.take_one(place, now, first, problem) };
        let mut charges = [first; MOST_LIMITS];
        charges[1] = second;
        let asked = 2 + charges[2..].iter_mut().zip(charged).map(|(free, charge)| *free = charge).count();
        self.take(place, now, &charges[..asked], problem)
    }

    fn take_one(
        &self,
        place: Option<Place>,
        now: Instant,
        charge: Charge<'_>,
        problem: impl FnOnce() -> bool,
    ) -> Decided {
        let Kept::Here(table) = &self.guard.0.buckets else { return self.take(place, now, &[charge], problem) };
        match table.take_one_now(now, &charge) {
            Ok(verdict) => self.decide(place, verdict.ruling(), verdict.left(), now, problem),
            Err(error) => self.cannot_be(place, &error, problem),
        }
    }

    fn take(
        &self,
        place: Option<Place>,
        now: Instant,
        charges: &[Charge<'_>],
        problem: impl FnOnce() -> bool,
    ) -> Decided {
        let charges = match Charges::new(charges) {
            Ok(charges) => charges,
            Err(error) => return self.cannot_be(place, &error, problem),
        };
        let decide = |place, verdict: Verdict| self.decide(place, verdict.ruling(), verdict.left(), now, problem);
        match &self.guard.0.buckets {
            Kept::Here(table) => decide(place, table.take_now(now, charges)),
            Kept::There(buckets) => match buckets.take(now, charges) {
                Taken::Now(verdict) => decide(place, verdict),
                Taken::Later(answer) => Decided::Waits(Step::Store(place, answer)),
            },
        }
    }

    /// Settings are checked before they are in force.
    #[cold]
    fn cannot_be(&self, place: Option<Place>, error: &ChargeError, problem: impl FnOnce() -> bool) -> Decided {
        tracing::error!(target: "comity_guard", %error, "limits that cannot be asked");
        drop(place);
        Decided::Refused(self.guard.shed(self.live, problem()))
    }

    fn decide(
        &self,
        place: Option<Place>,
        ruling: Ruling,
        left: &[Left],
        now: Instant,
        problem: impl FnOnce() -> bool,
    ) -> Decided {
        match ruling {
            Ruling::Admitted { start, delayed_by } => {
                let wait = start.since(now);
                if wait.is_zero() {
                    return self.admitted(place, Some(left));
                }
                count(&self.guard.0.tally.delayed);
                let rule = delayed_by.and_then(|nth| self.name(nth)).unwrap_or_default();
                self.tell(Outcome::Delayed { rule, wait });
                if self.live.settings.dry_run {
                    return Decided::Admitted(self.let_in(place, None));
                }
                Decided::Waits(Step::Turn(place, self.told(left), wait))
            }
            Ruling::Refused { by, retry } => self.refused(place, left, by, retry, problem),
        }
    }

    fn refused(
        &self,
        place: Option<Place>,
        left: &[Left],
        by: usize,
        retry: Duration,
        problem: impl FnOnce() -> bool,
    ) -> Decided {
        let tally = &self.guard.0.tally;
        if self.guard.0.buckets.is_lost() {
            count(&tally.store_lost);
            if self.live.settings.on_store_failure == OnStoreFailure::Admit {
                return self.admitted(place, None);
            }
        }
        if let Some(rule) = self.ruled.places().get(by) {
            self.live.count_refused(*rule);
        }
        let rule = self.name(by).unwrap_or_default();
        self.tell(Outcome::Refused { rule, retry });
        if self.live.settings.dry_run {
            count(&tally.would_refuse);
            let mut admitted = self.let_in(place, None);
            admitted.would.get_or_insert_with(|| Box::new(WouldRefuse { rule: Some(rule.to_owned()), retry }));
            return Decided::Admitted(admitted);
        }
        // What is refused gives its place back before its answer is made.
        drop(place);
        count(&tally.refused);
        Decided::Refused(Box::new(self.live.settings.answers.refused(problem(), retry, self.left(left))))
    }

    fn admitted(&self, place: Option<Place>, left: Option<&[Left]>) -> Decided {
        if place.is_some() && self.guard.0.watch.is_set() {
            self.tell(Outcome::Admitted);
        }
        let mut admitted = self.let_in(place, None);
        admitted.told = left.and_then(|left| self.told(left));
        Decided::Admitted(admitted)
    }

    fn let_in(&self, place: Option<Place>, told: Option<Box<Told>>) -> Admitted {
        count(&self.guard.0.tally.admitted);
        let would = if place.is_none() { Some(self.would_shed()) } else { None };
        Admitted { place, told, would }
    }

    /// What its answer is to say of what is left.
    fn told(&self, left: &[Left]) -> Option<Box<Told>> {
        if !self.live.settings.answers.fields || self.live.settings.dry_run {
            return None;
        }
        let left = answer::left(self.left(left))?;
        let mut policies = policies(self.live, self.ruled).map(|policy| policy.value().clone());
        let policy = policies.next()?;
        Some(Box::new(Told { policy, more: policies.collect(), left }))
    }

    fn would_shed(&self) -> Box<WouldRefuse> {
        count(&self.guard.0.tally.would_shed);
        self.tell(Outcome::Shed);
        Box::new(WouldRefuse { rule: None, retry: Shed::default().retry })
    }

    fn tell(&self, outcome: Outcome<'_>) {
        self.guard.0.watch.tell(&Decision { key: self.key, outcome, dry_run: self.live.settings.dry_run });
    }

    fn name(&self, nth: usize) -> Option<&str> {
        let (rule, _) = self.live.plan.rule(*self.ruled.places().get(nth)?)?;
        Some(rule.name())
    }

    fn left<'v>(&'v self, left: &'v [Left]) -> impl Iterator<Item = (&'v PolicyField, &'v Left)> + Clone {
        policies(self.live, self.ruled).zip(left)
    }
}

impl Patient {
    /// The rest of the way of one that waits.
    async fn goes_on(self, mut step: Step) -> Result<Admitted, Refusal> {
        loop {
            let decided = match step {
                Step::Place(waiting) => {
                    let Some(place) = waiting.place().await else {
                        return Err(self.guard.shed(&self.live, self.problem));
                    };
                    self.asking().limits(Some(place), self.guard.now(), || self.problem)
                }
                Step::Store(place, answer) => {
                    let verdict = answer.await;
                    self.asking().decide(place, verdict.ruling(), verdict.left(), self.guard.now(), || self.problem)
                }
                Step::Turn(mut place, told, wait) => {
                    tokio::time::sleep(wait).await;
                    if let Some(place) = &mut place {
                        place.goes_on(self.guard.now());
                    }
                    Decided::Admitted(self.asking().let_in(place, told))
                }
            };
            match decided {
                Decided::Admitted(admitted) => return Ok(admitted),
                Decided::Refused(refusal) => return Err(refusal),
                Decided::Waits(next) => step = next,
            }
        }
    }

    fn asking(&self) -> Asking<'_> {
        Asking { guard: &self.guard, live: &self.live, ruled: &self.ruled, key: self.key }
    }
}

impl Admitted {
    /// Says what is left of the limits.
    pub(crate) fn tell(&mut self, headers: &mut HeaderMap) {
        if let Some(told) = self.told.take() {
            let Told { policy, more, left } = *told;
            answer::add_policy(headers, policy);
            more.into_iter().for_each(|policy| answer::add_policy(headers, policy));
            answer::add_left(headers, left);
        }
    }
}

impl Live {
    fn asks_for_key(&self, ruled: &Ruled) -> bool {
        let mut rules = ruled.places().iter().filter_map(|place| self.plan.rule(*place));
        rules.any(|(rule, _)| rule.counts() == Counts::EachClient)
    }
}

fn policies<'a>(live: &'a Live, ruled: &'a Ruled) -> impl Iterator<Item = &'a PolicyField> + Clone {
    ruled.places().iter().filter_map(|place| live.plan.rule(*place)).map(|(_, policy)| policy)
}
