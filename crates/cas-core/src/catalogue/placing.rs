//! Adding packs: which of a pack's entries become the place of their object.

use std::collections::HashMap;

use rusqlite::{CachedStatement, Connection, OptionalExtension, Transaction, params};

use super::connections::Step;
use super::row::{execute_row, key_of, place_columns, rest_of};
use super::{Catalogue, NewEntry, NewPack, PackNo};
use crate::error::{Result, StoreError};
use crate::id::ObjectId;

impl Catalogue {
    /// Adds a pack, its entries, and removes its announcement, in one transaction.
    ///
    /// An id that is in a pack that is not condemned keeps its old place; one in a condemned pack moves to the new
    /// pack. Adding a pack that is there already changes nothing else and returns its number. A pack whose file is
    /// doomed ([`doomed`](Self::doomed)) is refused: somebody is about to unlink it.
    pub fn add_pack(
        &self,
        pack: &NewPack,
        entries: &[NewEntry],
        announced_as: Option<&str>,
    ) -> Result<PackNo> {
        self.connections.write("add a pack", |tx| {
            let mut placing = Placing::new(tx)?;
            let no = placing.add(pack, entries, announced_as)?;
            placing.finish()?;
            Ok(no)
        })
    }

    /// Like [`add_pack`](Self::add_pack) for several packs, all or nothing.
    pub fn add_packs(&self, packs: &[(NewPack, Vec<NewEntry>, Option<String>)]) -> Result<Vec<PackNo>> {
        self.connections.write("add packs", |tx| {
            let mut placing = Placing::new(tx)?;
            let numbers = packs
                .iter()
                .map(|(pack, entries, announced_as)| placing.add(pack, entries, announced_as.as_deref()))
                .collect::<Step<_>>()?;
            placing.finish()?;
            Ok(numbers)
        })
    }
}

/// Sums over objects of one pack.
#[derive(Clone, Copy, Default)]
pub(super) struct Sums {
    pub(super) objects: u32,
    pub(super) stored: u64,
    pub(super) plain: u64,
}

impl Sums {
    pub(super) fn add(&mut self, stored_len: u32, plain_len: u32) {
        self.objects += 1;
        self.stored += u64::from(stored_len);
        self.plain += u64::from(plain_len);
    }
}

/// One of the two tables that hold objects. See the module documentation of the catalogue.
#[derive(Clone, Copy)]
enum Table {
    Objects,
    Twins,
}

/// The statements and sums of one transaction that adds packs.
struct Placing<'tx> {
    tx: &'tx Transaction<'tx>,
    insert: CachedStatement<'tx>,
    /// Almost always false, and then nobody needs to ask the other table.
    has_twins: bool,
    /// What condemned packs lost to new ones.
    lost: HashMap<PackNo, Sums>,
}

