//! A small town of hosts, each with a rule it does not tell of: what `comity demo` visits.
//!
//! Some 190 pages in all. A client that respects every rule can have them in about 15 seconds; one that hammers gets
//! refusals from half the town.

use std::io;
use std::time::Duration;

use crate::far_end::{Advertise, FarEnd, Host, Limit, RetryAfter, World};

/// The running town.
#[derive(Debug)]
pub struct Town {
    far_end: FarEnd,
}

impl Town {
    /// Opens the town on a free loopback port.
    ///
    /// # Errors
    /// Whatever [`FarEnd::start`] fails with.
    pub fn start() -> io::Result<Self> {
        let world = houses().iter().fold(World::new(), |world, house| {
            world.hosts(house.names.iter().copied(), (house.open)().size(PAGE_SIZE).service(SERVICE))
        });
        Ok(Self { far_end: FarEnd::start(world)? })
    }

    /// The server that plays the town, with its log of arrivals.
    pub fn far_end(&self) -> &FarEnd {
        &self.far_end
    }

    /// Every host's name, in the order of a walk through the town.
    pub fn hosts(&self) -> Vec<&'static str> {
        houses().iter().flat_map(|house| house.names.iter().copied()).collect()
    }

    /// Every page's URL, one host's after the other's. The names resolve nowhere: all are served at the far end's address.
    pub fn urls(&self) -> Vec<String> {
        let pages = |house: &House| {
            let pages = house.pages;
            house.names.iter().flat_map(move |name| (1..=pages).map(move |page| (*name, format!("/page/{page}"))))
        };
        houses().iter().flat_map(pages).map(|(name, path)| self.far_end.url(name, &path)).collect()
    }

    /// A host's hidden rule, in words; `None` for a name that is not in town.
    pub fn describe(&self, host: &str) -> Option<&'static str> {
        houses().iter().find(|house| house.names.contains(&host)).map(|house| house.rule)
    }
}

/// One host, or several names of one.
struct House {
    names: &'static [&'static str],
    rule: &'static str,
    /// Pages of each name.
    pages: u32,
    open: fn() -> Host,
}

fn houses() -> &'static [House] {
    &[
        House {
            names: &["bucket.example"],
            rule: "a token bucket: 5 at once, then one every 200 ms; refuses with 429 and does not say until when",
            pages: 30,
            open: || Host::new().limit(Limit::TokenBucket { every: Duration::from_millis(200), burst: 5 }),
        },
        House {
            names: &["window.example"],
            rule: "a fixed window: 10 in every 3 seconds; refuses with 429 and says in whole seconds when the next begins",
            pages: 30,
            open: || {
                let limit = Limit::FixedWindow { count: 10, per: Duration::from_secs(3) };
                Host::new().limit(limit).retry_after(RetryAfter::WholeSeconds)
            },
        },
        House {
            names: &["slow.example"],
            rule: "two workers that take 150 ms a page; 6 may wait, the next gets 503",
            pages: 30,
            open: || Host::new().limit(Limit::SlowQueue { workers: 2, service: Duration::from_millis(150), depth: 6 }),
        },
        House {
            names: &["polite.example"],
            rule: "at most 8 in any 3 seconds; every answer says how many are left, and a 503 when to come back",
            pages: 24,
            open: || {
                let limit = Limit::SlidingWindow { count: 8, per: Duration::from_secs(3) };
                let polite = Host::new().limit(limit).advertise(Advertise::Structured);
                polite.refuse_with(503).retry_after(RetryAfter::Exact)
            },
        },
        House {
            names: &["monastery.example"],
            rule: "asks in robots.txt for two seconds between visits, and never refuses",
            pages: 7,
            open: || Host::new().robots("User-agent: *\nCrawl-delay: 2\nAllow: /\n"),
        },
        House { names: &["archive.example"], rule: "no limit at all", pages: 30, open: Host::new },
        House {
            names: &[
                "north.feeds.town.example",
                "east.feeds.town.example",
                "south.feeds.town.example",
                "west.feeds.town.example",
                "middle.feeds.town.example",
            ],
            rule: "five names of one service that counts them together: 4 at once, then one every 250 ms, else 429",
            pages: 8,
            open: || Host::new().limit(Limit::TokenBucket { every: Duration::from_millis(250), burst: 4 }),
        },
    ]
}

/// Bytes of a page.
const PAGE_SIZE: usize = 2048;

/// Time a page takes where nothing else holds it back.
const SERVICE: Duration = Duration::from_millis(15);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_belongs_to_a_host_with_a_rule() {
        let town = Town::start().unwrap();
        let urls = town.urls();
        assert_eq!(urls.len(), 191);
        let port = town.far_end().addr().port();
        for host in town.hosts() {
            assert!(host.ends_with(".example"), "{host}");
            assert!(town.describe(host).is_some_and(|rule| !rule.is_empty()), "{host}");
            assert!(urls.contains(&format!("http://{host}:{port}/page/1")), "{host}");
        }
        assert_eq!(town.describe("nowhere.example"), None);
    }
}
