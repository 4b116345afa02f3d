//! Files that no snapshot has, before they are replaced or removed: they become a commit of their own.

use std::path::PathBuf;
use std::time::SystemTime;

use api::{FileNote, KeptFiles};
use cas_core::progress::Silent;
use history::{KeptFor, UserStore};
use staging::Stages;
use workspace::{CaptureRequest, FilePolicy, Listing, Places};

use crate::{Listings, Record, RecordError, Result};

/// Keeps files of a session as they are now; the commit and what it has.
pub fn keep_files(
    record: &Record,
    places: &Places,
    store: &UserStore,
    stages: &Stages,
    named: &[PathBuf],
    why: KeptFor,
) -> Result<(String, Listing)> {
    let staged = stages.stage(0)?;
    let session = store.write(&[])?;
    let request = CaptureRequest {
        user: &record.owner,
        places,
        policy: &FilePolicy::None,
        named,
        staging: staged.files(),
        parent: &Listing::default(),
    };
    let captured = workspace::begin(&request, None, &[])?.finish(&session, &Silent)?;
    let on = (record.id.as_str(), record.thread.as_str());
    let commit =
        store.commit_files(session, on, &record.owner, why, &captured.workspace, &captured.outside)?;
    Ok((commit.to_string(), captured.listing))
}

/// What would be lost with a branch's files. Nothing for what has no files of its own.
pub fn loose_files(
    record: &Record,
    places: &Places,
    store: &UserStore,
    listings: &Listings,
) -> Result<Vec<FileNote>> {
    let Some(origin) = &record.origin else { return Ok(Vec::new()) };
    // A branch of an earlier version does not say when its files were made: all of them are newer than itself.
    let made: SystemTime = origin.files_made.unwrap_or(record.created).into();
    let loose = workspace::loose_files(&record.owner, places, made, &*listings.of(store, record)?)?;
    Ok(loose.into_iter().map(|file| FileNote { path: file.path.into(), bytes: file.bytes }).collect())
}

/// Keeps what would be lost, if there is anything.
pub fn keep_loose_files(
    record: &Record,
    places: &Places,
    store: &UserStore,
    listings: &Listings,
    stages: &Stages,
) -> Result<Option<KeptFiles>> {
    let files = loose_files(record, places, store, listings)?;
    if files.is_empty() {
        return Ok(None);
    }
    let named: Vec<PathBuf> = files.iter().map(|file| file.path.as_path().to_owned()).collect();
    let (commit, kept) = keep_files(record, places, store, stages, &named, KeptFor::Removed)?;
    match named.into_iter().find(|path| kept.content(path).is_none()) {
        // It is asked again, and then with a word that the rest may go.
        Some(path) => Err(RecordError::NotKept { path }),
        None => Ok(Some(KeptFiles { commit, files })),
    }
}
