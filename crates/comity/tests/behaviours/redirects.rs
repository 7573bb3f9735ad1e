//! What servers receive through the reqwest client (P11, D06, D07, T10, T13), each beside a control.

use std::time::Duration;

use comity::reqwest::{Attempts, Error, NotFollowed, OUR_USER_AGENT, PacedClient};
use comity::{Pacer, Partial, Policy, Profile};
use comity_audit::arrivals::Gaps;
use comity_audit::far_end::{Arrival, FarEnd, Host, Reply, World};
use http::{HeaderMap, HeaderValue, Method};
use reqwest::{ClientBuilder, Request, redirect};
use tokio::task::JoinSet;

use crate::support::{fixed, ms, places, url};

/// A client for which every name is at the far end.
fn builder(far_end: &FarEnd) -> ClientBuilder {
    let names = ["a.example", "b.example"];
    names.into_iter().fold(reqwest::Client::builder().no_proxy(), |builder, name| builder.resolve(name, far_end.addr()))
}

fn client(far_end: &FarEnd, limits: Partial) -> PacedClient {
    PacedClient::new(builder(far_end), Pacer::builder(Profile::Api).template(limits).local()).unwrap()
}

/// Ten pages of `a.example` that lead to the target host's.
fn leading_to(target: &'static str) -> FarEnd {
    let from = Host::new().respond(move |arrival: &Arrival, _| {
        let port = arrival.header("host")?.rsplit_once(':')?.1.to_owned();
        let page = arrival.path.strip_prefix("/from/")?;
        Some(Reply::redirect(302, &format!("http://{target}:{port}/to/{page}")))
    });
    FarEnd::start(World::new().host("a.example", from).host("b.example", Host::new())).unwrap()
}

async fn ten(client: &PacedClient, far_end: &FarEnd) {
    let mut visits = JoinSet::new();
    for page in 0..10 {
        let (client, page) = (client.clone(), far_end.url("a.example", &format!("/from/{page}")));
        visits.spawn(async move { assert_eq!(client.get(page).await.unwrap().status(), 200) });
    }
    visits.join_all().await;
}

fn least_gap(far_end: &FarEnd, host: &str) -> Duration {
    Gaps::of(&far_end.times(host)).least().unwrap()
}

#[tokio::test]
async fn p11_d07_every_hop_is_a_start_on_the_host_it_leads_to() {
    for (target, on_a, on_b) in [("a.example", 20, 0), ("b.example", 10, 10)] {
        let far_end = leading_to(target);
        ten(&client(&far_end, fixed(150)), &far_end).await;
        assert_eq!((far_end.times("a.example").len(), far_end.times("b.example").len()), (on_a, on_b));
        for host in ["a.example", target] {
            let least = least_gap(&far_end, host);
            assert!(least >= ms(130), "{target}: {least:?} on {host}");
        }
    }
    // The control: the hops of a client that follows redirects below its pacer.
    let far_end = leading_to("a.example");
    let pacer = Pacer::builder(Profile::Api).template(fixed(150)).local();
    let below = builder(&far_end).redirect(redirect::Policy::limited(10)).build().unwrap();
    for page in 0..3 {
        let page = url(&far_end.url("a.example", &format!("/from/{page}")));
        let _permit = pacer.acquire(&page).await.unwrap();
        below.get(page).send().await.unwrap();
    }
    assert!(least_gap(&far_end, "a.example") < ms(130));
}

#[tokio::test]
async fn d06_a_chain_needs_one_place_at_a_time() {
    let host = || Host::new().redirect("/a", 302, "/b").redirect("/b", 302, "c").page("/c", Reply::ok("there"));
    let chain = async |client: PacedClient, far_end: &FarEnd| {
        let mut visits = JoinSet::new();
        for _ in 0..4 {
            let (client, page) = (client.clone(), far_end.url("a.example", "/a"));
            visits.spawn(async move {
                let page = client.get(page).await.unwrap();
                assert_eq!(page.url().path(), "/c");
                assert_eq!(page.text().await.unwrap(), "there");
            });
        }
        tokio::time::timeout(Duration::from_secs(20), visits.join_all()).await.expect("no deadlock");
    };
    let far_end = FarEnd::start(World::new().host("a.example", host())).unwrap();
    chain(client(&far_end, places(1)), &far_end).await;
    assert_eq!(far_end.arrivals().len(), 12);
    assert_eq!(comity_audit::arrivals::most_in_flight(&far_end.arrivals()), 1);

    let far_end = FarEnd::start(World::new().host("a.example", host().service(ms(50)))).unwrap();
    chain(client(&far_end, places(4)), &far_end).await;
    assert!(comity_audit::arrivals::most_in_flight(&far_end.arrivals()) > 1, "the control");
}

