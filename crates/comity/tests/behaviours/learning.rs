//! Refusals, retries, events, forgetting (T7, T10, T12, T13), and what a person is told of them (A12, H04, H16).

use std::time::Duration;

use comity::{Answer, Ask, EventKind, GiveUp, NoAnswer, Pacer, Partial, Policy, Profile, Replay, Settled};

use crate::support::{about, fixed, ms, places, refused, served, taught_by_refusals, url, waiter};

const PAGE: &str = "http://a.example/";

#[tokio::test(start_paused = true)]
async fn t7_a_pause_holds_all_and_ends_with_one() {
    let pacer = Pacer::builder(Profile::Api).template(taught_by_refusals()).local();
    let first = pacer.acquire(&url(PAGE)).await.unwrap();
    let refused_at = first.started();
    let Settled::Retry(again) = refused(first, 429, Some("2.5")) else { panic!("it is tried again") };
    let others = [waiter(&pacer, PAGE).await, waiter(&pacer, PAGE).await];
    let trial = again.await.unwrap();
    assert!(about(trial.started() - refused_at, ms(2500)), "{:?}", trial.started());
    tokio::time::sleep(ms(10_000)).await;
    assert!(others.iter().all(|other| !other.is_finished()), "they wait for the trial's answer");
    served(trial);
    for other in others {
        served(other.await.unwrap().unwrap());
    }
    assert_eq!(pacer.explain(&url(PAGE)).unwrap().scopes[0].state.learned_interval, ms(0), "nothing else changes");
}

