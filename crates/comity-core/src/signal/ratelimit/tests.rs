use super::*;
use crate::time::Wall;

#[test]
fn a24_milliseconds_are_read_and_the_implausible_is_unknown() {
    let quotas = read_all(&[("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", &format!("{}", (NOW + 9) * 1_000))]);
    assert_eq!(quotas, [quota(None, None, Some(0), Some(9))]);
    let quotas = read_all(&[("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "1562287945706000")]);
    assert_eq!(quotas, [quota(None, None, Some(0), None)]);
}

#[test]
fn a25_a_window_that_is_over_asks_for_no_wait() {
    let quotas = read_all(&[("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", &format!("{}", NOW - 3))]);
    assert_eq!(quotas, [quota(None, None, Some(0), Some(0))]);
}

#[test]
fn a26_the_relative_reset_is_preferred() {
    let quotas = read_all(&[
        ("X-RateLimit-Reset", &format!("{}.123", NOW + 900)),
        ("X-RateLimit-Remaining", "0"),
        ("X-RateLimit-Reset-After", "64.57"),
    ]);
    assert_eq!(quotas.len(), 1);
    assert_eq!(quotas[0].resets_in, Some(Duration::from_millis(64_570)));
}

#[test]
fn a27_iso_8601_is_understood_and_an_unreadable_date_is_unknown() {
    let quotas = read_all(&[("x-ratelimit-reset", "2026-06-21T07:28:00.5Z"), ("x-ratelimit-remaining", "7")]);
    assert_eq!(quotas[0].resets_in, Some(Duration::from_millis(60_500)));
    let date = "Tue Feb 16 2021 09:02:42 GMT+0100 (Central European Standard Time)";
    let quotas = read_all(&[("X-RateLimit-Reset", date), ("X-RateLimit-Remaining", "7")]);
    assert_eq!(quotas, [quota(None, None, Some(7), None)]);
}

#[test]
fn a28_windows_beside_the_numbers_and_a_broken_number_is_unknown() {
    let quotas = read_all(&[("ratelimit-limit", "100;w=21600"), ("ratelimit-remaining", "76;w=21600")]);
    assert_eq!(quotas, [quota(Some(100), Some(21_600), Some(76), None)]);
    let quotas = read_all(&[("ratelimit-limit", "100;w=21600"), ("RateLimit-Remaining", ";w=21600")]);
    assert_eq!(quotas, [quota(Some(100), Some(21_600), None, None)]);
    for broken in ["", " ", "-1", "null", "NaN", "\u{b2}"] {
        assert_eq!(read_all(&[("RateLimit-Remaining", broken)]), [], "{broken}");
    }
}

#[test]
fn a30_declared_windows_hold_where_they_are_to_be_read() {
    let windows = [("X-App-Rate-Limit", "20:1,100:120")];
    let declared = [quota(Some(100), Some(120), None, None), quota(Some(20), Some(1), None, None)];
    assert_eq!(read_with(&windows, true), declared);
    assert_eq!(read_all(&windows), []);

    let counted = [windows[0], ("X-App-Rate-Limit-Count", "20:1,21:120"), ("X-Method-Rate-Limit", "junk, 5:0, 0:5")];
    let expected = [quota(Some(20), Some(1), Some(0), None), quota(Some(100), Some(120), Some(79), None)];
    assert_eq!(read_with(&counted, true), expected);
}

#[test]
fn a31_a_fraction_in_an_unknown_header_is_ignored() {
    assert_eq!(read_all(&[("X-Shop-Api-Call-Limit", "10/40"), ("X-RateLimit-Remaining", "10/40")]), []);
}

#[test]
fn a32_decimals_are_floored_and_small_resets_are_spans() {
    let used = ("X-Ratelimit-Used", "2");
    let quotas = read_all(&[used, ("X-Ratelimit-Remaining", "598.0"), ("X-Ratelimit-Reset", "137")]);
    assert_eq!(quotas, [quota(None, None, Some(598), Some(137))]);
    let quotas = read_all(&[used, ("X-Ratelimit-Remaining", "0.0"), ("X-Ratelimit-Reset", "137")]);
    assert_eq!(quotas, [quota(None, None, Some(0), Some(137))]);
}

#[test]
fn a33_separate_and_draft_07_fields_say_the_same() {
    let separate = read_all(&[("RateLimit-Limit", "100"), ("RateLimit-Remaining", "0"), ("RateLimit-Reset", "30")]);
    assert_eq!(separate, [quota(Some(100), None, Some(0), Some(30))]);

    let policy = ("RateLimit-Policy", "100;w=60, 10000;w=86400");
    let one = read_all(&[policy, ("RateLimit", "limit=100, remaining=0, reset=30")]);
    let expected = [quota(Some(100), Some(60), Some(0), Some(30)), quota(Some(10_000), Some(86_400), None, None)];
    assert_eq!(one, expected);
    let mixed =
        read_all(&[("RateLimit-Limit", "100"), ("RateLimit-Remaining", "0"), policy, ("RateLimit-Reset", "30")]);
    assert_eq!(mixed, expected);
}

#[test]
fn a33_policies_listed_behind_the_limit_are_quotas_of_their_own() {
    let quotas = read_all(&[
        ("RateLimit-Limit", "100, 100;w=60;comment=\"per minute\", 5000;w=3600"),
        ("RateLimit-Remaining", "50"),
        ("RateLimit-Reset", "30"),
    ]);
    let expected = [quota(Some(5_000), Some(3_600), None, None), quota(Some(100), Some(60), Some(50), Some(30))];
    assert_eq!(quotas, expected);
}

#[test]
fn a34_the_most_restrictive_policy_comes_first_and_one_line_equals_two() {
    let expected = [quota(None, None, Some(0), Some(300)), quota(None, None, Some(20), Some(20))];
    assert_eq!(read_all(&[("RateLimit", r#""policy1";r=20;t=20, "policy2";r=0;t=300"#)]), expected);
    assert_eq!(read_all(&[("RateLimit", "policy1;r=20;t=20, policy2;r=0;t=300")]), expected);
    let lines = [("RateLimit", r#""policy1";r=20;t=20"#), ("RateLimit", r#""policy2";r=0;t=300"#)];
    assert_eq!(read_all(&lines), expected);
    for broken in [r#""policy1";r=20;t=20, "policy2;r=0;t=300"#, "a;r=0;t=1,", "limit=100, remaining=", "=", "a;R=0"] {
        assert_eq!(read_all(&[("RateLimit", broken)]), [], "{broken}");
    }
}

#[test]
fn a35_policies_are_parameters_with_or_without_state() {
    let first = read_all(&[("RateLimit-Policy", r#""10-in-1sec"; q=10; w=1; pk=:MTIz:"#)]);
    assert_eq!(first, [quota(Some(10), Some(1), None, None)]);
    let second = read_all(&[("RateLimit-Policy", r#""20-in-1sec"; q=20; w=1"#)]);
    assert_eq!(second, [quota(Some(20), Some(1), None, None)]);
    let policies = ("RateLimit-Policy", r#""hour";q=5000;w=3600, "burst";q=10;w=1"#);
    let stated = read_all(&[("RateLimit", r#""burst";r=7;t=1"#), policies]);
    assert_eq!(stated[1], quota(Some(10), Some(1), Some(7), Some(1)));
    assert_eq!(stated[0], quota(Some(5_000), Some(3_600), None, None));
    let bytes = read_all(&[("RateLimit-Policy", r#""size";q=65536;w=10;qu="content-bytes""#)]);
    assert_eq!(bytes, []);
}

#[test]
fn a36_duplicate_keys_never_mix_to_permit_more() {
    let restrictive = quota(Some(10_000), None, Some(0), Some(200));
    let other = quota(Some(100), None, Some(50), Some(30));
    let there = "limit=100, remaining=50, reset=30, limit=10000, remaining=0, reset=200";
    let back = "limit=10000, remaining=0, reset=200, limit=100, remaining=50, reset=30";
    assert_eq!(read_all(&[("RateLimit", there)]), [restrictive, other]);
    assert_eq!(read_all(&[("RateLimit", back)]), [restrictive, other]);
    let uneven = "remaining=50, reset=30, limit=100, remaining=0, reset=200, limit=20, limit=30";
    assert_eq!(read_all(&[("RateLimit", uneven)]), [quota(Some(20), None, Some(0), Some(200))]);
    let lines = [("X-RateLimit-Remaining", "5"), ("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "9")];
    assert_eq!(read_all(&lines), [quota(None, None, Some(0), Some(9))]);
}

#[test]
fn a42_every_vendor_prefix_is_a_family_of_its_own() {
    let discogs = [
        ("X-Discogs-Ratelimit", "60"),
        ("X-Discogs-Ratelimit-Used", "58"),
        ("X-RateLimit-Limit", "40"),
        ("X-RateLimit-Remaining", "39"),
    ];
    assert_eq!(read_all(&discogs), [quota(Some(60), None, Some(2), None), quota(Some(40), None, Some(39), None)]);
    let crossref = [("X-Rate-Limit-Limit", "50"), ("x-rate-limit-interval", "1s")];
    assert_eq!(read_all(&crossref), [quota(Some(50), Some(1), None, None)]);
    let minute = [("X-RateLimit-Limit-Minute", "5"), ("X-RateLimit-Remaining-Minute", "4"), ("RateLimit-Reset", "30")];
    assert_eq!(read_all(&minute)[0], quota(Some(5), Some(60), Some(4), None));
    let requests = [
        ("vendor-ratelimit-requests-remaining", "0"),
        ("vendor-ratelimit-requests-reset", "6m0s"),
        ("vendor-ratelimit-tokens-remaining", "0"),
    ];
    assert_eq!(read_all(&requests), [quota(None, None, Some(0), Some(360))]);
}

#[test]
fn both_spellings_are_one_family_in_any_order() {
    let fields = [
        ("x-rate-limit-remaining", "5, 6"),
        ("X-RateLimit-Remaining", "0"),
        ("x-ratelimit-limit", "10, 20, 30"),
        ("x-rate-limit-interval", "1m"),
        ("x-ratelimit-window", "1s"),
    ];
    let backwards: Vec<_> = fields.iter().rev().copied().collect();
    let expected = [
        quota(Some(30), Some(60), Some(0), None),
        quota(Some(10), Some(60), Some(5), None),
        quota(Some(20), Some(60), Some(6), None),
    ];
    assert_eq!(read_all(&fields), expected);
    assert_eq!(read_all(&backwards), expected);
}

#[test]
fn what_two_families_say_alike_is_said_once() {
    let fields = [("RateLimit-Limit", "60;w=60"), ("X-RateLimit-Limit", "60;w=60"), ("X-RateLimit-Bucket", "a")];
    assert_eq!(read_all(&fields), [quota(Some(60), Some(60), None, None)]);
}

#[test]
fn a_limit_of_nothing_is_unknown() {
    assert_eq!(read_all(&[("X-RateLimit-Limit", "0")]), []);
    assert_eq!(read_all(&[("X-RateLimit-Limit", "0"), ("X-RateLimit-Used", "3")]), []);
    assert_eq!(read_all(&[("RateLimit-Policy", "0;w=60")]), []);
}

fn read_all(fields: &[(&str, &str)]) -> Vec<Quota> {
    read_with(fields, false)
}

fn read_with(fields: &[(&str, &str)], riot: bool) -> Vec<Quota> {
    let named: Vec<_> =
        fields.iter().filter_map(|(name, value)| Some((Name::parse(name)?, value.as_bytes()))).collect();
    read(named, &ServerClock { received: Wall::from_secs(NOW), date: None, age: None }, riot)
}

fn quota(limit: Option<u64>, window: Option<u64>, remaining: Option<u64>, resets_in: Option<u64>) -> Quota {
    Quota { limit, window: window.map(Duration::from_secs), remaining, resets_in: resets_in.map(Duration::from_secs) }
}

/// 2026-06-21T07:27:00Z.
const NOW: i64 = 1_782_026_820;
