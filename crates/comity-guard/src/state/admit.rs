//! One request's way in: the gate, then all its limits at once (G4).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use comity_core::guard::{Left, MOST_LIMITS, Ruling, Shed, Verdict};
use comity_core::time::Instant;
use comity_store::guard::{Charge, Charges, Key, Taken};
use http::{HeaderMap, HeaderValue, Response};

use super::Guard;
use super::counted::count;
use super::decision::{Decision, Outcome, WouldRefuse};
use super::door::{Entered, Place, Waiting};
use super::live::Live;
use crate::answer::{self, PolicyField};
use crate::key::{ClientKey, Head};
use crate::rules::{Asked, Counts, OnStoreFailure, Ruled};

/// What became of a request at first sight.
pub(crate) enum Begun {
    /// It goes to the service.
    Admitted(Admitted),
    /// It is answered.
    Refused(Response<Bytes>),
    /// It waits: for a place, for the store, or for its turn under a limit.
    Later(Later),
}

/// What becomes of one that waits. Dropped, it leaves no trace but what it was charged.
pub(crate) type Later = Pin<Box<dyn Future<Output = Result<Admitted, Response<Bytes>>> + Send>>;

/// A request that goes to the service.
#[derive(Default)]
pub(crate) struct Admitted {
    /// Held until its answer is written or abandoned.
    pub(crate) place: Option<Place>,
    told: Option<Told>,
    /// In a dry run, what would have become of it.
    pub(crate) would: Option<WouldRefuse>,
}

/// What its answer tells of the limits.
struct Told {
    live: Arc<Live>,
    ruled: Ruled,
    left: HeaderValue,
}

/// A request as it is asked of the limits.
struct Asking {
    guard: Guard,
    live: Arc<Live>,
    ruled: Ruled,
    key: Option<ClientKey>,
    /// Whether it asked for problem details.
    problem: bool,
    would: Option<WouldRefuse>,
}

/// What a request waits for.
enum Step {
    Place(Waiting),
    Store(Option<Place>, Pin<Box<dyn Future<Output = Verdict> + Send>>),
    Turn(Option<Place>, Option<HeaderValue>, Duration),
}

/// What a verdict came to.
enum Decided {
    Admitted(Admitted),
    Refused(Response<Bytes>),
    Waits(Asking, Step),
}

impl Guard {
    /// Decides about a request, as far as that can be done at once.
    pub(crate) fn begin(&self, head: &Head<'_>) -> Begun {
        let live = self.live();
        let asked = Asked::of(head);
        if live.settings.exempts(&asked) {
            count(&self.0.tally.exempt);
            return Begun::Admitted(Admitted::default());
        }
        let now = self.now();
        let entered = self.0.door.enter(self, now, !live.settings.dry_run);
        if matches!(entered, Entered::Shed) && !live.settings.dry_run {
            return Begun::Refused(self.shed(&live, answer::is_problem_asked_for(head.headers)));
        }
        let ruled = live.plan.ruled(&asked);
        let key = live.asks_for_key(&ruled).then(|| live.settings.key.key(head));
        if key.is_some_and(ClientKey::is_unknown) {
            self.warn_of_unknown();
        }
        let mut asking = Asking { guard: self.clone(), live, ruled, key, problem: false, would: None };
        let decided = match entered {
            Entered::In(place) => asking.limits(Some(place), now, Some(head.headers)),
            Entered::Shed => {
                asking.would_shed();
                asking.limits(None, now, Some(head.headers))
            }
            Entered::Waits(waiting) => {
                count(&self.0.tally.queued);
                Decided::Waits(asking, Step::Place(waiting))
            }
        };
        match decided {
            Decided::Admitted(admitted) => Begun::Admitted(admitted),
            Decided::Refused(response) => Begun::Refused(response),
            Decided::Waits(mut asking, step) => {
                asking.problem = answer::is_problem_asked_for(head.headers);
                Begun::Later(Box::pin(asking.later(step)))
            }
        }
    }

