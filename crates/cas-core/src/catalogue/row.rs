//! Between our types and SQLite's.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Row, params};

use super::{Location, NewEntry, PackClass, PackNo, PackRow};
use crate::id::{Kind, ObjectId, PackId};

/// The columns of `objects` and `twins` that say where; [`location`] reads them.
macro_rules! place_columns {
    () => {
        "pack, entry, offset, stored_len, plain_len, kind"
    };
}
pub(super) use place_columns;

/// The integer that stands for an id in `objects`: its first eight bytes, so encoded that integers sort as ids do.
pub(super) fn key_of(id: &ObjectId) -> i64 {
    let [a, b, c, d, e, f, g, h, ..] = *id.as_bytes();
    (u64::from_be_bytes([a, b, c, d, e, f, g, h]) ^ (1 << 63)).cast_signed()
}

/// The other 24 bytes.
pub(super) fn rest_of(id: &ObjectId) -> &[u8] {
    &id.as_bytes()[8..]
}

/// The inverse of [`key_of`] and [`rest_of`].
pub(super) fn join(key: i64, rest: [u8; 24]) -> ObjectId {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&(key.cast_unsigned() ^ (1 << 63)).to_be_bytes());
    bytes[8..].copy_from_slice(&rest);
    ObjectId::from_bytes(bytes)
}

/// Reads a [`Location`] from the columns of [`place_columns`], of which the first is `first`.
pub(super) fn location(row: &Row<'_>, first: usize) -> rusqlite::Result<Location> {
    Ok(Location {
        pack: row.get(first)?,
        entry: row.get(first + 1)?,
        offset: row.get(first + 2)?,
        stored_len: row.get(first + 3)?,
        plain_len: row.get(first + 4)?,
        kind: Kind(row.get(first + 5)?),
    })
}

/// Runs a statement that takes an object row's eight columns as its parameters; returns the number of rows changed.
pub(super) fn execute_row(
    statement: &mut rusqlite::Statement<'_>,
    pack: PackNo,
    new: &NewEntry,
) -> rusqlite::Result<usize> {
    statement.execute(params![
        key_of(&new.id),
        rest_of(&new.id),
        pack,
        new.entry,
        new.offset,
        new.stored_len,
        new.plain_len,
        new.kind.0
    ])
}

/// Reads what [`super::gc`]'s queries for packs select.
pub(super) fn pack_row(row: &Row<'_>) -> rusqlite::Result<PackRow> {
    Ok(PackRow {
        no: row.get(0)?,
        id: pack_id(row, 1)?,
        class: row.get(2)?,
        epoch: row.get(3)?,
        file_len: row.get(4)?,
        objects: row.get(5)?,
        stored: row.get(6)?,
        condemned: row.get(7)?,
    })
}

pub(super) fn pack_id(row: &Row<'_>, column: usize) -> rusqlite::Result<PackId> {
    row.get(column).map(PackId::from_bytes)
}

impl ToSql for PackNo {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.0.to_sql()
    }
}

impl FromSql for PackNo {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        u32::column_result(value).map(Self)
    }
}

impl ToSql for PackClass {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Data => 0,
            Self::Metadata => 1,
        }
        .into())
    }
}

impl FromSql for PackClass {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match i64::column_result(value)? {
            0 => Ok(Self::Data),
            1 => Ok(Self::Metadata),
            other => Err(FromSqlError::OutOfRange(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    proptest! {
        #[test]
        fn keys_sort_as_ids_do(a: [u8; 32], b in any::<[u8; 32]>()) {
            let [a, b] = [a, b].map(ObjectId::from_bytes);
            prop_assert_eq!((key_of(&a), rest_of(&a)).cmp(&(key_of(&b), rest_of(&b))), a.cmp(&b));
            let rest = rest_of(&a).try_into().unwrap();
            prop_assert_eq!(join(key_of(&a), rest), a);
        }
    }
}
