use std::io::Write as _;
use std::str::FromStr as _;

use bytes::Bytes;
use http::header::*;
use http_body_util::BodyExt as _;

use super::*;

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

fn requests(headers: &[&str], change: impl FnOnce(&mut RequestOptions)) -> Requests {
    let headers = headers.iter().map(|line| line.parse().unwrap()).collect();
    let mut options = RequestOptions { headers, ..RequestOptions::default() };
    change(&mut options);
    Requests::new(options).unwrap()
}

fn has(request: &client::Request, name: &HeaderName) -> Vec<String> {
    request.headers().get_all(name).iter().map(|value| value.to_str().unwrap().to_owned()).collect()
}

fn body(request: client::Request) -> Bytes {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(request.into_body().collect()).unwrap().to_bytes()
}

fn extra(line: &str) -> Extra {
    let mut list = crate::list::List::default();
    list.add(line).unwrap();
    list.extra(0).unwrap().clone()
}

const BASIC_A_B: &str = "Basic YTpi";

#[test]
fn requests_are_shared_by_tasks() {
    fn shared<T: Send + Sync>() {}
    shared::<Requests>();
}

#[test]
fn a_plain_request_names_us_and_asks_for_bytes_as_they_are() {
    let requests = requests(&[], |_| {});
    let page = url("http://u:p@example.org/a?b=c#d");
    let request = requests.build(&page, None, None, &page, None).unwrap();
    assert_eq!((request.method(), request.uri().to_string().as_str()), (&Method::GET, "http://example.org/a?b=c"));
    assert_eq!(has(&request, &USER_AGENT), [requests.user_agent()]);
    assert_eq!(
        (has(&request, &ACCEPT), has(&request, &ACCEPT_ENCODING)),
        (vec!["*/*".into()], vec!["identity".into()])
    );
    assert_eq!(request.headers().len(), 4, "{request:?}");
    assert!(!request.headers().contains_key(HOST));
    assert!(body(request).is_empty());
}

