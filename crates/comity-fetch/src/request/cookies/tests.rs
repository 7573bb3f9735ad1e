use http::HeaderValue;

use super::*;

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

/// The cookies of a run that keeps some.
fn keeping() -> Cookies {
    Cookies::new(&["".parse().unwrap()], None).unwrap()
}

fn learn(cookies: &Cookies, from: &str, set: &[&str]) {
    let headers = set.iter().map(|value| (SET_COOKIE, HeaderValue::from_bytes(value.as_bytes()).unwrap())).collect();
    cookies.learn(&url(from), &headers);
}

fn sent(cookies: &Cookies, to: &str) -> Option<String> {
    cookies.field(&url(to), true).map(|value| value.to_str().unwrap().to_owned())
}

fn from_file(name: &str, content: &str) -> Result<Cookies, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, content).unwrap();
    Cookies::new(&[CookieSource::File(path)], None).map_err(|error| error.to_string())
}

#[test]
fn cookies_go_back_to_whom_they_belong() {
    let cookies = keeping();
    learn(&cookies, "https://www.example.org/a/b", &["own=1", "all=2; Domain=example.org; Path=/", "safe=3; Secure"]);
    assert_eq!(sent(&cookies, "https://www.example.org/a/c").as_deref(), Some("own=1; safe=3; all=2"));
    assert_eq!(sent(&cookies, "http://www.example.org/a/c").as_deref(), Some("own=1; all=2"));
    assert_eq!(sent(&cookies, "https://api.example.org/").as_deref(), Some("all=2"));
    assert_eq!(sent(&cookies, "https://www.example.org/").as_deref(), Some("all=2"));
    for other in ["https://example.net/", "https://badexample.org/", "https://192.0.2.1/", "https://[::1]/"] {
        assert_eq!(sent(&cookies, other), None, "{other}");
    }
    learn(&cookies, "https://www.example.org/a/", &["own=; Max-Age=0; Path=/a", "all=4; Domain=example.org; Path=/"]);
    assert_eq!(sent(&cookies, "http://www.example.org/a/").as_deref(), Some("all=4"));
}

#[test]
fn a_cookie_for_a_public_suffix_is_nobodys() {
    let cookies = keeping();
    for (from, domain) in
        [("https://a.co.uk/", "co.uk"), ("https://a.com/", "com"), ("https://x.github.io/", "github.io")]
    {
        learn(&cookies, from, &[&format!("a=1; Domain={domain}")]);
        assert_eq!(sent(&cookies, from), None, "{domain}");
    }
    // The suffix itself may have a site, and its cookie is for that alone.
    learn(&cookies, "https://github.io/", &["a=1; Domain=github.io"]);
    assert_eq!(sent(&cookies, "https://github.io/").as_deref(), Some("a=1"));
    assert_eq!(sent(&cookies, "https://x.github.io/"), None);
    // A name of a private network is on no list.
    learn(&cookies, "http://wiki.intranet/", &["a=1; Domain=wiki.intranet"]);
    assert_eq!(sent(&cookies, "http://x.wiki.intranet/").as_deref(), Some("a=1"));
}

#[test]
fn a_site_cannot_set_what_is_not_its_own_to_set() {
    let cookies = keeping();
    learn(
        &cookies,
        "http://h.example/",
        &["a=1; Secure", "b=1; Domain=other.example", "__Secure-c=1", "__Host-d=1", "=x", "\u{e9}"],
    );
    let host = "https://h.example/";
    learn(
        &cookies,
        host,
        &["__Host-e=1; Secure; Path=/a", "__host-f=1; Secure; Path=/; Domain=h.example", "__Secure-g=1"],
    );
    learn(&cookies, host, &["tab=a\tb=1"]);
    assert!(sent(&cookies, host).is_none_or(|sent| !sent.contains("=1")), "{:?}", sent(&cookies, host));
    learn(&cookies, host, &["__Host-h=1; Secure; Path=/", "__Secure-i=1; Secure"]);
    assert_eq!(sent(&cookies, host).as_deref(), Some("__Host-h=1; __Secure-i=1"));
}

#[test]
fn times_that_mean_nothing_do_no_harm() {
    let cookies = keeping();
    for (n, age) in
        ["-99999999999999999999", "99999999999999999999", "9223372036854775807", "x", "1.5", ""].iter().enumerate()
    {
        learn(&cookies, "https://h.example/", &[&format!("c{n}=1; Max-Age={age}"), &format!("e{n}=1; Expires={age}")]);
    }
    let sent = sent(&cookies, "https://h.example/").unwrap();
    assert!(sent.contains("c1=1") && sent.contains("e3=1") && !sent.contains("c0"), "{sent}");
}

#[test]
fn what_a_site_can_make_us_hold_and_send_is_bounded() {
    let cookies = keeping();
    for round in 0..10 {
        let set: Vec<String> = (0..60).map(|n| format!("c{round}-{n:02}={}", "v".repeat(90))).collect();
        learn(&cookies, "https://h.example/", &set.iter().map(String::as_str).collect::<Vec<_>>());
    }
    learn(&cookies, "https://h.example/", &[&format!("large={}", "v".repeat(5_000))]);
    assert_eq!(cookies.dropped(), 10 * 10 + (500 - 180) + 1);
    let field = sent(&cookies, "https://h.example/").unwrap();
    assert!(field.len() <= MAX_FIELD && field.len() > MAX_FIELD - 100 && field.ends_with("vvvv"), "{}", field.len());
    // A full jar still takes new values, ends of cookies, and other cookies in the place of ended ones.
    learn(&cookies, "https://h.example/", &["c0-00=new", "c0-01=; Max-Age=0"]);
    learn(&cookies, "https://h.example/", &["a-late=1"]);
    let field = sent(&cookies, "https://h.example/").unwrap();
    assert!(field.starts_with("a-late=1; c0-00=new; c0-02="), "{}", &field[..40]);
}

