//! What gc does to packs: condemn, pardon, drop; and the files that are left to unlink.
//!
//! A condemned pack is still read from, but nothing new may rely on it. Once no transaction is left that began before its
//! generation, whatever is still wanted from it has been moved, and it can be dropped. Its file is then doomed until
//! somebody has unlinked it and says so with [`Catalogue::undoom`].

use rusqlite::{OptionalExtension, Transaction, params};

use super::connections::Step;
use super::placing::has_twins;
use super::row::pack_id;
use super::{Catalogue, PackNo};
use crate::error::{Result, StoreError};
use crate::id::PackId;

/// Keys of dropped packs that are sorted together: 16 MiB of memory.
const KEYS_AT_ONCE: usize = 1 << 20;

impl Catalogue {
    /// The gc generation: how often something was condemned.
    pub fn generation(&self) -> Result<u64> {
        self.connections.read("read the generation", |conn| {
            Ok(conn.prepare_cached("SELECT generation FROM gc")?.query_row([], |row| row.get(0))?)
        })
    }

    /// Begins a new gc generation, marks the packs with it and returns it. A pack that was condemned before counts as
    /// condemned now.
    pub fn condemn(&self, packs: &[PackNo]) -> Result<u64> {
        self.connections.write("condemn packs", |tx| {
            let generation: u64 = tx
                .prepare_cached("UPDATE gc SET generation = generation + 1 RETURNING generation")?
                .query_row([], |row| row.get(0))?;
            let mut known = tx.prepare_cached("SELECT 1 FROM packs WHERE no = ?1")?;
            let mut mark =
                tx.prepare_cached("INSERT OR REPLACE INTO condemned(pack, generation) VALUES(?1, ?2)")?;
            for pack in packs {
                if !known.exists([pack])? {
                    let what = format!("there is no pack number {} to condemn", pack.0);
                    return Err(StoreError::Invalid { what }.into());
                }
                mark.execute(params![pack, generation])?;
            }
            Ok(generation)
        })
    }

    /// Takes the marks off again.
    pub fn pardon(&self, packs: &[PackNo]) -> Result<()> {
        self.connections.write("pardon packs", |tx| {
            let mut unmark = tx.prepare_cached("DELETE FROM condemned WHERE pack = ?1")?;
            for pack in packs {
                unmark.execute([pack])?;
            }
            Ok(())
        })
    }

    /// Removes these packs, and every object whose place is still in one of them, and records their files as doomed;
    /// one transaction. Numbers of packs that are gone already are ignored.
    pub fn drop_packs(&self, packs: &[PackNo]) -> Result<()> {
        let damaged = |detail: String| StoreError::damaged("catalogue", self.connections.path(), detail);
        self.connections.write("drop packs", |tx| {
            let mut keys: Vec<(i64, PackNo)> = Vec::new();
            let mut waiting: Vec<(PackNo, u32)> = Vec::new();
            let mut packs = packs.to_vec();
            packs.sort_unstable();
            packs.dedup();
            for no in packs {
                let found = tx
                    .prepare_cached(
                        "SELECT id, objects, keys FROM packs JOIN contents ON pack = no WHERE no = ?1",
                    )?
                    .query_row([no], |row| Ok((pack_id(row, 0)?, row.get(1)?, keys_of(row)?)))
                    .optional()?;
                let Some((id, objects, pack_keys)) = found else { continue };
                let Some(pack_keys) = pack_keys else {
                    return Err(damaged(format!("the contents of pack {id} are cut off")).into());
                };
                tx.prepare_cached("INSERT OR IGNORE INTO doomed(id) VALUES(?1)")?.execute([id.as_bytes()])?;
                keys.extend(pack_keys.into_iter().map(|key| (key, no)));
                waiting.push((no, objects));
                if keys.len() >= KEYS_AT_ONCE {
                    drop_some(tx, &mut keys, &mut waiting, damaged)?;
                }
            }
            drop_some(tx, &mut keys, &mut waiting, damaged)
        })
    }

    /// Packs that are gone from the catalogue and whose files must be unlinked.
    pub fn doomed(&self) -> Result<Vec<PackId>> {
        self.connections.read("list the doomed packs", |conn| {
            let mut statement = conn.prepare_cached("SELECT id FROM doomed ORDER BY id")?;
            Ok(statement.query_map([], |row| pack_id(row, 0))?.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// The file of this doomed pack is gone.
    pub fn undoom(&self, pack: &PackId) -> Result<()> {
        self.connections.write("forget a doomed pack", |tx| {
            tx.prepare_cached("DELETE FROM doomed WHERE id = ?1")?.execute([pack.as_bytes()])?;
            Ok(())
        })
    }
}

/// The third column, as keys; `None` if it has an impossible length.
fn keys_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<Vec<i64>>> {
    Ok(parse_keys(row.get_ref(2)?.as_blob()?))
}

/// A pack's contents, as they are stored.
pub(super) fn parse_keys(blob: &[u8]) -> Option<Vec<i64>> {
    let (keys, []) = blob.as_chunks::<8>() else { return None };
    Some(keys.iter().map(|key| i64::from_be_bytes(*key)).collect())
}

/// Deletes the rows of the packs in `waiting`, all of whose keys are in `keys`, and empties both.
fn drop_some(
    tx: &Transaction<'_>,
    keys: &mut Vec<(i64, PackNo)>,
    waiting: &mut Vec<(PackNo, u32)>,
    damaged: impl Fn(String) -> StoreError,
) -> Step<()> {
    // In the order of the table, as when adding.
    keys.sort_unstable();
    let twins = has_twins(tx)?;
    let mut from_objects = tx.prepare_cached("DELETE FROM objects WHERE key = ?1 AND pack = ?2")?;
    let mut from_twins = tx.prepare_cached("DELETE FROM twins WHERE key = ?1 AND pack = ?2")?;
    let mut deleted = 0;
    for (key, pack) in keys.drain(..) {
        deleted += from_objects.execute(params![key, pack])?;
        if twins {
            deleted += from_twins.execute(params![key, pack])?;
        }
    }
    let mut expected = 0;
    for (no, objects) in waiting.drain(..) {
        expected += usize::try_from(objects).unwrap_or(usize::MAX);
        tx.prepare_cached("DELETE FROM packs WHERE no = ?1")?.execute([no])?;
    }
    if deleted == expected {
        return Ok(());
    }
    // Rows that point into a pack that is gone would make readers believe in objects that nobody has.
    Err(damaged(format!("packs to be dropped should hold {expected} objects, {deleted} were found")).into())
}
