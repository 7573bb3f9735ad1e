//! A reqwest client for which every redirect is a start on the host it leads to.
//!
//! `cargo run -p comity --features reqwest --example reqwest_redirects`

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;
use std::time::Duration;

use comity::reqwest::PacedClient;
use comity::{Pacer, Partial, Policy, Profile};
use comity_audit::far_end::{FarEnd, Host, World};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A server to visit, whose pages have moved.
    let moved = Host::new().redirect("/old", 301, "/newer").redirect("/newer", 302, "/newest");
    let far_end = FarEnd::start(World::new().host("shop.example", moved))?;

    // Exactly that, whatever is answered.
    let limits =
        Partial { interval: Some(Duration::from_millis(100)), policy: Some(Policy::Fixed), ..Partial::default() };
    let pacer = Pacer::builder(Profile::Api).template(limits).local();
    let names = reqwest::Client::builder().no_proxy().resolve("shop.example", far_end.addr());
    let client = PacedClient::new(names, pacer)?.contact("you@example.org");

    let page = client.get(far_end.url("shop.example", "/old")).await?;
    println!("{} -> {}", page.url().path(), page.status());
    for arrival in far_end.arrivals() {
        println!("{:>4} ms  {} {}", arrival.at.as_millis(), arrival.method, arrival.path);
    }
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
