//! Guards' buckets on a server that many machines share.

mod words;

use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use comity_core::guard::{Limit, NamedLimit, Verdict, all};
use comity_core::limits::Share;
use comity_core::time::Instant;
use comity_store::guard::{Apart, Buckets, Charge, Charges, Counts, Key, Taken, refusal};
use comity_store::{ReadClock, Standing, StoreError};
use tokio::sync::oneshot;

use self::words::{Answer, Call, Cost};
use crate::clock::Clock;
use crate::connect::{Failure, GUARD_SCRIPT};
use crate::keys::Keys;
use crate::link::{Arrived, Link, Terms};
use crate::members::{Member, Sign, random, random_name};
use crate::script::{pack, unpack};
use crate::url::Place;

/// Guards' buckets on a Redis or Valkey server: all guards that name the same address hold one limit, to the tick.
///
/// A take is one script and one round trip, which decides all of a request's charges together, on the server's clock, and
/// then charges all of them or none. A bucket expires a minute after it is full, so the server forgets nobody's debt.
///
/// On a cluster all this holds as well, because all buckets of a prefix carry one tag and are kept by one of its nodes; for
/// more than one node can bear, guards that need not share take different [prefixes](BucketSettings::prefix) on servers of
/// their own.
///
/// Where the server is out of reach nothing is let in at first, and then this process's part of every limit ([`Apart`]); it is
/// found again by itself. That holds the limit where the server is lost to all guards; where it is lost to some only, their
/// parts come on top of what the others let in. A take whose answer is lost may have been charged. After a flush every bucket is spent (X9), as far
/// as anybody knows that there were others before; a replica that takes over has forgotten what it had not heard of.
///
/// A user of few rights needs EVALSHA, EVAL, GET, MGET, SET, DEL and TIME on keys that begin with the prefix.
///
/// ```no_run
/// use comity_redis::{BucketSettings, RedisBuckets};
/// use comity_store::guard::Buckets as _;
///
/// let buckets = RedisBuckets::open("redis://store.example.org/0", BucketSettings::default())?;
/// assert_eq!(buckets.standing().lost, None);
/// # Ok::<(), comity_store::StoreError>(())
/// ```
pub struct RedisBuckets(Arc<Near>);

/// How [`RedisBuckets`] behave.
#[derive(Clone, Debug)]
pub struct BucketSettings {
    /// How long a take may take; 75 ms. Past it the store is lost for this process, until it is found again.
    pub deadline: Duration,
    /// How long after its last sign of life a process counts as one of those that share the limits; 10 s.
    pub lease: Duration,
    /// What all keys begin with; `comity:1:guard`. Guards of different services share a limit's name only if they share this.
    pub prefix: String,
}

/// This process's end.
struct Near {
    link: Link,
    place: Place,
    keys: Keys,
    clock: Clock,
    given_times: bool,
    deadline: Duration,
    apart: Apart,
    /// The name of a generation that begins with this process.
    random: String,
    state: Mutex<State>,
}

struct State {
    generation: Option<String>,
    /// This process's part of every limit, where it must go by itself.
    share: Share,
    lost: Option<(Instant, String)>,
    losses: u32,
    calls: u64,
    /// Who waits for the answers of calls.
    under_way: HashMap<u64, oneshot::Sender<Result<Answer, String>>>,
}

/// A request's charges, kept until the answer is there.
struct Owned(Vec<(NamedLimit, Vec<u8>, u32)>);

impl Default for BucketSettings {
    fn default() -> Self {
        Self {
            deadline: Duration::from_millis(75),
            lease: Duration::from_secs(10),
            prefix: "comity:1:guard".to_owned(),
        }
    }
}

impl RedisBuckets {
    /// Joins the guards that share the server at this address; addresses are those of [`Redis::open`](crate::Redis::open).
    ///
    /// # Errors
    /// As [`Redis::open`](crate::Redis::open).
    pub fn open(url: &str, settings: BucketSettings) -> Result<Self, StoreError> {
        Self::join(url, settings, false)
    }

