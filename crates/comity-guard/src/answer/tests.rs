use comity_core::guard::all::take;
use comity_core::guard::{FixedWindow, Limit, NamedLimit, TokenBucket, Verdict};
use comity_core::signal::{self, Quota, Reading};
use comity_core::time::{Instant, Wall};
use http::header::{ACCEPT, CONTENT_LENGTH};

use http::HeaderMap;

use super::*;

fn named(name: &str, limit: impl Into<Limit>) -> NamedLimit {
    NamedLimit::new(name, limit.into()).unwrap()
}

fn bucket(count: i64, per: u64, burst: i64) -> Limit {
    TokenBucket::rate(count, Duration::from_secs(per), burst).unwrap().into()
}

/// What became of so many requests at once under these limits, and the fields for it.
fn asked(limits: &[NamedLimit], times: usize) -> (Verdict, Vec<PolicyField>) {
    let now = Instant::from_millis(1_000);
    let taken: Vec<(Limit, u32)> = limits.iter().map(|named| (*named.limit(), 1)).collect();
    let mut buckets: Vec<_> = limits.iter().map(|named| named.limit().fresh(now)).collect();
    let verdicts: Vec<Verdict> = (0..times).map(|_| take(now, &taken, &mut buckets)).collect();
    (*verdicts.last().unwrap(), limits.iter().map(PolicyField::of).collect())
}

fn refusal(answers: Answers, limits: &[NamedLimit], times: usize, accept: Option<&str>) -> Response<Bytes> {
    let (verdict, fields) = asked(limits, times);
    let (_, retry) = verdict.refused().unwrap();
    answers.refused(asks(accept), retry, fields.iter().zip(verdict.left()))
}

fn asks(accept: Option<&str>) -> bool {
    let headers = accept.iter().map(|accept| (ACCEPT, accept.parse().unwrap())).collect();
    is_problem_asked_for(&headers)
}

fn add_fields<'a>(headers: &mut HeaderMap, limits: impl Iterator<Item = (&'a PolicyField, &'a Left)> + Clone) {
    add_policies(headers, limits.clone().map(|(policy, _)| policy));
    add_left(headers, left(limits).unwrap());
}

fn all<'a>(response: &'a Response<Bytes>, name: &str) -> Vec<&'a str> {
    response.headers().get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
}

#[test]
fn g4_every_refusal_carries_retry_after() {
    let limits = [named("each", bucket(1, 60, 20))];
    let refused = refusal(Answers::default(), &limits, 21, None);
    assert_eq!((refused.status().as_u16(), all(&refused, "retry-after")), (429, vec!["60"]));
    let shed = Answers::default().shed(false);
    assert_eq!((shed.status().as_u16(), all(&shed, "retry-after")), (503, vec!["1"]));
}

#[test]
fn g6_one_status_answers_twelve_bytes_to_both() {
    let answers = Answers::one_status(StatusCode::SERVICE_UNAVAILABLE);
    let limits = [named("each", bucket(1, 1, 1))];
    for accept in [None, Some("application/json")] {
        for answer in [refusal(answers, &limits, 2, accept), answers.shed(asks(accept))] {
            assert_eq!((answer.status().as_u16(), answer.body().as_ref()), (503, &b"lim rejected"[..]));
            assert_eq!((answer.body().len(), all(&answer, "retry-after")), (12, vec!["1"]));
        }
    }
}

#[test]
fn g02_retry_after_and_ratelimit_agree() {
    let limits = [named("each", bucket(1, 60, 2)), named("all", bucket(10, 1, 20))];
    let refused = refusal(Answers::default(), &limits, 3, None);
    assert_eq!(all(&refused, "retry-after"), ["60"]);
    assert_eq!(all(&refused, "ratelimit"), ["\"each\";r=0;t=60"], "of those that refused");
    assert_eq!(all(&refused, "ratelimit-policy"), ["\"each\";q=2;w=120"]);
    let limits =
        [named("each", bucket(1, 60, 1)), named("hour", FixedWindow::new(1, Duration::from_secs(3600)).unwrap())];
    let refused = refusal(Answers::default(), &limits, 2, None);
    assert_eq!(all(&refused, "retry-after"), ["3600"], "the longest");
    assert_eq!(all(&refused, "ratelimit"), ["\"each\";r=0;t=60, \"hour\";r=0;t=3600"]);
}

