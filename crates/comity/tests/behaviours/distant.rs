//! A pacer beside a store whose answers take their time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use comity::{Ask, Origin, Pacer, Profile};
use comity_core::limits::all::{self, Begin, Claim, Effects, Grant};
use comity_core::limits::{Member, Part, ScopeId, Wait};
use comity_core::time::Instant;
use comity_store::{Asked, Claimed, Lesson, Memory, News, ReadClock, Shared, Standing, Store, Wake};
use parking_lot::Mutex;

use crate::support::{fixed, ms, refused, served, url};

const PAGE: &str = "http://example.org/page";

/// Decides as a memory does, and answers after `trip`.
struct Distant {
    trip: Duration,
    wake: Option<Wake>,
    on_their_way: VecDeque<(Instant, u64, Result<Grant, Wait>)>,
    released: Arc<Mutex<u32>>,
    /// How long the machine slept, which the store's clock counts and timers do not.
    slept: Arc<Mutex<Duration>>,
}

impl Distant {
    fn new(trip: Duration) -> (Self, Arc<Mutex<u32>>) {
        let released = Arc::default();
        let (on_their_way, slept) = (VecDeque::new(), Arc::default());
        (Self { trip, wake: None, on_their_way, released: Arc::clone(&released), slept }, released)
    }
}

impl Shared for Distant {
    #[expect(
        clippy::disallowed_methods,
        reason = "a store has a clock of its own; this one is tokio's, which tests pause"
    )]
    fn clock(&self) -> ReadClock {
        let origin = tokio::time::Instant::now();
        let slept = Arc::clone(&self.slept);
        Arc::new(move || Instant::from_millis(1 << 40).after(origin.elapsed()).after(*slept.lock()))
    }

    fn on_news(&mut self, wake: Wake) {
        self.wake = Some(wake);
    }

    fn claim(&mut self, memory: &mut Memory, now: Instant, claim: &Claim<'_>, asked: Asked) -> Claimed {
        let answer = all::claim(memory, now, claim).map(|grant| Grant { from: Origin::Shared, ..grant });
        self.on_their_way.push_back((now.after(self.trip), asked.id, answer));
        let (wake, trip) = (self.wake.clone().unwrap(), self.trip);
        tokio::spawn(async move {
            tokio::time::sleep(trip).await;
            wake();
        });
        Claimed::Later
    }

    fn begin(&mut self, _: &mut Memory, now: Instant, _: &[Member], grant: &mut Grant) -> Begin {
        if grant.is_too_late(now) { Begin::TooLate } else { Begin::Go }
    }

    fn learn(&mut self, memory: &mut Memory, now: Instant, members: &[Member], lesson: &Lesson<'_>) -> Effects {
        memory.learn(now, members, lesson.grant, lesson.signal, lesson.latency)
    }

    fn release(&mut self, memory: &mut Memory, now: Instant, members: &[Member], grant: &Grant) -> Effects {
        assert!(members.iter().all(|member| member.part == Part::Own));
        *self.released.lock() += 1;
        memory.release(now, members, grant)
    }

    fn declare(&mut self, _: &mut Memory, _: Instant, _: ScopeId, _: Duration) {}

    fn forget(&mut self, _: &mut Memory, _: Instant, _: &[ScopeId]) {}

    fn news(&mut self, _: &mut Memory, now: Instant) -> News {
        let came = self.on_their_way.iter().take_while(|(at, ..)| *at <= now).count();
        let answers = self.on_their_way.drain(..came).map(|(_, id, answer)| (id, answer)).collect();
        News { answers, ..News::default() }
    }

    fn standing(&self) -> Standing {
        Standing { place: "far away".into(), members: 1, lost: None, losses: 0 }
    }
}

