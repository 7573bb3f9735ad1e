//! The adaptive policy as a program sees it: two things learned, and words for both.

use std::num::NonZeroU32;

use comity::config::Config;
use comity::{AdaptiveSettings, Because, Pacer, Partial, Permit, Policy, Profile};

use crate::support::{ms, refused, served, url};

const PAGE: &str = "http://a.example/";

/// A pace that is no hindrance.
fn adaptive() -> Partial {
    let settings = AdaptiveSettings { start: ms(1), floor: ms(1), ..AdaptiveSettings::default() };
    Partial { policy: Some(Policy::Adaptive(settings)), ..Partial::default() }
}

fn concurrency(pacer: &Pacer) -> u32 {
    pacer.explain(&url(PAGE)).unwrap().scopes[0].state.concurrency.unwrap()
}

/// Permits until no more is to be had at once.
async fn fill(pacer: &Pacer) -> Vec<Permit> {
    let mut permits = Vec::new();
    loop {
        match pacer.try_acquire(&url(PAGE)).unwrap() {
            Ok(permit) => permits.push(permit),
            Err(delay) if delay.wait.is_some() => tokio::time::advance(ms(1)).await,
            Err(_) => return permits,
        }
    }
}

#[test]
fn the_adaptive_policy_is_the_default_of_crawl_and_api() {
    for (profile, start, floor, in_flight) in [(Profile::Crawl, 1000, 500, 1), (Profile::Api, 250, 0, 64)] {
        let limits = profile.limits();
        let settings = AdaptiveSettings { start: ms(start), floor: ms(floor), ceiling: ms(60_000) };
        assert_eq!(limits.policy, Policy::Adaptive(settings), "{}", profile.name());
        assert_eq!(limits.in_flight, NonZeroU32::new(in_flight), "{}", profile.name());
    }
    assert_eq!(Profile::Browse.limits().policy, Policy::pressure());
}

#[test]
fn naming_the_policy_that_a_profile_has_anyhow_keeps_the_profiles_settings() {
    let settings = |text: &str| {
        let config = Config::parse(&format!("[default]\npolicy = \"adaptive\"\n{text}")).unwrap();
        let pacer = config.apply(Pacer::builder(Profile::Crawl)).local();
        match &pacer.explain(&url(PAGE)).unwrap().scopes[0].limits.policy {
            Policy::Adaptive(settings) => (settings.start, settings.floor, settings.ceiling),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(settings(""), (ms(1000), ms(500), ms(60_000)));
    assert_eq!(settings("floor = 2"), (ms(2000), ms(2000), ms(60_000)));
    assert_eq!(settings("ceiling = 0.7"), (ms(700), ms(500), ms(700)));
    assert_eq!(settings("interval = 0.1"), (ms(1000), ms(100), ms(60_000)), "a person's interval is a bound");
}

#[tokio::test(start_paused = true)]
async fn crawl_keeps_one_in_flight_and_its_floor_however_fast_the_host_answers() {
    let pacer = Pacer::local(Profile::Crawl);
    let mut last = None;
    for n in 0..400 {
        let permit = pacer.acquire(&url(PAGE)).await.unwrap();
        assert!(pacer.try_acquire(&url(PAGE)).unwrap().is_err(), "one at a time");
        if let Some(last) = last {
            assert!(permit.started() - last >= ms(497), "start {n}");
        }
        last = Some(permit.started());
        served(permit);
    }
}

#[tokio::test(start_paused = true)]
async fn a_learned_concurrency_holds_and_is_what_a_request_waits_for() {
    let pacer = Pacer::builder(Profile::Api).template(adaptive()).local();
    let mut permits = fill(&pacer).await;
    let most = concurrency(&pacer);
    assert_eq!(permits.len() as u32, most);
    let delay = pacer.explain(&url(PAGE)).unwrap().delay.unwrap();
    assert_eq!((delay.because, delay.wait), (Because::Concurrency(most), None));
    assert_eq!(delay.to_string(), format!("a.example: learned concurrency {most}"));
    assert_eq!(pacer.outlook(&url(PAGE)).unwrap().next_start, None, "that hangs on an answer");

    let waiting = tokio::spawn({
        let pacer = pacer.clone();
        async move { pacer.acquire(&url(PAGE)).await.unwrap() }
    });
    tokio::time::sleep(ms(100)).await;
    assert!(!waiting.is_finished());
    served(permits.remove(0));
    let permit = waiting.await.unwrap();
    assert_eq!(permit.waited_for().unwrap().because, Because::Concurrency(most), "the permit says so as well");
}

#[tokio::test(start_paused = true)]
async fn t5_sets_of_limits_share_a_learned_concurrency() {
    let pacer = Pacer::builder(Profile::Api).template(adaptive()).local();
    let guests = pacer.with_limits(&Partial { in_flight: NonZeroU32::new(1000), ..Partial::default() });
    let permits = fill(&guests).await;
    assert_eq!(permits.len() as u32, concurrency(&pacer));
    assert_eq!(fill(&pacer).await.len(), 0, "all places are taken by guests");
}

#[tokio::test(start_paused = true)]
async fn an_explicit_in_flight_and_interval_are_promises() {
    for (in_flight, interval) in [(1, 0), (2, 300)] {
        let limits = Partial { in_flight: NonZeroU32::new(in_flight), interval: Some(ms(interval)), ..adaptive() };
        let pacer = Pacer::builder(Profile::Api).template(limits).local();
        let mut last = None;
        let mut most = 0;
        let mut flying: Vec<Permit> = Vec::new();
        for n in 0..60 {
            let permit = match tokio::time::timeout(ms(2000), pacer.acquire(&url(PAGE))).await {
                Ok(permit) => permit.unwrap(),
                Err(_) => {
                    served(flying.remove(0));
                    pacer.acquire(&url(PAGE)).await.unwrap()
                }
            };
            if let Some(last) = last {
                assert!(permit.started() - last >= ms(interval), "start {n}");
            }
            last = Some(permit.started());
            flying.push(permit);
            most = most.max(flying.len());
        }
        assert!(most as u32 <= in_flight, "{most} in flight, {in_flight} set");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_learned_is_told_in_words() {
    let pacer = Pacer::builder(Profile::Api).template(adaptive()).local();
    drop(refused(pacer.acquire(&url(PAGE)).await.unwrap(), 429, None));
    tokio::time::advance(ms(3000)).await;
    let explanation = pacer.explain(&url(PAGE)).unwrap();
    let state = &explanation.scopes[0].state;
    let learned = state.learned().unwrap();
    assert!(learned.contains("3 s ago"), "{learned}");
    let told = explanation.to_string();
    for part in [learned.as_str(), "policy = adaptive", "learned concurrency"] {
        assert!(told.contains(part), "{part:?} in:\n{told}");
    }
    assert_eq!(pacer.hosts()[0].1.learned(), Some(learned));
}
