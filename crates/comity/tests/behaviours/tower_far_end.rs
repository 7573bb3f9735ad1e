//! What a server receives through the tower layer and hyper's client. Each has a control: the same run without limits
//! must be seen to break them.

use std::time::Duration;

use comity::tower::{Options, PacerLayer};
use comity::{Pacer, Partial, Policy, Profile};
use comity_audit::arrivals::{Gaps, most_in_flight};
use comity_audit::far_end::{Arrival, Ending, FarEnd, Host, Reply, World};
use http::{Method, Request};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use tower::{Layer, ServiceExt};

use crate::support::{fixed, get_all, hyper, ms, paced, places, send};

fn unpaced() -> Pacer {
    Pacer::builder(Profile::Api)
        .template(Partial { policy: Some(Policy::Off), retries: Some(5), ..Partial::default() })
        .local()
}

fn world(host: Host) -> FarEnd {
    FarEnd::start(World::new().host("a.example", host)).unwrap()
}

fn gaps(far_end: &FarEnd) -> Gaps {
    Gaps::of(&far_end.times("a.example"))
}

#[tokio::test]
async fn t1_the_place_is_held_until_the_headers_and_the_body_is_outside() {
    let run = async |pacer: Pacer| {
        let page = Reply::ok("slow").after(ms(150)).body_after(ms(600));
        let far_end = world(Host::new().page("/", page));
        get_all(&paced(&far_end, &pacer), (0..3).map(|_| far_end.url("a.example", "/"))).await;
        (most_in_flight(&far_end.arrivals()), gaps(&far_end).span())
    };
    let (in_flight, span) = run(Pacer::builder(Profile::Api).template(places(1)).local()).await;
    assert_eq!(in_flight, 1);
    assert!(span < ms(2 * 600), "nobody waits for a body: {span:?}");
    let (in_flight, _) = run(unpaced()).await;
    assert_eq!(in_flight, 3, "the control");
}

#[tokio::test]
async fn c16_every_request_of_any_kind_is_spaced() {
    let run = async |pacer: Pacer| {
        let far_end = world(Host::new());
        let client = paced(&far_end, &pacer);
        let visits = [
            (Method::GET, "/page"),
            (Method::GET, "/sitemap.xml"),
            (Method::GET, "/robots.txt"),
            (Method::HEAD, "/probe"),
            (Method::GET, "/asset.png"),
        ];
        let visits = visits.map(|(method, path)| {
            tokio::spawn(send(&client, method, far_end.url("a.example", path), Options::default()))
        });
        for visit in visits {
            visit.await.unwrap().unwrap();
        }
        assert_eq!(gaps(&far_end).arrivals(), 5);
        gaps(&far_end).least().unwrap()
    };
    let least = run(Pacer::builder(Profile::Api).template(fixed(500)).local()).await;
    assert!(least >= ms(450), "no gap is shorter than the interval, but for its tenth: {least:?}");
    assert!(run(unpaced()).await < ms(450), "the control");
}

#[tokio::test]
async fn p3_a_name_is_paced_although_it_is_served_on_loopback() {
    let pacer = Pacer::builder(Profile::Api)
        .template(Partial::default())
        .rule(comity::Pattern::parse("a.example").unwrap(), fixed(200));
    let run = async |name: &str| {
        let far_end = FarEnd::start(World::new().default_host(Host::new())).unwrap();
        get_all(&paced(&far_end, &pacer.local()), (0..4).map(|_| far_end.url(name, "/"))).await;
        Gaps::of(&far_end.times(name)).least().unwrap()
    };
    assert!(run("a.example").await >= ms(170));
    assert!(run("127.0.0.1").await < ms(170), "the control");
}

#[tokio::test]
async fn d01_retries_are_spaced_like_all_others() {
    let flaky = || {
        world(Host::new().respond(|arrival: &Arrival, nth| {
            let even = arrival.path.trim_start_matches('/').parse::<u32>().is_ok_and(|job| job % 2 == 0);
            if even && nth == 0 { Reply::status(503) } else { Reply::ok("done") }
        }))
    };
    let run = async |pacer: Pacer| {
        let far_end = flaky();
        let jobs = (0..10).map(|job| far_end.url("a.example", &format!("/{job}")));
        let statuses = get_all(&paced(&far_end, &pacer), jobs).await;
        assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
        assert_eq!(gaps(&far_end).arrivals(), 15);
        gaps(&far_end).least().unwrap()
    };
    let least = run(Pacer::builder(Profile::Api).template(fixed(150)).local()).await;
    assert!(least >= ms(130), "{least:?}");
    assert!(run(unpaced()).await < ms(130), "the control");
}

