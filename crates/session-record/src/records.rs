//! All records of a state directory, and whose turn it is to replace one.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::io_error;

use crate::error::Result;
use crate::place::Place;
use crate::record::Record;
use crate::session::SessionId;

/// Reads them.
pub fn read_records(place: &Place) -> Result<BTreeMap<SessionId, Record>> {
    let mut found = BTreeMap::new();
    let directory = place.sessions();
    for item in fs::read_dir(&directory).map_err(io_error("list", &directory))? {
        let name = item.map_err(io_error("list", &directory))?.file_name();
        let Some(id) = name.to_str().and_then(|name| SessionId::try_from(name.to_owned()).ok()) else {
            continue;
        };
        let path = place.record(&id);
        // No record: a session whose start was cut short before it had one. The journal knows it.
        if path.exists() {
            found.insert(id, Record::read(&path)?);
        }
    }
    Ok(found)
}

/// Whose turn it is to replace a record. A write waits for the disk, so sessions seldom wait for each other, and listings
/// never do.
#[derive(Default)]
pub struct Writers([Mutex<()>; 32]);

impl Writers {
    /// Waits for it. It ends with what is returned.
    pub fn of(&self, id: &SessionId) -> MutexGuard<'_, ()> {
        let sum =
            id.as_str().bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let [first, ..] = &self.0;
        let one = self.0.get(sum % self.0.len()).unwrap_or(first);
        one.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
