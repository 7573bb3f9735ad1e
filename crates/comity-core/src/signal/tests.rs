//! Whole answers, as they are met with in the field.

use proptest::prelude::*;

use super::*;

#[test]
fn a02_a_refusal_waits_the_fraction_it_was_told() {
    assert_eq!(refusal(429, &[("Retry-After", "0.493")]), refused(429, Some(493)));
}

#[test]
fn a18_both_kinds_of_time_are_measured_against_the_answers_date() {
    let date = ("Date", "Wed, 18 Sep 2019 05:33:23 GMT");
    for after in [("retry-after", "Wed, 18 Sep 2019 05:34:00 GMT"), ("x-ratelimit-reset", "1568784840")] {
        assert_eq!(refusal(429, &[date, after]), refused(429, Some(37_000)));
        assert_eq!(refusal(429, &[after, date]), refused(429, Some(37_000)));
    }
}

#[test]
fn a31_names_are_read_in_any_case() {
    let headers = [("X-Shop-Api-Call-Limit", "10/40"), ("Retry-after", "5")];
    assert_eq!(refusal(429, &headers), refused(429, Some(5_000)));
}

#[test]
fn a27_retry_after_wins_over_a_date_nobody_can_read() {
    let date = "Tue Feb 16 2021 09:02:42 GMT+0100 (Central European Standard Time)";
    assert_eq!(refusal(429, &[("X-RateLimit-Reset", date), ("Retry-After", "7")]), refused(429, Some(7_000)));
    assert_eq!(refusal(429, &[("X-RateLimit-Reset", date)]), refused(429, None));
}

#[test]
fn a40_retry_after_wins_over_every_reset() {
    let exhausted = [("ratelimit-remaining", "0"), ("ratelimit-reset", "3000")];
    let told = [exhausted[0], exhausted[1], ("Retry-After", "20")];
    assert_eq!(refusal(429, &told), refused(429, Some(20_000)));
    let served = answer(200, &exhausted, &Reading::default());
    assert_eq!(served.authoritative.refusal, None);
    assert_eq!(served.authoritative.quotas[0].resets_in, Some(Duration::from_secs(3_000)));
}

#[test]
fn a41_a_403_with_requests_left_waits_the_configured_minimum_and_not_the_reset() {
    let reset = format!("{}", NOW + 50);
    let headers = [("x-ratelimit-remaining", "24"), ("x-ratelimit-reset", &*reset)];
    let github =
        Reading { refuse_also: vec![403], min_refusal_wait: Some(Duration::from_secs(60)), ..Reading::default() };
    assert_eq!(answer(403, &headers, &github).authoritative.refusal, refused(403, Some(60_000)));
    assert_eq!(answer(403, &headers, &Reading::default()).authoritative.refusal, None);
    assert_eq!(answer(403, &headers, &Reading::default()).inferred, Inferred::Neutral);
}

