//! The late fence (decision 2), changed limits (C21), the queue time-out (D23), and crowds (C19, C20).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use comity::{Answer, Ask, Begin, NoAnswer, Pacer, Partial, Policy, Profile, Replay, Settled};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::support::{about, fixed, gaps, ms, places, refused, served, starts, url, waiter};

const PAGE: &str = "http://a.example/";

#[tokio::test(start_paused = true)]
async fn late_fence_a_start_used_late_and_alone_sets_the_clocks_to_now() {
    let pacer = Pacer::builder(Profile::Api).template(fixed(1000)).local();
    let mut permit = pacer.acquire(&url(PAGE)).await.unwrap();
    let granted = permit.started();
    tokio::time::advance(ms(2)).await;
    assert_eq!(permit.begin(), Begin::Go);
    assert_eq!(permit.started(), granted, "what any wake-up is late is in time");
    tokio::time::advance(ms(398)).await;
    assert_eq!(permit.begin(), Begin::Go);
    assert!(about(permit.started() - granted, ms(400)), "its start is when it is used: {:?}", permit.started());
    let next = pacer.acquire(&url(PAGE)).await.unwrap().started();
    assert!(about(next - granted, ms(1400)), "the next is a whole interval after that: {next:?}");
}

#[tokio::test(start_paused = true)]
async fn late_fence_a_start_used_after_anothers_is_given_up_and_keeps_its_place() {
    let pacer = Pacer::builder(Profile::Api).template(fixed(1000)).local();
    let mut late = pacer.acquire(&url(PAGE)).await.unwrap();
    let place = late.place();
    let other = pacer.acquire(&url(PAGE)).await.unwrap().started();
    let behind = waiter(&pacer, PAGE).await;
    assert_eq!(late.begin(), Begin::TooLate);
    let mut again = late.again().await.unwrap();
    assert!(about(again.started() - other, ms(1000)), "{:?}", again.started());
    assert_eq!((again.place(), again.attempt()), (place, 1), "it goes before those behind, and was not sent yet");
    assert_eq!(again.begin(), Begin::Go);
    let behind = behind.await.unwrap().unwrap().started();
    assert!(about(behind - other, ms(2000)), "{behind:?}");
}

/// A task that is woken long after its start was granted, while another started.
#[tokio::test(start_paused = true)]
async fn late_fence_a_task_woken_too_late_claims_again_by_itself() {
    let pacer = Pacer::builder(Profile::Api).template(fixed(1000)).local();
    served(pacer.acquire(&url(PAGE)).await.unwrap());
    let page = url(PAGE);
    let mut slow = Box::pin(pacer.acquire(&page));
    let polled = futures_poll(&mut slow).await;
    assert!(polled.is_none());
    let quick = waiter(&pacer, PAGE).await;
    let other = quick.await.unwrap().unwrap().started(); // The slow one was granted a start before, and slept through it.
    let permit = slow.await.unwrap();
    assert!(about(permit.started() - other, ms(1000)), "{:?} after {other:?}", permit.started());
    assert_eq!(permit.attempt(), 1);
}

