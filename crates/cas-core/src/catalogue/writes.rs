//! Write transactions, the objects they pin, and the files they announce.
//!
//! A transaction protects what it is about to make reachable: gc spares what is pinned, and waits with dropping packs for
//! transactions that began before they were condemned. A file is announced before it gets its name in the store, so that
//! after a crash every unknown file has a line here.
//!
//! On disk a write transaction is a row of the table `sessions`, and its lock is a file `session-…`: the names of the first
//! version of the format. In the code *transaction* alone means one of ours, `tx` is one of SQLite's.

use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{Transaction, params};

use super::connections::Step;
use super::{Catalogue, WriteNo};
use crate::error::{Result, StoreError};
use crate::id::ObjectId;

/// An open write transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRow {
    /// Its number.
    pub no: WriteNo,
    /// What its owner gave to recognise it by, such as the name of a lock file that proves it alive.
    pub token: String,
    /// The gc generation when it began.
    pub started_generation: u64,
    /// When it began, in seconds since 1970.
    pub started_unix: i64,
    /// The process that began it.
    pub pid: u32,
    /// What it pins.
    pub pins: Vec<ObjectId>,
}

impl Catalogue {
    /// Begins a transaction that pins these objects from the start.
    pub fn begin_write(&self, token: &str, pins: &[ObjectId]) -> Result<WriteNo> {
        // A clock before 1970 is not worth failing for: the time is only shown.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.connections.write("begin a transaction", |tx| {
            tx.prepare_cached(
                "INSERT INTO sessions(token, started_generation, started_unix, pid)
                 SELECT ?1, generation, ?2, ?3 FROM gc",
            )?
            .execute(params![token, now, std::process::id()])?;
            let write = WriteNo(tx.last_insert_rowid());
            for id in pins {
                insert_pin(tx, write, id)?;
            }
            Ok(write)
        })
    }

    /// Pins one more object. Pinning twice is fine.
    pub fn pin(&self, write: WriteNo, id: &ObjectId) -> Result<()> {
        self.connections.write("pin an object", |tx| {
            must_be_open(tx, write)?;
            insert_pin(tx, write, id)
        })
    }

    /// Ends a write: its pins and announcements are removed. Ending one that is not there is fine.
    pub fn end_write(&self, write: WriteNo) -> Result<()> {
        self.connections.write("end a transaction", |tx| {
            // The tables of pins and announcements refer to it with ON DELETE CASCADE.
            tx.prepare_cached("DELETE FROM sessions WHERE no = ?1")?.execute([write.0])?;
            Ok(())
        })
    }

    /// All open transactions, also those of processes that died.
    pub fn open_writes(&self) -> Result<Vec<WriteRow>> {
        self.connections.read_at_once("list the transactions", |conn| {
            let mut statement = conn.prepare_cached(
                "SELECT no, token, started_generation, started_unix, pid FROM sessions ORDER BY no",
            )?;
            let mut pins = conn.prepare_cached("SELECT id FROM pins WHERE session = ?1 ORDER BY id")?;
            let mut writes = Vec::new();
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let no: i64 = row.get(0)?;
                writes.push(WriteRow {
                    no: WriteNo(no),
                    token: row.get(1)?,
                    started_generation: row.get(2)?,
                    started_unix: row.get(3)?,
                    pid: row.get(4)?,
                    pins: pins
                        .query_map([no], |row| row.get(0).map(ObjectId::from_bytes))?
                        .collect::<rusqlite::Result<_>>()?,
                });
            }
            Ok(writes)
        })
    }

    /// Records a file name that is about to appear in the store. Announcing it again changes whose it is.
    pub fn announce(&self, write: Option<WriteNo>, file_name: &str) -> Result<()> {
        self.connections.write("announce a file", |tx| {
            if let Some(write) = write {
                must_be_open(tx, write)?;
            }
            tx.prepare_cached("INSERT OR REPLACE INTO pending(name, session) VALUES(?1, ?2)")?
                .execute(params![file_name, write.map(|write| write.0)])?;
            Ok(())
        })
    }

    /// All announced names that were neither added as packs nor retracted.
    pub fn announced(&self) -> Result<Vec<(String, Option<WriteNo>)>> {
        self.connections.read("list announced files", |conn| {
            let mut statement = conn.prepare_cached("SELECT name, session FROM pending ORDER BY name")?;
            let rows = statement
                .query_map([], |row| Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?.map(WriteNo))))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Takes an announcement back: the file is gone, or never came to be.
    pub fn retract(&self, file_name: &str) -> Result<()> {
        self.connections.write("retract a file", |tx| {
            tx.prepare_cached("DELETE FROM pending WHERE name = ?1")?.execute([file_name])?;
            Ok(())
        })
    }

    /// A note kept with the catalogue, such as the id of its store.
    pub fn meta(&self, key: &str) -> Result<Option<String>> {
        use rusqlite::OptionalExtension;
        self.connections.read("read a note", |conn| {
            let mut statement = conn.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
            Ok(statement.query_row([key], |row| row.get(0)).optional()?)
        })
    }

    /// Sets a note.
    pub fn set_meta(&self, key: &str, value: &str) -> Result<()> {
        self.connections.write("write a note", |tx| {
            tx.prepare_cached("INSERT OR REPLACE INTO meta(key, value) VALUES(?1, ?2)")?
                .execute([key, value])?;
            Ok(())
        })
    }
}

fn insert_pin(tx: &Transaction<'_>, write: WriteNo, id: &ObjectId) -> Step<()> {
    tx.prepare_cached("INSERT OR IGNORE INTO pins(session, id) VALUES(?1, ?2)")?
        .execute(params![write.0, id.as_bytes()])?;
    Ok(())
}

fn must_be_open(tx: &Transaction<'_>, write: WriteNo) -> Step<()> {
    if tx.prepare_cached("SELECT 1 FROM sessions WHERE no = ?1")?.exists([write.0])? {
        return Ok(());
    }
    Err(StoreError::Invalid { what: format!("write transaction {} is over", write.0) }.into())
}
