//! hyper's client under the tower layer, against a server that refuses whoever comes too fast.
//!
//! `cargo run -p comity --example tower_hyper`

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;
use std::time::Duration;

use comity::tower::{Attempts, PacerLayer};
use comity::{Pacer, Profile};
use comity_audit::far_end::{FarEnd, Host, Limit, RetryAfter, World};
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tower::{ServiceBuilder, ServiceExt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A server to visit: two at once, then one every 400 ms.
    let limit = Limit::TokenBucket { every: Duration::from_millis(400), burst: 2 };
    let strict = Host::new().limit(limit).retry_after(RetryAfter::Exact);
    let far_end = FarEnd::start(World::new().default_host(strict))?;

    // One's own machine is not paced unless that is asked for.
    let pacer = Pacer::builder(Profile::Api).pace_loopback(true).local();
    let client = ServiceBuilder::new()
        .layer(PacerLayer::new(pacer).replay_bodies())
        .service(Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>());

    for page in 1..=6 {
        let request = Request::get(format!("http://{}/page/{page}", far_end.addr())).body(Empty::new())?;
        let response = client.clone().oneshot(request).await?;
        let sent = response.extensions().get::<Attempts>().map_or(0, |attempts| attempts.sent);
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes(); // read outside the queue
        println!("page {page}: {status}, {} bytes, sent {sent} time(s)", body.len());
    }
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
