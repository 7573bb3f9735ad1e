//! Our own uplink is not blamed on the hosts (A10).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use comity::{AimdSettings, Answer, Ask, Because, NoAnswer, Pacer, Partial, Policy, Profile, Replay};
use http::HeaderMap;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::support::{ms, refused, served, url, waiter};

/// Hosts that are asked all the time, over one way that they share.
struct World {
    pacer: Pacer,
    /// When the way is free again.
    way: Mutex<Instant>,
    /// From when on only one answer fits through it every 5 ms.
    narrow: Instant,
    /// A host that takes two seconds from then on.
    bad: Option<usize>,
    until: Instant,
    in_flight: AtomicU32,
    /// Hosts whose interval was ever longer than at first.
    blamed: Mutex<BTreeSet<usize>>,
}

impl World {
    async fn run(hosts: usize, at_once: u32, narrow: Duration, bad: Option<usize>) -> Arc<Self> {
        let start = now();
        let world = Arc::new(Self {
            pacer: Pacer::builder(Profile::Api).template(learning(at_once)).local(),
            way: Mutex::new(start),
            narrow: start + narrow,
            bad,
            until: start + ms(25_000),
            in_flight: AtomicU32::new(0),
            blamed: Mutex::default(),
        });
        for host in 0..hosts {
            for _ in 0..at_once {
                let world = Arc::clone(&world);
                tokio::spawn(async move { world.ask_all_the_time(host).await });
            }
        }
        world
    }

    async fn ask_all_the_time(&self, host: usize) {
        let page = page(host);
        while now() < self.until {
            let permit = self.pacer.acquire(&page).await.unwrap();
            self.in_flight.fetch_add(1, Ordering::Relaxed);
            let bad = self.bad == Some(host) && now() >= self.until - ms(20_000);
            tokio::time::sleep(ms(if bad { 2000 } else { 100 })).await;
            if now() >= self.narrow {
                let through = {
                    let mut way = self.way.lock();
                    *way = now().max(*way) + ms(5);
                    *way
                };
                tokio::time::sleep_until(through).await;
            }
            self.in_flight.fetch_sub(1, Ordering::Relaxed);
            served(permit);
            if self.pacer.explain(&page).unwrap().scopes[0].state.learned_interval > START {
                self.blamed.lock().insert(host);
            }
        }
    }

    /// The mean in flight over the next so many seconds.
    async fn mean(&self, seconds: u32) -> f64 {
        let mut sum = 0;
        for _ in 0..seconds * 10 {
            tokio::time::sleep(ms(100)).await;
            sum += self.in_flight.load(Ordering::Relaxed);
        }
        f64::from(sum) / f64::from(seconds * 10)
    }

