use std::fmt::Write as _;
use std::io::{self, Read};
use std::time::Duration;

use http::{HeaderValue, Method};
use proptest::prelude::*;

use super::*;
use crate::request::Credentials;

fn wrong(line: &str) -> String {
    List::default().add(line).unwrap_err().to_string()
}

fn text_of(line: &str) -> String {
    let mut list = List::default();
    assert_eq!(list.add(line).unwrap(), Added::New(0), "{line}");
    list.text(0).to_owned()
}

fn read(bytes: &[u8]) -> (List, Vec<String>) {
    let (mut list, mut wrong) = (List::default(), Vec::new());
    // A buffer of a few bytes: lines come in pieces.
    let reader = io::BufReader::with_capacity(7, bytes);
    list.read(reader, "urls.txt", &mut |error| wrong.push(error.to_string())).unwrap();
    (list, wrong)
}

#[test]
fn f01_one_host_in_every_spelling_is_one_entry() {
    let mut list = List::default();
    assert_eq!(list.add("http://example.com/").unwrap(), Added::New(0));
    for line in ["http://EXAMPLE.com/", "http://Example.CoM/", "HTTP://example.com", "http://example.com:80/#top"] {
        assert_eq!(list.add(line).unwrap(), Added::Duplicate, "{line}");
    }
    assert_eq!((list.len(), list.text(0)), (1, "http://example.com/"));
    assert_eq!(list.url(0).host_str(), Some("example.com"));
}

#[test]
fn urls_are_normalised_and_lose_what_is_not_sent() {
    assert_eq!(
        text_of("https://B\u{fc}cher.example:443/a/../caf\u{e9}?q=\u{e9}#f"),
        "https://xn--bcher-kva.example/caf%C3%A9?q=%C3%A9"
    );
    assert_eq!(text_of("http://[2001:DB8:0:0::1]:8080"), "http://[2001:db8::1]:8080/");
    assert_eq!(text_of("  http://h/a?b|c{d}  "), "http://h/a?b|c{d}");
    assert_eq!(text_of("http:h/a"), "http://h/a");
}

#[test]
fn a_user_in_a_url_becomes_credentials_and_leaves_the_text() {
    let mut list = List::default();
    list.add("http://ann:p%40ss@example.org/a").unwrap();
    assert_eq!(list.text(0), "http://example.org/a");
    let extra = list.extra(0).unwrap();
    assert_eq!(extra.credentials, Some(Credentials::new("ann", Some("p@ss"))));
    assert!(!format!("{extra:?}").contains("p@ss"));
    assert_eq!(list.add("http://bob:x@example.org/a").unwrap(), Added::New(1));
    assert_eq!(list.add("http://example.org/a").unwrap(), Added::New(2));
    assert_eq!(list.add("http://ann:p%40ss@example.org/a#b").unwrap(), Added::Duplicate);
    assert!(list.extra(2).is_none());
}

#[test]
fn a_line_without_a_scheme_says_what_to_add() {
    for line in [
        "example.org/path",
        "example.org:8080/a",
        "localhost:80",
        "[2001:db8::1]:8080/a",
        "b\u{fc}cher.example/",
        "www.example.org/?u=http://h/",
    ] {
        assert!(wrong(line).contains("add https://"), "{}", wrong(line));
    }
    for line in ["ftp://example.org/", "file:///etc/passwd", "HTTPX://h/", "mailto:a@example.org", "javascript:0x()"] {
        assert!(wrong(line).contains("neither http nor https"), "{}", wrong(line));
    }
    for line in ["/a", "//example.org/", "[]", "?q", ":", "://h/", "-"] {
        assert!(wrong(line).contains("is no URL") && !wrong(line).contains("add https://"), "{}", wrong(line));
    }
    for line in ["http:///x", "https:////h/", "http:/\\/h"] {
        assert!(wrong(line).contains("has no host"), "{}", wrong(line));
    }
    for line in ["http://h/\0a", "http://h/a\rb", "http://h/\u{85}a"] {
        assert!(wrong(line).contains("has a control character"), "{}", wrong(line));
    }
}

#[test]
fn what_is_no_url_is_refused() {
    for line in [
        "http://",
        "http://h:99999/",
        "http://[::1/",
        "http://a b/",
        "http://h/\tTitle",
        "http://h/ # note",
        "http://h{x}/",
    ] {
        assert!(List::default().add(line).is_err(), "{line}");
    }
    assert!(wrong("http://h/a b").contains("%20"));
    assert!(wrong(&format!("http://h/{}", "\u{e9}".repeat(30_000))).contains("65,534"));
    assert!(wrong(&format!("http://h/{}", "a".repeat(65_536))).contains("64 KiB"));
}

