//! The files of a snapshot, in the words of the wire: listed, and copied into a directory of the user's.

use std::path::{Path, PathBuf};

use api::{CopiedFile, CopyOutOutcome, CopyOutRequest, FileNote, FileText, SnapshotFiles, Uncaptured};
use history::UserStore;
use sandbox::User;
use workspace::{CopiedOut, CopyOut, Listing};

use crate::{RecordError, Result};

/// The files whose contents a snapshot has: how many, and the first `limit` of them.
pub fn snapshot_files(store: &UserStore, which: &str, limit: usize) -> Result<SnapshotFiles> {
    let listing = files_of(store, which)?;
    let mut found = SnapshotFiles::default();
    for (path, _) in listing.files() {
        let Some(content) = listing.content(path) else { continue };
        found.count += 1;
        found.bytes = found.bytes.saturating_add(content.len);
        if found.files.len() < limit {
            found.files.push(FileNote { path: path.into(), bytes: content.len });
        }
    }
    Ok(found)
}

/// The text of a file of a snapshot, if it is one and not too long to be looked at.
pub fn file_text(store: &UserStore, which: &str, path: &Path) -> Result<FileText> {
    let (_, snapshot) = store.load(&store.resolve(which)?)?;
    let content = workspace::content_at(store.store(), &snapshot, path)?.ok_or_else(|| {
        RecordError::BadRequest { detail: format!("the snapshot has no file `{}`", path.display()) }
    })?;
    Ok(FileText { path: path.into(), bytes: content.len, text: store.text(&content)? })
}

/// Copies files of a snapshot with a user's rights.
pub fn copy_out(
    store: &UserStore,
    user: &User,
    which: &str,
    request: &CopyOutRequest,
) -> Result<CopyOutOutcome> {
    let from = files_of(store, which)?;
    let paths: Vec<PathBuf> = request.paths.iter().map(|path| path.as_os_str().into()).collect();
    let into = Path::new(request.to.as_os_str());
    let copy = CopyOut { store: store.store(), user, from: &from, paths: &paths, into };
    let CopiedOut { written, skipped } = copy.run()?;
    let copied = |(path, to): (PathBuf, PathBuf)| CopiedFile { path: path.into(), to: to.into() };
    let left = |(path, reason): (PathBuf, String)| Uncaptured { path: path.into(), reason };
    Ok(CopyOutOutcome {
        written: written.into_iter().map(copied).collect(),
        skipped: skipped.into_iter().map(left).collect(),
    })
}

fn files_of(store: &UserStore, which: &str) -> Result<Listing> {
    let (_, snapshot) = store.load(&store.resolve(which)?)?;
    Ok(Listing::of_snapshot(store.store(), &snapshot)?)
}
