//! `comity demo`: a visit to a small town on this machine, judged by what the town received.

mod starts;
mod table;

use std::io::IsTerminal as _;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use comity::{AdaptiveSettings, Pacer, Partial, Policy, Profile, Source};
use comity_audit::town::Town;
use comity_fetch::client::{self, Client};
use comity_fetch::keep::{self, Kept, Timestamp};
use comity_fetch::list::List;
use comity_fetch::request::{RequestOptions, Requests};
use comity_fetch::{End, Fetch, Options};
use tokio::sync::Notify;

use super::fetch::watch::Watch;
use super::fetch::{interrupt, verdict};
use crate::exit::Exit;
use crate::flags::screen::ScreenFlags;
use crate::screen::{Screen, log, print, print_coloured, say};
use starts::Starts;

/// Visit a small town of hosts on this machine, each with a rule it does not tell of
///
/// All its pages are fetched, and then what each host received is shown beside what Comity believed. Nothing leaves this
/// machine; it takes about half a minute, because the pace is quicker than that of `comity fetch`.
#[derive(Debug, Args)]
pub(crate) struct DemoCommand {
    /// Fetch two pages of each host only
    #[arg(long)]
    quick: bool,

    #[command(flatten)]
    screen: ScreenFlags,
}

impl DemoCommand {
    pub(crate) fn run(self) -> Result<Exit> {
        log::start(self.screen.verbose(), std::io::stderr().is_terminal());
        let town = Town::start().context("cannot open the town")?;
        let quiet = self.screen.quiet();
        if !quiet {
            let pages = self.pages(&town).len();
            say(&format!(
                "A town of {} hosts with {pages} pages opens at {}.",
                town.hosts().len(),
                town.far_end().addr()
            ));
            say(QUICKER);
        }
        let mut watch = Watch::new(
            Screen::new(self.screen.show(std::io::stderr().is_terminal())),
            quiet,
            false,
            false,
            Arc::new(Notify::new()),
        );
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start")?;
        let visited = runtime.block_on(self.visit(&town, &mut watch));
        watch.clear();
        let (end, rows) = visited?;
        print_coloured(&table::table(&rows))?;
        let fetched = end.report.totals.fetched;
        print(&format!("\n{fetched} pages fetched with {} requests.\n", end.report.attempts))?;
        Ok(verdict::verdict(&end.report.totals, end.stopped, watch.seen(), 0))
    }

    /// The visit; what each host received, and what was believed of it.
    async fn visit(&self, town: &Town, watch: &mut Watch) -> Result<(End, Vec<table::Row>)> {
        // The feeds' names belong together, which only a person can know: one rule paces and teaches them as one.
        let feeds = comity::config::pattern("*.feeds.town.example").context("the feeds' rule")?;
        let together = Partial { in_flight: NonZeroU32::new(2), ..Partial::default() };
        let pacer = Pacer::builder(Profile::Crawl).template(template()).rule(feeds, together).local();
        let starts = Starts::count(pacer.events());
        let requests = Requests::new(RequestOptions::default())?;
        let options = Options { product_token: requests.product_token().to_owned(), ..Options::default() };
        let now = Timestamp::from_millis(comity::clock::wall().as_micros() / 1000);
        let fetch = Fetch {
            pacer: pacer.clone(),
            client: client(town)?,
            requests,
            kept: Kept::open(&keep::Options { now, ..keep::Options::default() })?,
            list: self.list(town)?,
            options,
        };
        let end = fetch.run(watch, interrupt::interrupted()?).await?;
        Ok((end, table::rows(town, &pacer.hosts(), &starts.so_far())))
    }

    fn list(&self, town: &Town) -> Result<List> {
        let mut list = List::default();
        for url in self.pages(town) {
            list.add(&url)?;
        }
        Ok(list)
    }

    fn pages(&self, town: &Town) -> Vec<String> {
        let mut pages = town.urls();
        if self.quick {
            pages.retain(|url| QUICK_PAGES.iter().any(|page| url.ends_with(page)));
        }
        pages
    }
}

/// The town's names resolve nowhere: all of them are at its address.
fn client(town: &Town) -> Result<Client> {
    let everywhere = format!("::{}", town.far_end().addr()).parse()?;
    Ok(Client::new(client::Options { connect_to: vec![everywhere], ..client::Options::default() })?)
}

/// A crawler in a hurry: its bounds are about a tenth of the usual ones, so that half a minute shows how a pace is found.
fn template() -> Partial {
    Partial {
        in_flight: std::num::NonZeroU32::new(2),
        policy: Some(Policy::Adaptive(AdaptiveSettings {
            start: Duration::from_millis(400),
            floor: Duration::from_millis(50),
            ceiling: Duration::from_secs(2),
        })),
        source: Some(Source::Person("comity demo".into())),
        ..Partial::default()
    }
}

const QUICKER: &str = "Its pace is quicker than the defaults of fetch: the town is quick, time is short.";
const QUICK_PAGES: [&str; 2] = ["/page/1", "/page/2"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_visit_is_paced_by_the_default_policy() {
        let policy = template().policy.map(|policy| policy.name());
        assert_eq!(policy, Some("adaptive"));
    }

    #[test]
    fn a_quick_visit_sees_every_host() {
        let town = Town::start().unwrap();
        let command = |quick| DemoCommand { quick, screen: ScreenFlags::default() };
        let quick = command(true).pages(&town);
        assert_eq!(quick.len(), 2 * town.hosts().len());
        assert_eq!(command(false).pages(&town).len(), town.urls().len());
        assert_eq!(command(true).list(&town).unwrap().len() as usize, quick.len());
        assert!(client(&town).is_ok());
    }
}