    /// As [`RedisBuckets::open`], but time is what each take says: for tests.
    ///
    /// # Errors
    /// As [`RedisBuckets::open`].
    #[doc(hidden)]
    pub fn at_given_times(url: &str, settings: BucketSettings) -> Result<Self, StoreError> {
        Self::join(url, settings, true)
    }

    fn join(url: &str, settings: BucketSettings, given_times: bool) -> Result<Self, StoreError> {
        let BucketSettings { deadline, lease, prefix } = settings;
        let (place, clock, keys) = (Place::read(url)?, Clock::start(), Keys::new(&prefix));
        let terms = Terms {
            place: place.clone(),
            keys: keys.clone(),
            clock,
            deadline,
            lease,
            script: &GUARD_SCRIPT,
            listens: false,
            given_times,
        };
        let (link, sign) = Link::open(terms, Member::new())?;
        let mut state = State {
            generation: None,
            share: Apart::assumed_share(),
            lost: None,
            losses: 0,
            calls: 0,
            under_way: HashMap::new(),
        };
        state.hear(sign);
        let near = Arc::new(Near {
            link,
            place,
            keys,
            clock,
            given_times,
            deadline,
            apart: Apart::new(random(), Arc::new(move || clock.now())),
            random: random_name(),
            state: Mutex::new(state),
        });
        let told = Arc::downgrade(&near);
        near.link.on_arrival(Arc::new(move || {
            if let Some(near) = told.upgrade() {
                near.hear();
            }
        }));
        near.hear();
        Ok(Self(near))
    }
}

impl Buckets for RedisBuckets {
    fn clock(&self) -> ReadClock {
        let clock = self.0.clock;
        Arc::new(move || clock.now())
    }

    fn take(&self, now: Instant, charges: Charges<'_>) -> Taken {
        let near = &self.0;
        if charges.as_slice().is_empty() {
            return Taken::Now(all::take(now, &[], &mut []));
        }
        if let Some(why) = near.link.gone() {
            near.lose(now, why);
        }
        let mut state = near.state();
        if let Some((since, _)) = &state.lost {
            return Taken::Now(near.apart.take(now, *since, &state.share, charges));
        }
        if state.under_way.len() >= MOST_UNDER_WAY {
            return Taken::Now(refusal(now, &Owned::of(charges).limits()));
        }
        let call = Call {
            now: near.given_times.then(|| now.as_nanos() / 1000),
            r#gen: state.generation.clone(),
            rid: near.random.clone(),
            b: charges.as_slice().iter().map(Cost::of).collect(),
        };
        let mut keys: Vec<Vec<u8>> = charges
            .as_slice()
            .iter()
            .map(|charge| near.keys.bucket(charge.limit.name(), charge.key.as_bytes()))
            .collect();
        keys.push(near.keys.generation().into_bytes());
        state.calls += 1;
        let id = state.calls;
        let (tell, told) = oneshot::channel();
        state.under_way.insert(id, tell);
        drop(state);
        near.link.call(id, now, keys, pack(&call));
        if near.link.gone().is_some() {
            near.hear();
        }
        let (near, owned) = (Arc::clone(near), Owned::of(charges));
        Taken::Later(Box::pin(async move {
            let answer = told.await;
            let now = if near.given_times { now } else { near.clock.now() };
            near.verdict(now, &owned, answer.unwrap_or_else(|_| Err("it was lost".to_owned())))
        }))
    }

    /// Buckets are counted by the server alone, and there is room for all of them.
    fn counts(&self) -> Counts {
        Counts::default()
    }

    fn standing(&self) -> Standing {
        let state = self.0.state();
        Standing {
            place: self.0.place.to_string(),
            members: state.share.members(),
            lost: state.lost.clone(),
            losses: state.losses,
        }
    }
}

