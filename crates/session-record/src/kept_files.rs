//! Files that no snapshot has, before they are replaced or removed: they become a commit of their own.

use std::path::PathBuf;
use std::time::SystemTime;

use api::{FileNote, KeptFiles};
use cas_core::progress::Silent;
use history::{KeptFor, UserStore};
use staging::Stages;
use workspace::{CaptureRequest, FilePolicy, Listing, LooseFile, Places};

use crate::{Record, RecordError, Result};

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
pub fn loose_files(record: &Record, places: &Places, store: &UserStore) -> Result<Vec<FileNote>> {
    let note = |file: LooseFile| FileNote { path: file.path.into(), bytes: file.bytes };
    Ok(loose(record, places, store)?.into_iter().map(note).collect())
}

/// Keeps what would be lost, if there is anything.
pub fn keep_loose_files(
    record: &Record,
    places: &Places,
    store: &UserStore,
    stages: &Stages,
) -> Result<Option<KeptFiles>> {
    let loose = loose(record, places, store)?;
    if loose.is_empty() {
        return Ok(None);
    }
    let named: Vec<PathBuf> = loose.iter().map(|file| file.path.clone()).collect();
    let (commit, kept) = keep_files(record, places, store, stages, &named, KeptFor::Removed)?;
    if let Some(lost) = named.iter().find(|path| kept.content(path).is_none()) {
        // It is asked again, and then with a word that the rest may go.
        return Err(RecordError::NotKept { path: lost.clone() });
    }
    let note = |file: LooseFile| FileNote { path: file.path.into(), bytes: file.bytes };
    Ok(Some(KeptFiles { commit, files: loose.into_iter().map(note).collect() }))
}

fn loose(record: &Record, places: &Places, store: &UserStore) -> Result<Vec<LooseFile>> {
    let Some(origin) = &record.origin else { return Ok(Vec::new()) };
    let head = match record.head_id()? {
        Some(head) => Listing::of_snapshot(store.store(), &store.load(&head)?.1)?,
        None => Listing::default(),
    };
    // A branch of an earlier version does not say when its files were made: all of them are newer than itself.
    let made: SystemTime = origin.files_made.unwrap_or(record.created).into();
    Ok(workspace::loose_files(&record.owner, places, made, &head)?)
}
