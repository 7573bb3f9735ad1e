//! Where a request goes, and in which form.

use std::sync::Mutex;

use http_body_util::BodyExt as _;
use tokio::io::{AsyncWriteExt as _, copy_bidirectional};

use proptest::prelude::*;

use super::super::{ConnectTo, FailureKind, HttpVersions, NoProxy, Proxies, Proxy, Resolve};
use super::*;

fn options(connect_to: &[String], resolve: &[String]) -> Options {
    Options {
        connect_to: connect_to.iter().map(|entry| entry.parse().unwrap()).collect(),
        resolve: resolve.iter().map(|entry| entry.parse().unwrap()).collect(),
        ..Options::default()
    }
}

async fn asked_with(options: Options, url: &str) -> String {
    get(&Client::new(options).unwrap(), &Url::parse(url).unwrap()).await.unwrap()
}

#[tokio::test]
async fn the_request_says_path_and_host_and_nothing_of_the_user() {
    let server = Server::http1().await;
    let url = Url::parse(&format!("http://user:secret@{}/a%20b?c=d#e", server.address)).unwrap();
    let asked = get(&client(), &url).await.unwrap();
    assert!(asked.starts_with(&format!("GET /a%20b?c=d {{\"host\": \"{}\"}}", server.address)), "{asked}");
}

#[tokio::test]
async fn a_host_field_of_ones_own_and_a_body_go_through() {
    let server = Server::http1().await;
    let url = server.url("/");
    let request = http::Request::post("/x").header("Host", "own.example").body(Full::from("content")).unwrap();
    let answer = client().ready(&url).await.unwrap().send(request).await.unwrap();
    let asked = answer.into_body().collect().await.unwrap().to_bytes();
    let asked = String::from_utf8_lossy(&asked);
    assert!(asked.starts_with("POST /x") && asked.contains("\"own.example\""), "{asked}");
    assert!(asked.contains("\"content-length\": \"7\"") && asked.ends_with(" content"), "{asked}");
}

#[tokio::test]
async fn connect_to_leads_elsewhere_and_keeps_the_host() {
    let server = Server::http1().await;
    let entry = format!("far.example:80:127.0.0.1:{}", server.port());
    let asked = asked_with(options(&[entry], &[]), "http://far.example/").await;
    assert!(asked.contains("\"far.example\""), "{asked}");
}

#[tokio::test]
async fn connect_to_and_resolve_take_ipv6_in_brackets() {
    let server = Server::start_on("[::1]:0", |stream, _| serve_http1(stream)).await;
    let asked = asked_with(options(&[format!("::[::1]:{}", server.port())], &[]), "http://far.example/").await;
    assert!(asked.contains("\"far.example\""), "{asked}");

    let resolve = format!("far.example:{}:[::1]", server.port());
    let url = format!("http://far.example:{}/", server.port());
    let asked = asked_with(options(&[], &[resolve]), &url).await;
    assert!(asked.contains(&format!("\"far.example:{}\"", server.port())), "{asked}");
}

