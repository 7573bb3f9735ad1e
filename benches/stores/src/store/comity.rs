//! Comity's own: the file that the processes of one machine share.

use std::path::Path;

use comity_core::limits::Route;
use comity_core::limits::all::Grant;
use comity_core::scope::Target;
use comity_machine::{Machine, Settings};
use comity_store::{Joined, Memory, MemorySettings, ReadClock, Shared, Store as _};
use std::sync::Arc;

use super::records::{ALL, Turn, group, host};
use super::work::Store;
use crate::open::{claim, open_rules};

struct Comity {
    store: Joined<Machine>,
    clock: ReadClock,
    routes: Vec<Route>,
    grant: Option<Grant>,
}

pub(super) fn open(folder: &Path, keys: usize) -> anyhow::Result<impl Store + use<>> {
    let rules = open_rules((0..keys).map(group).chain([ALL.to_owned()]))?;
    let machine = Machine::open(folder.join("pace"), Settings::default())?;
    let mut store = Joined::new(Memory::new(Arc::new(rules), MemorySettings::default()), machine);
    let clock = store.shared().clock();
    let routes: Result<_, _> = (0..keys).map(|key| store.route(clock(), &Target::host(&host(key)), None)).collect();
    Ok(Comity { store, clock, routes: routes?, grant: None })
}

impl Store for Comity {
    fn turn(&mut self, key: usize, turn: Turn) -> anyhow::Result<bool> {
        let members = self.routes[key].members();
        let now = (self.clock)();
        match (turn, self.grant.take()) {
            (Turn::Claim, _) => self.grant = claim(&mut self.store, now, members),
            (Turn::Release, Some(grant)) => _ = self.store.release(now, members, &grant),
            (Turn::Release, None) => {}
        }
        Ok(turn == Turn::Release || self.grant.is_some())
    }
}
