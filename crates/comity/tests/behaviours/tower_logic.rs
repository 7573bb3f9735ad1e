//! The tower layer's contract, under the paused clock.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use comity::tower::{Attempts, Options, PacedError, PacerLayer};
use comity::{GiveUp, NoAnswer, Pacer, Partial, Profile, RequestKind};
use http::{Request, Response};
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt, service_fn};

use crate::support::{about, fixed, ms, places, url};

fn get(uri: &str) -> Request<&'static str> {
    Request::get(uri).body("").unwrap()
}

fn with(uri: &str, options: Options) -> Request<&'static str> {
    Request::get(uri).extension(options).body("").unwrap()
}

fn answered(status: u16) -> Result<Response<()>, Infallible> {
    Ok(Response::builder().status(status).body(()).unwrap())
}

/// A service that is strict about tower's contract: each call needs a readiness of that very instance, and readiness it
/// gave out unused is counted.
struct Strict {
    ready: bool,
    calls: Arc<AtomicUsize>,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self { ready: false, calls: Arc::clone(&self.calls) }
    }
}

impl Service<Request<&'static str>> for Strict {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<&'static str>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without being ready");
        let nth = self.calls.fetch_add(1, Ordering::SeqCst);
        std::future::ready(answered(if nth.is_multiple_of(2) { 503 } else { 200 }))
    }
}

