//! A list of URLs fetched from a program of one's own: `cargo run --example fetch_list -- urls.txt DIR`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example talks to the person who runs it")]

use std::fs::File;
use std::io::BufReader;

use comity::{Pacer, Profile};
use comity_fetch::client::{self, Client};
use comity_fetch::keep::{self, Kept, Record, Timestamp};
use comity_fetch::list::List;
use comity_fetch::request::{RequestOptions, Requests};
use comity_fetch::{Fetch, Observer, Options, Status};

struct Quiet;

impl Observer for Quiet {
    fn status(&mut self, _: &Status) {}
    fn record(&mut self, _: &Record) {}
    fn notice(&mut self, _: &str) {}
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(urls), Some(directory)) = (arguments.next(), arguments.next()) else {
        return Err("fetch_list URLS DIRECTORY".into());
    };
    let mut list = List::default();
    list.read(BufReader::new(File::open(&urls)?), &urls, &mut |error| eprintln!("{error}"))?;
    let now = Timestamp::from_millis(comity::clock::wall().as_micros() / 1000);
    let fetch = Fetch {
        pacer: Pacer::builder(Profile::Api).presets()?.local(),
        client: Client::new(client::Options::default())?,
        requests: Requests::new(RequestOptions::default())?,
        kept: Kept::open(&keep::Options { directory: Some(directory.into()), now, ..keep::Options::default() })?,
        list,
        options: Options { robots: false, ..Options::default() },
    };
    let end = fetch.run(&mut Quiet, std::future::pending()).await?;
    println!("{} fetched of {}", end.report.totals.fetched, end.report.totals.all());
    Ok(())
}
