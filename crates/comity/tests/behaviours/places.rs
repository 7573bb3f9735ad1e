//! Order, places in flight, limits that callers bring, cancelling (T1–T5, T11, E16).

use comity::{Pacer, Partial, Profile, Settled};
use tokio::task::yield_now;

use crate::support::{about, fixed, gaps, ms, places, refused, served, starts, taught_by_refusals, url, waiter};

const PAGE: &str = "http://a.example/";

#[tokio::test(start_paused = true)]
async fn t1_requests_start_in_order_and_no_sooner_than_the_interval_allows() {
    let pacer = Pacer::builder(Profile::Api).template(fixed(100)).local();
    let starts = starts(&pacer, PAGE, 20).await;
    assert!(starts.is_sorted(), "{starts:?}");
    assert!(gaps(&starts).into_iter().all(|gap| about(gap, ms(100))), "{starts:?}");
}

#[tokio::test(start_paused = true)]
async fn t1_a_place_is_held_until_the_headers_are_there() {
    let pacer = Pacer::builder(Profile::Api).template(places(2)).local();
    let first = pacer.acquire(&url(PAGE)).await.unwrap();
    let _second = pacer.acquire(&url(PAGE)).await.unwrap();
    let third = waiter(&pacer, PAGE).await;
    tokio::time::sleep(ms(60_000)).await;
    assert!(!third.is_finished(), "no interval holds, only the places");
    served(first);
    assert!(third.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn t5_a_set_of_limits_has_a_rate_of_its_own() {
    let host = Pacer::builder(Profile::Api).template(taught_by_refusals()).local();
    let slow = host.with_limits(&Partial { interval: Some(ms(1000)), ..Partial::default() });
    let fast = host.with_limits(&Partial { interval: Some(ms(100)), ..Partial::default() });
    let (slow, fast) = tokio::join!(starts(&slow, PAGE, 4), starts(&fast, PAGE, 31));
    assert!(gaps(&slow).into_iter().all(|gap| about(gap, ms(1000))), "the faster set does not hold it back: {slow:?}");
    assert!(gaps(&fast).into_iter().all(|gap| about(gap, ms(100))), "{fast:?}");
}

#[tokio::test(start_paused = true)]
async fn t5_callers_with_equal_limits_share_a_queue() {
    let host = Pacer::builder(Profile::Api).local();
    let limits = Partial { interval: Some(ms(1000)), ..Partial::default() };
    let (one, other) = (host.with_limits(&limits), host.with_limits(&limits));
    let (mut all, others) = tokio::join!(starts(&one, PAGE, 3), starts(&other, PAGE, 3));
    all.extend(others);
    assert!(gaps(&all).into_iter().all(|gap| about(gap, ms(1000))), "{all:?}");
}

#[tokio::test(start_paused = true)]
async fn t5_what_one_set_learns_holds_for_all() {
    let host = Pacer::builder(Profile::Api).local();
    let one = host.with_limits(&Partial { interval: Some(ms(10)), ..Partial::default() });
    let other = host.with_limits(&Partial { interval: Some(ms(20)), ..Partial::default() });
    let permit = one.acquire(&url(PAGE)).await.unwrap();
    let refused_at = permit.started();
    drop(refused(permit, 429, Some("3")));
    for pacer in [&other, &host] {
        let delay = pacer.try_acquire(&url(PAGE)).unwrap().unwrap_err();
        assert_eq!(delay.wait, Some(ms(3000)), "{delay}");
    }
    let started = other.acquire(&url(PAGE)).await.unwrap().started();
    assert!(about(started - refused_at, ms(3000)), "{started:?}");
}

#[tokio::test(start_paused = true)]
async fn t5_what_a_set_leaves_open_falls_back_to_the_host() {
    let crawl = Pacer::local(Profile::Crawl);
    let own = crawl.with_limits(&Partial { interval: Some(ms(2000)), ..Partial::default() });
    let permit = own.acquire(&url(PAGE)).await.unwrap();
    // Ten minutes: within the hour of the profile, past the five minutes that hold where nobody says anything.
    let settled = refused(permit, 429, Some("600"));
    assert!(matches!(settled, Settled::Retry(_)), "{settled:?}");
    drop(settled);

    let never = Pacer::builder(Profile::Api).template(Partial { retries: Some(0), ..Partial::default() }).local();
    let own = never.with_limits(&Partial { interval: Some(ms(10)), ..Partial::default() });
    let settled = refused(own.acquire(&url(PAGE)).await.unwrap(), 429, None);
    assert!(matches!(settled, Settled::GiveUp(comity::GiveUp::NoRetriesLeft)), "{settled:?}");
    let asks = never.with_limits(&Partial { retries: Some(1), ..Partial::default() });
    let settled = refused(asks.acquire(&url(PAGE)).await.unwrap(), 429, None);
    assert!(matches!(settled, Settled::Retry(_)), "what it does say wins: {settled:?}");
}

#[tokio::test(start_paused = true)]
async fn t11_dropping_a_waiting_request_costs_nobody_anything() {
    let pacer = Pacer::builder(Profile::Api).template(fixed(1000)).local();
    let first = pacer.acquire(&url(PAGE)).await.unwrap().started();
    let cancelled = waiter(&pacer, PAGE).await;
    let behind = waiter(&pacer, PAGE).await;
    cancelled.abort();
    yield_now().await;
    assert_eq!(pacer.waiting(), 1);
    let started = behind.await.unwrap().unwrap().started();
    assert!(about(started - first, ms(1000)), "it moves up: {started:?}");
}

#[tokio::test(start_paused = true)]
async fn t11_dropping_a_permit_gives_its_place_back_and_teaches_nothing() {
    let pacer = Pacer::builder(Profile::Api).template(places(1)).local();
    let permit = pacer.acquire(&url(PAGE)).await.unwrap();
    let behind = waiter(&pacer, PAGE).await;
    assert!(!behind.is_finished());
    drop(permit);
    drop(behind.await.unwrap().unwrap());
    let state = &pacer.explain(&url(PAGE)).unwrap().scopes[0].state;
    assert_eq!((state.in_flight, state.learned_interval, state.tally), (0, ms(0), Default::default()));
}

/// A permit that is handed to a future in the moment it is dropped must not keep its place.
#[tokio::test(start_paused = true)]
async fn t11_a_start_granted_to_nobody_comes_free() {
    let pacer = Pacer::builder(Profile::Api).template(places(1)).local();
    let first = pacer.acquire(&url(PAGE)).await.unwrap();
    let doomed = waiter(&pacer, PAGE).await;
    let behind = waiter(&pacer, PAGE).await;
    served(first); // The permit is on its way to the second …
    doomed.abort(); // … which ends before it looks.
    assert!(behind.await.unwrap().is_ok());
}

#[test]
fn e16_clones_share_their_pace_and_separate_pacers_do_not() {
    let hour = Partial { interval: Some(std::time::Duration::from_secs(3600)), ..Partial::default() };
    let started = |pacers: Vec<Pacer>| -> usize {
        std::thread::scope(|scope| {
            let threads: Vec<_> = pacers
                .iter()
                .map(|pacer| scope.spawn(move || pacer.try_acquire(&url(PAGE)).unwrap().is_ok()))
                .collect();
            threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum()
        })
    };
    let builder = Pacer::builder(Profile::Api).template(hour);
    let one = builder.local();
    assert_eq!(started(vec![one; 12]), 1);
    assert_eq!(started((0..12).map(|_| builder.local()).collect()), 12);
}
