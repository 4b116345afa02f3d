//! Which file systems of the machine a snapshot's processes see.
//!
//! A box is made with everything that is mounted on the machine at that moment, each under a name for CRIU. Snapshots know only
//! the names; what they stand for is in the record. After a restart a session can have other mounts, so the record keeps the
//! earlier ones, and a snapshot goes back to its own. What is not there any more is left out of the plain images, unless a
//! process has something open there.

use std::collections::BTreeSet;
use std::path::Path;

use cas_core::ObjectId;
use checkpoint_criu::images::{FileKind, Images, drop_mounts};
use manifest::Snapshot;

use crate::error::{LifecycleError, Result};
use crate::record::{MountRecord, Record};
use crate::section::SessionSection;

/// The mounts that are the session's own, and are there as long as it is.
const OWN: [&str; 2] = ["box", "workspace"];

/// The mounts that a snapshot of this session names. What the machine does not have any more is taken out of the images.
pub(crate) fn settle(
    record: &Record,
    commit: &ObjectId,
    snapshot: &Snapshot,
    images: &Path,
) -> Result<Vec<MountRecord>> {
    if record.attached {
        return Ok(record.mounts.clone());
    }
    let named = match snapshot.get::<SessionSection>()? {
        Some(section) => record.mounts_named(&section.mounts).map(<[_]>::to_vec),
        None => None,
    };
    // One of another session: the check of the images says what does not fit.
    let mounts = named.unwrap_or_else(|| record.mounts.clone());
    let is_there = |mount: &MountRecord| OWN.contains(&mount.key.as_str()) || mount.source.exists();
    let (mounts, gone): (Vec<_>, Vec<_>) = mounts.into_iter().partition(is_there);
    if !gone.is_empty() {
        leave_out(commit, &gone, images)?;
    }
    Ok(mounts)
}

/// Takes mounts, and what is mounted on them, out of the images.
fn leave_out(commit: &ObjectId, gone: &[MountRecord], images: &Path) -> Result<()> {
    let opened = Images::open(images)?;
    let mut numbers = BTreeSet::new();
    for (_, table) in opened.mountpoints()? {
        let is_gone = |key: &std::ffi::OsStr| gone.iter().any(|mount| key == mount.key.as_str());
        numbers
            .extend(table.iter().filter(|one| one.external_key().is_some_and(is_gone)).map(|one| one.mnt_id));
        // Parents stand before children, but nothing depends on it: a table is small.
        for _ in &table {
            numbers.extend(
                table
                    .iter()
                    .filter(|one| numbers.contains(&one.parent_mnt_id))
                    .map(|one| one.mnt_id)
                    .collect::<Vec<_>>(),
            );
        }
    }
    if numbers.is_empty() {
        return Ok(());
    }
    let on_it = |number: Option<i32>| {
        number.and_then(|number| u32::try_from(number).ok()).is_some_and(|number| numbers.contains(&number))
    };
    let files = opened.files()?;
    let open = files.iter().find_map(|file| match &file.kind {
        FileKind::Reg(file) if on_it(file.mnt_id) => Some(file.path().display().to_string()),
        FileKind::Unix(socket) if on_it(socket.mnt_id) => Some("a socket".to_owned()),
        _ => None,
    });
    if let Some(open) = open {
        let places: Vec<String> = gone.iter().map(|mount| format!("`{}`", mount.inside.display())).collect();
        let reason = format!(
            "{} had a file system of its own then that is not there now, and `{open}` was open on it",
            places.join(", ")
        );
        return Err(LifecycleError::Incompatible { commit: commit.short(), reasons: vec![reason] });
    }
    Ok(drop_mounts(images, &numbers)?)
}