#[test]
fn cookies_given_as_text_go_to_the_list_and_nowhere_else() {
    let cookies = Cookies::new(&["a=1; b=2;".parse().unwrap(), "c=3".parse().unwrap()], None).unwrap();
    assert_eq!(sent(&cookies, "http://h.example/").as_deref(), Some("a=1; b=2; c=3"));
    assert_eq!(cookies.field(&url("http://h.example/"), false), None);
    assert!(cookies.field(&url("http://h.example/"), true).unwrap().is_sensitive());
    // As with curl, a text alone makes us keep nothing.
    learn(&cookies, "http://h.example/", &["d=4"]);
    assert_eq!(sent(&cookies, "http://h.example/").as_deref(), Some("a=1; b=2; c=3"));

    let both = Cookies::new(&["".parse().unwrap(), "a=1".parse().unwrap()], None).unwrap();
    learn(&both, "http://h.example/", &["d=4"]);
    assert_eq!(sent(&both, "http://h.example/").as_deref(), Some("d=4; a=1"));
    for bad in ["a=1\r\nX: y".to_owned(), format!("a={}", "1".repeat(9_000))] {
        assert!(Cookies::new(&[bad.parse().unwrap()], None).is_err());
    }
}

#[test]
fn a_netscape_file_is_read_as_its_writers_meant_it() {
    let text = "# Netscape HTTP Cookie File\n\n.example.org\tTRUE\t/\tFALSE\t4102444800\tall\t1\r\n\
        www.example.org\tFALSE\t/a\tTRUE\t0\town\t2\n#HttpOnly_www.example.org\tFALSE\t/\tFALSE\t-1\thidden\t3\n\
        www.example.org\tFALSE\t/\tFALSE\t1\tover\t4\nwww.example.org\tFALSE\t/\tFALSE\t4102444800.5\tempty\t\n\
        www.example.org\tFALSE\t/\tFALSE\t0\tbad;name\t5\n.co.uk\tTRUE\t/\tFALSE\t0\tevil\t6\nno cookie\n# a comment\n";
    let cookies = from_file("cookies.txt", text).unwrap();
    assert_eq!(sent(&cookies, "https://www.example.org/a").as_deref(), Some("own=2; all=1; empty=; hidden=3"));
    assert_eq!(sent(&cookies, "http://sub.example.org/").as_deref(), Some("all=1"));
    assert_eq!(sent(&cookies, "http://www.co.uk/"), None);
}

#[test]
fn a_file_that_is_no_jar_is_refused_by_name() {
    for content in ["a=1", "[1, 2]", "[{\"name\": \"a\"}]", "\u{0}"] {
        assert!(from_file("some.file", content).err().unwrap().contains("some.file"), "{content}");
    }
    assert!(from_file("blank.txt", "# nothing\n\n").is_ok());
    let missing = CookieSource::File("/nowhere/cookies.txt".into());
    assert!(Cookies::new(std::slice::from_ref(&missing), None).is_err());
    assert!(Cookies::new(&[missing], Some("/nowhere/cookies.txt".into())).is_ok(), "a jar begins empty");
}

#[test]
fn a_jar_comes_back_as_it_was_saved() {
    let set = ["s=session; Path=/", "p=1; Max-Age=5000; Domain=example.org; HttpOnly; Secure", "gone=1; Max-Age=0"];
    let dir = tempfile::tempdir().unwrap();
    for name in ["jar.json", "cookies.txt"] {
        let path = dir.path().join(name);
        let source = CookieSource::File(path.clone());
        let open = || Cookies::new(std::slice::from_ref(&source), Some(path.clone())).unwrap();
        let first = open();
        learn(&first, "https://www.example.org/", &set);
        first.save().unwrap();
        let saved = std::fs::read_to_string(&path).unwrap();
        assert_eq!(saved.starts_with("# Netscape"), name.ends_with("txt"), "{saved}");

        let again = open();
        assert_eq!(sent(&again, "https://www.example.org/").as_deref(), Some("p=1; s=session"), "{name}");
        assert_eq!(sent(&again, "https://sub.example.org/").as_deref(), Some("p=1"), "{name}");
        assert_eq!(sent(&again, "http://www.example.org/").as_deref(), Some("s=session"), "{name}");
        again.save().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), saved);
    }
}

#[cfg(unix)]
#[test]
fn a_jar_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jar");
    let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    let cookies = Cookies::new(&[], Some(path.clone())).unwrap();
    cookies.save().unwrap();
    assert_eq!(mode(), 0o600);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    cookies.save().unwrap();
    assert_eq!(mode(), 0o640);
    let nowhere = Cookies::new(&[], Some(dir.path().join("none/jar"))).unwrap();
    assert!(nowhere.save().unwrap_err().to_string().contains("none/jar"));
}