#[test]
fn an_admitted_answer_tells_what_is_left() {
    let limits = [named("each", bucket(1, 60, 20)), named("all", bucket(10, 1, 20))];
    let (verdict, fields) = asked(&limits, 1);
    let mut headers = HeaderMap::new();
    add_fields(&mut headers, fields.iter().zip(verdict.left()));
    assert_eq!(
        headers.get_all("ratelimit-policy").iter().collect::<Vec<_>>(),
        ["\"each\";q=20;w=1200", "\"all\";q=20;w=2"]
    );
    assert_eq!(headers.get("ratelimit").unwrap(), "\"each\";r=19;t=60, \"all\";r=19");
    assert!(headers.get("retry-after").is_none());
}

#[test]
fn g02_less_than_a_second_is_said_only_where_nothing_is_left() {
    for (times, told) in [(19, "\"all\";r=1"), (20, "\"all\";r=0;t=1")] {
        let (verdict, fields) = asked(&[named("all", bucket(10, 1, 20))], times);
        assert_eq!(left(fields.iter().zip(verdict.left())).unwrap(), told);
    }
}

#[test]
fn the_quota_is_never_less_than_what_comes_at_once_nor_its_window_less_than_a_second() {
    for (limit, told) in [
        (bucket(1, 60, 20), "\"n\";q=20;w=1200"),
        (bucket(10, 1, 20), "\"n\";q=20;w=2"),
        (bucket(100, 1, 10), "\"n\";q=100;w=1"),
        (bucket(2, 1, 5), "\"n\";q=6;w=3"),
        (bucket(1_000_000, 1, 1), "\"n\";q=1000000;w=1"),
        (FixedWindow::new(100, Duration::from_secs(60)).unwrap().into(), "\"n\";q=100;w=60"),
    ] {
        assert_eq!(PolicyField::of(&named("n", limit)).value(), told);
    }
}

#[test]
fn g20_bodies_are_small_and_say_nothing_of_the_request() {
    let limits = [named("each", bucket(1, 1, 1)), named("a.b", bucket(1, 1, 1))];
    let evil = "text/<script>, application/problem+json;q=0.5";
    let refused = refusal(Answers::default(), &limits, 2, Some(evil));
    assert_eq!(all(&refused, "content-type"), ["application/problem+json"]);
    let body: serde_json::Value = serde_json::from_slice(refused.body()).unwrap();
    assert_eq!((body["status"].as_u64(), body["violated-policies"][1].as_str()), (Some(429), Some("a.b")));
    let shed = Answers::default().shed(asks(Some("APPLICATION/JSON")));
    let body: serde_json::Value = serde_json::from_slice(shed.body()).unwrap();
    assert!(body["type"].as_str().unwrap().ends_with("#temporary-reduced-capacity"));
    for accept in [None, Some("*/*"), Some("text/html"), Some("application/json;q=0"), Some("application/json; Q=0.00")]
    {
        let refused = refusal(Answers::default(), &limits, 2, accept);
        assert_eq!(all(&refused, "content-type"), ["text/plain; charset=utf-8"], "{accept:?}");
        assert!(refused.body().len() < 100 && refused.headers().get(CONTENT_LENGTH).is_none());
    }
}

/// What our own client makes of an answer: how long it was refused for, and the most restrictive quota.
fn read_by_client(answer: &Response<Bytes>) -> (Option<Duration>, Option<Quota>) {
    let fields: Vec<_> = answer.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let signal = signal::read_when(
        answer.status().as_u16(),
        fields.iter().copied(),
        || Wall::from_secs(1_800_000_000),
        &Reading::default(),
    );
    let wait = signal.authoritative.refusal.and_then(|refusal| refusal.wait);
    (wait, signal.authoritative.quotas.first().copied())
}

#[test]
fn g02_our_own_client_reads_what_we_send_and_waits_right() {
    let limits = [named("each", bucket(1, 60, 2)), named("all", bucket(10, 1, 20))];
    let (wait, quota) = read_by_client(&refusal(Answers::default(), &limits, 3, None));
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(wait, seconds(60));
    let left =
        |remaining, resets_in| Quota { limit: Some(2), window: seconds(120), remaining: Some(remaining), resets_in };
    assert_eq!(quota, Some(left(0, seconds(60))));
    let (verdict, fields) = asked(&limits, 1);
    let mut served = Response::new(Bytes::new());
    add_fields(served.headers_mut(), fields.iter().zip(verdict.left()));
    assert_eq!(read_by_client(&served), (None, Some(left(1, seconds(60)))));
}
