//! A pacer under tokio's paused clock.

use std::time::Duration;

use comity::{Answer, Ask, NoAnswer, Pacer, Partial, Policy, Profile, Settled};
use http::HeaderMap;
use url::Url;

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

#[tokio::test(start_paused = true)]
async fn waiting_requests_start_in_order_at_the_interval() {
    let limits =
        Partial { interval: Some(Duration::from_millis(100)), policy: Some(Policy::Fixed), ..Partial::default() };
    let pacer = Pacer::builder(Profile::Api).template(limits).local();
    let url = url("http://a.example/");
    let mut tasks = Vec::new();
    for n in 0..20u32 {
        let (pacer, url) = (pacer.clone(), url.clone());
        tasks.push(tokio::spawn(async move {
            let permit = pacer.acquire(&url).await.unwrap();
            let started = permit.started();
            assert!(matches!(permit.settle(&Answer::response(200, &HeaderMap::new())), Settled::Done));
            (n, started)
        }));
        tokio::task::yield_now().await;
    }
    let mut starts = Vec::new();
    for task in tasks {
        starts.push(task.await.unwrap());
    }
    for pair in starts.windows(2) {
        let gap = pair[1].1 - pair[0].1;
        assert!(gap >= Duration::from_millis(97) && gap <= Duration::from_millis(103), "{gap:?}");
    }
    let _ = (Ask::new(&url), NoAnswer::Reset);
}

#[tokio::test(start_paused = true)]
async fn t10_a_refused_request_goes_again_before_later_arrivals() {
    let pacer = Pacer::local(Profile::Crawl);
    let url = url("http://a.example/");
    let first = pacer.acquire(&url).await.unwrap();
    let second = {
        let (pacer, url) = (pacer.clone(), url.clone());
        tokio::spawn(async move { pacer.acquire(&url).await.unwrap().started() })
    };
    tokio::task::yield_now().await;
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", "3".parse().unwrap());
    let Settled::Retry(again) = first.settle(&Answer::response(429, &headers)) else { panic!("must retry") };
    let again = again.await.unwrap();
    let retried = again.started();
    assert!(matches!(again.settle(&Answer::response(200, &HeaderMap::new())), Settled::Done));
    let second = second.await.unwrap();
    assert!(retried < second, "{retried:?} {second:?}");
    assert!(retried >= Duration::from_secs(4));
}