#[test]
fn comments_blank_lines_marks_and_any_line_end_are_tolerated() {
    let (list, wrong) = read(b"\xef\xbb\xbfhttp://h/1\r\n\r\n# a comment\n   \n\thttp://h/2 \n#http://h/3\nhttp://h/4");
    let texts: Vec<_> = (0..list.len()).map(|n| list.text(n)).collect();
    assert_eq!(texts, ["http://h/1", "http://h/2", "http://h/4"]);
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn each_malformed_line_is_told_by_number_and_the_rest_is_read() {
    let mut bytes = b"http://h/1\nexample.org/a\n\xff\xfe\nhttp://h/".to_vec();
    bytes.extend(vec![b'a'; 3 * lines::MAX_LINE]);
    bytes.extend(b"\n{\"url\": \n\x1b[2Jx\nhttp://h/2\n");
    let (list, wrong) = read(&bytes);
    assert_eq!((list.len(), list.text(1)), (2, "http://h/2"));
    let starts =
        ["urls.txt:2: has no", "urls.txt:3: is not UTF-8", "urls.txt:4: is longer", "urls.txt:5: ", "urls.txt:6: "];
    assert_eq!(wrong.len(), starts.len(), "{wrong:?}");
    for (error, start) in wrong.iter().zip(starts) {
        assert!(error.starts_with(start), "{error}");
        assert!(error.len() < 400 && !error.contains('\x1b'), "{error}");
    }
}

#[test]
fn an_error_shows_no_password() {
    for line in ["http://ann:s3cret@h h/", "https://s3cret:x@h:99999/a", "{\"url\": \"http://a:s3cret@h/\", \"x\": 1}"]
    {
        assert!(!wrong(line).contains("s3cret"), "{}", wrong(line));
    }
    let error = wrong(r#"{"url": "http://h/", "headers": {"Authorization": "s3cret"}, "body": "s3cret", "x": 1}"#);
    assert!(error.contains("unknown field `x`") && !error.contains("s3cret"), "{error}");
}

#[test]
fn a_stream_that_breaks_off_leaves_what_was_read() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("gone"))
        }
    }
    let mut list = List::default();
    let reader = io::BufReader::new(b"http://h/1\nhttp://h/2\n".chain(Broken));
    assert!(list.read(reader, "-", &mut |error| panic!("{error}")).is_err());
    assert_eq!(list.len(), 2);
}

#[test]
fn an_object_has_all_that_a_request_can_have() {
    let line = r#"{"url": "https://u:p@api.example/v1", "method": "put", "headers": {"X-B": "1", "Accept": ["a", "b"]},
        "body": "text", "limits": {"per_second": 4, "windows": ["100:120"], "min_refetch_age": "1h",
        "refuse_when": [{"status": 403, "header": "x-limit"}]}, "identity": "key-1", "cost": 3}"#
        .replace('\n', " ");
    let mut list = List::default();
    list.add(&line).unwrap();
    let extra = list.extra(0).unwrap();
    assert_eq!((list.text(0), &extra.method), ("https://api.example/v1", &Some(Method::PUT)));
    let headers: Vec<_> = extra.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    assert_eq!(headers, [("accept", "a"), ("accept", "b"), ("x-b", "1")]);
    assert_eq!(extra.body.as_deref(), Some(&b"text"[..]));
    assert_eq!((extra.identity.as_deref(), extra.cost.map(u32::from)), (Some("key-1"), Some(3)));
    assert_eq!(extra.credentials, Some(Credentials::new("u", Some("p"))));
    let limits = extra.limits.as_ref().unwrap();
    assert_eq!(limits.interval, Some(Duration::from_millis(250)));
    assert_eq!(limits.windows.as_ref().map(Vec::len), Some(1));
    assert_eq!(limits.reading.as_ref().unwrap().refuse_when[0].status, Some(403));
    assert_eq!(extra.min_refetch_age, Some(Duration::from_secs(3600)));
}

