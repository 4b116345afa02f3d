//! Finding objects and packs.

use rusqlite::{Connection, OptionalExtension, params};

use super::connections::Step;
use super::row::{join, key_of, location, pack_row, place_columns, rest_of};
use super::{Catalogue, Location, PackNo, PackRow, Totals};
use crate::error::Result;
use crate::id::ObjectId;

const FIND: &str = concat!(
    "SELECT ",
    place_columns!(),
    " FROM objects WHERE key = ?1 AND rest = ?2 UNION ALL ",
    "SELECT ",
    place_columns!(),
    " FROM twins WHERE key = ?1 AND rest = ?2"
);
const FIND_REUSABLE: &str = concat!(
    "SELECT ",
    place_columns!(),
    " FROM objects WHERE key = ?1 AND rest = ?2",
    " AND NOT EXISTS (SELECT 1 FROM condemned WHERE condemned.pack = objects.pack) UNION ALL ",
    "SELECT ",
    place_columns!(),
    " FROM twins WHERE key = ?1 AND rest = ?2",
    " AND NOT EXISTS (SELECT 1 FROM condemned WHERE condemned.pack = twins.pack)"
);
const SOME_OBJECTS: &str =
    concat!("SELECT key, rest, ", place_columns!(), " FROM objects WHERE key >= ?1 ORDER BY key LIMIT ?2");
const SOME_TWINS: &str =
    concat!("SELECT key, rest, ", place_columns!(), " FROM twins WHERE key BETWEEN ?1 AND ?2");

/// Rows read at a time by [`Catalogue::for_each_object`].
const BATCH: usize = 4096;

impl Catalogue {
    /// Where to read an object.
    pub fn lookup(&self, id: &ObjectId) -> Result<Option<Location>> {
        self.connections.read("look up an object", |conn| find(conn, FIND, id))
    }

    /// Where an object is that need not be written again: unlike [`lookup`](Self::lookup), not in a condemned pack.
    pub fn lookup_reusable(&self, id: &ObjectId) -> Result<Option<Location>> {
        self.connections.read("look up an object", |conn| find(conn, FIND_REUSABLE, id))
    }

    /// One pack.
    pub fn pack(&self, no: PackNo) -> Result<Option<PackRow>> {
        self.connections.read("look up a pack", |conn| {
            let mut statement = conn.prepare_cached(
                "SELECT no, id, class, epoch, file_len, objects, stored, generation
                 FROM packs LEFT JOIN condemned ON condemned.pack = no WHERE no = ?1",
            )?;
            Ok(statement.query_row([no], pack_row).optional()?)
        })
    }

