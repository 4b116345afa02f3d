//! Making the catalogue anew from the packs.
//!
//! Packs describe themselves, and their descriptions are not encrypted, so this needs no key. A pack whose footer is
//! damaged is salvaged: its whole objects are entered. A pack that cannot be read at this moment ends the rebuild instead: it is
//! not known to be damaged, and a catalogue without it would have forgotten what it holds. The new catalogue is built beside the old one, which is moved out
//! of the way first: at no instant is there a catalogue that knows less than the packs and looks whole.
//!
//! What is lost with the old catalogue is who was writing; so nobody may be, and nobody can begin to before this has ended.

use std::fs;
use std::path::{Path, PathBuf};

use crate::catalogue::{Catalogue, NewEntry, NewPack, remove_companions, remove_database, remove_if_there};
use crate::error::{Class, Result, StoreError};
use crate::fsio::{self, Disk, LocalDisk};
use crate::id::PackId;
use crate::layout::{Format, Layout};
use crate::lock;
use crate::pack::{self, FooterRecord, PackHeader, PackReader};
use crate::packs::{LocalPacks, Packs};
use crate::progress::{Progress, Task};

const UNFINISHED: &str = "catalogue.new-";

/// What a rebuild found.
#[derive(Debug, Default)]
pub struct RebuildReport {
    /// Packs that were entered.
    pub packs: u64,
    /// Objects that were entered.
    pub objects: u64,
    /// Damaged packs of which something was saved: what was wrong, objects saved, bytes lost.
    pub salvaged: Vec<(PackId, StoreError, u64, u64)>,
    /// Packs of which nothing could be saved.
    pub unusable: Vec<(PackId, StoreError)>,
}

/// Rebuilds the catalogue of the store at `root`, whose packs are files there.
pub fn rebuild(root: &Path, progress: &dyn Progress) -> Result<RebuildReport> {
    rebuild_from(root, &LocalPacks::below(root), progress)
}

/// Rebuilds the catalogue of the store at `root` from packs that are kept elsewhere.
pub fn rebuild_from(root: &Path, packs: &dyn Packs, progress: &dyn Progress) -> Result<RebuildReport> {
    let layout = Layout::new(root);
    Format::read(&layout)?;
    let _gc = lock::try_exclusive(&layout.lock("gc"))?
        .ok_or_else(|| StoreError::Locked { path: layout.lock("gc"), holder: "a gc".to_owned() })?;
    let gate = layout.lock("writers");
    let _writers = lock::try_exclusive(&gate)?
        .ok_or_else(|| StoreError::Locked { path: gate, holder: "a write transaction".to_owned() })?;

    let directory = layout.root();
    remove_unfinished(directory)?;
    let new = directory.join(format!("{UNFINISHED}{}", fsio::random_name()?));
    let result = fill(packs, &new, progress);
    if result.is_err() {
        remove_database(&new)?;
    }
    let report = result?;

    // From here to the last rename the store has no catalogue, and says so when it is opened.
    let (current, old) = (layout.catalogue(), directory.join("catalogue.old"));
    if current.exists() {
        remove_database(&old)?;
        fs::rename(&current, &old).map_err(StoreError::io("move away", &current))?;
    }
    remove_companions(&current)?;
    fs::rename(&new, &current).map_err(StoreError::io("move into place", &current))?;
    remove_companions(&new)?;
    LocalDisk.sync_dir(directory).map_err(StoreError::io("sync directory", directory))?;
    remove_database(&old)?;
    clean_up(&layout)?;
    Ok(report)
}

fn fill(packs: &dyn Packs, new: &Path, progress: &dyn Progress) -> Result<RebuildReport> {
    let ids = packs.list()?;
    progress.begin(Task::Rebuild, Some(ids.len() as u64));
    let mut report = RebuildReport::default();
    let mut load = Catalogue::bulk(new)?;
    for id in ids {
        if let Some((pack, records)) = read_pack(packs, id, &mut report)? {
            report.packs += 1;
            report.objects += records.len() as u64;
            load.add(&pack, &NewEntry::list(&records))?;
        }
        progress.advance(Task::Rebuild, 1);
    }
    load.finish()?.close()?;
    progress.end(Task::Rebuild);
    Ok(report)
}

/// What the catalogue shall know of a pack; nothing if nothing of it is whole.
fn read_pack(
    packs: &dyn Packs,
    id: PackId,
    report: &mut RebuildReport,
) -> Result<Option<(NewPack, Vec<FooterRecord>)>> {
    let bytes = packs.open(&id)?;
    let file_len = bytes.size()?;
    let row =
        |header: PackHeader| NewPack { id, class: header.class, epoch: header.epoch.unwrap_or(0), file_len };
    let whole = PackReader::new(bytes).and_then(|reader| Ok((*reader.header(), reader.footer(&id)?)));
    let damage = match whole {
        Ok((header, records)) => return Ok(Some((row(header), records))),
        Err(error) if error.class() == Class::Corruption => error,
        Err(error) => return Err(error),
    };
    match pack::salvage(&packs.open(&id)?)? {
        pack::Salvaged { header: Some(header), records, lost } if !records.is_empty() => {
            report.salvaged.push((id, damage, records.len() as u64, lost));
            Ok(Some((row(header), records)))
        }
        _ => {
            report.unusable.push((id, damage));
            Ok(None)
        }
    }
}

/// Removes what rebuilds that died had begun.
fn remove_unfinished(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory).map_err(StoreError::io("list", directory))? {
        let entry = entry.map_err(StoreError::io("list", directory))?;
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            remove_if_there(&entry.path())?;
        }
    }
    Ok(())
}

fn transaction_locks(layout: &Layout) -> Result<Vec<PathBuf>> {
    let directory = layout.root().join("locks");
    let mut paths = Vec::new();
    for entry in fs::read_dir(&directory).map_err(StoreError::io("list", &directory))? {
        let entry = entry.map_err(StoreError::io("list", &directory))?;
        if entry.file_name().to_string_lossy().starts_with("session-") {
            paths.push(entry.path());
        }
    }
    Ok(paths)
}

/// Removes what dead transactions left: their locks and temporary packs. The old catalogue knew them; the new one does not.
fn clean_up(layout: &Layout) -> Result<()> {
    let mut litter = transaction_locks(layout)?;
    let temporary = layout.temporary();
    for entry in fs::read_dir(&temporary).map_err(StoreError::io("list", &temporary))? {
        litter.push(entry.map_err(StoreError::io("list", &temporary))?.path());
    }
    litter.iter().try_for_each(|path| remove_if_there(path))
}