#[tokio::test]
async fn a_redirect_keeps_or_drops_method_and_body_as_rfc_9110_says() {
    let host = [301, 302, 303, 307, 308]
        .into_iter()
        .fold(Host::new(), |host, status| host.redirect(&format!("/{status}"), status, &format!("/to/{status}")));
    let far_end = FarEnd::start(World::new().host("a.example", host)).unwrap();
    let client = client(&far_end, Partial { policy: Some(Policy::Off), ..Partial::default() });
    for (method, status, expected) in [
        (Method::POST, 301, "GET"),
        (Method::POST, 302, "GET"),
        (Method::POST, 303, "GET"),
        (Method::POST, 307, "POST body"),
        (Method::POST, 308, "POST body"),
        (Method::PUT, 302, "PUT body"),
        (Method::PUT, 303, "GET"),
        (Method::HEAD, 303, "HEAD"),
    ] {
        far_end.clear();
        let mut request = Request::new(method.clone(), url(&far_end.url("a.example", &format!("/{status}"))));
        if method != Method::HEAD {
            *request.body_mut() = Some("body".into());
            request.headers_mut().insert("content-type", HeaderValue::from_static("text/plain"));
        }
        client.execute(request).await.unwrap();
        let last = &far_end.arrivals()[1];
        let got = format!("{} {}", last.method, String::from_utf8_lossy(&last.body));
        assert_eq!((got.trim(), last.target()), (expected, format!("/to/{status}")), "{method} {status}");
        assert_eq!(last.header("content-type").is_some(), expected.ends_with("body"), "{method} {status}");
    }
}

#[tokio::test]
async fn a_redirect_takes_no_secret_to_another_host() {
    for (target, expected) in [("a.example", true), ("b.example", false)] {
        let far_end = leading_to(target);
        let mut own = HeaderMap::new();
        own.insert("authorization", HeaderValue::from_static("secret"));
        own.insert("x-plain", HeaderValue::from_static("kept"));
        let client = client(&far_end, Partial::default()).default_headers(own);
        let mut request = Request::new(Method::GET, url(&far_end.url("a.example", "/from/1")));
        request.headers_mut().insert("cookie", HeaderValue::from_static("secret=1"));
        client.execute(request).await.unwrap();
        let arrivals = far_end.arrivals();
        assert_eq!(arrivals[0].header("authorization"), Some("secret"));
        for name in ["authorization", "cookie"] {
            assert_eq!(arrivals[1].header(name).is_some(), expected, "{name} at {target}");
        }
        assert_eq!(arrivals[1].header("x-plain"), Some("kept"));
    }

    // Those that the reqwest client itself adds cannot be taken back, so the redirect is not followed.
    let far_end = leading_to("b.example");
    let mut below = HeaderMap::new();
    below.insert("authorization", HeaderValue::from_static("secret"));
    let client = PacedClient::new(builder(&far_end).default_headers(below), Pacer::local(Profile::Api)).unwrap();
    let error = client.get(far_end.url("a.example", "/from/1")).await.unwrap_err();
    assert!(
        matches!(&error, Error::Redirect { why: NotFollowed::Secret(name), .. } if name == "authorization"),
        "{error}"
    );
    assert_eq!(far_end.arrivals().len(), 1);
}