    /// All packs, by number.
    pub fn packs(&self) -> Result<Vec<PackRow>> {
        self.connections.read("list the packs", |conn| {
            let mut statement = conn.prepare_cached(
                "SELECT no, id, class, epoch, file_len, objects, stored, generation
                 FROM packs LEFT JOIN condemned ON condemned.pack = no ORDER BY no",
            )?;
            Ok(statement.query_map([], pack_row)?.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Sums over all packs; reads `packs` only.
    pub fn totals(&self) -> Result<Totals> {
        self.connections.read("add up the packs", |conn| {
            let mut statement = conn.prepare_cached(
                "SELECT count(*), ifnull(sum(objects), 0), ifnull(sum(stored), 0), ifnull(sum(plain), 0) FROM packs",
            )?;
            Ok(statement.query_row([], |row| {
                Ok(Totals { packs: row.get(0)?, objects: row.get(1)?, stored: row.get(2)?, plain: row.get(3)? })
            })?)
        })
    }

    /// Calls `f` for every object, in the order of ids, with bounded memory.
    ///
    /// This reads in batches and lets go of the database between them, so that a long walk does not keep the
    /// write-ahead log from being emptied, and `f` may use the catalogue. An object that is there all the while is seen
    /// exactly once; one that is added or dropped meanwhile may be seen or not, and one that moves is seen in one of
    /// its places.
    pub fn for_each_object(&self, f: &mut dyn FnMut(&ObjectId, &Location) -> Result<()>) -> Result<()> {
        self.for_each_key(i64::MIN, i64::MAX, f)
    }

    /// The same for the objects whose ids lie between `first` and `last`, both included. Reads little more than these, so
    /// that an id can be found by its first digits in a store of any size.
    pub fn for_each_between(
        &self,
        first: &ObjectId,
        last: &ObjectId,
        f: &mut dyn FnMut(&ObjectId, &Location) -> Result<()>,
    ) -> Result<()> {
        self.for_each_key(key_of(first), key_of(last), &mut |id, location| {
            if (first..=last).contains(&id) { f(id, location) } else { Ok(()) }
        })
    }

    fn for_each_key(
        &self,
        first: i64,
        last: i64,
        f: &mut dyn FnMut(&ObjectId, &Location) -> Result<()>,
    ) -> Result<()> {
        let mut next = Some(first);
        while let Some(from) = next.filter(|from| *from <= last) {
            let (batch, after) =
                self.connections.read_at_once("list the objects", |conn| some_objects(conn, from))?;
            for (id, location) in &batch {
                if key_of(id) > last {
                    return Ok(());
                }
                f(id, location)?;
            }
            next = after;
        }
        Ok(())
    }
}

fn find(conn: &Connection, sql: &str, id: &ObjectId) -> Step<Option<Location>> {
    let mut statement = conn.prepare_cached(sql)?;
    Ok(statement.query_row(params![key_of(id), rest_of(id)], |row| location(row, 0)).optional()?)
}

type Batch = Vec<(ObjectId, Location)>;

/// A batch of objects whose keys begin at `from`, and where the next batch begins.
fn some_objects(conn: &Connection, from: i64) -> Step<(Batch, Option<i64>)> {
    let read = |row: &rusqlite::Row<'_>| Ok((join(row.get(0)?, row.get(1)?), location(row, 2)?));
    let mut statement = conn.prepare_cached(SOME_OBJECTS)?;
    let mut batch: Vec<_> =
        statement.query_map(params![from, BATCH], read)?.collect::<rusqlite::Result<_>>()?;
    let last = match batch.last() {
        Some((id, _)) if batch.len() == BATCH => key_of(id),
        _ => i64::MAX,
    };
    let mut statement = conn.prepare_cached(SOME_TWINS)?;
    let before = batch.len();
    for twin in statement.query_map(params![from, last], read)? {
        batch.push(twin?);
    }
    if batch.len() > before {
        batch.sort_unstable_by_key(|(id, _)| *id);
    }
    Ok((batch, last.checked_add(1)))
}

#[cfg(test)]
mod tests {
    use crate::catalogue::{Catalogue, NewEntry, NewPack, PackClass};
    use crate::id::{Kind, ObjectId, PackId};
    use std::collections::BTreeSet;

    #[test]
    fn a_range_of_ids_is_found_with_its_ends_and_its_twins() {
        let twin = |n: u8| {
            let mut bytes = [7; 32];
            bytes[31] = n;
            ObjectId::from_bytes(bytes)
        };
        let ids: BTreeSet<ObjectId> = (0..=255u8)
            .map(|n| ObjectId::from_bytes(*blake3::hash(&[n]).as_bytes()))
            .chain((0..3).map(twin))
            .collect();
        let entry = |(n, id): (usize, &ObjectId)| {
            let n = u32::try_from(n).unwrap();
            let offset = u64::from(n) * 100;
            NewEntry { id: *id, entry: n, offset, stored_len: 90, plain_len: 200, kind: Kind::PAGES }
        };
        let dir = tempfile::tempdir().unwrap();
        let catalogue = Catalogue::create(&dir.path().join("catalogue")).unwrap();
        let pack =
            NewPack { id: PackId::from_bytes([1; 32]), class: PackClass::Data, epoch: 0, file_len: 1 << 20 };
        catalogue.add_pack(&pack, &ids.iter().enumerate().map(entry).collect::<Vec<_>>(), None).unwrap();

        let between = |first: ObjectId, last: ObjectId| {
            let mut seen = Vec::new();
            catalogue
                .for_each_between(&first, &last, &mut |id, _| {
                    seen.push(*id);
                    Ok(())
                })
                .unwrap();
            seen
        };
        let sorted: Vec<_> = ids.iter().copied().collect();
        assert_eq!(between(sorted[40], sorted[220]), sorted[40..=220]);
        assert_eq!(between(twin(1), twin(1)), [twin(1)]);
        assert_eq!(between(ObjectId::from_bytes([0; 32]), ObjectId::from_bytes([255; 32])), sorted);
        assert_eq!(between(sorted[9], sorted[8]), []);
    }
}
