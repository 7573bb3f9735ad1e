//! The guard as a tower layer, on tokio's paused clock.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test says so by failing, and looks at the paused clock"
)]

use std::convert::Infallible;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use comity_guard::layer::GuardBody;
use comity_guard::{
    Answers, Counts, Guard, InFlight, LeakyBucket, Outcome, PeerAddress, Queue, Route, Rule, Settings, TokenBucket,
    WouldRefuse,
};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Full};
use tokio::sync::Semaphore;
use tower::{Layer, Service, ServiceExt, service_fn};

type Answer = Response<GuardBody<Full<Bytes>>>;

fn bucket(count: i64, seconds: u64, burst: i64) -> TokenBucket {
    TokenBucket::rate(count, Duration::from_secs(seconds), burst).unwrap()
}

fn each(name: &str, limit: impl Into<comity_guard::Limit>) -> Rule {
    Rule::new(name, limit).unwrap()
}

fn at_most(most: u32) -> InFlight {
    InFlight::AtMost(NonZeroU32::new(most).unwrap())
}

fn from(peer: &str, path: &str) -> Request<()> {
    let mut request = Request::get(path).body(()).unwrap();
    request.extensions_mut().insert(PeerAddress(peer.parse::<IpAddr>().unwrap()));
    request
}

/// A service that answers at once.
fn quick()
-> impl Service<Request<()>, Response = Response<Full<Bytes>>, Error = Infallible, Future: Send> + Clone + Send + 'static
{
    service_fn(|_: Request<()>| async { Ok(Response::new(Full::new(Bytes::from_static(b"served")))) })
}

async fn ask(guard: &Guard, peer: &str, path: &str) -> Answer {
    guard.layer().layer(quick()).oneshot(from(peer, path)).await.unwrap()
}

async fn status(guard: &Guard, peer: &str) -> u16 {
    ask(guard, peer, "/").await.status().as_u16()
}

fn header(answer: &Answer, name: &str) -> Option<String> {
    answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
}

#[tokio::test(start_paused = true)]
async fn g15_one_an_hour_refuses_the_second() {
    let guard = Guard::new(Settings::parse("[[limit]]\nrate = \"1/h\"").unwrap()).unwrap();
    assert_eq!(status(&guard, "192.0.2.1").await, 200);
    let refused = ask(&guard, "192.0.2.1", "/").await;
    assert_eq!((refused.status().as_u16(), header(&refused, "retry-after").as_deref()), (429, Some("3600")));
    assert_eq!(status(&guard, "192.0.2.2").await, 200, "another client has a bucket of its own");
}

#[tokio::test(start_paused = true)]
async fn g2_who_waits_exactly_retry_after_is_let_in_and_not_a_moment_sooner() {
    let guard = Guard::new(Settings::with([each("each", bucket(1, 60, 20))])).unwrap();
    for _ in 0..20 {
        assert_eq!(status(&guard, "192.0.2.1").await, 200);
    }
    let refused = ask(&guard, "192.0.2.1", "/").await;
    let wait: u64 = header(&refused, "retry-after").unwrap().parse().unwrap();
    tokio::time::advance(Duration::from_secs(wait) - Duration::from_millis(1)).await;
    assert_eq!(status(&guard, "192.0.2.1").await, 429);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(status(&guard, "192.0.2.1").await, 200);
    assert_eq!(status(&guard, "192.0.2.1").await, 429);
}

#[tokio::test(start_paused = true)]
async fn g1_a_thousand_clones_hold_one_limit() {
    let guard = Guard::new(Settings::with([each("each", bucket(1, 60, 500))])).unwrap();
    let service = guard.layer().layer(quick());
    let clones: Vec<_> = (0..500).flat_map(|_| [service.clone(), guard.clone().layer().layer(quick())]).collect();
    let mut served = 0;
    for clone in clones {
        served += u32::from(clone.oneshot(from("192.0.2.1", "/")).await.unwrap().status() == StatusCode::OK);
    }
    assert_eq!(served, 500);
}

