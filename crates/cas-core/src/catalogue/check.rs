//! Whether the catalogue makes sense.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use super::connections::Step;
use super::gc::parse_keys;
use super::placing::Sums;
use super::row::{key_of, pack_id};
use super::{Catalogue, PackNo};
use crate::error::{Class, Result};

/// Complaints to collect before giving up: a damaged file can yield one per row.
const ENOUGH: usize = 100;

/// What the objects say about a pack, against what the pack says about itself.
#[derive(Default)]
struct Tally {
    sums: Sums,
    /// Sum of all keys. If a pack lists as many keys as it has objects, the sums must agree too.
    keys: i64,
    /// Where the last entry ends.
    end: u64,
}

impl Catalogue {
    /// Checks the database and then whether its tables agree with each other. Each finding is a sentence; none means
    /// that all is well. Reads everything: minutes at 10^8 objects.
    pub fn check(&self) -> Result<Vec<String>> {
        let mut findings = Vec::new();
        let checked = self.check_into(&mut findings);
        match checked {
            // What cannot be read because it is damaged is a finding, not a failure of checking.
            Err(error) if error.class() == Class::Corruption => {
                let cause =
                    std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
                findings.push(format!("{error}{cause}"));
            }
            Err(error) => return Err(error),
            Ok(()) => {}
        }
        findings.truncate(ENOUGH);
        Ok(findings)
    }

    fn check_into(&self, findings: &mut Vec<String>) -> Result<()> {
        self.connections.read("check the database", |conn| {
            for pragma in ["PRAGMA integrity_check(100)", "PRAGMA foreign_key_check"] {
                let mut statement = conn.prepare(pragma)?;
                let mut rows = statement.query([])?;
                while let Some(row) = rows.next()? {
                    let text: String = row.get(0)?;
                    if pragma.ends_with("foreign_key_check") {
                        findings.push(format!("a row of table {text} refers to a row that is not there"));
                    } else if text != "ok" {
                        findings.push(format!("the database is damaged: {text}"));
                    }
                }
            }
            Ok(())
        })?;
        if !findings.is_empty() {
            return Ok(());
        }
        let mut tallies: HashMap<PackNo, Tally> = HashMap::new();
        self.for_each_object(&mut |id, at| {
            let tally = tallies.entry(at.pack).or_default();
            tally.sums.add(at.stored_len, at.plain_len);
            tally.keys = tally.keys.wrapping_add(key_of(id));
            tally.end = tally.end.max(at.offset.saturating_add(u64::from(at.stored_len)));
            Ok(())
        })?;
        self.connections.read_at_once("check the packs", |conn| {
            check_packs(conn, &mut tallies, findings)?;
            let mut strays =
                conn.prepare("SELECT key FROM twins WHERE (key, rest) IN (SELECT key, rest FROM objects)")?;
            for key in strays.query_map([], |row| row.get::<_, i64>(0))? {
                findings.push(format!("the object with key {} has two places", key?));
            }
            let mut both = conn.prepare("SELECT id FROM doomed WHERE id IN (SELECT id FROM packs)")?;
            for id in both.query_map([], |row| pack_id(row, 0))? {
                findings.push(format!("pack {} is listed and doomed", id?));
            }
            Ok(())
        })?;
        let mut lost: Vec<_> = tallies.into_iter().collect();
        lost.sort_by_key(|(no, _)| *no);
        for (no, tally) in lost {
            findings.push(format!(
                "{} objects are said to be in pack number {}, which is not there",
                tally.sums.objects, no.0
            ));
        }
        Ok(())
    }
}

/// Takes each pack's tally out of `tallies` and compares.
fn check_packs(
    conn: &Connection,
    tallies: &mut HashMap<PackNo, Tally>,
    findings: &mut Vec<String>,
) -> Step<()> {
    let mut statement = conn.prepare(
        "SELECT no, id, file_len, objects, stored, plain, keys FROM packs LEFT JOIN contents ON contents.pack = no",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (no, id) = (row.get(0)?, pack_id(row, 1)?);
        let found = tallies.remove(&no).unwrap_or_default();
        let Sums { objects, stored, plain } = found.sums;
        if (objects, stored, plain) != (row.get(3)?, row.get(4)?, row.get(5)?) {
            findings.push(format!("the sums of pack {id} do not fit its {objects} objects"));
        }
        if found.end > row.get::<_, u64>(2)? {
            findings.push(format!("an object of pack {id} lies beyond the end of its file"));
        }
        let keys = row.get_ref(6)?.as_blob_or_null().ok().flatten().and_then(parse_keys);
        if !keys.is_some_and(|keys| lists_all(conn, no, &found, &keys).unwrap_or(false)) {
            findings.push(format!("the contents of pack {id} do not list all its objects"));
        }
    }
    Ok(())
}

/// Whether `keys` names all objects that are in the pack.
fn lists_all(conn: &Connection, no: PackNo, found: &Tally, keys: &[i64]) -> rusqlite::Result<bool> {
    let objects = usize::try_from(found.sums.objects).unwrap_or(usize::MAX);
    if keys.len() == objects {
        return Ok(keys.iter().fold(0_i64, |sum, key| sum.wrapping_add(*key)) == found.keys);
    }
    // Some have moved away, so look at each.
    let mut sum = 0_i64;
    let mut count = conn.prepare_cached(
        "SELECT (SELECT count(*) FROM objects WHERE key = ?1 AND pack = ?2)
              + (SELECT count(*) FROM twins WHERE key = ?1 AND pack = ?2)",
    )?;
    let mut keys = keys.to_vec();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let times: i64 = count.query_row(params![key, no], |row| row.get(0))?;
        sum = sum.wrapping_add(key.wrapping_mul(times));
    }
    Ok(sum == found.keys)
}