#[tokio::test]
async fn resolve_tries_its_addresses_in_order_and_serves_connect_to() {
    let server = Server::http1().await;
    let resolve = format!("near.example:{}:[::1],127.0.0.1", server.port());
    let connect_to = format!("far.example::near.example:{}", server.port());
    asked_with(options(&[connect_to], &[resolve]), "http://far.example/").await;
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn a_proxy_is_handed_the_whole_url_and_its_password() {
    let server = Server::http1().await;
    let proxies = Proxies::all(format!("http://me:secret@{}", server.address).parse().unwrap());
    let asked = asked_with(Options { proxies, ..Options::default() }, "http://u:p@far.example/a?b").await;
    assert!(asked.starts_with("GET http://far.example/a?b"), "{asked}");
    assert!(asked.contains("\"host\": \"far.example\""), "{asked}");
    assert!(asked.contains("\"proxy-authorization\": \"Basic bWU6c2VjcmV0\""), "{asked}");
}

#[tokio::test]
async fn a_host_without_proxy_is_asked_directly() {
    let server = Server::http1().await;
    let mut proxies = Proxies::all("127.0.0.1:1".parse().unwrap());
    proxies.no_proxy = "127.0.0.0/8".parse().unwrap();
    let asked = asked_with(Options { proxies, ..Options::default() }, server.url("/").as_str()).await;
    assert!(asked.starts_with("GET / "), "{asked}");
}

/// A proxy that opens tunnels, all of them to `to`, and notes the heads of the requests for them.
async fn tunnelling(to: SocketAddr) -> (Server, Arc<Mutex<String>>) {
    let heads = Arc::new(Mutex::new(String::new()));
    let noted = Arc::clone(&heads);
    let server = Server::start(move |mut stream, _| {
        let noted = Arc::clone(&noted);
        async move {
            let head = read_head(&mut stream).await;
            noted.lock().unwrap().push_str(&head);
            stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
            let mut onward = TcpStream::connect(to).await.unwrap();
            let _ = copy_bidirectional(&mut stream, &mut onward).await;
        }
    })
    .await;
    (server, heads)
}

#[tokio::test]
async fn https_goes_through_a_tunnel_that_sees_only_host_and_port() {
    let far = super::tls::FarEnd::start("far.example", super::tls::Speaks::Http1).await;
    let (proxy, heads) = tunnelling(far.server.address).await;
    let proxies = Proxies::all(format!("me:secret@{}", proxy.address).parse().unwrap());
    let options = Options { proxies, connect_to: Vec::new(), http_versions: HttpVersions::Http1, ..far.options() };
    let client = Client::new(options).unwrap();
    let url = Url::parse("https://far.example/path").unwrap();
    for _ in 0..2 {
        let asked = get(&client, &url).await.unwrap();
        assert!(asked.starts_with("GET /path {\"host\": \"far.example\"}"), "{asked}");
    }
    let heads = heads.lock().unwrap();
    assert!(heads.starts_with("CONNECT far.example:443 HTTP/1.1\r\n"), "{heads}");
    assert!(heads.contains("proxy-authorization: Basic bWU6c2VjcmV0\r\n") && !heads.contains("path"), "{heads}");
    assert_eq!((proxy.accepted(), far.server.accepted()), (1, 1));
}

#[tokio::test]
async fn connect_to_behind_a_proxy_needs_a_tunnel_for_http_too() {
    let server = Server::http1().await;
    let (proxy, heads) = tunnelling(server.address).await;
    let proxies = Proxies::all(proxy.address.to_string().parse().unwrap());
    let options = Options { proxies, ..options(&["::[::1]:8080".to_owned()], &[]) };
    let asked = asked_with(options, "http://far.example/").await;
    assert!(asked.starts_with("GET / ") && asked.contains("\"far.example\""), "{asked}");
    assert!(heads.lock().unwrap().starts_with("CONNECT [::1]:8080 HTTP/1.1\r\n"));
}

#[tokio::test]
async fn a_refused_tunnel_is_a_failure_to_connect_that_says_why() {
    let body = "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 1000000\r\n\r\nno";
    for answer in [body, "", "HTTP/1.1 200 OK\r\n\r\ntoo early", "garbage"] {
        let proxy = Server::saying(answer).await;
        let proxies = Proxies::all(proxy.address.to_string().parse().unwrap());
        let client = Client::new(Options { proxies, ..Options::default() }).unwrap();
        let failure = client.ready(&Url::parse("https://far.example/").unwrap()).await.unwrap_err();
        assert_eq!((failure.kind(), failure.not_sent()), (FailureKind::Connect, true), "{failure}");
        let text = failure.to_string();
        assert!(text.contains(&proxy.address.to_string()) && text.contains("far.example:443"), "{text}");
        assert!(answer != body || text.contains("407"), "{text}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_an_option_panic(text in "[-+\\[\\]:,*@/a1. \u{e9}]{0,24}") {
        let _ = (text.parse::<ConnectTo>(), text.parse::<Resolve>());
        let _ = (text.parse::<Proxy>(), text.parse::<NoProxy>());
    }
}