/// A service whose answers come when the test says so.
fn slow(
    go: Arc<Semaphore>,
) -> impl Service<Request<()>, Response = Response<Full<Bytes>>, Error = Infallible, Future: Send> + Clone + Send + 'static
{
    service_fn(move |_: Request<()>| {
        let go = go.clone();
        async move {
            go.acquire().await.unwrap().forget();
            Ok(Response::new(Full::new(Bytes::from_static(b"served"))))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn g18_what_is_shed_is_told_so_at_once_and_takes_no_token() {
    let settings = Settings { in_flight: at_most(1), ..Settings::with([each("each", bucket(1, 3600, 5))]) };
    let guard = Guard::new(settings).unwrap();
    let go = Arc::new(Semaphore::new(0));
    let service = guard.layer().layer(slow(go.clone()));
    let running = tokio::spawn(service.clone().oneshot(from("192.0.2.1", "/")));
    tokio::task::yield_now().await;
    for _ in 0..20 {
        let shed = service.clone().oneshot(from("192.0.2.1", "/")).await.unwrap();
        assert_eq!((shed.status().as_u16(), header(&shed, "retry-after").as_deref()), (503, Some("1")));
    }
    go.add_permits(10);
    let served = running.await.unwrap().unwrap();
    assert!(header(&served, "ratelimit").unwrap().starts_with("\"each\";r=4;"), "{served:?}");
    drop(served);
    let next = service.oneshot(from("192.0.2.1", "/")).await.unwrap();
    assert!(header(&next, "ratelimit").unwrap().starts_with("\"each\";r=3;"), "{next:?}");
    assert_eq!((guard.counted().shed, guard.counted().in_flight), (20, 1), "its body is not read yet");
    drop(next);
    assert_eq!(guard.counted().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn g17_in_flight_is_back_to_none_however_a_request_ends() {
    let settings = Settings {
        in_flight: at_most(4),
        queue: Some(Queue { most: 2, longest: Duration::from_secs(1) }),
        ..Settings::with([each("each", bucket(1, 3600, 1))])
    };
    let guard = Guard::new(settings).unwrap();
    assert_eq!(status(&guard, "192.0.2.1").await, 200);
    let panics = guard.layer().layer(service_fn(|_: Request<()>| async {
        if true {
            std::panic::panic_any("a handler's fault");
        }
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    }));
    let fails = guard.layer().layer(service_fn(|_: Request<()>| async {
        Err::<Response<Full<Bytes>>, _>(std::io::Error::other("no answer"))
    }));
    let never = guard.layer().layer(slow(Arc::new(Semaphore::new(0))));
    for n in 0..10_000u32 {
        assert_eq!(status(&guard, "192.0.2.1").await, 429, "refused after the gate let it in");
        // A new client each, so that the bucket lets it in.
        let peer = format!("2001:db8:{:x}:{:x}::1", n >> 8, n & 0xff);
        match n % 5 {
            0 => assert!(tokio::spawn(panics.clone().oneshot(from(&peer, "/"))).await.is_err()),
            1 => assert!(fails.clone().oneshot(from(&peer, "/")).await.is_err()),
            2 => {
                // It goes away before the head …
                let mut going = Box::pin(never.clone().oneshot(from(&peer, "/")));
                assert!(futures_poll(&mut going).await.is_pending());
            }
            3 => drop(ask(&guard, &peer, "/").await), // … or before the body …
            _ => {
                // … or after it.
                let body = ask(&guard, &peer, "/").await.into_body().collect().await.unwrap();
                assert_eq!(body.to_bytes(), "served");
            }
        }
        assert_eq!(guard.counted().in_flight, 0, "{n}");
    }
}

async fn futures_poll<F: Future>(future: &mut std::pin::Pin<Box<F>>) -> Poll<F::Output> {
    std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

#[tokio::test(start_paused = true)]
async fn g17_an_empty_body_gives_its_place_back_with_the_head() {
    let guard = Guard::new(Settings { in_flight: at_most(1), ..Settings::default() }).unwrap();
    let empty = service_fn(|_: Request<()>| async { Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())) });
    let answer = guard.layer().layer(empty).oneshot(from("192.0.2.1", "/")).await.unwrap();
    assert_eq!(guard.counted().in_flight, 0);
    drop(answer);
    assert_eq!(guard.counted().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn g25_delayed_requests_are_answered_in_turn_and_the_seventh_is_refused() {
    let limit = LeakyBucket::new(1, Duration::from_secs(1), 5).unwrap();
    let guard = Guard::new(Settings::with([each("each", limit)])).unwrap();
    let began = tokio::time::Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..7 {
        let answer = guard.layer().layer(quick()).oneshot(from("192.0.2.1", "/"));
        tasks.push(tokio::spawn(async move { (answer.await.unwrap().status().as_u16(), began.elapsed().as_secs()) }));
        tokio::task::yield_now().await;
    }
    assert_eq!(guard.counted().in_flight, 5, "those that wait are in flight");
    let mut seen = Vec::new();
    for task in tasks {
        seen.push(task.await.unwrap());
    }
    assert_eq!(seen, [(200, 0), (200, 1), (200, 2), (200, 3), (200, 4), (200, 5), (429, 0)]);
    assert_eq!((guard.counted().delayed, guard.counted().in_flight), (5, 0));
}

#[tokio::test(start_paused = true)]
async fn g25_a_delayed_request_vanishes_with_its_client() {
    let limit = LeakyBucket::new(1, Duration::from_secs(1), 5).unwrap();
    let guard = Guard::new(Settings { in_flight: at_most(3), ..Settings::with([each("each", limit)]) }).unwrap();
    assert_eq!(status(&guard, "192.0.2.1").await, 200);
    let mut waits = Box::pin(guard.layer().layer(quick()).oneshot(from("192.0.2.1", "/")));
    assert!(futures_poll(&mut waits).await.is_pending());
    assert_eq!(guard.counted().in_flight, 1);
    drop(waits);
    assert_eq!(guard.counted().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn g22_what_a_clients_own_limit_refuses_costs_the_others_nothing() {
    let own = each("each", bucket(10, 1, 10));
    let all = each("all", bucket(100, 1, 100)).all_together();
    assert_eq!(all.counts(), Counts::AllTogether);
    // The order in which they are written does not matter.
    let guard = Guard::new(Settings::with([all, own])).unwrap();
    let (mut asked, mut served) = (0, 0);
    let mut noisy = [0u32; 5];
    for tick in 0..2_000u32 {
        tokio::time::advance(Duration::from_millis(5)).await;
        for (n, count) in noisy.iter_mut().enumerate() {
            *count += u32::from(status(&guard, &format!("192.0.2.{n}")).await == 200);
        }
        for n in 0..11u32 {
            if (tick + n * 3) % 40 == 0 {
                asked += 1;
                served += u32::from(status(&guard, &format!("198.51.100.{n}")).await == 200);
            }
        }
    }
    assert!(served * 100 >= asked * 95, "{served} of {asked}");
    // Ten seconds at ten a second, and ten at once.
    assert!(noisy.iter().all(|count| *count <= 110), "{noisy:?}");
}

#[tokio::test(start_paused = true)]
async fn all_limits_on_a_route_are_asked_before_any_is_charged() {
    let login = each("login", bucket(1, 60, 1)).on(Route::all().path("/login").unwrap());
    let guard = Guard::new(Settings::with([each("each", bucket(1, 3600, 3)), login])).unwrap();
    assert_eq!(ask(&guard, "192.0.2.1", "/login").await.status(), 200);
    for path in ["/login", "//login", "/x/../login", "/%6cogin"] {
        let refused = ask(&guard, "192.0.2.1", path).await;
        assert_eq!(
            (refused.status().as_u16(), header(&refused, "retry-after").as_deref()),
            (429, Some("60")),
            "{path}"
        );
        assert!(header(&refused, "ratelimit").unwrap().starts_with("\"login\";r=0"), "{path}");
    }
    let other = ask(&guard, "192.0.2.1", "/other").await;
    assert!(header(&other, "ratelimit").unwrap().starts_with("\"each\";r=1;"), "the refusals took nothing: {other:?}");
    assert_eq!(guard.counted().refused_by, [("each".to_owned(), 0), ("login".to_owned(), 4)]);
}

#[tokio::test(start_paused = true)]
async fn exempt_paths_are_neither_counted_nor_shed() {
    let settings = Settings {
        in_flight: at_most(1),
        exempt: vec![Route::all().path("/healthz").unwrap()],
        ..Settings::with([each("each", bucket(1, 3600, 1))])
    };
    let guard = Guard::new(settings).unwrap();
    let held = ask(&guard, "192.0.2.1", "/").await;
    for _ in 0..10 {
        let answer = ask(&guard, "192.0.2.1", "/healthz").await;
        assert_eq!((answer.status().as_u16(), header(&answer, "ratelimit")), (200, None));
    }
    assert_eq!(ask(&guard, "192.0.2.1", "/healthz/../").await.status(), 503);
    drop(held);
    assert_eq!(guard.counted().exempt, 10);
}

#[tokio::test(start_paused = true)]
async fn the_queue_is_served_in_order_and_given_up_in_time() {
    let settings = Settings {
        in_flight: at_most(1),
        queue: Some(Queue { most: 2, longest: Duration::from_millis(500) }),
        ..Settings::default()
    };
    let guard = Guard::new(settings).unwrap();
    let go = Arc::new(Semaphore::new(0));
    let order = Arc::new(Mutex::new(Vec::new()));
    let service = guard.layer().layer(slow(go.clone()));
    let mut tasks = Vec::new();
    for n in 0..4 {
        let (answer, order) = (service.clone().oneshot(from("192.0.2.1", "/")), order.clone());
        tasks.push(tokio::spawn(async move {
            let status = answer.await.unwrap().status().as_u16();
            order.lock().unwrap().push((n, status));
        }));
        tokio::task::yield_now().await;
    }
    assert_eq!((guard.counted().waiting, guard.counted().in_flight), (2, 1));
    tokio::time::sleep(Duration::from_millis(100)).await;
    go.add_permits(1);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(*order.lock().unwrap(), [(3, 503), (0, 200)], "one beyond the queue is shed at once");
    assert_eq!((guard.counted().waiting, guard.counted().in_flight), (1, 1));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(*order.lock().unwrap(), [(3, 503), (0, 200), (2, 503)], "the last has waited long enough");
    go.add_permits(1);
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(order.lock().unwrap().last(), Some(&(1, 200)));
    let counted = guard.counted();
    assert_eq!((counted.waiting, counted.in_flight, counted.shed, counted.queued), (0, 0, 2, 2));
}

#[tokio::test(start_paused = true)]
async fn one_that_goes_away_while_it_waits_leaves_the_queue_as_it_was() {
    let settings = Settings {
        in_flight: at_most(1),
        queue: Some(Queue { most: 1, longest: Duration::from_secs(10) }),
        ..Settings::default()
    };
    let guard = Guard::new(settings).unwrap();
    let go = Arc::new(Semaphore::new(0));
    let service = guard.layer().layer(slow(go.clone()));
    let mut running = Box::pin(service.clone().oneshot(from("192.0.2.1", "/")));
    assert!(futures_poll(&mut running).await.is_pending());
    for _ in 0..100 {
        let mut waits = Box::pin(service.clone().oneshot(from("192.0.2.1", "/")));
        assert!(futures_poll(&mut waits).await.is_pending());
        assert_eq!(guard.counted().waiting, 1);
        drop(waits);
        assert_eq!(guard.counted().waiting, 0);
    }
    // A place that was handed to one who is gone goes on to the next.
    let mut gone = Box::pin(service.clone().oneshot(from("192.0.2.1", "/")));
    assert!(futures_poll(&mut gone).await.is_pending());
    drop(running);
    drop(gone);
    assert_eq!((guard.counted().in_flight, guard.counted().waiting, guard.counted().abandoned), (0, 0, 101));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_refuses_nothing_and_marks_what_it_would() {
    let settings =
        Settings { in_flight: at_most(1), dry_run: true, ..Settings::with([each("each", bucket(1, 60, 1))]) };
    let guard = Guard::new(settings).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let service = guard.layer().layer(service_fn({
        let seen = seen.clone();
        move |request: Request<()>| {
            seen.lock().unwrap().push(request.extensions().get::<WouldRefuse>().cloned());
            async { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"served")))) }
        }
    }));
    let mut held = Vec::new();
    for _ in 0..3 {
        let answer = service.clone().oneshot(from("192.0.2.1", "/")).await.unwrap();
        assert_eq!((answer.status().as_u16(), header(&answer, "ratelimit")), (200, None));
        assert_eq!(answer.extensions().get::<WouldRefuse>().cloned(), *seen.lock().unwrap().last().unwrap());
        held.push(answer);
        if held.len() == 2 {
            held.clear();
        }
    }
    let shed = Some(WouldRefuse { rule: None, retry: Duration::from_secs(1) });
    let refused = Some(WouldRefuse { rule: Some("each".into()), retry: Duration::from_secs(60) });
    assert_eq!(*seen.lock().unwrap(), [None, shed, refused]);
    let counted = guard.counted();
    assert_eq!((counted.admitted, counted.refused, counted.shed), (3, 0, 0));
    assert_eq!((counted.would_refuse, counted.would_shed), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_reload_keeps_the_buckets_of_rules_that_stay() {
    let stays = || each("stays", bucket(1, 3600, 2));
    let guard = Guard::new(Settings::with([stays(), each("goes", bucket(1, 3600, 1))])).unwrap();
    let service = guard.layer().layer(quick());
    assert_eq!(status(&guard, "192.0.2.1").await, 200);
    assert_eq!(status(&guard, "192.0.2.1").await, 429);
    guard.reload(Settings::with([stays()])).unwrap();
    assert_eq!(service.clone().oneshot(from("192.0.2.1", "/")).await.unwrap().status(), 200, "the other is gone");
    assert_eq!(service.clone().oneshot(from("192.0.2.1", "/")).await.unwrap().status(), 429, "its bucket is not");
    let twice = Settings::with([stays(), stays()]);
    assert!(guard.reload(twice).unwrap_err().to_string().contains("stays"));
    assert_eq!(status(&guard, "192.0.2.1").await, 429, "the settings before stay");
    assert_eq!(guard.counted().refused_by, [("stays".to_owned(), 2)]);
    guard.reload(Settings { in_flight: at_most(1), ..Settings::default() }).unwrap();
    let held = ask(&guard, "192.0.2.1", "/").await;
    assert_eq!(status(&guard, "192.0.2.1").await, 503);
    guard.reload(Settings { in_flight: at_most(2), ..Settings::default() }).unwrap();
    assert_eq!(status(&guard, "192.0.2.1").await, 200);
    drop(held);
    assert_eq!(guard.counted().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn a_reload_with_more_places_lets_those_in_who_wait() {
    let settings = |most| Settings {
        in_flight: at_most(most),
        queue: Some(Queue { most: 5, longest: Duration::from_secs(60) }),
        ..Settings::default()
    };
    let guard = Guard::new(settings(1)).unwrap();
    let go = Arc::new(Semaphore::new(0));
    let service = guard.layer().layer(slow(go.clone()));
    let tasks: Vec<_> = (0..3).map(|_| tokio::spawn(service.clone().oneshot(from("192.0.2.1", "/")))).collect();
    tokio::task::yield_now().await;
    assert_eq!((guard.counted().in_flight, guard.counted().waiting), (1, 2));
    guard.reload(settings(3)).unwrap();
    tokio::task::yield_now().await;
    assert_eq!((guard.counted().in_flight, guard.counted().waiting), (3, 0));
    go.add_permits(3);
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap().status(), 200);
    }
    assert_eq!(guard.counted().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn every_decision_is_told() {
    let guard = Guard::new(Settings::with([each("each", bucket(1, 60, 1))])).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let to = told.clone();
    assert!(guard.on_decision(move |decision| {
        let rule = match decision.outcome {
            Outcome::Refused { rule, .. } => Some(rule.to_owned()),
            _ => None,
        };
        to.lock().unwrap().push((decision.key.unwrap().to_string(), rule));
    }));
    assert!(!guard.on_decision(|_| {}), "set once");
    for _ in 0..2 {
        status(&guard, "192.0.2.1").await;
    }
    let key = "192.0.2.1".to_owned();
    assert_eq!(*told.lock().unwrap(), [(key.clone(), None), (key, Some("each".to_owned()))]);
}

#[tokio::test(start_paused = true)]
async fn without_a_peer_all_share_one_bucket_and_it_is_counted() {
    let guard = Guard::new(Settings::with([each("each", bucket(1, 60, 1))])).unwrap();
    let ask = || guard.layer().layer(quick()).oneshot(Request::get("/").body(()).unwrap());
    assert_eq!((ask().await.unwrap().status().as_u16(), ask().await.unwrap().status().as_u16()), (200, 429));
    assert_eq!(guard.counted().unknown, 2);
}

#[tokio::test(start_paused = true)]
async fn g20_the_status_of_each_cause_can_be_set_and_nothing_is_echoed() {
    let answers = Answers { refused: StatusCode::IM_A_TEAPOT, ..Answers::default() };
    let guard = Guard::new(Settings { answers, ..Settings::with([each("each", bucket(1, 60, 1))]) }).unwrap();
    status(&guard, "192.0.2.1").await;
    let refused = ask(&guard, "192.0.2.1", "/marker-in-the-path?marker").await;
    assert_eq!(refused.status(), StatusCode::IM_A_TEAPOT);
    assert!(!format!("{:?}", refused.headers()).contains("marker"));
    let body = refused.into_body().collect().await.unwrap().to_bytes();
    assert!(!String::from_utf8_lossy(&body).contains("marker"), "{body:?}");
}

/// A service that says it is ready only where it was asked, and fails whoever calls it unasked.
#[derive(Clone)]
struct Strict {
    free: Arc<AtomicBool>,
    calls: Arc<AtomicU32>,
    asked: Arc<Mutex<bool>>,
}

impl Service<Request<()>> for Strict {
    type Response = Response<Full<Bytes>>;
    type Error = &'static str;
    type Future = std::future::Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        if !self.free.load(Ordering::SeqCst) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        *self.asked.lock().unwrap() = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        self.calls.fetch_add(1, Ordering::SeqCst);
        std::future::ready(if asked { Ok(Response::new(Full::default())) } else { Err("called unasked") })
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_busy_keeps_no_refusal_waiting_and_is_never_called_unasked() {
    let guard = Guard::new(Settings::with([each("each", bucket(1, 60, 2))])).unwrap();
    let free = Arc::new(AtomicBool::new(true));
    let strict = Strict { free: free.clone(), calls: Arc::default(), asked: Arc::default() };
    let mut service = guard.layer().layer(strict.clone());
    assert_eq!(service.ready().await.unwrap().call(from("192.0.2.1", "/")).await.unwrap().status(), 200);
    free.store(false, Ordering::SeqCst);
    let mut waits = Box::pin(service.ready().await.unwrap().call(from("192.0.2.1", "/")));
    assert!(futures_poll(&mut waits).await.is_pending());
    let refused = service.ready().await.unwrap().call(from("192.0.2.1", "/")).await.unwrap();
    assert_eq!((refused.status().as_u16(), strict.calls.load(Ordering::SeqCst)), (429, 1));
    free.store(true, Ordering::SeqCst);
    assert_eq!(waits.await.unwrap().status(), 200);
    // Readiness outlasts a refusal.
    assert_eq!(service.ready().await.unwrap().call(from("192.0.2.1", "/")).await.unwrap().status(), 429);
    assert_eq!(service.call(from("192.0.2.2", "/")).await.unwrap().status(), 200);
}
