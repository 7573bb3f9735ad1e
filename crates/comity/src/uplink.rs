//! What all hosts have in common: our own uplink, resolver and connection pool (A10).

use std::hash::BuildHasher as _;
use std::net::IpAddr;
use std::time::Duration;

use comity_core::limits::all::Cells as _;
use comity_core::limits::{ScopeId, Wait};
use comity_core::policy::Learned;
use comity_core::signal::Inferred;
use comity_core::time::Instant;
use comity_core::uplink::{Change, Exchange, Heard};
use comity_store::{Lesson, Store as _};

use crate::counted;
use crate::engine::Engine;
use crate::pacer::Pacer;

/// A limit on what is in flight to all hosts together: most of them slowed down or fell silent at the same time, so that it
/// is our own uplink, resolver or connection pool, and no host is blamed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Yielding {
    /// Requests in flight at most.
    pub limit: u32,
    /// Requests in flight.
    pub in_flight: u32,
    /// Hosts that had slowed down or fallen silent together.
    pub slow: u32,
    /// Hosts that were asked at that time, at most 256 of them.
    pub hosts: u32,
    /// How long it has been on.
    pub lasts: Duration,
}

impl Pacer {
    /// The limit on what is in flight to all hosts together; `None` where there is none, as nearly always.
    pub fn yielding(&self) -> Option<Yielding> {
        let now = self.inner.now();
        let engine = self.inner.engine();
        let yielding = engine.uplink.yielding(now)?;
        Some(Yielding {
            limit: yielding.limit,
            in_flight: engine.uplink.in_flight(),
            slow: yielding.slow,
            hosts: yielding.hosts,
            lasts: now.since(yielding.since),
        })
    }
}

impl Engine {
    /// Why nobody may start now, where so much is in flight to all hosts together as the uplink bears.
    pub(crate) fn full(&self, now: Instant) -> Option<Wait> {
        let (yielding, until) = (self.uplink.yielding(now)?, self.uplink.ends(now)?);
        self.store.is_full(now, self.uplink.room(now)).then(|| Wait::uplink(until, yielding.limit))
    }

    /// Watches what was heard of a host. Whether what it suggests is the uplink's and not the host's.
    pub(crate) fn watch(&mut self, now: Instant, host: ScopeId, lesson: &Lesson<'_>) -> bool {
        // A host whose pace answers never change is neither blamed nor watched (P10).
        if matches!(self.memory.cell(host).learned(), Learned::Nothing) {
            return false;
        }
        let heard = match (lesson.signal.inferred, lesson.latency) {
            (Inferred::Healthy, Some(latency)) => Heard::Served(latency),
            (Inferred::NoAnswer(_), _) => Heard::Nothing,
            _ => Heard::Answered,
        };
        let started = lesson.grant.start;
        let memory = &self.memory;
        let kin_of = |scope| kin(memory.inspect(scope).map_or("", |(name, _)| name));
        match self.uplink.heard(now, &Exchange { host, started, heard }, kin_of) {
            Some(Change::PutOn(yielding)) => {
                counted::yielded();
                tracing::info!(
                    slow = yielding.slow,
                    hosts = yielding.hosts,
                    limit = yielding.limit,
                    "most hosts slowed down or fell silent together: our own uplink, it seems"
                );
            }
            Some(Change::Cut) => counted::yielded(),
            Some(Change::Lifted) => tracing::info!("our own uplink is as usual again"),
            None => {}
        }
        self.uplink.is_ours(now, started)
    }
}

/// The same number for hosts of one registrable domain, and for the ports of one address: they may well stand on one
/// machine, and be slow together for a reason of their own.
fn kin(name: &str) -> u64 {
    let host = name.split(['/', ' ', '#']).next().unwrap_or(name);
    let bare = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.split(':').next().unwrap_or(host),
    };
    let is_address = bare.parse::<IpAddr>().is_ok();
    let domain = psl::domain_str(bare).filter(|_| !is_address).unwrap_or(bare);
    foldhash::fast::FixedState::default().hash_one(domain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a10_hosts_of_one_domain_and_ports_of_one_address_are_kin() {
        let same = [
            ("a.example.org", "example.org"),
            ("a.example.org", "b.c.example.org:8080"),
            ("example.org/api", "www.example.org#gold"),
            ("192.0.2.1:80", "192.0.2.1:8080"),
            ("[2001:db8::1]:80", "[2001:db8::1]"),
        ];
        for (one, other) in same {
            assert_eq!(kin(one), kin(other), "{one} {other}");
        }
        let apart = [("example.org", "example.com"), ("a.co.uk", "b.co.uk"), ("192.0.2.1", "192.0.2.2")];
        for (one, other) in apart {
            assert_ne!(kin(one), kin(other), "{one} {other}");
        }
    }
}