#[test]
fn a42_a_refusal_without_advice_takes_the_reset() {
    assert_eq!(refusal(429, &[("x-ratelimit-reset", "12")]), refused(429, Some(12_000)));
    assert_eq!(refusal(429, &[("x-envoy-ratelimited", "true")]), refused(429, None));
    assert_eq!(refusal(429, &[("x-ratelimit-reset", "12"), ("x-ratelimit-remaining", "5")]), refused(429, None));
    // Of two quotas the exhausted one is what refused.
    let two = [("RateLimit", r#""second";r=0;t=1, "day";r=900;t=80000"#)];
    assert_eq!(refusal(429, &two), refused(429, Some(1_000)));
}

#[test]
fn a43_a_configured_header_is_asked_where_retry_after_gives_no_advice() {
    let headers = [("Retry-After", "0"), ("X-Retry-In", "105.712425ms")];
    let reading = Reading { reset_headers: vec!["X-Absent".into(), "x-retry-in".into()], ..Reading::default() };
    assert_eq!(answer(429, &headers, &reading).authoritative.refusal, refused(429, Some(106)));
    assert_eq!(refusal(429, &headers), refused(429, None));
    let told = [("Retry-After", "3"), ("X-Retry-In", "1m30s")];
    assert_eq!(answer(429, &told, &reading).authoritative.refusal, refused(429, Some(3_000)));
    assert_eq!(answer(429, &[("X-Retry-In", "1m30s")], &reading).authoritative.refusal, refused(429, Some(90_000)));
    assert_eq!(answer(429, &[("X-Retry-In", "12")], &reading).authoritative.refusal, refused(429, Some(12_000)));
}

#[test]
fn a05_a_refusal_with_a_senseless_value_is_one_without_advice() {
    for value in ["-1", "-1.5", "0", "soon", "\u{b2}", "Thu, 01 Jan 2026 00:00:00 GMT"] {
        assert_eq!(refusal(503, &[("Retry-After", value)]), refused(503, None), "{value}");
    }
    let minimum = Reading { min_refusal_wait: Some(Duration::from_secs(1)), ..Reading::default() };
    assert_eq!(answer(503, &[("Retry-After", "0")], &minimum).authoritative.refusal, refused(503, Some(1_000)));
}

#[test]
fn d28_405_refuses_only_with_a_valid_retry_after() {
    assert_eq!(refusal(405, &[("Retry-After", "2")]), refused(405, Some(2_000)));
    assert_eq!(refusal(405, &[]), None);
    assert_eq!(refusal(405, &[("Retry-After", "junk")]), None);
    assert_eq!(answer(405, &[], &Reading::default()).inferred, Inferred::Neutral);
    // Zero is valid, and no advice.
    assert_eq!(refusal(405, &[("Retry-After", "0")]), refused(405, None));
}

#[test]
fn d29_a_rule_of_the_host_makes_a_200_a_refusal() {
    let headers = [("Retry-After", "5"), ("MediaWiki-API-Error", "maxlag")];
    let standard = answer(200, &headers, &Reading::default());
    assert_eq!((standard.authoritative.refusal, standard.inferred), (None, Inferred::Healthy));
    let rule = HeaderMatch { status: Some(200), header: "mediawiki-api-error".into(), contains: Some("maxlag".into()) };
    let reading = Reading { refuse_when: vec![rule], never_refuse: vec![200], ..Reading::default() };
    let ruled = answer(200, &headers, &reading);
    assert_eq!((ruled.authoritative.refusal, ruled.inferred), (refused(200, Some(5_000)), Inferred::Neutral));
    assert_eq!(answer(200, &headers[..1], &reading).authoritative.refusal, None);
}

#[test]
fn d31_redirects_and_accepted_do_not_refuse() {
    for (status, wait) in [(301, "10"), (202, "30")] {
        let signal = answer(status, &[("Retry-After", wait), ("Location", "/x")], &Reading::default());
        assert_eq!((signal.authoritative.refusal, signal.inferred), (None, Inferred::Healthy));
    }
}

#[test]
fn j07_a_403_page_without_advice_waits_the_configured_ten_minutes() {
    let edgar =
        Reading { refuse_also: vec![403], min_refusal_wait: Some(Duration::from_secs(600)), ..Reading::default() };
    assert_eq!(answer(403, &[], &edgar).authoritative.refusal, refused(403, Some(600_000)));
}

#[test]
fn j14_retry_after_else_the_exhausted_reset_else_a_minute() {
    let github =
        Reading { refuse_also: vec![403], min_refusal_wait: Some(Duration::from_secs(60)), ..Reading::default() };
    let reset = format!("{}", NOW + 1_800);
    let exhausted = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &*reset), ("retry-after", "30")];
    for status in [403, 429] {
        assert_eq!(answer(status, &exhausted, &github).authoritative.refusal, refused(status, Some(30_000)));
        assert_eq!(answer(status, &exhausted[..2], &github).authoritative.refusal, refused(status, Some(1_800_000)));
        assert_eq!(answer(status, &[], &github).authoritative.refusal, refused(status, Some(60_000)));
    }
}

#[test]
fn f07_a_host_may_say_that_503_refuses_nothing() {
    let reading = Reading { never_refuse: vec![503], ..Reading::default() };
    let signal = answer(503, &[("Retry-After", "1500")], &reading);
    assert_eq!((signal.authoritative.refusal, signal.inferred), (None, Inferred::ServerError));
    assert_eq!(refusal(503, &[("Retry-After", "1500")]), refused(503, Some(1_500_000)));
}

#[test]
fn no_answer_says_nothing_that_binds() {
    let signal = Signal::no_answer(NoAnswer::TimedOut);
    assert_eq!(signal.status, None);
    assert_eq!(signal.authoritative, Authoritative::default());
    assert_eq!(signal.inferred, Inferred::NoAnswer(NoAnswer::TimedOut));
}

#[test]
fn the_reason_of_no_advice_is_told() {
    let read = |value: &'static str| retry_after([("Retry-After", value.as_bytes())].into_iter(), Wall::from_secs(NOW));
    assert_eq!(read("0"), RetryAfter::NoAdvice(Why::Zero));
    assert_eq!(read("soon"), RetryAfter::NoAdvice(Why::Junk));
    assert_eq!(retry_after(core::iter::empty(), Wall::from_secs(NOW)), RetryAfter::Absent);
}

