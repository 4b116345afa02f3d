//! Making a catalogue from packs in one go.
//!
//! Adding packs one by one costs a page write per object, which at 10^8 objects is most of a day. Here all entries are
//! sorted first and the table is filled from left to right, in a new file and without a journal: if it does not reach
//! the end, the file is worth nothing and is removed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::connections::Fault;
use super::placing::{Sums, insert_contents, insert_pack, set_sums};
use super::row::{execute_row, key_of};
use super::staging::Staging;
use super::{Catalogue, NewEntry, NewPack, PackNo, schema};
use crate::error::{Result, StoreError};
use crate::id::{ObjectId, PackId};

/// A catalogue that is being made. Dropped before [`finish`](Self::finish), it leaves nothing behind.
pub struct BulkLoad {
    /// Taken by `finish`.
    parts: Option<Parts>,
    path: PathBuf,
    finished: bool,
}

struct Parts {
    conn: Connection,
    staging: Staging,
    packs: HashMap<PackId, PackNo>,
}

impl std::fmt::Debug for BulkLoad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BulkLoad").field("path", &self.path).finish_non_exhaustive()
    }
}

const FILL: &str = "fill a new catalogue";

fn failed(fault: impl Into<Fault>) -> StoreError {
    match fault.into() {
        Fault::Sql(source) => StoreError::Catalogue { action: FILL, source },
        Fault::Store(error) => error,
    }
}

impl Catalogue {
    /// Starts to make a catalogue from packs, in a new file. See [`BulkLoad`].
    pub fn bulk(path: &Path) -> Result<BulkLoad> {
        BulkLoad::new(path)
    }
}

impl BulkLoad {
    pub(super) fn new(path: &Path) -> Result<Self> {
        schema::new_file(path)?;
        let mut load = Self { parts: None, path: path.to_path_buf(), finished: false };
        load.parts = Some(Parts {
            conn: start(path).map_err(failed)?,
            staging: Staging::beside(path)?,
            packs: HashMap::new(),
        });
        Ok(load)
    }

    /// Adds a pack. Where several packs hold an object, the first one added is its place. A pack that was added before
    /// changes nothing.
    pub fn add(&mut self, pack: &NewPack, entries: &[NewEntry]) -> Result<PackNo> {
        let Some(parts) = &mut self.parts else {
            return Err(StoreError::Bug { detail: "bulk load without its parts".to_owned() });
        };
        if let Some(no) = parts.packs.get(&pack.id) {
            return Ok(*no);
        }
        let no = insert_pack(&parts.conn, pack).map_err(failed)?;
        let mut keys: Vec<i64> = entries.iter().map(|entry| key_of(&entry.id)).collect();
        keys.sort_unstable();
        let keys: Vec<u8> = keys.into_iter().flat_map(i64::to_be_bytes).collect();
        insert_contents(&parts.conn, no, &keys).map_err(failed)?;
        for entry in entries {
            parts.staging.push(no, entry)?;
        }
        parts.packs.insert(pack.id, no);
        Ok(no)
    }

    /// Sorts, fills the table, and opens the result, which is then on disk. To give it another name, use
    /// [`Catalogue::close`] first.
    pub fn finish(mut self) -> Result<Catalogue> {
        let Some(Parts { conn, staging, packs }) = self.parts.take() else {
            return Err(StoreError::Bug { detail: "bulk load without its parts".to_owned() });
        };
        let mut sums: HashMap<PackNo, Sums> = packs.into_values().map(|no| (no, Sums::default())).collect();
        place_all(&conn, staging, &mut sums)?;
        for (no, sums) in &sums {
            set_sums(&conn, *no, sums).map_err(failed)?;
        }
        conn.execute_batch("COMMIT; PRAGMA journal_mode = DELETE").map_err(failed)?;
        conn.close().map_err(|(_, error)| failed(error))?;
        schema::sync(&self.path)?;
        let catalogue = Catalogue::open(&self.path)?;
        self.finished = true;
        Ok(catalogue)
    }
}

impl Drop for BulkLoad {
    fn drop(&mut self) {
        self.parts = None;
        if !self.finished {
            // Best effort: whoever asks for the same path again is told that something is there.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A connection with a transaction open that no crash will ever roll back.
fn start(path: &Path) -> rusqlite::Result<Connection> {
    let mut conn = schema::raw(path)?;
    schema::pragma(&conn, "journal_mode", "off")?;
    conn.pragma_update(None, "synchronous", "off")?;
    conn.pragma_update(None, "cache_size", -32 * 1024)?;
    schema::fill(&mut conn)?;
    conn.execute_batch("BEGIN EXCLUSIVE")?;
    Ok(conn)
}

fn place_all(conn: &Connection, staging: Staging, sums: &mut HashMap<PackNo, Sums>) -> Result<()> {
    let mut objects =
        conn.prepare("INSERT INTO objects VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)").map_err(failed)?;
    let mut twins =
        conn.prepare("INSERT INTO twins VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)").map_err(failed)?;
    let mut last: Option<ObjectId> = None;
    staging.drain_sorted(&mut |pack, entry| {
        let table = match last {
            Some(last) if last == entry.id => return Ok(()),
            Some(last) if key_of(&last) == key_of(&entry.id) => &mut twins,
            _ => &mut objects,
        };
        execute_row(table, pack, entry).map_err(failed)?;
        sums.entry(pack).or_default().add(entry.stored_len, entry.plain_len);
        last = Some(entry.id);
        Ok(())
    })
}
