//! All records of a state directory.

use std::collections::BTreeMap;
use std::fs;

use crate::error::{Result, io_error};
use crate::place::Place;
use crate::record::{Record, SessionId};

pub(crate) fn read_records(place: &Place) -> Result<BTreeMap<SessionId, Record>> {
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
