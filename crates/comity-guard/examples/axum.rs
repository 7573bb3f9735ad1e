//! A guard around an axum router: ten requests a second for each client, five logins a minute.
//!
//! `cargo run -p comity-guard --example axum`, then `curl -i http://127.0.0.1:3000/`

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use comity_guard::{Guard, Settings};
use tokio::net::TcpListener;

const SETTINGS: &str = r#"
max_in_flight = 64
exempt = ["/healthz"]
[[limit]]
name = "each"
rate = "10/s"
burst = 20
[[limit]]
name = "login"
path = "/login"
methods = ["POST"]
rate = "5/min"
"#;

/// The router, and the guard to reload or to read counters from.
fn router() -> Result<(Router, Guard), Box<dyn Error>> {
    let guard = Guard::new(Settings::parse(SETTINGS)?)?;
    let layer = guard.layer().peer(|extensions| {
        let ConnectInfo(peer) = extensions.get::<ConnectInfo<SocketAddr>>()?;
        Some(peer.ip())
    });
    let router = Router::new()
        .route("/", get(async || "hello"))
        .route("/login", get(async || "who are you?").post(async || "welcome"))
        .route("/healthz", get(async || "well"))
        .layer(layer);
    Ok((router, guard))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (router, guard) = router()?;
    guard.describe().iter().for_each(|line| println!("{line}"));
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http::Request;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn it_guards() {
        let (router, guard) = router().unwrap();
        let post = |path: &str| {
            let peer = ConnectInfo(SocketAddr::from(([192, 0, 2, 1], 4711)));
            Request::post(path).extension(peer).body(Body::empty()).unwrap()
        };
        let mut statuses = Vec::new();
        for _ in 0..6 {
            statuses.push(router.clone().oneshot(post("/login")).await.unwrap().status().as_u16());
        }
        assert_eq!(statuses, [200, 200, 200, 200, 200, 429]);
        assert_eq!((guard.counted().unknown, guard.counted().in_flight), (0, 0));
    }
}