#[test]
fn an_object_is_refused_by_the_name_of_what_is_wrong() {
    for (rest, named) in [
        (r#", "metod": "GET""#, "metod"),
        (r#", "method": "G T""#, "G T"),
        (r#", "method": "CONNECT""#, "CONNECT"),
        (r#", "cost": 0"#, "nonzero"),
        (r#", "headers": {"A B": "x"}"#, "A B"),
        (r#", "headers": {"X-A": "x\r\nY: z"}"#, "x-a"),
        (r#", "headers": {"Content-Length": "1"}"#, "content-length"),
        (r#", "headers": {"X-A": 1}"#, "a header is a text"),
        (r#", "limits": {"per_secnd": 1}"#, "per_secnd"),
        (r#", "limits": {"per_second": 0}"#, "per_second = 0"),
        (r#", "limits": {"interval": null}"#, "limits: "),
        (r#", "limits": 3"#, "limits: "),
        (r#", "url": "http://h/""#, "duplicate field `url`"),
    ] {
        let error = wrong(&format!(r#"{{"url": "http://h/"{rest}}}"#)).to_lowercase();
        assert!(error.contains(&named.to_lowercase()), "{rest}: {error}");
    }
    assert!(wrong(r#"{"method": "GET"}"#).contains("missing field `url`"));
    assert!(wrong(r#"{"url": "h/a"}"#).contains("add https://"));
    let many = vec!["\"v\""; 101].join(",");
    assert!(wrong(&format!(r#"{{"url": "http://h/", "headers": {{"a": [{many}]}}}}"#)).contains("more than 100"));
}

#[test]
fn only_the_same_request_is_a_duplicate() {
    let mut list = List::default();
    let mut add = |rest: &str| list.add(&format!(r#"{{"url": "http://h/"{rest}}}"#)).unwrap();
    assert_eq!(add(""), Added::New(0));
    assert_eq!(add(r#", "method": "GET""#), Added::Duplicate);
    assert_eq!(add(r#", "limits": {"interval": 1}, "cost": 2"#), Added::Duplicate);
    assert_eq!(add(r#", "method": "HEAD""#), Added::New(1));
    assert_eq!(add(r#", "body": "a""#), Added::New(2));
    assert_eq!(add(r#", "method": "POST", "body": "a""#), Added::Duplicate);
    assert_eq!(add(r#", "body": """#), Added::New(3));
    assert_eq!(add(r#", "headers": {"A": "1", "b": "2"}"#), Added::New(4));
    assert_eq!(add(r#", "headers": {"B": "2", "a": "1"}"#), Added::Duplicate);
    assert_eq!(add(r#", "headers": {"a": "2"}"#), Added::New(5));
    assert_eq!(list.add("http://h/").unwrap(), Added::Duplicate);
    assert_eq!(list.extra(2).unwrap().method, Some(Method::POST));
}

#[test]
fn many_requests_for_one_url_do_not_look_for_each_other_in_vain() {
    // 20,000 bodies for one URL: found by hash, not one after another.
    let mut list = List::default();
    for n in 0..20_000 {
        assert_eq!(list.add(&format!(r#"{{"url": "http://h/", "body": "{n}"}}"#)).unwrap(), Added::New(n));
    }
    assert_eq!(list.add(r#"{"url": "http://h/", "body": "19999"}"#).unwrap(), Added::Duplicate);
}

#[test]
fn equal_limits_are_held_once() {
    let mut list = List::default();
    for n in 0..3 {
        list.add(&format!(r#"{{"url": "http://h/{n}", "limits": {{"per_second": {}}}}}"#, 2 + n / 2)).unwrap();
    }
    let limits = |n| list.extra(n).unwrap().limits.clone().unwrap();
    assert!(Arc::ptr_eq(&limits(0), &limits(1)));
    assert!(!Arc::ptr_eq(&limits(1), &limits(2)));
}

#[test]
fn a_list_that_was_shrunk_still_finds_duplicates() {
    let mut list = List::default();
    for n in 0..1_000 {
        list.add(&format!("http://h/{n}")).unwrap();
    }
    let before = list.bytes();
    list.shrink();
    assert!(list.bytes() < before);
    assert_eq!(list.add("http://h/500").unwrap(), Added::Duplicate);
    assert_eq!(list.add("http://h/1000").unwrap(), Added::New(1_000));
}

/// Bytes beside the text, a URL, of a list of `count`: while adding, and after `shrink`.
fn overhead(count: u32) -> (f64, f64) {
    let mut text = String::new();
    for n in 0..count {
        let _ = writeln!(text, "https://host{}.example/section/{n:07}/a-page-with-a-name.html?id={n}", n % 5_000);
    }
    let mut list = List::default();
    list.read(text.as_bytes(), "urls.txt", &mut |error| panic!("{error}")).unwrap();
    assert_eq!(list.len(), count);
    let length: usize = (0..count).map(|n| list.text(n).len()).sum();
    let beside = |list: &List| (list.bytes() - length) as f64 / f64::from(count);
    let adding = beside(&list);
    list.shrink();
    (adding, beside(&list))
}

#[test]
fn a_url_costs_its_text_and_at_most_28_bytes() {
    // The second is where the table has just doubled.
    for count in [100_000, 114_690] {
        let (adding, after) = overhead(count);
        assert!(adding <= 28.0 && after <= 6.0, "{count} URLs: {adding:.1} bytes a URL while adding, {after:.1} after");
    }
}

#[test]
#[ignore = "takes seconds: run it with --ignored when the way URLs are held changes"]
fn a_million_urls_cost_their_text_and_at_most_28_bytes() {
    let (adding, after) = overhead(1_000_000);
    println!("1,000,000 URLs: {adding:.1} bytes a URL beside the text while adding, {after:.1} after");
    assert!(adding <= 28.0 && after <= 6.0);
}

proptest! {
    #[test]
    fn any_line_is_an_entry_or_an_error_and_every_entry_is_a_request(line in "(http://|https://h|HTTP:|\\{)?.{0,40}") {
        let mut list = List::default();
        if let Ok(Added::New(entry)) = list.add(&line) {
            let url = list.url(entry);
            prop_assert_eq!(url.as_str(), list.text(entry));
            prop_assert!(url.fragment().is_none() && url.username().is_empty());
            let requests = crate::request::Requests::new(Default::default()).unwrap();
            let request = requests.build(&url, list.extra(entry), None, &url, None);
            prop_assert!(request.is_ok(), "{:?}", request);
            prop_assert!(HeaderValue::from_str(url.as_str()).is_ok());
            let again = list.text(entry).to_owned();
            prop_assert_eq!(List::default().add(&again), Ok(Added::New(0)));
        }
    }
}