/// Polls once.
async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|cx| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(cx) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn c21_fewer_places_while_more_are_in_flight() {
    let builder = |most| Pacer::builder(Profile::Api).template(places(most));
    let pacer = builder(5).local();
    let mut held = Vec::new();
    for _ in 0..5 {
        held.push(pacer.acquire(&url(PAGE)).await.unwrap());
    }
    let waiting = [waiter(&pacer, PAGE).await, waiter(&pacer, PAGE).await];
    pacer.set_rules(builder(2).rules());
    for left in (2..5).rev() {
        served(held.pop().unwrap());
        tokio::time::sleep(ms(1)).await;
        assert!(waiting.iter().all(|task| !task.is_finished()), "{left} are still in flight");
    }
    served(held.pop().unwrap());
    let [first, second] = waiting;
    let first = first.await.unwrap().unwrap();
    assert!(!second.is_finished());
    pacer.set_rules(builder(5).rules());
    assert!(second.await.unwrap().is_ok(), "more places are taken at once");
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn c21_another_rate_holds_at_once_for_those_that_wait() {
    let builder = |interval| Pacer::builder(Profile::Api).template(fixed(interval));
    let pacer = builder(100).local();
    let all = tokio::spawn({
        let pacer = pacer.clone();
        async move { starts(&pacer, PAGE, 51).await }
    });
    tokio::time::sleep(ms(1050)).await;
    pacer.set_rules(builder(1000).rules());
    tokio::time::sleep(ms(10_000)).await;
    pacer.set_rules(builder(100).rules());
    let all = all.await.unwrap();
    let between = |from: u64, until: u64| {
        let inside = |at: &&Duration| **at - all[0] >= ms(from) && **at - all[0] < ms(until);
        all.iter().filter(inside).count()
    };
    assert_eq!(between(0, 1050), 11);
    assert_eq!(between(1060, 11_050), 10, "{all:?}");
    assert!(all[50] - all[0] < ms(11_050 + 30 * 100 + 200), "{:?}", all[50]);
}

#[tokio::test(start_paused = true)]
async fn d23_a_queue_time_out_is_told_apart_and_its_request_is_never_sent() {
    let pacer = Pacer::builder(Profile::Api).template(Partial { retries: Some(0), ..Partial::default() }).local();
    let page = url(PAGE);
    let first = pacer.acquire(&page).await.unwrap();
    let paused_at = first.started();
    drop(refused(first, 429, Some("5")));
    let mut events = pacer.events();
    let error = pacer.acquire(Ask::new(&page).queue_timeout(ms(1000))).await.unwrap_err();
    assert!(error.is_queue_timeout(), "{error}");
    assert!(error.to_string().contains("paused by the server"), "{error}");
    assert_eq!(pacer.waiting(), 0);
    let next = pacer.acquire(Ask::new(&page).queue_timeout(ms(10_000))).await.unwrap();
    assert!(about(next.started() - paused_at, ms(5000)), "{:?}", next.started());
    let sent = std::iter::from_fn(|| events.try_next()).filter(|e| matches!(e.kind, comity::EventKind::Sent { .. }));
    assert_eq!(sent.count(), 1, "the one that waited no more was not sent at five seconds");
}

#[tokio::test(start_paused = true)]
async fn d13_every_kind_of_failure_gives_its_place_back() {
    let pacer = Pacer::builder(Profile::Api).template(places(1)).local();
    let page = url(PAGE);
    let retried = Ask::new(&page).replay(Replay { retries: Some(1), ..Replay::default() });
    for why in [NoAnswer::Resolve, NoAnswer::Connect, NoAnswer::TimedOut, NoAnswer::Reset] {
        let behind = {
            let permit = pacer.acquire(&page).await.unwrap();
            let behind = waiter(&pacer, PAGE).await;
            assert!(matches!(permit.settle(&Answer::none(why)), Settled::Done), "{why:?}");
            behind
        };
        served(behind.await.unwrap().unwrap());

        // A retry from the handler of the failure itself waits and does not block the place it gave back.
        let permit = pacer.acquire(retried).await.unwrap();
        let Settled::Retry(again) = permit.settle(&Answer::none(why)) else { panic!("{why:?} is retried") };
        served(pacer.acquire(&page).await.unwrap());
        served(again.await.unwrap());
    }
    assert_eq!(pacer.explain(&page).unwrap().scopes[0].state.in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn c19_a_waiting_request_holds_no_worker() {
    for workers in [8, 64] {
        let pacer = Pacer::builder(Profile::Crawl).template(fixed(1000)).local();
        let mut line = pacer.line();
        let hosts: Vec<_> = (0..306).map(|host| url(&format!("http://h{host}.example/"))).collect();
        let mut pages = Vec::new();
        // From 171 pages to 5: the biggest host alone needs 171 seconds.
        for (host, url) in hosts.iter().enumerate() {
            for _ in 0..(171 * 10 / (host + 10)) {
                line.push(&Ask::new(url), pages.len() as u64).unwrap().unwrap();
                pages.push(host);
            }
        }
        let free = Arc::new(Semaphore::new(workers));
        let mut working = JoinSet::new();
        let mut starts: HashMap<usize, Vec<Duration>> = HashMap::new();
        let mut left = pages.len();
        let mut paused = false;
        while left > 0 {
            let worker = Arc::clone(&free).acquire_owned().await.unwrap();
            let (tag, permit) = line.next().await;
            let host = pages[tag as usize];
            if host == 7 && !paused {
                paused = true;
                assert!(matches!(refused(permit, 503, Some("60")), Settled::Requeued(_)));
                continue;
            }
            left -= 1;
            starts.entry(host).or_default().push(permit.started());
            working.spawn(async move {
                tokio::time::sleep(ms(20)).await;
                served(permit);
                drop(worker);
            });
        }
        let last = starts.values().flatten().max().unwrap().as_secs_f64();
        assert!((170.0..171.0 * 1.1).contains(&last), "{workers} workers: {last} s");
        for (host, starts) in &starts {
            let least = gaps(starts).into_iter().min().unwrap_or(ms(1000));
            assert!(least >= ms(900), "host {host} with {workers} workers: {least:?}");
        }
        working.join_all().await;
    }
}

#[tokio::test(start_paused = true)]
async fn c20_twenty_hosts_and_fifty_tasks_keep_all_hosts_busy() {
    let pacer = Pacer::builder(Profile::Api).template(fixed(350)).local();
    let mut tasks = JoinSet::new();
    for task in 0..50 {
        let pacer = pacer.clone();
        tasks.spawn(async move {
            let mut last = Duration::ZERO;
            for round in 0..40 {
                let page = url(&format!("http://h{}.example/", (task + round * 50) % 20));
                let permit = pacer.acquire(&page).await.unwrap();
                last = permit.started();
                tokio::time::sleep(ms(30)).await;
                served(permit);
            }
            last
        });
    }
    let last = tasks.join_all().await.into_iter().max().unwrap() - ms(1000);
    let rate = f64::from(50 * 40) / last.as_secs_f64();
    let most = 20.0 / 0.35;
    assert!((most * 0.9..most * 1.1).contains(&rate), "{rate} of {most} a second");
}

/// However many wait, a start costs two decisions at most.
#[tokio::test(start_paused = true)]
async fn a_start_costs_two_decisions_however_many_wait() {
    let pacer = Pacer::builder(Profile::Api).template(fixed(10)).local();
    let before = pacer.decisions();
    starts(&pacer, PAGE, 2000).await;
    let decisions = pacer.decisions() - before;
    assert!(decisions <= 2 * 2000, "{decisions}");
}

#[tokio::test(start_paused = true)]
async fn t9_a_network_failure_changes_nothing_in_the_refusal_policy() {
    let limits = Partial { policy: Some(Policy::refusal()), ..Partial::default() };
    let pacer = Pacer::builder(Profile::Api).template(limits).local();
    let permit = pacer.acquire(&url(PAGE)).await.unwrap();
    drop(permit.settle(&Answer::none(NoAnswer::TimedOut)));
    assert!(pacer.explain(&url(PAGE)).unwrap().delay.is_none());
}

/// The runtime that happened to run the driver ends; a request that waits in another still starts.
#[test]
fn a_wait_outlives_the_runtime_that_drove_it() {
    let pacer = Pacer::builder(Profile::Api).template(fixed(500)).local();
    let first = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    drop(first.block_on(pacer.acquire(&url(PAGE))).unwrap());
    drop(first.block_on(pacer.acquire(&url(PAGE))).unwrap());
    let (told, ended) = std::sync::mpsc::channel();
    let other = pacer.clone();
    std::thread::spawn(move || {
        let second = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let permit = second.block_on(async { other.acquire(&url(PAGE)).await.unwrap() });
        drop(permit);
        told.send(()).unwrap();
    });
    while pacer.waiting() == 0 {
        std::thread::yield_now();
    }
    drop(first);
    ended.recv_timeout(ms(3000)).expect("it starts 500 ms after the one before");
}
