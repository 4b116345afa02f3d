//! The objects of one pack.

use rusqlite::{OptionalExtension, params};

use super::gc::parse_keys;
use super::row::{join, key_of, location, place_columns, rest_of};
use super::{Catalogue, Location, PackNo};
use crate::error::{Result, StoreError};
use crate::id::ObjectId;

const PLACED: &str = concat!(
    "SELECT key, rest, ",
    place_columns!(),
    " FROM objects WHERE key = ?1 AND pack = ?2 UNION ALL ",
    "SELECT key, rest, ",
    place_columns!(),
    " FROM twins WHERE key = ?1 AND pack = ?2"
);

impl Catalogue {
    /// Every object that the catalogue places in `pack`, in the order in which they lie there.
    pub fn objects_of(&self, pack: PackNo) -> Result<Vec<(ObjectId, Location)>> {
        let path = self.connections.path();
        self.connections.read_at_once("list the objects of a pack", |conn| {
            let keys = conn
                .prepare_cached("SELECT keys FROM contents WHERE pack = ?1")?
                .query_row([pack], |row| Ok(parse_keys(row.get_ref(0)?.as_blob()?)))
                .optional()?;
            let keys = match keys {
                None => return Ok(Vec::new()),
                Some(None) => {
                    let detail = format!("the contents of pack number {} are cut off", pack.0);
                    return Err(StoreError::damaged("catalogue", path, detail).into());
                }
                Some(Some(keys)) => keys,
            };
            let mut statement = conn.prepare_cached(PLACED)?;
            let mut objects = Vec::with_capacity(keys.len());
            for key in keys {
                let rows = statement.query_map(params![key, pack], |row| {
                    Ok((join(row.get(0)?, row.get(1)?), location(row, 2)?))
                })?;
                objects.extend(rows.collect::<rusqlite::Result<Vec<_>>>()?);
            }
            objects.sort_unstable_by_key(|(_, location)| location.offset);
            objects.dedup();
            Ok(objects)
        })
    }
}

impl Catalogue {
    /// Forgets where these objects are, so that a new copy takes their place when its pack is added. For objects that were
    /// found to be unreadable; the bytes that lie in the old pack are garbage from then on.
    pub fn evict(&self, ids: &[ObjectId]) -> Result<()> {
        self.connections.write("forget unreadable objects", |tx| {
            for id in ids {
                for table in ["objects", "twins"] {
                    let places = format!("SELECT pack, stored_len, plain_len FROM {table} WHERE key = ?1 AND rest = ?2");
                    let place = tx
                        .prepare_cached(&places)?
                        .query_row(params![key_of(id), rest_of(id)], |row| {
                            Ok((row.get::<_, PackNo>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
                        })
                        .optional()?;
                    let Some((pack, stored, plain)) = place else { continue };
                    tx.prepare_cached(&format!("DELETE FROM {table} WHERE key = ?1 AND rest = ?2"))?
                        .execute(params![key_of(id), rest_of(id)])?;
                    tx.prepare_cached(
                        "UPDATE packs SET objects = objects - 1, stored = stored - ?2, plain = plain - ?3 WHERE no = ?1",
                    )?
                    .execute(params![pack, stored, plain])?;
                }
            }
            Ok(())
        })
    }
}
