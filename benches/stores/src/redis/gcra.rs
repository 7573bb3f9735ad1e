//! What most limiters on Redis are: one script that does the generic cell rate algorithm on one key.

use redis::{Connection, Script};

use super::server;
use super::work::Client;

struct Gcra {
    connection: Connection,
    script: Script,
    keys: Vec<&'static str>,
}

pub(super) fn connect(port: u16, scopes: usize) -> anyhow::Result<impl Client + use<>> {
    let keys = ["rate:host.example.org", "rate:*.example.org", "rate:*"].into_iter().take(scopes).collect();
    Ok(Gcra { connection: server::connect(port)?, script: Script::new(include_str!("gcra.lua")), keys })
}

impl Client for Gcra {
    fn claim(&mut self) -> anyhow::Result<bool> {
        let mut all = true;
        for key in &self.keys {
            let mut call = self.script.key(*key);
            call.arg(BURST).arg(RATE).arg(PERIOD).arg(COST);
            let (allowed, _, _, _): (u32, u64, String, String) = call.invoke(&mut self.connection)?;
            all &= allowed == 1;
        }
        Ok(all)
    }

    fn release(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// So much that it never counts, as for the others.
const RATE: u32 = 1_000_000;
const BURST: u32 = 1_000_000;
const PERIOD: u32 = 1;
const COST: u32 = 1;
