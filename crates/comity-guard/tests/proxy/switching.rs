//! Upgrades, and the tunnels they lead to.

use std::time::Duration;

use comity_guard::proxy::{Bounds, Settings};

use crate::town::{Client, Proxy, answering, field, status, until, upstream, value};

const WISH: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
                    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Switches where it is asked to, says hello behind the 101, and echoes.
async fn echo() -> std::net::SocketAddr {
    upstream(|mut client: Client| async move {
        let head = client.head().await.unwrap();
        let asked = field(&head, "upgrade") == Some("websocket") && field(&head, "connection") == Some("upgrade");
        if !asked {
            return client.say("HTTP/1.1 426 Upgrade Required\r\ncontent-length: 0\r\n\r\n").await;
        }
        let answer =
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Seen: 1\r\n\r\n";
        client.say(format!("{answer}hello")).await;
        let (mut read, mut write) = client.stream.split();
        let _ = tokio::io::copy(&mut read, &mut write).await;
    })
    .await
}

#[tokio::test]
async fn i07_a_websocket_passes_both_ways() {
    let two_lines = WISH.replace("keep-alive, Upgrade", "keep-alive\r\nConnection: upgrade");
    for wish in [WISH, &two_lines] {
        let proxy = Proxy::to(echo().await).await;
        let mut client = proxy.client().await;
        client.say(format!("{wish}first")).await;
        let head = client.head().await.unwrap();
        assert_eq!(status(&head), 101, "{head}");
        assert_eq!((field(&head, "upgrade"), field(&head, "connection")), (Some("websocket"), Some("upgrade")));
        assert_eq!(field(&head, "x-seen"), Some("1"));
        assert_eq!(client.bytes(10).await, "hellofirst");
        client.say("second").await;
        assert_eq!(client.bytes(6).await, "second");
        assert_eq!(proxy.forward.tunnels().open(), 1);
        // The long connection holds no request's place.
        assert_eq!(value(&proxy.running.counters.active_requests), 0);
        drop(client);
        until("the tunnel is gone", || proxy.forward.tunnels().open() == 0).await;
    }
}

#[tokio::test]
async fn i07_an_upgrade_that_is_not_named_is_no_wish() {
    let proxy = Proxy::to(echo().await).await;
    let (head, _) = proxy.client().await.ask(&WISH.replace("keep-alive, Upgrade", "keep-alive")).await;
    assert_eq!(status(&head), 426);
}

#[tokio::test]
async fn i02_tunnels_have_a_cap_and_an_idle_time_out() {
    let mut settings = Settings::default();
    settings.tunnels = 1;
    settings.tunnel_idle = Duration::from_millis(200);
    let proxy = Proxy::with(echo().await, settings, Bounds::default()).await;
    let mut first = proxy.client().await;
    first.say(WISH).await;
    assert_eq!(status(&first.head().await.unwrap()), 101);
    let (head, _) = proxy.client().await.ask(WISH).await;
    assert_eq!(status(&head), 503);
    assert_eq!(first.rest().await, "hello");
    until("the silent tunnel is closed", || proxy.forward.tunnels().open() == 0).await;
}

#[tokio::test]
async fn a_refused_upgrade_is_an_answer_like_others() {
    let (address, _heads) = answering("HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno").await;
    let proxy = Proxy::to(address).await;
    let mut client = proxy.client().await;
    for _ in 0..2 {
        let (head, body) = client.ask(WISH).await;
        assert_eq!((status(&head), body.as_str()), (403, "no"));
    }
    assert_eq!(proxy.forward.tunnels().open(), 0);
}
