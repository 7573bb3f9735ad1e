//! SQLite with a write-ahead log and nothing synced: what is lost with the power is no matter here.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OptionalExtension, TransactionBehavior, params};

use super::records::{ALL, Record, Turn, names};
use super::work::Store;

struct Sqlite {
    connection: Connection,
    names: Vec<[String; 3]>,
}

pub(super) fn prepare(folder: &Path) -> anyhow::Result<()> {
    let connection = connect(folder)?;
    connection.execute("CREATE TABLE records (name TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID", [])?;
    Ok(())
}

/// With short sleeps while another writes, or with the busy handler that it brings.
pub(super) fn open(folder: &Path, keys: usize, short_sleeps: bool) -> anyhow::Result<impl Store + use<>> {
    let mut connection = connect(folder)?;
    if short_sleeps {
        connection.busy_handler(Some(sleep_shortly))?;
    } else {
        connection.busy_timeout(PATIENCE)?;
    }
    Ok(Sqlite { connection, names: names(keys) })
}

pub(super) fn record_of_all(folder: &Path) -> anyhow::Result<Record> {
    Ok(read(&connect(folder)?, ALL)?)
}

fn connect(folder: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(folder.join("records.sqlite"))?;
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    Ok(connection)
}

fn read(connection: &Connection, name: &str) -> rusqlite::Result<Record> {
    let mut select = connection.prepare_cached("SELECT body FROM records WHERE name = ?1")?;
    let body = select.query_row([name], |row| Ok(Record::read(row.get_ref(0)?.as_blob()?))).optional()?;
    Ok(body.unwrap_or_else(Record::new))
}

impl Sqlite {
    fn try_turn(&mut self, key: usize, turn: Turn) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for name in &self.names[key] {
            let mut record = read(&transaction, name)?;
            record.take(turn);
            let mut replace = transaction.prepare_cached("REPLACE INTO records (name, body) VALUES (?1, ?2)")?;
            replace.execute(params![name, record.bytes()])?;
        }
        transaction.commit()
    }
}

impl Store for Sqlite {
    fn turn(&mut self, key: usize, turn: Turn) -> anyhow::Result<bool> {
        match self.try_turn(key, turn) {
            Ok(()) => Ok(true),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "it waits for another process, which cannot tell it")]
fn sleep_shortly(times: i32) -> bool {
    std::thread::sleep(SHORTLY);
    SHORTLY * times.unsigned_abs() < PATIENCE
}

/// A few of a transaction's own length.
const SHORTLY: Duration = Duration::from_micros(50);
/// How long one waits for others before it gives up: `rusqlite`'s own.
const PATIENCE: Duration = Duration::from_secs(5);
