use proptest::prelude::*;

use super::*;
use crate::rules::KEYS;

fn error(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

fn words(limit: &str) -> String {
    parse(&format!("[[limit]]\n{limit}")).unwrap().rules[0].to_string()
}

#[test]
fn g24_the_words_say_what_a_limit_does() {
    assert_eq!(
        words("rate = \"1/60s\"\nburst = 20"),
        "default: any method every path: each client: 20 at once, then 1 per 60 s"
    );
    assert!(
        words("rate = \"20/min\"\nmode = \"window\"")
            .ends_with("at most 20 in each window of 60 s, and no more before it ends")
    );
    assert!(
        words("rate = 1\nburst = 5\nmode = \"delay\"")
            .ends_with("1 per 1 s; 5 more at once wait for their turn, the rest is refused")
    );
    assert!(words("rate = \"10/s\"\nkey = \"all\"\ncost = 2").contains("all clients together: 10 at once"));
    assert!(words("rate = 0.5").contains("1 at once, then 1 per 2 s"));
}

#[test]
fn everything_can_be_said_in_the_file() {
    let settings = parse(
        r#"
        max_in_flight = "auto"
        queue = 100
        queue_time = "250ms"
        exempt = ["/healthz", "GET /ready"]
        status = 503
        ratelimit_fields = false
        dry_run = true
        on_store_failure = "admit"
        [key]
        by = "header:X-Api-Key"
        ipv6_prefix = 56
        trusted_proxies = ["10.0.0.0/8", "::1"]
        forwarded = "forwarded"
        [[limit]]
        name = "login"
        path = "/login"
        methods = ["POST"]
        host = "api.example.org"
        rate = "5/min"
        burst = 2
        "#,
    )
    .unwrap();
    let queue = Queue { most: 100, longest: Duration::from_millis(250) };
    assert_eq!((settings.in_flight, settings.queue), (InFlight::Auto, Some(queue)));
    assert!(settings.dry_run && settings.on_store_failure == OnStoreFailure::Admit && !settings.answers.fields);
    assert_eq!((settings.answers.refused.as_u16(), settings.answers.shed.as_u16()), (503, 503));
    assert_eq!(settings.key.ipv6_prefix.bits(), 56);
    assert!(matches!(&settings.key.trust, Trust::Networks(networks) if networks.len() == 2));
    assert_eq!(
        settings.describe(),
        [
            "login: POST /login on api.example.org: each client: 2 at once, then 1 per 12 s",
            "exempt from all of it: any method /healthz",
            "exempt from all of it: GET /ready",
            "in flight: as many as answers stay quick with, 100 more wait for up to 250ms, the rest is shed at once",
            "dry run: nothing is refused, only counted",
        ]
    );
    assert!(parse("").unwrap().rules.is_empty());
}

#[test]
fn g5_nonsense_is_refused_with_key_value_and_what_is_allowed() {
    for (text, told) in [
        ("max_in_flight = 0", ["max_in_flight", "0", "from 1"]),
        ("max_in_flight = \"some\"", ["max_in_flight", "some", "auto"]),
        ("queue = -1", ["queue", "-1", "from 0"]),
        ("queue_time = 0", ["queue_time", "0", "millisecond"]),
        ("queue_time = \"1s\"", ["queue_time", "1s", "beside `queue`"]),
        ("status = 200", ["status", "200", "400 to 599"]),
        ("status = 503\nshed_status = 503", ["status", "503", "either"]),
        ("exempt = [\"healthz\"]", ["exempt", "healthz", "begins with `/`"]),
        ("on_store_failure = \"panic\"", ["on_store_failure", "panic", "\"admit\""]),
        ("[key]\nby = \"cookie\"", ["by", "cookie", "header:"]),
        ("[key]\nipv6_prefix = 0", ["ipv6_prefix", "0", "128"]),
        ("[key]\ntrusted_proxies = [\"10.0.0.1/8\"]", ["trusted_proxies", "10.0.0.1/8", "10.0.0.0/8"]),
        ("[key]\ntrusted_hops = 0", ["trusted_hops", "0", "from 1"]),
        ("[key]\ntrusted_hops = 1\ntrusted_proxies = []", ["trusted_hops", "1", "either"]),
        ("[[limit]]\nrate = 0", ["rate", "0", "\"10/s\""]),
        ("[[limit]]\nrate = \"ten\"", ["rate", "ten", "1/60s"]),
        ("[[limit]]\nrate = 1\nburst = 0", ["burst", "0", "from 1"]),
        ("[[limit]]\nrate = 1\nburst = 2\nmode = \"window\"", ["burst", "2", "window"]),
        ("[[limit]]\nrate = 1\nmode = \"slow\"", ["mode", "slow", "delay"]),
        ("[[limit]]\nrate = 1\nkey = \"me\"", ["key", "me", "\"all\""]),
        ("[[limit]]\nrate = 1\ncost = 2", ["cost", "2", "1 to 1"]),
        ("[[limit]]\nrate = 1\ncost = -1", ["cost", "-1", "from 1"]),
        ("[[limit]]\nrate = 1\npath = \"x\"", ["path", "x", "[[limit]] 1"]),
        ("[[limit]]\nrate = 1\nmethods = [\"get\"]", ["methods", "get", "capital"]),
        ("[[limit]]\nrate = 1\nhost = \"a:80\"", ["host", "a:80", "without scheme and port"]),
        ("[[limit]]\nrate = 1\nname = \"a b\"", ["name", "a b", "letters"]),
        ("[[limit]]\nrate = 1\n[[limit]]\nrate = 2", ["name", "default", "no other"]),
        ("[[limit]]\nrate = 20000\nmode = \"delay\"", ["rate", "20000", "10000"]),
        ("burts = 1", ["burts", "line 1", "expected one of"]),
        ("[[limit]]\nrate = 1\npth = \"/\"", ["pth", "line 3", "`path`"]),
        ("[[limit]]\npath = \"/\"", ["rate", "missing", "line 1"]),
    ] {
        let error = error(text);
        assert!(told.iter().all(|word| error.contains(word)), "{text}: {error}");
    }
}

#[test]
fn no_request_can_fall_under_more_limits_than_are_asked() {
    let limit = |nth: usize, path: &str| format!("[[limit]]\nname = \"n{nth}\"\npath = \"{path}\"\nrate = 1\n");
    let chain = |count: usize| -> String { (0..count).map(|nth| limit(nth, &"/a".repeat(nth + 1))).collect() };
    assert!(parse(&chain(8)).is_ok());
    assert!(error(&chain(9)).contains("allowed are 8"));
    let beside: String = (0..20).map(|nth| limit(nth, &format!("/{nth}"))).collect();
    assert!(parse(&beside).is_ok());
}

#[test]
fn every_key_is_documented_and_no_other() {
    for (table, text) in [("", "nonsense = 1"), ("key", "[key]\nnonsense = 1"), ("limit", "[[limit]]\nnonsense = 1")] {
        let error = error(text);
        let known: Vec<&str> = error.split("expected one of").nth(1).unwrap().split('`').skip(1).step_by(2).collect();
        let (_, keys) = KEYS.iter().find(|(name, _)| *name == table).unwrap();
        assert_eq!(known, keys.iter().map(|(key, _)| *key).collect::<Vec<_>>(), "[{table}]");
    }
}

fn any_text() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "[[limit]]\n",
        "[key]\n",
        "rate = ",
        "burst = ",
        "name = ",
        "path = ",
        "mode = ",
        "cost = ",
        "max_in_flight = ",
        "queue = ",
        "queue_time = ",
        "exempt = [",
        "]",
        "\n",
        "0",
        "-1",
        "1e300",
        "nan",
        "9223372036854775807",
        "\"10/s\"",
        "\"1/1e99d\"",
        "\"/a/..%2e\"",
        "\"delay\"",
        "\"window\"",
        "\"auto\"",
        "trusted_proxies = [\"::/0\"]",
        "\"é\"",
    ]);
    prop::collection::vec(words, 0..30).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn no_text_panics(words in any_text(), noise in any::<String>()) {
        let _ = parse(&noise);
        if let Ok(settings) = parse(&words) {
            prop_assert!(!settings.describe().is_empty());
        }
    }
}
