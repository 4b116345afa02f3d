//! How the last push to each remote went: the file `pushes` in the store's directory.
//!
//! It is for whoever looks, and says when everything was last sent. Nothing depends on it: one that is lost or makes no sense is begun anew.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cas_core::Store;
use cas_core::fsio::{self, LocalDisk};
use serde::{Deserialize, Serialize};

use crate::error::{RemoteError, Result};
use crate::lease::now;
use crate::names::Named;
use crate::push::PushReport;

/// More is not what was written.
const LIMIT: u64 = 1 << 20;

/// How a push went. Times are seconds since 1970.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LastPush {
    /// When it ended.
    pub at: u64,
    /// When one ended well, whichever it was.
    pub ended_well: Option<u64>,
    /// When all threads and tags were sent for the last time.
    pub all: Option<u64>,
    /// How much it has sent.
    pub bytes: u64,
    /// Whether nobody asked for it.
    pub by_itself: bool,
    /// Why it failed, if it did.
    pub failed: Option<PushFailure>,
}

/// Why a push failed.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PushFailure {
    /// The code of the error.
    pub code: String,
    /// What it says.
    pub message: String,
    /// What can be done.
    pub hint: Option<String>,
}

impl LastPush {
    /// The last push to a remote.
    pub fn to(store: &Store, name: &str) -> Result<Option<Self>> {
        Ok(read(store)?.remove(name))
    }

    /// Notes how a push has ended. `all`: it was about all threads and tags.
    pub fn note(
        store: &Store,
        named: &Named,
        (by_itself, all): (bool, bool),
        ended: Result<&PushReport, &RemoteError>,
    ) -> Result<()> {
        let mut every = read(store)?;
        let before = every.remove(&named.name).unwrap_or_default();
        let at = now();
        let last = match ended {
            Ok(report) => Self {
                at,
                ended_well: Some(at),
                all: if all { Some(at) } else { before.all },
                bytes: report.bytes,
                by_itself,
                failed: None,
            },
            Err(error) => {
                let (code, hint) = (error.code().to_owned(), error.hint().map(str::to_owned));
                let failed = Some(PushFailure { code, message: base::explain(error), hint });
                Self { at, bytes: 0, by_itself, failed, ..before }
            }
        };
        every.insert(named.name.clone(), last);
        let text = serde_json::to_vec(&every).unwrap_or_default();
        Ok(fsio::replace(&LocalDisk, &path(store), &text)?)
    }
}

fn path(store: &Store) -> PathBuf {
    store.root().join("pushes")
}

fn read(store: &Store) -> Result<BTreeMap<String, LastPush>> {
    let bytes = fsio::read_small(&LocalDisk, &path(store), LIMIT)?.unwrap_or_default();
    Ok(serde_json::from_slice(&bytes).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::Address;

    #[test]
    fn the_last_push_is_remembered_with_what_was_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::init(&dir.path().join("s"), None, cas_core::OpenOptions::default()).unwrap();
        let address = Address::parse("s3://bucket/a").unwrap();
        let named = Named { name: "origin".to_owned(), address, unencrypted: false };
        assert_eq!(LastPush::to(&store, "origin").unwrap(), None);
        let report = PushReport { bytes: 7, ..PushReport::default() };
        LastPush::note(&store, &named, (true, true), Ok(&report)).unwrap();
        let well = LastPush::to(&store, "origin").unwrap().unwrap();
        assert!(well.bytes == 7 && well.by_itself && well.all == Some(well.at) && well.failed.is_none());
        LastPush::note(&store, &named, (true, false), Err(&RemoteError::Unencrypted)).unwrap();
        let failed = LastPush::to(&store, "origin").unwrap().unwrap();
        assert_eq!((failed.all, failed.ended_well), (well.all, Some(well.at)));
        assert_eq!(failed.failed.unwrap().code, "IJ-R060");
        // Whatever is in the file, the next push can be noted.
        std::fs::write(path(&store), "what is this").unwrap();
        assert_eq!(LastPush::to(&store, "origin").unwrap(), None);
        LastPush::note(&store, &named, (false, false), Ok(&report)).unwrap();
        assert_eq!(LastPush::to(&store, "origin").unwrap().unwrap().all, None);
    }
}
