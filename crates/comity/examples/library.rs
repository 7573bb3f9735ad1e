//! The pacer by hand: ask for a start, send, tell how it went.
//!
//! `cargo run -p comity --example library`

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;
use std::time::Duration;

use comity::{Answer, Pacer, Partial, Profile, Settled};
use http::{HeaderMap, HeaderValue};
use url::Url;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Never faster than that; the pace this host accepts is learned.
    let limits = Partial { interval: Some(Duration::from_millis(50)), ..Partial::default() };
    let pacer = Pacer::builder(Profile::Api).template(limits).local();
    for page in 1..=5 {
        let url = Url::parse(&format!("https://api.example.org/items?page={page}"))?;
        let status = get(&pacer, &url).await?;
        println!("{url} -> {status}");
    }
    Ok(())
}

/// One request with its retries. Dropped at any point, it gives its place back.
async fn get(pacer: &Pacer, url: &Url) -> Result<u16, Box<dyn Error>> {
    let mut permit = pacer.acquire(url).await?; // waits for the host's turn
    loop {
        let attempt = permit.attempt();
        let (status, headers) = send(url, attempt).await; // your HTTP client
        match permit.settle(&Answer::response(status, &headers)) {
            Settled::Retry(waiting) => permit = waiting.await?, // refused: again, ahead of later arrivals
            Settled::GiveUp(why) => {
                println!("  {why}");
                return Ok(status);
            }
            Settled::Done | Settled::Requeued(_) => return Ok(status),
        }
    }
}

/// A service that refuses the third page once.
async fn send(url: &Url, attempt: u32) -> (u16, HeaderMap) {
    let mut headers = HeaderMap::new();
    if url.query() == Some("page=3") && attempt == 1 {
        headers.insert("retry-after", HeaderValue::from_static("0.2"));
        return (429, headers);
    }
    (200, headers)
}

#[test]
fn it_runs() {
    main().unwrap();
}