#[tokio::test(start_paused = true)]
async fn x3_late_answers_keep_the_order_and_the_rate() {
    let (store, _) = Distant::new(ms(7));
    let pacer = Pacer::builder(Profile::Api).template(fixed(100)).shared(store);
    let mut permits = Vec::new();
    let waiting: Vec<_> = (0..10)
        .map(|_| {
            let pacer = pacer.clone();
            tokio::spawn(async move { pacer.acquire(&url(PAGE)).await.unwrap() })
        })
        .collect();
    for permit in waiting {
        permits.push(permit.await.unwrap());
    }
    let starts: Vec<Duration> = permits.iter().map(comity::Permit::started).collect();
    assert!(starts.is_sorted(), "in the order they came: {starts:?}");
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= ms(90)), "{starts:?}");
    assert!(starts[9] <= ms(920), "a tick of the timer each at most is lost: {starts:?}");
    assert!(permits.iter().all(|permit| permit.origin() == Origin::Shared));
}

#[tokio::test(start_paused = true)]
async fn t11_a_request_cancelled_while_the_store_is_asked_gives_its_place_back() {
    let (store, released) = Distant::new(ms(20));
    let pacer = Pacer::builder(Profile::Api).template(fixed(1000)).shared(store);
    let waiting = tokio::spawn({
        let pacer = pacer.clone();
        async move { pacer.acquire(&url(PAGE)).await.unwrap() }
    });
    tokio::time::sleep(ms(10)).await;
    waiting.abort();
    tokio::time::sleep(ms(30)).await;
    assert_eq!(*released.lock(), 1, "the grant nobody waits for any more came back, though nobody asks after it");
    let next = pacer.acquire(&url(PAGE)).await.unwrap();
    assert!(next.started() >= ms(1000), "and its slot is lost: {:?}", next.started());
}

#[tokio::test(start_paused = true)]
#[expect(clippy::disallowed_methods, reason = "timers are what is measured here, beside a store's clock that ran on")]
async fn e06_after_a_sleep_a_pause_is_over_at_once_and_spacing_still_holds() {
    let (store, _) = Distant::new(ms(1));
    let slept = Arc::clone(&store.slept);
    let pacer = Pacer::builder(Profile::Crawl).template(fixed(500)).shared(store);
    drop(refused(pacer.acquire(&url(PAGE)).await.unwrap(), 429, Some("3600")));
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let pacer = pacer.clone();
            tokio::spawn(async move { served(pacer.acquire(&url(PAGE)).await.unwrap()) })
        })
        .collect();
    tokio::time::sleep(ms(5000)).await;
    assert_eq!(pacer.waiting(), 3, "the host asked for an hour");
    *slept.lock() = Duration::from_secs(36_000);
    let woken = tokio::time::Instant::now();
    let mut starts = Vec::new();
    for waiting in waiting {
        waiting.await.unwrap();
        starts.push(woken.elapsed());
    }
    assert!(starts[0] <= ms(1100), "within a second: {starts:?}");
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= ms(450)), "no burst of what was overdue: {starts:?}");
}

#[test]
fn a_request_that_waits_for_nothing_gets_its_late_answer() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let _inside = runtime.enter();
    let (store, _) = Distant::new(ms(3));
    let pacer = Pacer::builder(Profile::Api).template(fixed(60_000)).shared(store);
    let asked = url(PAGE);
    let permit = pacer.try_acquire(Ask::new(&asked)).unwrap().unwrap();
    let delay = pacer.try_acquire(Ask::new(&asked)).unwrap().unwrap_err();
    assert!(delay.wait.unwrap() > Duration::from_secs(50), "{delay}");
    drop(permit);
}

/// A line that goes while the store is asked leaves no place behind, though nobody asks after it.
#[tokio::test(start_paused = true)]
async fn t11_a_line_dropped_while_the_store_is_asked_gives_the_place_back() {
    let (store, released) = Distant::new(ms(20));
    let pacer = Pacer::builder(Profile::Api).template(fixed(1000)).shared(store);
    let mut line = pacer.line();
    let page = url(PAGE);
    line.push(&Ask::new(&page), 1).unwrap().unwrap();
    assert!(line.try_next().is_none(), "it is asked");
    drop(line);
    tokio::time::sleep(ms(60_000)).await;
    assert_eq!(*released.lock(), 1);
}