#[tokio::test(start_paused = true)]
async fn t7_asked_past_the_limit_it_gives_up_and_others_wait_the_limit() {
    let pacer = Pacer::builder(Profile::Api).local();
    let first = pacer.acquire(&url(PAGE)).await.unwrap();
    let refused_at = first.started();
    let settled = refused(first, 429, Some("86400"));
    assert!(matches!(settled, Settled::GiveUp(GiveUp::AskedTooLong(_))), "{settled:?}");
    let next = pacer.acquire(&url(PAGE)).await.unwrap().started();
    assert!(about(next - refused_at, ms(300_000)), "{next:?}");
    let tally = pacer.explain(&url(PAGE)).unwrap().scopes[0].state.tally;
    assert_eq!((tally.give_ups, tally.refusals_with_advice), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn t10_a_refused_request_goes_again_before_later_arrivals() {
    let pacer = Pacer::local(Profile::Crawl);
    let first = pacer.acquire(&url(PAGE)).await.unwrap();
    let place = first.place();
    let second = waiter(&pacer, PAGE).await;
    let Settled::Retry(again) = refused(first, 429, Some("3")) else { panic!("it is tried again") };
    let again = again.await.unwrap();
    assert_eq!((again.attempt(), again.place()), (2, place));
    let retried = again.started();
    served(again);
    let second = second.await.unwrap().unwrap();
    assert!(retried < second.started(), "{retried:?} {:?}", second.started());
    assert!(retried >= ms(3000), "three seconds of pause: {retried:?}");
}

#[tokio::test(start_paused = true)]
async fn t10_when_retries_run_out_the_request_ends_with_its_refusal() {
    let pacer = Pacer::builder(Profile::Api).template(fixed(10)).local();
    let mut permit = pacer.acquire(&url(PAGE)).await.unwrap();
    let mut attempts = 1;
    let why = loop {
        match refused(permit, 503, None) {
            Settled::Retry(again) => permit = again.await.unwrap(),
            Settled::GiveUp(why) => break why,
            other => panic!("{other:?}"),
        }
        attempts += 1;
    };
    assert_eq!((attempts, why), (6, GiveUp::NoRetriesLeft), "five retries");
}

#[tokio::test(start_paused = true)]
async fn t10_a_failure_is_retried_only_when_a_count_was_asked_for() {
    let pacer = Pacer::builder(Profile::Api).local();
    let page = url(PAGE);
    let asked = |retries| Ask::new(&page).replay(Replay { retries, ..Replay::default() });
    for (retries, expected) in [(None, false), (Some(0), false), (Some(2), true)] {
        let permit = pacer.acquire(asked(retries)).await.unwrap();
        let failed_at = permit.started();
        match permit.settle(&Answer::none(NoAnswer::TimedOut)) {
            Settled::Retry(again) if expected => {
                let started = again.await.unwrap().started();
                assert!(about(started - failed_at, ms(1000)), "{started:?}");
            }
            Settled::Done if !expected => {}
            other => panic!("{retries:?}: {other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn t12_events_tell_each_attempt_in_order() {
    let pacer = Pacer::builder(Profile::Api).template(fixed(1000)).local();
    let mut events = pacer.events();
    let first = pacer.acquire(&url(PAGE)).await.unwrap();
    let second = waiter(&pacer, PAGE).await;
    served(first);
    let second = second.await.unwrap().unwrap();
    let place = second.place().unwrap();
    let Settled::Retry(again) = refused(second, 429, None) else { panic!("it is tried again") };
    served(again.await.unwrap());

    let mut told = Vec::new();
    while let Some(event) = events.try_next() {
        assert_eq!(event.host, "a.example");
        if event.place == place {
            told.push(match event.kind {
                EventKind::FirstDelay { .. } => "first delay".to_owned(),
                EventKind::Queued { delay } => format!("queued {}", delay.wait.is_some()),
                EventKind::Sent { attempt, waited } => format!("sent {attempt} {}", waited.as_millis() / 900),
                EventKind::Settled { status, refused } => format!("settled {status:?} {refused}"),
                EventKind::Retrying { attempts } => format!("retrying {attempts}"),
            });
        }
    }
    assert_eq!(
        told,
        [
            "first delay",
            "queued true",
            "sent 1 1",
            "settled Some(429) true",
            "retrying 1",
            "sent 2 2",
            "settled Some(200) false"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn t13_what_was_learned_can_be_forgotten_for_a_url_or_altogether() {
    let pacer = Pacer::builder(Profile::Api).template(Partial { retries: Some(0), ..taught_by_refusals() }).local();
    let hosts = ["http://a.example/", "http://b.example/", "http://c.example/"];
    for host in hosts {
        drop(refused(pacer.acquire(&url(host)).await.unwrap(), 429, Some("60")));
    }
    let paused = || hosts.map(|host| pacer.try_acquire(&url(host)).unwrap().is_err());
    assert_eq!(paused(), [true; 3]);
    let waits = waiter(&pacer, "http://a.example/waits").await;
    pacer.forget(&url("https://a.example/another/page"));
    assert!(waits.await.unwrap().is_ok(), "those that wait go at once");
    assert_eq!(paused(), [false, true, true]);
    pacer.forget_all();
    assert_eq!(paused(), [false; 3]);
}

#[tokio::test(start_paused = true)]
async fn a12_a_scheduler_can_ask_what_to_expect_of_a_host() {
    let pacer = Pacer::builder(Profile::Api).template(fixed(2000)).local();
    let fresh = pacer.outlook(&url(PAGE)).unwrap();
    assert_eq!((fresh.next_start, fresh.interval, fresh.cost_per_fetch), (Some(ms(0)), ms(2000), ms(2000)));
    served(pacer.acquire(&url(PAGE)).await.unwrap());
    tokio::time::advance(ms(500)).await;
    assert_eq!(pacer.outlook(&url(PAGE)).unwrap().next_start, Some(ms(1500)));
    pacer.set_crawl_delay(&url(PAGE), ms(10_000)).unwrap();
    let delayed = pacer.outlook(&url(PAGE)).unwrap();
    assert_eq!((delayed.next_start, delayed.interval), (Some(ms(9500)), ms(10_000)));

    let full = Pacer::builder(Profile::Api).template(places(1)).local();
    let _held = full.acquire(&url(PAGE)).await.unwrap();
    assert_eq!(full.outlook(&url(PAGE)).unwrap().next_start, None, "that hangs on an answer");
}

#[tokio::test(start_paused = true)]
async fn a12_where_latency_is_the_cost_the_outlook_says_so() {
    let quick = comity::AimdSettings { floor: ms(10), start: ms(10), ..comity::AimdSettings::default() };
    let limits = Partial { policy: Some(Policy::Aimd(quick)), ..Partial::default() };
    let pacer = Pacer::builder(Profile::Crawl).template(limits).local();
    for _ in 0..64 {
        let permit = pacer.acquire(&url(PAGE)).await.unwrap();
        let _ = permit.settle(&Answer::response(200, &http::HeaderMap::new()).latency(ms(700)));
    }
    let outlook = pacer.outlook(&url(PAGE)).unwrap();
    assert!(outlook.interval < ms(100), "{outlook:?}");
    assert!(outlook.cost_per_fetch >= ms(600), "one in flight and 700 ms an answer: {outlook:?}");
}

#[tokio::test(start_paused = true)]
async fn a12_explain_names_scopes_limits_and_sources() {
    let config = comity::config::Config::parse("[limits.\"*.example\"]\ninterval = 3\n").unwrap();
    let pacer = config.apply(Pacer::builder(Profile::Api)).local();
    served(pacer.acquire(&url(PAGE)).await.unwrap());
    let told = pacer.explain(&url(PAGE)).unwrap().to_string();
    for part in ["a.example\n", "*.example\n", "interval = 3s  ([limits.\"*.example\"])", "profile api", "would wait"] {
        assert!(told.contains(part), "{part:?} in:\n{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn h04_without_retries_it_ends_with_the_refusal_and_the_host_still_pauses() {
    let pacer = Pacer::builder(Profile::Api).template(Partial { retries: Some(0), ..Partial::default() }).local();
    let mut given_up = Vec::new();
    for n in 0..50 {
        let permit = pacer.acquire(&url(PAGE)).await.unwrap();
        let settled = if n == 20 { refused(permit, 429, Some("5")) } else { served(permit) };
        if let Settled::GiveUp(why) = settled {
            given_up.push(why.to_string());
            assert_eq!(pacer.outlook(&url(PAGE)).unwrap().next_start, Some(ms(5000)));
        }
    }
    assert_eq!(given_up.len(), 1);
    assert!(given_up[0].contains("`retries`"), "the message names the setting: {given_up:?}");
}

#[tokio::test(start_paused = true)]
async fn h16_a_hosts_state_tells_its_refusals() {
    let pacer = Pacer::builder(Profile::Api).template(taught_by_refusals()).local();
    let refusals = [(429, None), (429, Some("7")), (503, Some("9000"))];
    for (status, retry_after) in refusals {
        drop(refused(pacer.acquire(&url(PAGE)).await.unwrap(), status, retry_after));
    }
    let (_, state) = pacer.hosts().into_iter().find(|(name, _)| name == "a.example").unwrap();
    let tally = state.tally;
    assert_eq!((tally.refusals_with_advice, tally.refusals_without_advice, tally.give_ups), (2, 1, 1));
    assert_eq!((tally.last_refusal, tally.last_wait), (Some(503), Some(ms(9_000_000))));
    assert_eq!((state.learned_interval, state.paused_for), (ms(250), Some(ms(300_000))), "{state:?}");
}

#[tokio::test(start_paused = true)]
async fn h14_forty_urls_of_a_host_that_allows_one_a_minute_take_forty_minutes() {
    let limits = Partial { interval: Some(Duration::from_secs(60)), ..Partial::default() };
    let pacer = Pacer::builder(Profile::Api).template(limits).local();
    let feed = url("https://feeds.example/r/1.rss");
    let mut starts = Vec::new();
    // A second round that begins on top of the first waits behind it.
    for _ in 0..2 {
        let tasks: Vec<_> = (0..40)
            .map(|_| {
                let (pacer, feed) = (pacer.clone(), feed.clone());
                tokio::spawn(async move {
                    let permit = pacer.acquire(&feed).await.unwrap();
                    let start = permit.started();
                    served(permit);
                    start
                })
            })
            .collect();
        for task in tasks {
            starts.push(task.await.unwrap());
        }
    }
    let took = starts[79] - starts[0];
    assert!(took >= Duration::from_secs(79 * 60) && took < Duration::from_secs(79 * 60 + 10), "{took:?}");
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= Duration::from_secs(54)));
}

#[tokio::test]
async fn h17_of_an_advertised_quota_only_what_is_known_is_told() {
    for (name, value) in [("x-ratelimit-limit", "60"), ("x-ratelimit-remaining", "3"), ("x-ratelimit-reset", "30")] {
        let pacer = Pacer::builder(Profile::Api).template(taught_by_refusals()).local();
        let api = url("https://api.example/");
        let permit = pacer.acquire(&api).await.unwrap();
        let mut headers = http::HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        permit.settle(&Answer::response(200, &headers));
        let explained = pacer.explain(&api).unwrap();
        assert_eq!(explained.scopes[0].state.quota, None, "{name} alone says nothing to hold to");
        assert!(explained.delay.is_none(), "{name} alone holds nobody back");
        assert!(!explained.to_string().contains("quota"), "{explained}");
    }
}