#[test]
fn h12_conditions_are_sent_as_the_server_gave_its_validators() {
    let requests = requests(&[], |_| {});
    let page = url("http://example.org/feed");
    let date = "Tue, 03 Nov 2026 10:00:00 GMT";
    let validators = Validators { etag: Some("W/\"a,\u{e9}\"".into()), last_modified: Some(date.into()) };
    let request = requests.build(&page, None, Some(&validators), &page, None).unwrap();
    assert_eq!(request.headers()[IF_NONE_MATCH].as_bytes(), "W/\"a,\u{e9}\"".as_bytes());
    assert_eq!(has(&request, &IF_MODIFIED_SINCE), [date]);

    // What cannot be sent is not; what asks for something else than the page has no condition.
    let broken = Validators { etag: Some("\"a\r\nX: y\"".into()), last_modified: None };
    assert!(!requests.build(&page, None, Some(&broken), &page, None).unwrap().headers().contains_key(IF_NONE_MATCH));
    let post = extra(r#"{"url": "http://h/", "body": "x"}"#);
    let request = requests.build(&page, Some(&post), Some(&validators), &page, None).unwrap();
    assert!(!request.headers().contains_key(IF_NONE_MATCH));
    let own = extra(r#"{"url": "http://h/", "headers": {"If-None-Match": "\"mine\""}}"#);
    let request = requests.build(&page, Some(&own), Some(&validators), &page, None).unwrap();
    assert_eq!(has(&request, &IF_NONE_MATCH), ["\"mine\""]);
    assert!(!request.headers().contains_key(IF_MODIFIED_SINCE));
}

#[test]
fn t13_h18_a_callers_own_name_is_sent_to_everybody() {
    let requests = requests(&[], |options| options.user_agent = Some("ourbot/1".into()));
    let (page, away) = (url("http://example.org/"), url("http://example.net/"));
    for request in [
        requests.build(&page, None, None, &page, None),
        requests.build(&away, None, None, &page, None),
        requests.robots(&page),
    ] {
        assert_eq!(has(&request.unwrap(), &USER_AGENT), ["ourbot/1"]);
    }
    let own = extra(r#"{"url": "http://h/", "headers": {"User-Agent": "other/2"}}"#);
    assert_eq!(has(&requests.build(&page, Some(&own), None, &page, None).unwrap(), &USER_AGENT), ["other/2"]);
}

#[test]
fn headers_replace_defaults_and_an_entrys_own_replace_those() {
    let requests = requests(&["Accept:", "Accept-Encoding: gzip", "X-A: 1", "x-a: 2", "X-B;"], |_| {});
    let page = url("http://example.org/");
    let request = requests.build(&page, None, None, &page, None).unwrap();
    let x_a = HeaderName::from_static("x-a");
    assert_eq!((has(&request, &ACCEPT), has(&request, &ACCEPT_ENCODING)), (vec![], vec!["gzip".into()]));
    assert_eq!(has(&request, &x_a), ["1", "2"]);
    assert_eq!(has(&request, &HeaderName::from_static("x-b")), [""]);
    let own = extra(r#"{"url": "http://h/", "headers": {"X-A": ["3", "4"], "Accept": "a/b"}}"#);
    let request = requests.build(&page, Some(&own), None, &page, None).unwrap();
    assert_eq!((has(&request, &x_a), has(&request, &ACCEPT)), (vec!["3".into(), "4".into()], vec!["a/b".into()]));
}

#[test]
fn secrets_stay_with_the_origin_they_were_given_for() {
    let lines = ["Authorization: Bearer x", "Cookie: a=b", "X-Api-Key: k", "Private-Token: t", "X-Plain: p"];
    let requests = requests(&lines, |options| options.credentials = Some("a:b".parse().unwrap()));
    let own = extra(r#"{"url": "http://h/", "headers": {"X-Session": "s", "Accept-Language": "de"}}"#);
    let first = url("http://example.org/");
    let secret = |to: &str| {
        let request = requests.build(&url(to), Some(&own), None, &first, None).unwrap();
        assert!(request.headers().contains_key("x-plain") && request.headers().contains_key("accept-language"), "{to}");
        ["authorization", "cookie", "x-api-key", "private-token", "x-session"]
            .iter()
            .filter(|name| request.headers().contains_key(**name))
            .count()
    };
    assert_eq!(secret("http://example.org:80/elsewhere"), 5);
    for away in ["http://example.net/", "https://example.org/", "http://example.org:8080/", "http://www.example.org/"] {
        assert_eq!(secret(away), 0, "{away}");
    }
}

#[test]
fn the_nearest_credentials_win() {
    let page = url("http://example.org/");
    let authorization = |requests: &Requests, extra: Option<&Extra>| {
        has(&requests.build(&page, extra, None, &page, None).unwrap(), &AUTHORIZATION)
    };
    let in_url = extra("http://a:b@example.org/");
    let by_header = extra(r#"{"url": "http://x:y@example.org/", "headers": {"Authorization": "Own 1"}}"#);
    let run = requests(&["Authorization: Bearer x"], |options| options.credentials = Some("u:p".parse().unwrap()));
    assert_eq!(authorization(&run, None), ["Bearer x"]);
    assert_eq!(authorization(&run, Some(&in_url)), [BASIC_A_B]);
    assert_eq!(authorization(&run, Some(&by_header)), ["Own 1"]);
    let user = requests(&[], |options| options.credentials = Some("a:b".parse().unwrap()));
    assert_eq!(authorization(&user, None), [BASIC_A_B]);
    assert!(user.build(&page, None, None, &page, None).unwrap().headers()[AUTHORIZATION].is_sensitive());
    assert_eq!(authorization(&requests(&[], |_| {}), Some(&extra("http://%61:%62@h/"))), [BASIC_A_B]);
}

#[test]
fn a_netrc_file_knows_the_password_of_a_host() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(
        file,
        "machine example.org login a password b\nmachine login.example login a password b\ndefault login c password d"
    )
    .unwrap();
    let source = NetrcSource::File(file.path().to_owned());
    let requests = requests(&[], |options| options.netrc = source);
    let first = url("https://example.org/");
    let authorization = |to: &str, first: &Url, extra: Option<&Extra>| {
        has(&requests.build(&url(to), extra, None, first, None).unwrap(), &AUTHORIZATION)
    };
    assert_eq!(authorization("https://example.org/", &first, None), [BASIC_A_B]);
    assert_eq!(authorization("http://other.example/", &url("http://other.example/"), None), ["Basic Yzpk"]);
    // A redirect to a host the file names gets what is for that host, but not over a line that anybody can read.
    assert_eq!(authorization("https://login.example/", &first, None), [BASIC_A_B]);
    assert!(authorization("http://login.example/", &first, None).is_empty());
    assert!(authorization("https://other.example/", &first, None).is_empty());
    // A user alone is looked up, and another one is left alone.
    assert_eq!(authorization("https://example.org/", &first, Some(&extra("https://a@h/"))), [BASIC_A_B]);
    assert_eq!(authorization("https://example.org/", &first, Some(&extra("https://z:@h/"))), ["Basic ejo="]);

    let missing = RequestOptions { netrc: NetrcSource::File("/nowhere/netrc".into()), ..RequestOptions::default() };
    assert!(Requests::new(missing).unwrap_err().to_string().contains("/nowhere/netrc"));
}

#[test]
fn a_request_for_robots_txt_has_no_secret_and_no_condition() {
    let lines = [
        "Authorization: x",
        "Cookie: a=b",
        "If-None-Match: \"a\"",
        "Range: bytes=0-1",
        "Content-Type: a/b",
        "X-Plain: p",
    ];
    let requests = requests(&lines, |options| {
        options.credentials = Some("a:b".parse().unwrap());
        options.cookies = vec!["a=b".parse().unwrap()];
        options.head = true;
    });
    let request = requests.robots(&url("http://u:p@example.org/robots.txt")).unwrap();
    let mut names: Vec<_> = request.headers().keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["accept", "accept-encoding", "user-agent", "x-plain"]);
    assert_eq!(request.method(), Method::GET);
    assert_eq!(request.uri(), "http://example.org/robots.txt");
}

#[test]
fn a_post_that_became_a_get_has_no_body_and_says_nothing_of_one() {
    let requests = requests(&["Content-Language: de"], |_| {});
    let page = url("http://example.org/");
    let post = extra(r#"{"url": "http://h/", "body": "x=1", "headers": {"Content-Type": "a/b", "X-A": "1"}}"#);
    let request = requests.build(&page, Some(&post), None, &page, None).unwrap();
    assert_eq!((request.method(), has(&request, &CONTENT_TYPE)), (&Method::POST, vec!["a/b".into()]));
    assert_eq!(body(request), "x=1");
    let request = requests.build(&page, Some(&post), None, &page, Some(&Method::POST)).unwrap();
    assert_eq!(body(request), "x=1");

    let request = requests.build(&page, Some(&post), None, &page, Some(&Method::GET)).unwrap();
    assert_eq!((request.method(), request.headers().contains_key("x-a")), (&Method::GET, true));
    assert!(!request.headers().contains_key(CONTENT_TYPE) && !request.headers().contains_key(CONTENT_LANGUAGE));
    assert!(body(request).is_empty());
}

#[test]
fn head_is_for_entries_without_a_method_of_their_own() {
    let requests = requests(&[], |options| options.head = true);
    assert_eq!(requests.method(None), Method::HEAD);
    assert_eq!(requests.method(Some(&extra(r#"{"url": "http://h/", "body": "x"}"#))), Method::POST);
    assert_eq!(requests.method(Some(&extra(r#"{"url": "http://h/", "cost": 2}"#))), Method::HEAD);
}

#[test]
fn cookies_are_learnt_and_a_header_of_ones_own_wins() {
    let requests = requests(&[], |options| options.cookies = vec!["".parse().unwrap()]);
    let page = url("https://www.example.org/");
    let set = HeaderMap::from_iter([(SET_COOKIE, HeaderValue::from_static("a=1; Domain=example.org"))]);
    requests.learn_cookies(&page, &set);
    // From a site's redirect elsewhere and back to a sister: the jar knows by itself whose it is.
    let sister = url("https://api.example.org/");
    assert_eq!(has(&requests.build(&sister, None, None, &page, None).unwrap(), &COOKIE), ["a=1"]);
    let own = extra(r#"{"url": "http://h/", "headers": {"Cookie": "b=2"}}"#);
    assert_eq!(has(&requests.build(&page, Some(&own), None, &page, None).unwrap(), &COOKIE), ["b=2"]);
    assert_eq!(has(&requests.build(&sister, Some(&own), None, &page, None).unwrap(), &COOKIE), ["a=1"]);
    requests.save_cookies().unwrap();
}

#[test]
fn options_that_mean_nothing_are_named_and_secrets_are_not_repeated() {
    let error = Credentials::from_str("").unwrap_err().to_string();
    assert!(error.contains("user:password"), "{error}");
    let options = RequestOptions {
        credentials: Some("ann:s3cret".parse().unwrap()),
        cookies: vec!["a=s3cret".parse().unwrap()],
        headers: vec!["Authorization: s3cret".parse().unwrap()],
        ..RequestOptions::default()
    };
    assert!(!format!("{options:?}").contains("s3cret"));
    let many = (0..101).map(|n| format!("X-{n}: 1").parse().unwrap()).collect();
    assert!(Requests::new(RequestOptions { headers: many, ..RequestOptions::default() }).is_err());
}

#[test]
fn a_url_too_long_for_a_request_is_an_error() {
    let long = url(&format!("http://h/{}", "a".repeat(70_000)));
    let error = requests(&[], |_| {}).build(&long, None, None, &long, None).unwrap_err().to_string();
    assert!(error.len() < 400, "{error}");
}
