//! The store as people look at it: everything it knows, without taking part.

use core::time::Duration;

use ::redis::cmd;
use comity_store::{Known, Listing, Lowered, MemberInfo, Readable, StoreError};

use crate::connect::{self, Connection, PACE_SCRIPT, evaluate};
use crate::keys::Keys;
use crate::script::{Call, Members, Scope, pack, unpack};
use crate::state::{State, instant, span};
use crate::url::Place;

/// A store that is looked at.
pub(crate) struct Look {
    place: Place,
    keys: Keys,
}

impl Look {
    pub(crate) fn new(place: Place, keys: Keys) -> Self {
        Self { place, keys }
    }

    fn run<T>(&self, work: impl AsyncFnOnce(&Connection) -> ::redis::RedisResult<T>) -> Result<T, StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| StoreError::OutOfReach(error.to_string()))?;
        runtime.block_on(async {
            let late = |_| StoreError::OutOfReach(format!("{} does not answer in time", self.place.address()));
            let working = async {
                let connection = connect::any(&mut vec![self.place.clone()], CONNECT).await?;
                work(&connection).await.map_err(|error| connect::explain(&self.place, &error))
            };
            tokio::time::timeout(PATIENCE, working).await.unwrap_or_else(|elapsed| Err(late(elapsed)))
        })
    }

    /// The keys of all records, of every node.
    async fn all_keys(&self, connection: &Connection) -> ::redis::RedisResult<Vec<String>> {
        let nodes = if connection.is_cluster() {
            let mut nodes = Vec::new();
            for place in connect::masters(connection, &self.place).await? {
                nodes.push(Connection::One(connect::single(&place, CONNECT).await?));
            }
            nodes
        } else {
            vec![connection.clone()]
        };
        let mut keys = Vec::new();
        for node in nodes {
            let mut cursor = 0u64;
            loop {
                let mut scan = cmd("SCAN");
                scan.arg(cursor).arg("MATCH").arg(self.keys.pattern()).arg("COUNT").arg(1000);
                let (next, found): (u64, Vec<String>) = node.ask(&scan).await?;
                keys.extend(found.into_iter().filter(|key| self.keys.name(key).is_some()));
                if next == 0 {
                    break;
                }
                cursor = next;
            }
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }
}

impl Readable for Look {
    fn list(&mut self) -> Result<Listing, StoreError> {
        self.run(async |connection| {
            let (seconds, micros): (i64, i64) = connection.ask(&cmd("TIME")).await?;
            let mut scopes = Vec::new();
            for key in self.all_keys(connection).await? {
                let record: Option<Vec<u8>> = connection.ask(cmd("GET").arg(&key)).await?;
                let state = record.as_deref().and_then(State::read);
                if let (Some(state), Some(name)) = (state, self.keys.name(&key)) {
                    scopes.push(known(name, &state));
                }
            }
            let members: Option<Vec<u8>> = connection.ask(cmd("GET").arg(self.keys.members())).await?;
            let members: Members = members.as_deref().and_then(unpack).unwrap_or_default();
            Ok(Listing {
                place: self.place.to_string(),
                now: instant(seconds * 1_000_000 + micros),
                scopes,
                members: members
                    .into_iter()
                    .map(|(id, member)| MemberInfo { id, joined: instant(member.joined), seen: instant(member.seen) })
                    .collect(),
            })
        })
    }

    fn forget_by_name(&mut self, name: Option<&str>) -> Result<usize, StoreError> {
        self.run(async |connection| {
            let keys = self.all_keys(connection).await?;
            let named = keys.into_iter().filter(|key| name.is_none_or(|name| self.keys.name(key) == Some(name)));
            let mut forgotten = 0;
            for key in named {
                let call = Call {
                    op: "forget",
                    lease: LEASE,
                    wake: self.keys.wake(),
                    sc: vec![Scope { bu: 1, ..Scope::default() }],
                    ..Call::default()
                };
                evaluate(connection, &PACE_SCRIPT, &[key], &pack(&call)).await?;
                forgotten += 1;
            }
            Ok(forgotten)
        })
    }
}

fn known(name: &str, state: &State) -> Known {
    let snapshot = state.snapshot(None);
    let interval = span(state.hi.unwrap_or(0));
    let paced = snapshot.learned.interval().max(snapshot.crawl_delay);
    let next_start = [
        snapshot.spacing.earliest(interval, 1),
        snapshot.pace.earliest(paced, 1),
        snapshot.pause.until(),
        snapshot.quota.filter(|quota| quota.remaining() == 0).map_or(comity_core::time::Instant::ZERO, |q| q.resets()),
    ];
    Known {
        name: name.to_owned(),
        interval: interval.max(paced),
        most_in_flight: state.mf,
        next_start: next_start.into_iter().max().unwrap_or_default(),
        places: state.f.iter().filter(|(_, place)| place.0 > 0).map(|(id, place)| (id.clone(), place.0)).collect(),
        waiting: state.o.clone(),
        lowered: state.lo.as_ref().map(|lowered| Lowered {
            by: lowered.by.clone(),
            status: lowered.st,
            at: instant(lowered.at),
            from: span(lowered.from),
            to: span(lowered.to),
        }),
        state: snapshot,
    }
}

const CONNECT: Duration = Duration::from_secs(2);
/// A listing of a large store takes its time.
const PATIENCE: Duration = Duration::from_secs(60);
/// As the default of the settings: who looks ends nobody's lease before it.
const LEASE: i64 = 10_000_000;
