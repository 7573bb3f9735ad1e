//! A server's own access log, read in every format it may be written in, and judged.

use std::time::Duration;

use comity_audit::access_log::{self, ClientVerdict, Format, Log, LogError, LogTable, Verdict};

const SECOND: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);
/// 2000-10-10T20:55:36Z.
const AT: u64 = 971_211_336;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn read(text: &str) -> Log {
    access_log::read(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Time after [`AT`] in milliseconds, client, host, status, agent.
type Expected = (u64, &'static str, Option<&'static str>, Option<u16>, Option<&'static str>);

#[test]
fn every_format_is_read_line_by_line() {
    let here = "192.0.2.1";
    let org = Some("example.org");
    let bot = Some("ExampleBot/1.0 (+https://example.org/bot)");
    let cases: &[(&str, Format, Duration, Expected)] = &[
        (
            r#"192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET /a.gif HTTP/1.0" 200 2326"#,
            Format::Common,
            SECOND,
            (0, here, None, Some(200), None),
        ),
        (
            r#"192.0.2.1 - frank [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 23 "-" "ExampleBot/1.0 (+https://example.org/bot)""#,
            Format::Combined,
            SECOND,
            (0, here, None, Some(200), bot),
        ),
        (
            r#"example.org:443 192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 429 23 "-" "ExampleBot/1.0 (+https://example.org/bot)""#,
            Format::Combined,
            SECOND,
            (0, here, org, Some(429), bot),
        ),
        (
            r#"2001:db8::1 - - [10/Oct/2000:13:55:36.123 -0700] "GET / HTTP/2.0" 200 23"#,
            Format::Common,
            MILLI,
            (123, "2001:db8::1", None, Some(200), None),
        ),
        (
            r#"192.0.2.1 - - [971211336.123] "GET / HTTP/1.1" 200 23 "-" "-""#,
            Format::Common,
            MILLI,
            (123, here, None, Some(200), None),
        ),
        (
            r#"971211336.123 192.0.2.1 "GET / HTTP/1.1" 200 23"#,
            Format::Common,
            MILLI,
            (123, here, None, Some(200), None),
        ),
        (r#"192.0.2.1 - "quoted" [10/Oct/2000:20:55:36 +0000]"#, Format::Common, SECOND, (0, "", None, None, None)),
        (
            r#"192.0.2.1 - a\"b [10/Oct/2000:20:55:36 +0000] "\x16\x03\x01\"" 400 166 "-" "a \"b\" \\c""#,
            Format::Combined,
            SECOND,
            (0, here, None, Some(400), Some(r#"a "b" \c"#)),
        ),
        (
            r#"192.0.2.1 - [10/Oct/1990:00:00:00 +0000] [10/Oct/2000:20:55:36 +0000] "-" 408 -"#,
            Format::Common,
            SECOND,
            (0, here, None, Some(408), None),
        ),
        (
            r#"192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1 "https://example.net/" "Exam"#,
            Format::Combined,
            SECOND,
            (0, here, None, Some(200), Some("Exam")),
        ),
        (
            r#"{"time_iso8601":"2000-10-10T20:55:36+00:00","remote_addr":"192.0.2.1","host":"example.org","status":"200","http_user_agent":"x"}"#,
            Format::JsonLines,
            SECOND,
            (0, here, org, Some(200), Some("x")),
        ),
        (
            r#"{"msec":971211336.623,"request_time":0.5,"remote_addr":"192.0.2.1","http_host":"example.org:8080","status":200}"#,
            Format::JsonLines,
            ms(101),
            (123, here, org, Some(200), None),
        ),
        (
            r#"{"level":"info","ts":971211336.1239,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"2001:db8::1","remote_port":"41342","host":"example.org","headers":{"User-Agent":["x"]}},"duration":0.0009,"status":200}"#,
            Format::JsonLines,
            Duration::from_micros(200),
            (123, "2001:db8::1", org, Some(200), Some("x")),
        ),
        (
            r#"{"ClientAddr":"192.0.2.1:5000","ClientHost":"192.0.2.1","DownstreamStatus":503,"Duration":1000,"RequestHost":"example.org","StartUTC":"2000-10-10T20:55:36.123456789Z","request_User-Agent":"x","time":"2000-10-10T20:55:37Z"}"#,
            Format::JsonLines,
            Duration::from_nanos(1),
            (123, here, org, Some(503), Some("x")),
        ),
        (
            r#"{"time":"[10/Oct/2000:13:55:36 -0700]","client":"192.0.2.1","vhost":"EXAMPLE.org","status":200}"#,
            Format::JsonLines,
            SECOND,
            (0, here, org, Some(200), None),
        ),
        (
            r#"{"start_time":"2000-10-10T20:55:36.123Z","downstream_remote_address":"192.0.2.1:1","authority":"example.org","response_code":0}"#,
            Format::JsonLines,
            MILLI,
            (123, here, org, None, None),
        ),
        (
            r#"{"@timestamp":"2000-10-10T20:55:36.123Z","client":{"ip":"192.0.2.1"},"http":{"response":{"status_code":200}},"url":{"domain":"example.org"}}"#,
            Format::JsonLines,
            MILLI,
            (123, here, org, Some(200), None),
        ),
        (
            r#"{"timestamp":971211336123,"client_ip":"192.0.2.1","status":200}"#,
            Format::JsonLines,
            MILLI,
            (123, here, None, Some(200), None),
        ),
    ];
    for &(text, format, grain, (millis, client, host, status, agent)) in cases {
        if client.is_empty() {
            assert!(matches!(access_log::read(text.as_bytes()), Err(LogError::NothingReadable { .. })), "{text}");
            continue;
        }
        let log = read(text);
        let line = log.lines().next().unwrap();
        assert_eq!(line.at.as_millis(), u128::from(AT * 1000 + millis), "{text}");
        assert_eq!((line.client, line.host, line.status, line.agent), (client, host, status, agent), "{text}");
        assert_eq!((log.format, log.grain, log.len(), log.skipped), (format, grain, 1, 0), "{text}");
    }
}

#[test]
fn a_file_with_a_few_bad_lines_is_read_and_they_are_counted() {
    let mut bytes = b"\xef\xbb\xbf# a comment\r\n\r\n".to_vec();
    bytes.extend_from_slice(b"nonsense\r\n");
    bytes.extend_from_slice(b"192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] \"GET /caf\xe9 HTTP/1.1\" 200 1\r\n");
    bytes.extend_from_slice(b"{\"ts\":971211336,\"client\":\"192.0.2.1\",\"status\":200}\n");
    bytes.extend(std::iter::repeat_n(b'x', 70_000));
    bytes.extend_from_slice(b"\n192.0.2.2 - - [10/Oct/2000:20:55:37 +0000] \"GET / HTTP/1.1\" 200 1\n");
    bytes.extend_from_slice(b"192.0.2.2 - - [10/Oct/2000:20:55:38 +0000] \"GET / HTTP/1.1\" 2");
    let log = access_log::read(bytes.as_slice()).unwrap();
    assert_eq!(log.lines().map(|line| line.client).collect::<Vec<_>>(), ["192.0.2.1", "192.0.2.2"]);
    assert_eq!((log.format, log.skipped), (Format::Common, 4));
}

#[test]
fn a_file_with_no_readable_line_is_an_error_that_names_the_first() {
    let message =
        access_log::read(format!("\u{1b}[31mred\u{7}{}\nmore\n", "x".repeat(5000)).as_bytes()).unwrap_err().to_string();
    assert!(message.contains(r"\u{1b}[31mred\u{7}xxx"), "{message}");
    assert!(message.contains("Combined Log Format") && message.len() < 600, "{message}");
    for nothing in ["", "\n\n", "# only a comment\n", "\u{feff}"] {
        assert!(matches!(access_log::read(nothing.as_bytes()), Err(LogError::Empty)), "{nothing:?}");
    }
}

#[test]
fn the_grain_is_what_all_but_a_few_lines_have() {
    let lines = |whole: usize, finer: usize| {
        let line = |fraction| format!("{{\"ts\":971211336{fraction},\"client\":\"192.0.2.1\",\"status\":200}}\n");
        read(&(line("").repeat(whole) + &line(".125").repeat(finer))).grain
    };
    assert_eq!(lines(0, 100), MILLI);
    assert_eq!(lines(5, 95), MILLI); // zeros left out
    assert_eq!(lines(6, 94), SECOND); // two formats in one file
    assert_eq!(lines(1, 0), SECOND);
}

/// A log of one client with these times, in milliseconds, in this order.
fn log_of(times: &[u64]) -> Log {
    let line = |time: &u64| format!("{{\"ts\":{},\"client\":\"192.0.2.1\",\"status\":200}}\n", AT * 1000 + time);
    read(&times.iter().map(line).collect::<String>())
}

fn judged(times: &[u64], promised: u64, tolerance: u64, burst: u32) -> ClientVerdict {
    access_log::judge(&log_of(times), ms(promised), ms(tolerance), burst).remove(0)
}

#[test]
fn a_steady_client_passes_whatever_the_order_of_its_lines() {
    let verdict = judged(&[2000, 0, 1000, 3000], 1000, 0, 1);
    assert_eq!((verdict.verdict, verdict.least_gap, verdict.short_gaps), (Verdict::Passes, Some(SECOND), 0));
    assert_eq!((verdict.rate_per_second, verdict.rate_over_promised), (Some(1.0), Some(1.0)));
}

#[test]
fn a_gap_too_short_by_more_than_grain_and_tolerance_fails() {
    // The grain is a millisecond, so 989 and a tolerance of 10 are explained, 988 are not.
    assert_eq!(judged(&[0, 989, 1989], 1000, 10, 1).verdict, Verdict::Passes);
    let verdict = judged(&[0, 988, 1988], 1000, 10, 1);
    assert_eq!((verdict.verdict, verdict.short_gaps, verdict.gaps), (Verdict::Fails, 1, 2));
    let window = verdict.worst_window;
    assert_eq!((window.arrivals, window.span, window.allowed), (2, ms(988), 1));
}

#[test]
fn a_burst_is_allowed_but_not_a_lasting_excess() {
    assert_eq!(judged(&[0, 0, 0, 3000, 4000], 1000, 0, 3).verdict, Verdict::Passes);
    let verdict = judged(&[0, 0, 0, 900, 1800, 2700], 1000, 0, 3);
    assert_eq!((verdict.verdict, verdict.worst_window.arrivals, verdict.worst_window.allowed), (Verdict::Fails, 6, 5));
}

/// Lines whose times are in whole seconds.
fn whole_seconds(times: &[u64]) -> Log {
    let line = |time: &u64| format!("{{\"ts\":{},\"client\":\"192.0.2.1\",\"status\":200}}\n", AT + time);
    read(&times.iter().map(line).collect::<String>())
}

#[test]
fn what_rounding_may_explain_is_not_blamed() {
    // Half-second spacing, truncated: two of each second.
    let polite: Vec<_> = (0..40).map(|n| n / 2).collect();
    let verdict = access_log::judge(&whole_seconds(&polite), ms(500), Duration::ZERO, 1).remove(0);
    assert_eq!((verdict.verdict, verdict.grain, verdict.short_gaps), (Verdict::Passes, SECOND, 0));
    // Thrice as fast shows all the same.
    let hasty: Vec<_> = (0..40).map(|n| n / 6).collect();
    let verdict = access_log::judge(&whole_seconds(&hasty), ms(500), Duration::ZERO, 1).remove(0);
    assert_eq!((verdict.verdict, verdict.short_gaps), (Verdict::Fails, 0));
    // Three within one second may be half a second apart, so nothing can be told from three.
    let few = access_log::judge(&whole_seconds(&[0, 0, 0]), ms(500), Duration::ZERO, 1).remove(0);
    assert_eq!(few.verdict, Verdict::TooFew);
}

#[test]
fn the_law_agrees_with_every_window_looked_at() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    let mut seen = [0; 3];
    for round in 0..600 {
        let (promised, tolerance, burst) = (1 + random(200), random(40), 1 + u32::try_from(random(4)).unwrap());
        let count = 1 + random(40);
        let times: Vec<_> = (0..count).map(|_| random(1 + count * promised * 2)).collect();
        let verdict = judged(&times, promised, tolerance, burst);

        let grain = u64::try_from(verdict.grain.as_millis()).unwrap();
        let mut sorted = times.clone();
        sorted.sort_unstable();
        let kept = (0..sorted.len()).all(|from| {
            (from..sorted.len()).all(|to| {
                let arrivals = u64::try_from(to - from + 1).unwrap();
                let window = sorted[to] - sorted[from] + grain + tolerance;
                arrivals * promised <= u64::from(burst) * promised + window
            })
        });
        let told = count * promised > u64::from(burst) * promised + grain + tolerance;
        let expected = match (told, kept) {
            (false, _) => Verdict::TooFew,
            (true, true) => Verdict::Passes,
            (true, false) => Verdict::Fails,
        };
        assert_eq!(verdict.verdict, expected, "round {round}: {times:?} by {promised}, {tolerance}, {burst}");
        let window = verdict.worst_window;
        let over = u64::try_from(window.arrivals).unwrap() > window.allowed;
        assert_eq!(over, expected == Verdict::Fails, "round {round}: {window:?}");
        seen[expected as usize] += 1;
    }
    assert!(seen.iter().all(|&times| times > 30), "each verdict came up: {seen:?}");
}

const TOWN: &str = r#"{"ts":971211336000,"client":"192.0.2.1","host":"a.example","status":200,"agent":"one"}
{"ts":971211336100,"client":"192.0.2.1","host":"a.example","status":429,"agent":"two"}
{"ts":971211336200,"client":"192.0.2.1","host":"a.example","status":503,"agent":"two"}
{"ts":971211336000,"client":"192.0.2.1","host":"b.example","status":200}
{"ts":971211336000,"client":"2001:db8::2","host":"a.example","status":200}
{"ts":971211338000,"client":"2001:db8::2","host":"a.example","status":200}
{"ts":971211336000,"client":"192.0.2.3","host":"a.example","status":200}
{"ts":971211336900,"client":"192.0.2.3","host":"a.example","status":200}
"#;

#[test]
fn clients_are_judged_by_host_and_the_worst_comes_first() {
    let verdicts = access_log::judge(&read(TOWN), SECOND, Duration::ZERO, 1);
    let told: Vec<_> =
        verdicts.iter().map(|v| (v.client.as_str(), v.host.as_deref().unwrap(), v.requests, v.verdict)).collect();
    assert_eq!(
        told,
        [
            ("192.0.2.1", "a.example", 3, Verdict::Fails),
            ("192.0.2.3", "a.example", 2, Verdict::Fails),
            ("2001:db8::2", "a.example", 2, Verdict::Passes),
            ("192.0.2.1", "b.example", 1, Verdict::TooFew),
        ]
    );
    assert_eq!((verdicts[0].refused, verdicts[0].agent.as_deref()), (2, Some("two")));
}

#[test]
fn the_table_has_a_line_for_each_verdict_and_names_the_grain() {
    let verdicts = access_log::judge(&read(TOWN), SECOND, Duration::ZERO, 1);
    let expected = [
        "client       host       requests  refused  least gap  short gaps  rate/s  of promised            worst window  verdict",
        "192.0.2.1    a.example         3        2     100 ms      2 of 2   10.00        10.00  3 in 200 ms, 1 allowed  fails, times to 1 ms",
        "192.0.2.3    a.example         2        0     900 ms      1 of 1    1.11         1.11  2 in 900 ms, 1 allowed  fails, times to 1 ms",
        "2001:db8::2  a.example         2        0        2 s      0 of 1    0.50         0.50     1 in 0 s, 1 allowed  passes, times to 1 ms",
        "192.0.2.1    b.example         1        0          -      0 of 0       -            -     1 in 0 s, 1 allowed  too few, times to 1 ms",
    ];
    let table = LogTable(&verdicts).to_string();
    assert_eq!(table.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_verdict_names_its_units() {
    let verdict = &access_log::judge(&read(TOWN), SECOND, Duration::ZERO, 1)[0];
    assert_eq!(
        serde_json::to_value(verdict).unwrap(),
        serde_json::json!({
            "client": "192.0.2.1",
            "host": "a.example",
            "agent": "two",
            "requests": 3,
            "refused": 2,
            "least_gap_ms": 100.0,
            "gaps": 2,
            "short_gaps": 2,
            "rate_per_second": 10.0,
            "rate_over_promised": 10.0,
            "worst_window": {"arrivals": 3, "span_ms": 200.0, "allowed": 1},
            "grain_ms": 1.0,
            "verdict": "fails",
        })
    );
    // The schema tells of the same fields, and of no other.
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../../schema/audit-log.schema.json")).unwrap();
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let entry = &schema["items"];
    assert_eq!(keys(&entry["properties"]), keys(&serde_json::to_value(verdict).unwrap()));
    assert_eq!(entry["required"].as_array().unwrap().len(), keys(&entry["properties"]).len());
    let window = &entry["properties"]["worst_window"]["properties"];
    assert_eq!(keys(window), keys(&serde_json::to_value(verdict).unwrap()["worst_window"]));
}

#[test]
fn promises_at_the_edges_do_no_harm() {
    let log = read(TOWN);
    for (promised, tolerance, burst) in [
        (Duration::ZERO, Duration::ZERO, 0),
        (Duration::MAX, Duration::MAX, u32::MAX),
        (Duration::MAX, Duration::ZERO, 1),
        (Duration::from_nanos(1), Duration::ZERO, 1),
    ] {
        let verdicts = access_log::judge(&log, promised, tolerance, burst);
        assert_eq!(verdicts.len(), 4, "{promised:?}");
        assert!(!LogTable(&verdicts).to_string().is_empty());
    }
}