#[tokio::test]
async fn t10_a_refused_request_reaches_the_server_before_later_ones() {
    let order = async |retries: u32| {
        let far_end = world(Host::new().respond(|arrival: &Arrival, nth| {
            (arrival.path == "/0" && nth == 0).then(|| Reply::status(429).header("retry-after", "0.3"))
        }));
        let limits = Partial { retries: Some(retries), ..places(1) };
        let client = paced(&far_end, &Pacer::builder(Profile::Api).template(limits).local());
        get_all(&client, (0..4).map(|page| far_end.url("a.example", &format!("/{page}")))).await;
        let paths: Vec<_> = far_end.arrivals().into_iter().map(|arrival| arrival.path).collect();
        (paths.join(" "), gaps(&far_end).span())
    };
    let (paths, span) = order(1).await;
    assert_eq!(paths, "/0 /0 /1 /2 /3");
    assert!(span >= ms(300), "{span:?}");
    assert_eq!(order(0).await.0, "/0 /1 /2 /3", "the control");
}

#[tokio::test]
async fn d16_a_put_of_a_stream_is_sent_once_and_its_host_still_pauses() {
    let far_end = world(Host::new().page("/put", Reply::status(503).header("retry-after", "1")));
    let pacer = Pacer::local(Profile::Api);
    let stream = || {
        let chunks = ["one ", "two"].map(|chunk| Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from(chunk))));
        StreamBody::new(futures_util::stream::iter(chunks))
    };
    let client = PacerLayer::new(pacer.clone()).layer(hyper(&far_end));
    let put = Request::put(far_end.url("a.example", "/put")).body(stream()).unwrap();
    assert_eq!(client.oneshot(put).await.unwrap().status(), 503);
    assert_eq!(far_end.arrivals().len(), 1);
    assert_eq!(far_end.arrivals()[0].body, b"one two");
    get_all(&paced(&far_end, &pacer), [far_end.url("a.example", "/")]).await;
    assert!(gaps(&far_end).least().unwrap() >= ms(1000), "{:?}", gaps(&far_end));

    // The control: with a body that can be sent again, the same PUT is.
    far_end.clear();
    let limits = Partial { retries: Some(1), ..Partial::default() };
    let client = paced(&far_end, &Pacer::builder(Profile::Api).template(limits).local());
    send(&client, Method::PUT, far_end.url("a.example", "/put"), Options::default()).await.unwrap();
    assert_eq!(far_end.arrivals().len(), 2);
}

#[tokio::test]
async fn d17_what_is_sent_again_hangs_on_the_method_and_the_failure() {
    let far_end = world(
        Host::new()
            .page("/429", Reply::status(429))
            .page("/503", Reply::status(503))
            .page("/reset", Reply::status(200).ending(Ending::Reset)),
    );
    let sent = async |limits: Partial, method: Method, path: &str, retries: Option<u32>| {
        far_end.clear();
        let client =
            paced(&far_end, &Pacer::builder(Profile::Api).template(Partial { retries: Some(1), ..limits }).local());
        let options = Options { retries, ..Options::default() };
        let _ = send(&client, method, far_end.url("a.example", path), options).await;
        far_end.arrivals().len()
    };
    let unsafe_503 = Partial { retry_unsafe_503: Some(true), ..fixed(10) };
    assert_eq!(sent(fixed(10), Method::POST, "/429", None).await, 2, "a 429 did nothing: any method");
    assert_eq!(sent(fixed(10), Method::POST, "/503", None).await, 1, "a 503 may come after half the work");
    assert_eq!(sent(fixed(10), Method::PUT, "/503", None).await, 2);
    assert_eq!(sent(unsafe_503, Method::POST, "/503", None).await, 2, "unless the host's setting says so");
    assert_eq!(sent(fixed(10), Method::POST, "/reset", Some(1)).await, 1, "never after a reset");
    assert_eq!(sent(fixed(10), Method::GET, "/reset", Some(1)).await, 2, "the control");
}

#[tokio::test]
async fn t11_a_request_cancelled_in_flight_gives_its_place_back() {
    let far_end = world(Host::new().page("/silent", Reply::status(200).ending(Ending::Silence)));
    let client = paced(&far_end, &Pacer::builder(Profile::Api).template(places(1)).local());
    let silent = send(&client, Method::GET, far_end.url("a.example", "/silent"), Options::default());
    assert!(tokio::time::timeout(Duration::from_millis(100), silent).await.is_err());
    assert_eq!(get_all(&client, [far_end.url("a.example", "/")]).await, [200]);
}
