//! A connection to one server or to a cluster of them, what is asked of it, and what its errors mean.

use core::time::Duration;
use std::sync::OnceLock;

use ::redis::aio::{ConnectionLike, MultiplexedConnection};
use ::redis::cluster::ClusterClient;
use ::redis::cluster_async::ClusterConnection;
use ::redis::{AsyncConnectionConfig, ErrorKind, RedisError, RedisResult, ServerErrorKind, cmd};
use comity_store::StoreError;

use crate::script::{GUARD, PACE, PULSE};
use crate::url::Place;

/// A connection; calls on its clones are pipelined.
#[derive(Clone)]
pub(crate) enum Connection {
    One(MultiplexedConnection),
    Many(ClusterConnection),
}

/// A script, and the digest it is called by.
pub(crate) struct Script {
    text: &'static str,
    digest: OnceLock<String>,
}

pub(crate) static PACE_SCRIPT: Script = Script { text: PACE, digest: OnceLock::new() };
pub(crate) static GUARD_SCRIPT: Script = Script { text: GUARD, digest: OnceLock::new() };
pub(crate) static PULSE_SCRIPT: Script = Script { text: PULSE, digest: OnceLock::new() };

impl Script {
    fn digest(&self) -> &str {
        self.digest.get_or_init(|| sha1_smol::Sha1::from(self.text).digest().to_string())
    }
}

impl Connection {
    /// Whether it is a cluster's.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self, Self::Many(_))
    }

    pub(crate) async fn ask<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> RedisResult<T> {
        match self {
            Self::One(connection) => command.query_async(&mut connection.clone()).await,
            Self::Many(connection) => command.query_async(&mut connection.clone()).await,
        }
    }

    async fn send(&self, command: &redis::Cmd) -> RedisResult<redis::Value> {
        let value = match self {
            Self::One(connection) => connection.clone().req_packed_command(command).await?,
            Self::Many(connection) => connection.clone().req_packed_command(command).await?,
        };
        value.extract_error()
    }
}

/// Runs a script of one argument whose answer is bytes.
pub(crate) async fn evaluate(
    connection: &Connection,
    script: &'static Script,
    keys: &[impl redis::ToRedisArgs],
    argument: &[u8],
) -> RedisResult<Vec<u8>> {
    let command = |how: &str, what: &str| {
        let mut command = cmd(how);
        command.arg(what).arg(keys.len()).arg(keys).arg(argument);
        command
    };
    let answer = match connection.send(&command("EVALSHA", script.digest())).await {
        // It was restarted, or a slot came to a node that has never seen the script.
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
            connection.send(&command("EVAL", script.text)).await
        }
        answer => answer,
    }?;
    match answer {
        redis::Value::BulkString(bytes) => Ok(bytes),
        _ => Err((ErrorKind::UnexpectedReturnType, "a script's answer is no bytes").into()),
    }
}

/// Connects to the first of the nodes that answers; a cluster's other nodes are added to them.
pub(crate) async fn any(nodes: &mut Vec<Place>, within: Duration) -> Result<Connection, StoreError> {
    let mut first = None;
    for at in 0..nodes.len() {
        match node(&nodes[at], within).await {
            Ok(connection) => {
                if connection.is_cluster()
                    && let Ok(masters) = masters(&connection, &nodes[at]).await
                {
                    nodes.truncate(1);
                    nodes.extend(masters);
                }
                return Ok(connection);
            }
            Err(error) => first = first.or(Some(explain(&nodes[at], &error))),
        }
    }
    Err(first.unwrap_or_else(|| StoreError::OutOfReach("no node is known".to_owned())))
}

async fn node(place: &Place, within: Duration) -> RedisResult<Connection> {
    let one = Connection::One(single(place, within).await?);
    let info: RedisResult<String> = one.ask(cmd("INFO").arg("cluster")).await;
    // Who may not ask is told by the first key that is elsewhere.
    if !info.is_ok_and(|info| info.contains("cluster_enabled:1")) {
        return Ok(one);
    }
    let mut builder = ClusterClient::builder([place.info()?])
        .connection_timeout(within)
        .response_timeout(within)
        .retries(CLUSTER_RETRIES)
        .min_retry_wait(1)
        .max_retry_wait(8);
    if let Some(mode) = place.tls() {
        builder = builder.tls(mode).certs(place.certificates());
    }
    Ok(Connection::Many(builder.build()?.get_async_connection().await?))
}

/// A connection to this node, whatever it is part of.
pub(crate) async fn single(place: &Place, within: Duration) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(within)).set_response_timeout(None);
    place.client()?.get_multiplexed_async_connection_with_config(&config).await
}