#[tokio::test]
async fn ten_redirects_are_followed_and_none_away_from_http() {
    let host = (0..20).fold(Host::new(), |host, n| host.redirect(&format!("/{n}"), 302, &format!("/{}", n + 1)));
    let host =
        host.redirect("/away", 302, "ftp://a.example/").redirect("/lost", 302, "http://[").page("/20", Reply::ok(""));
    let far_end = FarEnd::start(World::new().host("a.example", host)).unwrap();
    let client = client(&far_end, Partial { policy: Some(Policy::Off), ..Partial::default() });
    let get = |path: &str| client.get(far_end.url("a.example", path));
    assert_eq!(get("/10").await.unwrap().url().path(), "/20");
    let too_many = get("/9").await.unwrap_err();
    assert!(matches!(too_many, Error::Redirect { why: NotFollowed::TooMany, .. }), "{too_many}");
    assert!(too_many.to_string().contains("/19"), "{too_many}");
    let away = get("/away").await.unwrap_err();
    assert!(matches!(away, Error::Redirect { why: NotFollowed::Scheme(_), .. }), "{away}");
    assert_eq!(get("/lost").await.unwrap().status(), 302, "a Location that is no URL leaves the response as it is");
}

#[tokio::test]
async fn t10_a_refusal_is_retried_through_the_queue_and_told_of() {
    let busy =
        Host::new().respond(|_: &Arrival, nth| (nth == 0).then(|| Reply::status(503).header("retry-after", "0.4")));
    let run = async |retries: u32| {
        let far_end = FarEnd::start(World::new().host("a.example", busy.clone())).unwrap();
        let client = client(&far_end, Partial { retries: Some(retries), ..Partial::default() });
        let response = client.get(far_end.url("a.example", "/")).await.unwrap();
        let told = *response.extensions().get::<Attempts>().unwrap();
        (response.status().as_u16(), told.sent, told.gave_up.is_some(), Gaps::of(&far_end.times("a.example")).span())
    };
    let (status, sent, gave_up, span) = run(5).await;
    assert_eq!((status, sent, gave_up), (200, 2, false));
    assert!(span >= ms(400), "{span:?}");
    assert_eq!(run(0).await, (503, 1, true, ms(0)), "the control");
}

#[tokio::test]
async fn t13_a_callers_user_agent_is_kept_and_ours_names_product_and_contact() {
    let far_end = FarEnd::start(World::new().host("a.example", Host::new())).unwrap();
    let page = far_end.url("a.example", "/");
    let seen = async |builder: ClientBuilder, own: Option<&'static str>| {
        far_end.clear();
        let client = PacedClient::new(builder, Pacer::local(Profile::Api)).unwrap().contact("bots@a.example");
        let mut request = Request::new(Method::GET, url(&page));
        if let Some(own) = own {
            request.headers_mut().insert("user-agent", HeaderValue::from_static(own));
        }
        client.execute(request).await.unwrap();
        far_end.arrivals()[0].header("user-agent").map(str::to_owned)
    };
    let named = || builder(&far_end).user_agent("theirs/1");
    assert_eq!(seen(named(), None).await.as_deref(), Some("theirs/1"));
    assert_eq!(seen(named(), Some("this one/1")).await.as_deref(), Some("this one/1"));
    assert_eq!(seen(builder(&far_end), Some("this one/1")).await.as_deref(), Some("this one/1"));
    let ours = format!("{OUR_USER_AGENT} (+bots@a.example)");
    assert_eq!(seen(builder(&far_end), None).await, Some(ours));
    assert!(OUR_USER_AGENT.starts_with("comity/"), "{OUR_USER_AGENT}");
}

#[tokio::test]
async fn d13_failures_give_the_place_back_and_come_through() {
    let far_end = FarEnd::start(World::new().host("a.example", Host::resetting())).unwrap();
    let client = client(&far_end, places(1));
    for _ in 0..3 {
        let error = client.get(far_end.url("a.example", "/")).await.unwrap_err();
        assert!(matches!(error, Error::Client(_)), "{error}");
    }
    let error = client.get("ftp://a.example/").await.unwrap_err();
    assert!(matches!(&error, Error::Client(error) if error.is_builder()), "{error}");
    assert_eq!(far_end.arrivals().len(), 3);
}
