//! Comity's own: all scopes of a slot in one script.

use std::sync::Arc;

use comity_core::limits::Route;
use comity_core::limits::all::Grant;
use comity_core::scope::Target;
use comity_redis::{Redis, Settings};
use comity_store::{Joined, Memory, MemorySettings, ReadClock, Shared, Store as _};

use super::work::Client;
use crate::open::{claim, open_rules};

struct Comity {
    store: Joined<Redis>,
    clock: ReadClock,
    route: Route,
    grant: Option<Grant>,
}

/// With these groups beside the host.
pub(super) fn connect<'a>(port: u16, groups: impl Iterator<Item = &'a str>) -> anyhow::Result<Box<dyn Client>> {
    let rules = Arc::new(open_rules(groups.map(str::to_owned))?);
    let redis = Redis::open(&format!("redis://127.0.0.1:{port}/?global=bench"), Settings::default())?;
    let mut store = Joined::new(Memory::new(rules, MemorySettings::default()), redis);
    let clock = store.shared().clock();
    let route = store.route(clock(), &Target::host("host.shop.example.org"), None)?;
    Ok(Box::new(Comity { store, clock, route, grant: None }))
}

impl Client for Comity {
    fn claim(&mut self) -> anyhow::Result<bool> {
        let now = (self.clock)();
        self.grant = claim(&mut self.store, now, self.route.members());
        Ok(self.grant.is_some())
    }

    fn release(&mut self) -> anyhow::Result<()> {
        if let Some(grant) = self.grant.take() {
            self.store.release((self.clock)(), self.route.members(), &grant);
        }
        Ok(())
    }
}