    fn blamed(&self) -> Vec<usize> {
        self.blamed.lock().iter().copied().collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a10_a_saturated_uplink_yields_and_no_host_is_blamed() {
    let world = World::run(20, 8, ms(5000), None).await;
    tokio::time::sleep(ms(4900)).await;
    assert_eq!(world.pacer.yielding(), None, "there is room for all");
    tokio::time::sleep(ms(5000)).await;
    // 100 ms away and 200 a second: 20 in flight keep the way busy.
    let mean = world.mean(12).await;
    assert!((18.0..35.0).contains(&mean), "{mean} in flight");
    assert_eq!(world.blamed(), [0; 0]);
    let yielding = world.pacer.yielding().unwrap();
    assert!(yielding.slow >= 12 && yielding.hosts <= 20 && yielding.lasts > ms(10_000), "{yielding:?}");
    // With three hosts nobody can tell, and they are taken for slow: so it would be with twenty.
    let control = World::run(3, 53, ms(5000), None).await;
    tokio::time::sleep(ms(24_000)).await;
    assert_eq!((control.blamed(), control.pacer.yielding()), (vec![0, 1, 2], None));
}

#[tokio::test(start_paused = true)]
async fn a10_one_bad_host_of_twenty_is_blamed_itself() {
    let world = World::run(20, 4, ms(99_000), Some(7)).await;
    tokio::time::sleep(ms(24_000)).await;
    assert_eq!((world.blamed(), world.pacer.yielding()), (vec![7], None));
}

#[tokio::test(start_paused = true)]
async fn a10_silence_of_all_is_counted_and_teaches_nobody() {
    let pacer = silent().await;
    let before: Vec<_> = pacer.hosts().into_iter().map(|(_, state)| state.learned_interval).collect();
    let yielding = pacer.yielding().unwrap();
    assert_eq!((yielding.slow, yielding.hosts, yielding.limit, yielding.in_flight), (4, 8, 2, 0));
    for host in 0..8 {
        let _ = pacer.acquire(&page(host)).await.unwrap().settle(&Answer::none(NoAnswer::TimedOut));
    }
    let after: Vec<_> = pacer.hosts().into_iter().map(|(_, state)| state.learned_interval).collect();
    assert_eq!(before, after);
    let counted: Vec<_> = pacer.hosts().into_iter().map(|(_, state)| state.tally.no_answers).collect();
    assert_eq!(counted, [2, 2, 2, 2, 1, 1, 1, 1]);
    // Who asked for retries gets them.
    let replay = Replay { retries: Some(2), ..Replay::default() };
    let permit = pacer.acquire(Ask::new(&page(0)).replay(replay)).await.unwrap();
    let settled = permit.settle(&Answer::none(NoAnswer::Reset));
    assert!(matches!(settled, comity::Settled::Retry(_)), "{settled:?}");
}

#[tokio::test(start_paused = true)]
async fn a10_what_servers_say_at_that_time_is_obeyed() {
    let pacer = silent().await;
    for host in 0..8 {
        let permit = pacer.acquire(&page(host)).await.unwrap();
        drop(refused(permit, 429, Some("30")));
    }
    for (name, state) in pacer.hosts() {
        assert_eq!(state.tally.refusals_with_advice, 1, "{name}");
        assert!(state.paused_for.is_some_and(|paused| paused > ms(28_000)), "{name}: {:?}", state.paused_for);
        assert!(state.learned_interval > START, "{name}: {:?}", state.learned_interval);
    }
}

#[tokio::test(start_paused = true)]
async fn a10_who_waits_for_the_uplink_is_told_so_and_starts_in_order_as_places_come_free() {
    let pacer = silent().await;
    let held = [pacer.acquire(&page(0)).await.unwrap(), pacer.acquire(&page(1)).await.unwrap()];
    let mut waiting = Vec::new();
    for host in 2..6 {
        waiting.push(waiter(&pacer, page(host).as_str()).await);
    }
    tokio::time::sleep(ms(500)).await;
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    let delay = pacer.try_acquire(&page(7)).unwrap().unwrap_err();
    assert_eq!(delay.because, Because::Uplink(2));
    assert!(delay.wait.is_some_and(|wait| wait > ms(20_000)), "or sooner, when a place comes free: {delay}");
    assert!(delay.to_string().starts_with("all hosts: 2 in flight, our own uplink is slow"), "{delay}");
    assert_eq!(pacer.explain(&page(7)).unwrap().delay, Some(delay));

    waiting.remove(1).abort();
    let [first, second] = held;
    drop(first);
    let next = waiting.remove(0).await.unwrap().unwrap();
    tokio::time::sleep(ms(500)).await;
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()), "one place, one start");
    drop((second, next));
    for waiting in waiting {
        assert!(waiting.await.unwrap().is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a10_a_line_waits_for_the_uplink_too_and_never_for_ever() {
    let pacer = silent().await;
    let mut line = pacer.line();
    let mut places = Vec::new();
    for host in 0..5 {
        places.push(line.push(&Ask::new(&page(host)), host as u64).unwrap().unwrap());
    }
    let (_, first) = line.next().await;
    let (_, _second) = line.next().await;
    tokio::time::sleep(ms(500)).await;
    assert!(line.try_next().is_none());
    assert_eq!(line.delay(places[4]).unwrap().because, Because::Uplink(2));
    drop(first);
    let (tag, _third) = line.next().await;
    assert_eq!(tag, 2);
    // Nothing is heard of those that are in flight: after half a minute the limit ends by itself.
    let before = now();
    assert_eq!(line.next().await.0, 3);
    let waited = now() - before;
    assert!(waited > ms(20_000) && waited < ms(31_000), "{waited:?}");
}

/// A pacer whose eight hosts have answered, until all of a sudden four of them fell silent one after the other.
async fn silent() -> Pacer {
    let pacer = Pacer::builder(Profile::Api).template(learning(8)).local();
    for _ in 0..6 {
        for host in 0..8 {
            let permit = pacer.acquire(&page(host)).await.unwrap();
            let _ = permit.settle(&Answer::response(200, &HeaderMap::new()).latency(ms(50)));
        }
    }
    tokio::time::sleep(ms(1000)).await;
    for host in 0..4 {
        assert_eq!(pacer.yielding(), None);
        let _ = pacer.acquire(&page(host)).await.unwrap().settle(&Answer::none(NoAnswer::Connect));
    }
    tokio::time::sleep(ms(500)).await;
    pacer
}

fn learning(at_once: u32) -> Partial {
    let policy = AimdSettings { start: START, floor: START, damping: 1, ..AimdSettings::default() };
    Partial {
        in_flight: std::num::NonZeroU32::new(at_once),
        policy: Some(Policy::Aimd(policy)),
        retries: Some(0),
        ..Partial::default()
    }
}

fn page(host: usize) -> url::Url {
    url(&format!("http://www.host{host}.example/"))
}

#[expect(clippy::disallowed_methods, reason = "the paused clock")]
fn now() -> Instant {
    Instant::now()
}

const START: Duration = Duration::from_millis(10);