impl Near {
    /// What came from the connection.
    fn hear(&self) {
        while let Some(arrived) = self.link.next() {
            match arrived {
                Arrived::Answer { id, came, result, .. } => {
                    let waits = self.state().under_way.remove(&id);
                    // Who waited for one that was lost was told of the loss.
                    let Some(waits) = waits else { continue };
                    let answer = match result {
                        Ok(bytes) => unpack::<Answer>(&bytes).ok_or_else(|| NO_ANSWER.to_owned()),
                        Err(Failure::Refused(why)) => Err(why),
                        Err(Failure::Lost(why)) => {
                            self.lose(came, &why);
                            Err(why)
                        }
                    };
                    if let Ok(answer) = &answer {
                        self.state().heard_generation(&answer.g, &self.place);
                    }
                    // Whoever asked may have gone.
                    drop(waits.send(answer));
                }
                Arrived::Beat { sign, .. } => self.state().hear(sign),
                Arrived::Down(why) => self.lose(self.clock.now(), &why),
                Arrived::Up => self.found(),
                Arrived::Woken(_) | Arrived::Listening(_) => {}
            }
        }
    }

    fn verdict(&self, now: Instant, owned: &Owned, answer: Result<Answer, String>) -> Verdict {
        let (limits, charges) = (owned.limits(), owned.charges());
        let why = match answer.map(|answer| answer.verdict(now, &limits)) {
            Ok(Some(verdict)) => return verdict,
            Ok(None) => NO_ANSWER.to_owned(),
            Err(why) => why,
        };
        let state = self.state();
        match (&state.lost, Charges::new(&charges)) {
            (Some((since, _)), Ok(charges)) => self.apart.take(now, *since, &state.share, charges),
            _ => {
                tracing::warn!("{} did not decide about a request, which is refused: {why}", self.place.address());
                refusal(now, &limits)
            }
        }
    }

    fn lose(&self, now: Instant, why: &str) {
        let mut state = self.state();
        // Whoever waits goes by itself now; a late answer is nobody's.
        state.under_way.clear();
        if state.lost.is_some() {
            return;
        }
        tracing::warn!(
            "the guards' buckets at {} are out of reach ({why}): nothing is let in for a second, then a {}th of every limit, \
             until they are back",
            self.place.address(),
            state.share.members()
        );
        state.lost = Some((now, why.to_owned()));
        state.losses += 1;
    }

    fn found(&self) {
        let since = self.state().lost.take();
        if let Some((since, _)) = since {
            self.apart.found();
            let took = self.clock.now().since(since).as_secs_f64();
            tracing::warn!("the guards' buckets at {} are back after {took:.1} s", self.place.address());
        }
    }

    /// Nothing leaves it half changed.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn hear(&mut self, sign: Sign) {
        if let Some(members) = NonZeroU32::new(sign.members) {
            self.share = Share::of_members(members, sign.rank, Duration::ZERO);
        }
        if sign.generation.is_some() {
            self.generation = sign.generation;
        }
    }

    fn heard_generation(&mut self, generation: &str, place: &Place) {
        if self.generation.as_deref() == Some(generation) {
            return;
        }
        if self.generation.is_some() {
            tracing::warn!("the guards' buckets at {} were lost: all begin with nothing left", place.address());
        }
        self.generation = Some(generation.to_owned());
    }
}

impl Owned {
    fn of(charges: Charges<'_>) -> Self {
        let own = |charge: &Charge<'_>| (charge.limit.clone(), charge.key.as_bytes().to_vec(), charge.cost);
        Self(charges.as_slice().iter().map(own).collect())
    }

    fn limits(&self) -> Vec<(Limit, u32)> {
        self.0.iter().map(|(limit, _, cost)| (*limit.limit(), *cost)).collect()
    }

    fn charges(&self) -> Vec<Charge<'_>> {
        self.0
            .iter()
            .map(|(limit, key, cost)| Charge { limit, key: Key::new(key).unwrap_or(Key::ALL), cost: *cost })
            .collect()
    }
}

impl Drop for RedisBuckets {
    fn drop(&mut self) {
        self.0.link.close(Vec::new(), self.0.deadline);
    }
}

impl fmt::Debug for RedisBuckets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBuckets").field("place", &self.0.place.to_string()).finish_non_exhaustive()
    }
}

const NO_ANSWER: &str = "an answer that is none of this store's";
/// Takes that wait for an answer at once; more are refused.
const MOST_UNDER_WAY: usize = 20_000;