    fn shed(&self, live: &Live, problem: bool) -> Response<Bytes> {
        count(&self.0.tally.shed);
        self.0.watch.tell(&Decision { key: None, outcome: Outcome::Shed, dry_run: false });
        live.settings.answers.shed(problem)
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

impl Asking {
    /// Asks all limits at once. `headers` are there as long as the request is at hand.
    fn limits(self, place: Option<Place>, now: Instant, headers: Option<&HeaderMap>) -> Decided {
        let key = self.key.map(ClientKey::to_bytes);
        let key = key.as_ref().and_then(|bytes| Key::new(bytes).ok()).unwrap_or(Key::ALL);
        let rules = || self.ruled.places().iter().filter_map(|place| self.live.plan.rule(*place)).map(|(rule, _)| rule);
        let mut charged = rules().map(|rule| Charge {
            limit: rule.named(),
            key: if rule.counts() == Counts::EachClient { key } else { Key::ALL },
            cost: rule.cost_of_one(),
        });
        let Some(first) = charged.next() else { return Decided::Admitted(self.admitted(place, None)) };
        let mut charges = [first; MOST_LIMITS];
        let asked = 1 + charges[1..].iter_mut().zip(charged).map(|(free, charge)| *free = charge).count();
        let taken = match Charges::new(&charges[..asked]) {
            Ok(charges) => self.guard.0.buckets.take(now, charges),
            Err(error) => {
                // Settings are checked before they are in force.
                tracing::error!(target: "comity_guard", %error, "limits that cannot be asked");
                drop(place);
                let problem = self.asks_for_problem(headers);
                return Decided::Refused(self.guard.shed(&self.live, problem));
            }
        };
        match taken {
            Taken::Now(verdict) => self.decide(place, verdict, now, headers),
            Taken::Later(answer) => Decided::Waits(self, Step::Store(place, answer)),
        }
    }

    fn decide(mut self, place: Option<Place>, verdict: Verdict, now: Instant, headers: Option<&HeaderMap>) -> Decided {
        let dry_run = self.live.settings.dry_run;
        match verdict.ruling() {
            Ruling::Admitted { start, delayed_by } => {
                let wait = start.since(now);
                if wait.is_zero() {
                    return Decided::Admitted(self.admitted(place, Some(&verdict)));
                }
                count(&self.guard.0.tally.delayed);
                let rule = delayed_by.and_then(|nth| self.name(nth)).unwrap_or_default();
                self.tell(Outcome::Delayed { rule, wait });
                if dry_run {
                    return Decided::Admitted(self.let_in(place, None));
                }
                let left = self.told(Some(&verdict));
                Decided::Waits(self, Step::Turn(place, left, wait))
            }
            Ruling::Refused { by, retry } => {
                if self.guard.0.buckets.standing().lost.is_some() {
                    count(&self.guard.0.tally.store_lost);
                    if self.live.settings.on_store_failure == OnStoreFailure::Admit {
                        return Decided::Admitted(self.admitted(place, None));
                    }
                }
                if let Some(rule) = self.ruled.places().get(by) {
                    self.live.count_refused(*rule);
                }
                let rule = self.name(by).unwrap_or_default();
                self.tell(Outcome::Refused { rule, retry });
                if dry_run {
                    count(&self.guard.0.tally.would_refuse);
                    let rule = Some(rule.to_owned());
                    self.would.get_or_insert(WouldRefuse { rule, retry });
                    return Decided::Admitted(self.admitted(place, None));
                }
                // What is refused gives its place back before its answer is made.
                drop(place);
                count(&self.guard.0.tally.refused);
                let problem = self.asks_for_problem(headers);
                Decided::Refused(self.live.settings.answers.refused(problem, retry, self.left(&verdict)))
            }
        }
    }

    /// The rest of the way of one that waits.
    async fn later(self, mut step: Step) -> Result<Admitted, Response<Bytes>> {
        let mut asking = self;
        loop {
            let decided = match step {
                Step::Place(waiting) => {
                    let place = waiting.place().await;
                    if place.is_none() {
                        return Err(asking.guard.shed(&asking.live, asking.problem));
                    }
                    let now = asking.guard.now();
                    asking.limits(place, now, None)
                }
                Step::Store(place, answer) => {
                    let verdict = answer.await;
                    let now = asking.guard.now();
                    asking.decide(place, verdict, now, None)
                }
                Step::Turn(mut place, left, wait) => {
                    tokio::time::sleep(wait).await;
                    if let Some(place) = &mut place {
                        place.goes_on(asking.guard.now());
                    }
                    Decided::Admitted(asking.let_in(place, left))
                }
            };
            match decided {
                Decided::Admitted(admitted) => return Ok(admitted),
                Decided::Refused(response) => return Err(response),
                Decided::Waits(still, next) => (asking, step) = (still, next),
            }
        }
    }

    fn admitted(self, place: Option<Place>, verdict: Option<&Verdict>) -> Admitted {
        if self.would.is_none() {
            self.tell(Outcome::Admitted);
        }
        let left = self.told(verdict);
        self.let_in(place, left)
    }

    /// A delayed one was told of when its wait began.
    fn let_in(self, place: Option<Place>, left: Option<HeaderValue>) -> Admitted {
        count(&self.guard.0.tally.admitted);
        let Self { live, ruled, would, .. } = self;
        Admitted { place, told: left.map(|left| Told { live, ruled, left }), would }
    }

    /// What its answer is to say of what is left.
    fn told(&self, verdict: Option<&Verdict>) -> Option<HeaderValue> {
        let tells = self.live.settings.answers.fields && !self.live.settings.dry_run;
        verdict.filter(|_| tells).and_then(|verdict| answer::left(self.left(verdict)))
    }

    fn would_shed(&mut self) {
        count(&self.guard.0.tally.would_shed);
        self.would = Some(WouldRefuse { rule: None, retry: Shed::default().retry });
        self.guard.0.watch.tell(&Decision { key: self.key, outcome: Outcome::Shed, dry_run: true });
    }

    fn tell(&self, outcome: Outcome<'_>) {
        self.guard.0.watch.tell(&Decision { key: self.key, outcome, dry_run: self.live.settings.dry_run });
    }

    fn asks_for_problem(&self, headers: Option<&HeaderMap>) -> bool {
        headers.map_or(self.problem, answer::is_problem_asked_for)
    }

    fn name(&self, nth: usize) -> Option<&str> {
        let (rule, _) = self.live.plan.rule(*self.ruled.places().get(nth)?)?;
        Some(rule.name())
    }

    fn left<'a>(&'a self, verdict: &'a Verdict) -> impl Iterator<Item = (&'a PolicyField, &'a Left)> + Clone {
        policies(&self.live, &self.ruled).zip(verdict.left())
    }
}

impl Admitted {
    /// Says what is left of the limits.
    pub(crate) fn tell(&mut self, headers: &mut HeaderMap) {
        if let Some(Told { live, ruled, left }) = self.told.take() {
            answer::add_policies(headers, policies(&live, &ruled));
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