/// The masters of a cluster.
pub(crate) async fn masters(connection: &Connection, place: &Place) -> RedisResult<Vec<Place>> {
    let nodes: String = connection.ask(cmd("CLUSTER").arg("NODES")).await?;
    let masters = nodes.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let address = words.nth(1)?;
        let flags = words.next()?;
        if !flags.split(',').any(|flag| flag == "master") || flags.contains("fail") {
            return None;
        }
        // `host:port@bus,name`
        let (host, port) = address.split(['@', ',']).next()?.rsplit_once(':')?;
        Some(place.node(host, port.parse().ok()?))
    });
    Ok(masters.collect())
}

/// Warns where the server may drop records that still matter.
pub(crate) async fn check_eviction(connection: &Connection, place: &Place) {
    // Each node of a cluster has its own; the first that is asked answers for all.
    let policy = match connection.ask::<Vec<String>>(cmd("CONFIG").arg("GET").arg("maxmemory-policy")).await {
        Ok(answer) => answer.into_iter().nth(1),
        Err(_) => match connection.ask::<String>(cmd("INFO").arg("memory")).await {
            Ok(info) => info
                .lines()
                .find_map(|line| line.strip_prefix("maxmemory_policy:"))
                .map(|policy| policy.trim().to_owned()),
            Err(error) => {
                tracing::debug!(
                    "{place} does not tell its eviction policy ({}); it should be noeviction",
                    words(&error)
                );
                return;
            }
        },
    };
    if let Some(policy) = policy
        && policy != "noeviction"
    {
        tracing::warn!(
            "{place} drops keys when its memory is full (maxmemory-policy {policy}): a host's pause or pace may be forgotten and the host asked too soon; set it to noeviction"
        );
    }
}

/// Why a call has no answer.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The store is out of reach, or answers nobody.
    Lost(String),
    /// The store answered this call with an error: others have nothing to do with it.
    Refused(String),
}

impl Failure {
    pub(crate) fn of(error: &RedisError) -> Self {
        let said = words(error);
        let answered = match error.kind() {
            ErrorKind::Server(kind) => !matches!(
                kind,
                ServerErrorKind::BusyLoading
                    | ServerErrorKind::ReadOnly
                    | ServerErrorKind::MasterDown
                    | ServerErrorKind::ClusterDown
            ),
            ErrorKind::Extension => !error.code().is_some_and(|code| REFUSE_ALL.contains(&code)),
            ErrorKind::UnexpectedReturnType => true,
            _ => false,
        };
        // Servers of old wrap what a script ran into.
        let wrapped = REFUSE_ALL.iter().any(|code| said.contains(&format!("-{code} ")));
        if answered && !wrapped { Self::Refused(said) } else { Self::Lost(said) }
    }
}

/// An error in a few words.
pub(crate) fn words(error: &RedisError) -> String {
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        (Some(code), None) => code.to_owned(),
        _ => error.to_string(),
    }
}

/// What an error at the start means to whoever named the store.
pub(crate) fn explain(place: &Place, error: &RedisError) -> StoreError {
    let at = place.address();
    let said = words(error);
    let code = error.code().unwrap_or_default();
    let unusable = |what: String| StoreError::Unusable(what);
    match error.kind() {
        _ if code == "NOAUTH" || said.contains("NOAUTH") => {
            unusable(format!("{at} asks for a password and none is given: redis://user:password@{at}"))
        }
        _ if code == "WRONGPASS" || said.contains("WRONGPASS") || error.kind() == ErrorKind::AuthenticationFailed => {
            unusable(format!("{at} does not accept this user and password ({said})"))
        }
        ErrorKind::Server(ServerErrorKind::NoPerm) => {
            unusable(format!("{at} does not permit what the store needs: {said}"))
        }
        ErrorKind::Server(ServerErrorKind::ReadOnly) => {
            StoreError::OutOfReach(format!("{at} is a replica and cannot be written; name its master"))
        }
        ErrorKind::Server(ServerErrorKind::Moved | ServerErrorKind::CrossSlot) => {
            unusable(format!("{at} is part of a cluster, but this user may not ask it for its nodes (INFO cluster)"))
        }
        ErrorKind::Server(_) if said.contains("DB index") => unusable(format!("{at} has no such database: {said}")),
        ErrorKind::Server(_) if said.contains("unknown command") => {
            unusable(format!("{at} speaks like Redis, but knows no scripts: {said}"))
        }
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => {
            unusable(format!("{at} answers, but not as Redis does ({said})"))
        }
        _ => StoreError::OutOfReach(format!("{at} is out of reach: {said}")),
    }
}

/// Codes of errors that every call would be answered with.
const REFUSE_ALL: [&str; 9] =
    ["LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "NOAUTH", "BUSY", "OOM", "MISCONF", "NOREPLICAS"];
/// A slot that moved is followed, and once more.
const CLUSTER_RETRIES: u32 = 2;