proptest! {
    #[test]
    fn no_bytes_panic(
        status: u16,
        received: i64,
        riot: bool,
        fields in prop::collection::vec((name(), value()), 0..8),
    ) {
        let reading = Reading { riot, refuse_also: vec![200], reset_headers: vec!["x-retry-in".into()], ..Reading::default() };
        let headers = fields.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
        let signal = read(status, headers, Wall::from_micros(received), &reading);
        prop_assert_eq!(signal.status, Some(status));
        prop_assert_ne!(signal.authoritative.refusal.and_then(|refusal| refusal.wait), Some(Duration::ZERO));
        for text in fields.iter().filter_map(|(_, value)| str::from_utf8(value).ok()) {
            prop_assert_ne!(crawl_delay(text), Some(Duration::ZERO));
            prop_assert_ne!(request_rate(text), Some(Duration::ZERO));
        }
    }

    #[test]
    fn no_wait_is_shorter_than_the_written_one(secs in 0..900_000_000u64, nanos in 1..1_000_000_000u32, age in 0..99_999u32) {
        let asked = Duration::new(secs, nanos);
        let value = format!("{secs}.{nanos:09}");
        let age = age.to_string();
        let headers = [("retry-after", value.as_str()), ("age", &age), ("date", "Sun, 21 Jun 2026 05:00:00 GMT")];
        let wait = refusal(429, &headers).and_then(|refusal| refusal.wait);
        prop_assert!(wait.is_some_and(|wait| wait >= asked && wait < asked + Duration::from_millis(1)), "{:?}", wait);
        if let Some(delay) = crawl_delay(&value) {
            prop_assert!(delay >= asked.min(Duration::from_secs(366 * 86_400)));
        }
    }

    #[test]
    fn no_date_is_reached_early(ahead in 1..40_000_000u32, micros in 0..1_000_000i64) {
        let date = jiff::Timestamp::from_second(NOW + i64::from(ahead)).unwrap();
        let value = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&date).unwrap();
        let received = Wall::from_micros(NOW * 1_000_000 + micros);
        let RetryAfter::Wait(wait) = retry_after([("retry-after", value.as_bytes())].into_iter(), received) else {
            return Err(TestCaseError::fail("no wait"));
        };
        prop_assert!(wait + Duration::from_micros(micros.unsigned_abs()) >= Duration::from_secs(ahead.into()));
    }

    #[test]
    fn the_order_of_different_fields_does_not_matter(
        fields in prop::collection::btree_map(name(), value(), 0..8).prop_map(|map| map.into_iter().collect::<Vec<_>>()),
        status in prop::sample::select(vec![200u16, 403, 405, 429, 503]),
        turn in 0..8usize,
    ) {
        let reading = Reading { riot: true, reset_headers: vec!["x-retry-in".into()], ..Reading::default() };
        let read = |fields: &[(String, Vec<u8>)]| {
            let headers = fields.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
            super::read(status, headers, Wall::from_secs(NOW), &reading)
        };
        let mut turned = fields.clone();
        turned.reverse();
        turned.rotate_left(turn.min(fields.len()));
        prop_assert_eq!(read(&fields), read(&turned));
    }
}

/// Names of interest, and some others.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "age",
            "date",
            "ratelimit",
            "ratelimit-limit",
            "ratelimit-policy",
            "ratelimit-remaining",
            "ratelimit-reset",
            "retry-after",
            "x-app-rate-limit",
            "x-app-rate-limit-count",
            "x-rate-limit-interval",
            "x-rate-limit-limit",
            "x-ratelimit-limit-minute",
            "x-ratelimit-remaining",
            "x-ratelimit-reset",
            "x-ratelimit-reset-after",
            "x-ratelimit-used",
            "x-retry-in",
        ])
        .prop_map(String::from),
        any::<String>(),
        "[a-z-]{0,3}rate-?limit[a-z-]{0,9}",
    ]
}

/// Values near to sensible ones, and any bytes.
fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        "[0-9]{1,22}(\\.[0-9]{0,12})?".prop_map(String::into_bytes),
        "[0-9]{0,3}(;w=[0-9]{0,4})?(, ?[0-9]{1,3}(;w=[0-9]{1,4})?){0,3}".prop_map(String::into_bytes),
        "\"?[a-c]\"?;[rqtw]=[0-9]{1,3};[rqtw]=[0-9]{1,3}(, b;r=0;t=[0-9]{1,4})?".prop_map(String::into_bytes),
        "((limit|remaining|reset)=[0-9]{1,4}, ){1,5}limit=9".prop_map(String::into_bytes),
        "([0-9]{1,3}:[0-9]{1,3},){1,3}".prop_map(String::into_bytes),
        "([0-9.]{1,4}(ms|s|m|h|d)){1,3}".prop_map(String::into_bytes),
        "(Sun|Sunday)?,? ?[0-9]{1,2}[ -]Jun[ -](20)?[0-9]{2} [0-9]{2}:2[0-9]:00 (GMT|UTC|-0000)"
            .prop_map(String::into_bytes),
        "2026-06-2[0-9]T07:[0-9]{2}:00(Z|\\+0[0-9]:00)".prop_map(String::into_bytes),
    ]
}

fn answer(status: u16, headers: &[(&str, &str)], reading: &Reading) -> Signal {
    let headers = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
    read(status, headers, Wall::from_secs(NOW), reading)
}

fn refusal(status: u16, headers: &[(&str, &str)]) -> Option<Refusal> {
    answer(status, headers, &Reading::default()).authoritative.refusal
}

fn refused(status: u16, millis: Option<u64>) -> Option<Refusal> {
    Some(Refusal { status, wait: millis.map(Duration::from_millis) })
}

/// 2026-06-21T07:27:00Z.
const NOW: i64 = 1_782_026_820;