impl<'tx> Placing<'tx> {
    fn new(tx: &'tx Transaction<'tx>) -> Step<Self> {
        let insert =
            tx.prepare_cached("INSERT OR IGNORE INTO objects VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
        Ok(Self { tx, insert, has_twins: has_twins(tx)?, lost: HashMap::new() })
    }

    fn add(&mut self, pack: &NewPack, entries: &[NewEntry], announced_as: Option<&str>) -> Step<PackNo> {
        if let Some(name) = announced_as {
            self.tx.prepare_cached("DELETE FROM pending WHERE name = ?1")?.execute([name])?;
        }
        let id = pack.id.as_bytes();
        let known = self
            .tx
            .prepare_cached("SELECT no FROM packs WHERE id = ?1")?
            .query_row([id], |row| row.get(0))
            .optional()?;
        if let Some(no) = known {
            return Ok(no);
        }
        if self.tx.prepare_cached("SELECT 1 FROM doomed WHERE id = ?1")?.exists([id])? {
            let what = format!("pack {} is about to be removed and cannot be added now", pack.id);
            return Err(StoreError::Invalid { what }.into());
        }
        let no = insert_pack(self.tx, pack)?;

        // Sorted, so that inserts walk through the leaves of the table in one direction.
        let mut entries: Vec<&NewEntry> = entries.iter().collect();
        entries.sort_by_key(|entry| entry.id);
        let mut sums = Sums::default();
        let mut keys = Vec::with_capacity(entries.len() * 8);
        for entry in entries {
            if self.place(no, entry)? {
                sums.add(entry.stored_len, entry.plain_len);
                keys.extend_from_slice(&key_of(&entry.id).to_be_bytes());
            }
        }
        insert_contents(self.tx, no, &keys)?;
        set_sums(self.tx, no, &sums)?;
        Ok(no)
    }

    /// Makes `new` the place of its object, unless it has a good one. Returns whether it did.
    fn place(&mut self, pack: PackNo, new: &NewEntry) -> Step<bool> {
        if self.has_twins
            && let Some(placed) = self.replace(Table::Twins, pack, new)?
        {
            return Ok(placed);
        }
        if execute_row(&mut self.insert, pack, new)? == 1 {
            return Ok(true);
        }
        if let Some(placed) = self.replace(Table::Objects, pack, new)? {
            return Ok(placed);
        }
        // Another object has this key.
        let mut insert =
            self.tx.prepare_cached("INSERT INTO twins VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
        execute_row(&mut insert, pack, new)?;
        self.has_twins = true;
        Ok(true)
    }

    /// If `table` has the object: moves it if its pack is condemned, and returns whether it moved.
    fn replace(&mut self, table: Table, pack: PackNo, new: &NewEntry) -> Step<Option<bool>> {
        let Some((old_pack, stored_len, plain_len, condemned)) = self.current(table, &new.id)? else {
            return Ok(None);
        };
        if !condemned {
            return Ok(Some(false));
        }
        const SET: &str =
            concat!("SET (", place_columns!(), ") = (?3, ?4, ?5, ?6, ?7, ?8) WHERE key = ?1 AND rest = ?2");
        let mut update = self.tx.prepare_cached(&match table {
            Table::Objects => format!("UPDATE objects {SET}"),
            Table::Twins => format!("UPDATE twins {SET}"),
        })?;
        execute_row(&mut update, pack, new)?;
        self.lost.entry(old_pack).or_default().add(stored_len, plain_len);
        Ok(Some(true))
    }

    /// An object's pack and lengths, and whether the pack is condemned.
    fn current(&self, table: Table, id: &ObjectId) -> Step<Option<(PackNo, u32, u32, bool)>> {
        let mut statement = self.tx.prepare_cached(match table {
            Table::Objects => {
                "SELECT pack, stored_len, plain_len, pack IN (SELECT pack FROM condemned) FROM objects
                 WHERE key = ?1 AND rest = ?2"
            }
            Table::Twins => {
                "SELECT pack, stored_len, plain_len, pack IN (SELECT pack FROM condemned) FROM twins
                 WHERE key = ?1 AND rest = ?2"
            }
        })?;
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
        Ok(statement.query_row(params![key_of(id), rest_of(id)], read).optional()?)
    }

    fn finish(self) -> Step<()> {
        let mut update = self.tx.prepare_cached(
            "UPDATE packs SET objects = objects - ?2, stored = stored - ?3, plain = plain - ?4 WHERE no = ?1",
        )?;
        for (no, sums) in &self.lost {
            update.execute(params![no, sums.objects, sums.stored, sums.plain])?;
        }
        Ok(())
    }
}

/// Whether any two ids share a key.
pub(super) fn has_twins(conn: &Connection) -> rusqlite::Result<bool> {
    conn.prepare_cached("SELECT 1 FROM twins LIMIT 1")?.exists([])
}

/// Adds a pack's row, with sums of zero.
pub(super) fn insert_pack(conn: &Connection, pack: &NewPack) -> Step<PackNo> {
    conn.prepare_cached(
        "INSERT INTO packs(id, class, epoch, file_len, objects, stored, plain) VALUES(?1, ?2, ?3, ?4, 0, 0, 0)",
    )?
    .execute(params![pack.id.as_bytes(), pack.class, pack.epoch, pack.file_len])?;
    let no = u32::try_from(conn.last_insert_rowid()).map_err(|_| StoreError::Invalid {
        what: "the catalogue is out of pack numbers: rebuild it".to_owned(),
    })?;
    Ok(PackNo(no))
}

pub(super) fn insert_contents(conn: &Connection, no: PackNo, keys: &[u8]) -> rusqlite::Result<()> {
    conn.prepare_cached("INSERT INTO contents(pack, keys) VALUES(?1, ?2)")?
        .execute(params![no, keys])
        .map(drop)
}

pub(super) fn set_sums(conn: &Connection, no: PackNo, sums: &Sums) -> rusqlite::Result<()> {
    conn.prepare_cached("UPDATE packs SET objects = ?2, stored = ?3, plain = ?4 WHERE no = ?1")?
        .execute(params![no, sums.objects, sums.stored, sums.plain])
        .map(drop)
}