#[tokio::test(start_paused = true)]
async fn the_client_below_is_ready_before_every_call_retries_too() {
    let calls = Arc::default();
    let pacer = Pacer::local(Profile::Api);
    let client = PacerLayer::new(pacer).replay_bodies().layer(Strict { ready: false, calls: Arc::clone(&calls) });
    for _ in 0..3 {
        let response = client.clone().oneshot(get("http://a.example/")).await.unwrap();
        assert_eq!(response.status(), 200);
        let told = response.extensions().get::<Attempts>().unwrap();
        assert_eq!((told.sent, told.gave_up), (2, None));
    }
    assert_eq!(calls.load(Ordering::SeqCst), 6);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_request_holds_nothing_of_the_client_below() {
    let pacer = Pacer::builder(Profile::Api).template(fixed(60_000)).local();
    let client = ServiceBuilder::new()
        .layer(PacerLayer::new(pacer.clone()))
        .concurrency_limit(1)
        .service(service_fn(|_: Request<&'static str>| async { answered(200) }));
    client.clone().oneshot(get("http://slow.example/")).await.unwrap();
    let waits = tokio::spawn(client.clone().oneshot(get("http://slow.example/")));
    tokio::time::sleep(ms(1)).await;
    assert_eq!(pacer.waiting(), 1);
    let quick = tokio::time::timeout(ms(1000), client.oneshot(get("http://quick.example/"))).await;
    assert!(quick.is_ok(), "the one place below is free for another host");
    waits.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn t10_the_last_refusal_is_returned_as_it_is() {
    let pacer = Pacer::builder(Profile::Api).template(Partial { retries: Some(2), ..fixed(100) }).local();
    let refuses = service_fn(|request: Request<&'static str>| async move {
        assert_eq!((request.method().as_str(), *request.body()), ("GET", "copied"));
        Ok::<_, Infallible>(Response::builder().status(429).header("x-own", "kept").body("why").unwrap())
    });
    let client = PacerLayer::new(pacer).replay_bodies().layer(refuses);
    let request = Request::get("http://a.example/").body("copied").unwrap();
    let response = client.oneshot(request).await.unwrap();
    assert_eq!((response.status().as_u16(), *response.body()), (429, "why"));
    assert_eq!(response.headers()["x-own"], "kept");
    let told = response.extensions().get::<Attempts>().unwrap();
    assert_eq!((told.sent, told.gave_up), (3, Some(GiveUp::NoRetriesLeft)));
    assert!(about(told.waited, ms(200)), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn d16_a_body_that_is_a_stream_is_sent_once() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let refuses = service_fn(move |_: Request<&'static str>| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { answered(429) }
    });
    let pacer = Pacer::local(Profile::Api);
    let once = PacerLayer::new(pacer.clone());
    let streams = once.clone().copy_bodies(|body: &&'static str| (!body.is_empty()).then_some(*body));
    let response = once.layer(refuses.clone()).oneshot(get("http://a.example/")).await.unwrap();
    assert_eq!(response.extensions().get::<Attempts>().unwrap().gave_up, Some(GiveUp::NotReplayable));
    assert_eq!(calls.swap(0, Ordering::SeqCst), 1);
    streams.layer(refuses.clone()).oneshot(get("http://b.example/")).await.unwrap();
    assert_eq!(calls.swap(0, Ordering::SeqCst), 1, "the closure makes no copy of this one");
    let copied = Request::get("http://c.example/").body("x").unwrap();
    streams.layer(refuses).oneshot(copied).await.unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 6, "and five of that one");
}

#[tokio::test(start_paused = true)]
async fn t11_dropping_the_future_releases_its_place_or_its_wait() {
    let pacer = Pacer::builder(Profile::Api).template(places(1)).local();
    let hangs = service_fn(|request: Request<&'static str>| async move {
        if request.uri().path() == "/hangs" {
            std::future::pending::<()>().await;
        }
        answered(200)
    });
    let client = PacerLayer::new(pacer.clone()).layer(hangs);
    let in_flight = tokio::spawn(client.clone().oneshot(get("http://a.example/hangs")));
    tokio::task::yield_now().await;
    let waits = tokio::spawn(client.clone().oneshot(get("http://a.example/waits")));
    tokio::task::yield_now().await;
    assert_eq!(pacer.waiting(), 1);
    waits.abort();
    tokio::task::yield_now().await;
    assert_eq!(pacer.waiting(), 0);
    assert_eq!(pacer.explain(&url("http://a.example/")).unwrap().scopes[0].state.in_flight, 1);
    in_flight.abort();
    assert!(client.oneshot(get("http://a.example/")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn d23_a_queue_time_out_is_no_time_out_of_the_attempt() {
    let pacer = Pacer::builder(Profile::Api).template(fixed(5000)).local();
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let slow = service_fn(move |_: Request<&'static str>| {
        counted.fetch_add(1, Ordering::SeqCst);
        async {
            tokio::time::sleep(ms(3000)).await;
            answered(200)
        }
    });
    let client = PacerLayer::new(pacer).layer(slow);
    let options = Options { queue_timeout: Some(ms(1000)), ..Options::default() };
    let started = client.clone().oneshot(with("http://a.example/1", options.clone()));
    let (first, second) = tokio::join!(started, client.oneshot(with("http://a.example/2", options)));
    assert!(first.is_ok(), "a request that did start is not ended by it");
    let error = second.unwrap_err();
    assert!(error.is_queue_timeout(), "{error}");
    tokio::time::sleep(ms(10_000)).await;
    assert_eq!(sent.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn options_reach_the_pacer() {
    let config = comity::config::Config::parse("[limits.\"a.example#key\"]\ninterval = 10\n").unwrap();
    let pacer = config.apply(Pacer::builder(Profile::Browse)).template(fixed(1000)).local();
    let client = PacerLayer::new(pacer.clone()).layer(service_fn(|_: Request<&'static str>| async { answered(200) }));
    let send = |options: Options| client.clone().oneshot(with("http://a.example/", options));
    let next = || pacer.outlook(&url("http://a.example/")).unwrap().next_start;
    send(Options { kind: RequestKind::Subresource, ..Options::default() }).await.unwrap();
    assert_eq!(next(), Some(ms(0)), "a part of a page is not paced");
    send(Options { cost: 3, ..Options::default() }).await.unwrap();
    assert_eq!(next(), Some(ms(3000)));
    let key = || Options { identity: Some("key".into()), ..Options::default() };
    let waited = async || send(key()).await.unwrap().extensions().get::<Attempts>().unwrap().waited;
    assert!(about(waited().await, ms(3000)));
    let second = waited().await;
    assert!((ms(9000)..=ms(10_003)).contains(&second), "the key's own interval: {second:?}");
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_client_is_no_answer_and_comes_through() {
    let kinds = Arc::new(AtomicUsize::new(0));
    let fails =
        service_fn(|_: Request<&'static str>| async { Err::<Response<()>, BoxError>("broken pipe dream".into()) });
    let told = Arc::clone(&kinds);
    let pacer = Pacer::builder(Profile::Api).template(places(1)).local();
    let client = PacerLayer::new(pacer.clone())
        .replay_bodies()
        .classify(move |error| {
            told.fetch_add(usize::from(error.to_string() == "broken pipe dream"), Ordering::SeqCst);
            NoAnswer::Connect
        })
        .layer(fails);
    let options = Options { retries: Some(1), ..Options::default() };
    let error = client.clone().oneshot(with("http://a.example/", options)).await.unwrap_err();
    assert!(matches!(&error, PacedError::Service(inner) if inner.to_string() == "broken pipe dream"), "{error}");
    assert_eq!(kinds.load(Ordering::SeqCst), 2, "retried, because a count was asked for");
    let state = &pacer.explain(&url("http://a.example/")).unwrap().scopes[0].state;
    assert_eq!((state.in_flight, state.tally.no_answers), (0, 2));

    let error = client.oneshot(get("/relative")).await.unwrap_err();
    assert!(matches!(error, PacedError::NoTarget { .. }), "{error}");
}
