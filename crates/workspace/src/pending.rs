//! From stable copies to a snapshot: what is done when the processes run again.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use base::io_error;
use cas_core::WriteTransaction;
use cas_core::progress::Progress;
use manifest::snapshot::{NotCaptured, OutsideSection, WorkspacePolicy, WorkspaceSection};
use manifest::tree::Time;
use manifest::{BlobRef, ByteText, Node};
use rustix::fs::{FileType, OFlags};
use sandbox::User;

use super::access::{Bases, Facts, facts_of, file_name, reason};
use super::build::Directory;
use super::capture::{Captured, Wanted, workspace_of};
use super::in_order::InOrder;
use super::layer::{is_whiteout, marks_of, says_removed};
use super::listing::{Listing, MORE, content};
use super::open_files;
use super::plan::BATCH;
use super::taking::{Copy, Item, Taking};
use super::walk::walk_some;
use super::{Base, Places, Spot};
use crate::error::Result;

/// A snapshot's section lists that many paths; the rest is a number.
const LISTED: usize = 500;
/// Processes with more files open than that say nothing of which: all are taken for needed then.
const OPEN_LISTED: usize = 4096;

/// Stable copies, on the way to the store. Holds no name on disk: dropping it leaves nothing behind.
#[derive(Debug)]
pub struct Pending {
    pub(crate) policy: WorkspacePolicy,
    pub(crate) user: User,
    pub(crate) places: Places,
    /// When everything stood still.
    pub(crate) moment: Time,
    /// Volumes of which everything is wanted.
    pub(crate) volumes: Vec<PathBuf>,
    /// What was looked through ahead.
    pub(crate) again: Option<Wanted>,
    pub(crate) mapped: BTreeSet<(PathBuf, u64)>,
    pub(crate) taking: Taking,
}

impl Pending {
    /// Puts the copies into the store. Durable after the transaction's commit.
    pub fn finish(mut self, transaction: &WriteTransaction, progress: &dyn Progress) -> Result<Captured> {
        self.look_again()?;
        self.read_in_place(transaction, progress)?;
        let Self { policy, places, volumes, mapped, taking, .. } = self;
        let Taking { stage, mut items, not_captured, open, mut unchanged, .. } = taking;
        // Libraries and other mapped files: CRIU compares them with what they were.
        for (path, ino) in mapped {
            if let (Some(facts), Ok(name)) =
                (open_files::facts_of_mapped(&path, ino, &places), file_name(&path))
            {
                let entry = facts.entry(name, Node::File { size: facts.size, content: None });
                items.entry(path).or_insert_with_key(|path| {
                    unchanged.forget_above(path);
                    Item { entry, copy: Copy::No }
                });
            }
        }
        let root = workspace_of(&places);
        let (mut inside, mut outside) = (Directory::default(), Directory::default());
        let mut found = Vec::with_capacity(items.len());
        // A directory that is taken over: what is below it comes next, and is in its tree.
        let (mut whole, mut kept_bytes) = (None::<PathBuf>, 0_u64);
        for (path, Item { mut entry, copy }) in items {
            if let Copy::Staged(copy, _) = copy {
                let blob = transaction.put_blob(&mut stage.reader(&copy), progress)?;
                entry.node = Node::File { size: blob.len, content: Some(blob.into()) };
            }
            let taken_over = if let Node::Dir { tree } = &mut entry.node
                && let Some(before) = unchanged.get(&path)
            {
                *tree = before;
                true
            } else {
                false
            };
            match path.strip_prefix(&root) {
                _ if volumes.iter().any(|volume| path.starts_with(volume)) => {
                    outside.insert(&path, entry.clone());
                }
                Ok(_) if whole.as_ref().is_some_and(|above| path.starts_with(above)) => {
                    kept_bytes = kept_bytes.saturating_add(content(&entry).map_or(0, |content| content.len));
                }
                Ok(below) if taken_over => {
                    inside.insert_whole(below, entry.clone());
                    whole = Some(path.clone());
                }
                Ok(below) if policy != WorkspacePolicy::None || content(&entry).is_some() => {
                    inside.insert(below, entry.clone());
                }
                // Without a policy there is no tree, but a rollback still wants to compare.
                _ => outside.insert(&path, entry.clone()),
            }
            found.push((path, entry));
        }
        let mut made = Vec::new();
        let tree = match (policy, inside.is_empty()) {
            (WorkspacePolicy::None, true) => None,
            _ => Some(inside.save(transaction, &root, &mut made)?),
        };
        let tree = tree.map(|(id, bytes)| (id, bytes.saturating_add(kept_bytes)));
        let outside = match outside.is_empty() {
            true => None,
            false => Some(outside.save(transaction, Path::new("/"), &mut Vec::new())?),
        };
        // They are in order, so this does not look for the place of each.
        let mut listing = Listing { entries: found.into_iter().collect(), ..Listing::default() };
        for (path, tree) in made {
            if let Some(Node::Dir { tree: of_entry }) =
                listing.entries.get_mut(&path).map(|entry| &mut entry.node)
            {
                *of_entry = tree;
            }
        }
        let (mut within, mut beyond) = (Vec::new(), Vec::new());
        for (path, reason) in &not_captured {
            match path.strip_prefix(&root) {
                Ok(below) => within.push((below, reason)),
                Err(_) => beyond.push((path.as_path(), reason)),
            }
        }
        let all = not_captured.iter().map(|(path, reason)| (path.as_path(), reason));
        let open = open.iter().filter_map(|path| path.strip_prefix(&root).ok());
        let open: Vec<ByteText> = open.map(|path| ByteText::new(path.as_os_str().as_bytes())).collect();
        let workspace = WorkspaceSection {
            policy,
            root: ByteText::new(root.as_os_str().as_bytes()),
            tree,
            not_captured: listed(within),
            open: (open.len() <= OPEN_LISTED).then_some(open),
        };
        let volumes = volumes.iter().map(|volume| ByteText::new(volume.as_os_str().as_bytes())).collect();
        let outside = OutsideSection { tree: outside, not_captured: listed(beyond), volumes };
        listing.note(Some(&workspace), Some(&outside))?;
        Ok(Captured { workspace, outside, not_captured: listed(all.collect()), listing })
    }

    /// Takes what changed between the look ahead and the moment. What changed later is no part of this snapshot.
    fn look_again(&mut self) -> Result<()> {
        let Some(Wanted { rules, all }) = self.again.take() else { return Ok(()) };
        let (moment, taking) = (self.moment, &mut self.taking);
        let (user, places) = (&self.user, &self.places);
        sandbox::as_user(user, || -> io::Result<()> {
            let bases = Bases::open(places)?;
            for whole in &all {
                let Ok(handle) = whole.open(&bases) else { continue };
                let mut seen = walk_some(handle.as_fd(), &rules.patterns, &whole.skipped, rules.names)?.seen;
                let is_layer = places.is_layer && whole.spot.base == Base::Workspace;
                let mut taken = InOrder::new(&taking.items, &whole.at);
                seen.retain(|seen| {
                    let path = whole.at.join(&seen.path);
                    let item = taken.get(&path);
                    if taking.is_partly(&path) {
                        return false;
                    }
                    match seen.facts.kind {
                        FileType::RegularFile => {
                            seen.facts.size <= rules.file_bytes
                                && seen.facts.ctime <= moment
                                && !item.is_some_and(|item| item.is_of(&seen.facts))
                                && !taking.open.contains(&path)
                        }
                        // Its time may be that of a later one, which tells nothing; then the file stays that was found ahead.
                        FileType::CharacterDevice if is_layer => {
                            seen.facts.ctime <= moment
                                && is_whiteout(&seen.facts)
                                && !item.is_some_and(|item| says_removed(&item.entry))
                        }
                        FileType::Directory if is_layer => item.is_some_and(|item| says_removed(&item.entry)),
                        _ => false,
                    }
                });
                for missed in seen {
                    let path = whole.at.join(&missed.path);
                    taking.forget(&path);
                    if missed.facts.is_file() {
                        let opened = bases.open_file(&whole.spot_of(&missed.path), OFlags::RDONLY);
                        taking.copy(&path, opened, &missed.facts, false, false);
                    } else {
                        taking.other(places, handle.as_fd(), &missed.path, &path, &missed.facts);
                    }
                }
            }
            Ok(())
        })?
        .map_err(io_error("look through", workspace_of(places)))?;
        Ok(())
    }

    /// Reads what was not copied ahead. A file that has changed since the moment is not what it was then, and is left out.
    fn read_in_place(&mut self, transaction: &WriteTransaction, progress: &dyn Progress) -> Result<()> {
        let waiting: Vec<(PathBuf, Spot)> = self
            .taking
            .items
            .iter()
            .filter(|(_, item)| matches!(item.copy, Copy::InPlace(_)))
            .filter_map(|(path, _)| Some((path.clone(), self.places.spot(path)?)))
            .collect();
        let is_layer = self.places.is_layer;
        for batch in waiting.chunks(BATCH) {
            let (user, places) = (&self.user, &self.places);
            let opened = sandbox::as_user(user, || -> io::Result<Vec<_>> {
                let bases = Bases::open(places)?;
                Ok(batch.iter().map(|(_, spot)| bases.open_file(spot, OFlags::RDONLY)).collect())
            })?
            .map_err(io_error("open files of", workspace_of(places)))?;
            for ((path, _), opened) in batch.iter().zip(opened) {
                let Some(item) = self.taking.items.get_mut(path) else { continue };
                let Copy::InPlace(seen) = std::mem::replace(&mut item.copy, Copy::No) else { continue };
                let opened = opened.and_then(|(file, _)| match is_layer {
                    true => marks_of(&file).map(|_| file),
                    false => Ok(file),
                });
                match opened.map(|file| read_whole(file, &seen, transaction, progress)) {
                    Ok(blob) => match blob? {
                        Some(blob) => {
                            item.entry.node = Node::File { size: blob.len, content: Some(blob) };
                        }
                        None => self.left_out(path, &seen, "changed while the snapshot was taken".to_owned()),
                    },
                    Err(error) => self.left_out(path, &seen, reason(&error)),
                }
            }
        }
        Ok(())
    }

    fn left_out(&mut self, path: &Path, seen: &Facts, reason: String) {
        self.taking.items.remove(path);
        self.taking.unchanged.forget_above(path);
        self.taking.fingerprint(path, seen, false);
        self.taking.not_captured.push((path.to_owned(), reason));
    }
}

impl Item {
    /// Whether it was made of a file that was as this one is.
    fn is_of(&self, facts: &Facts) -> bool {
        match &self.copy {
            Copy::Staged(_, seen) | Copy::InPlace(seen) => seen.is_as(facts),
            // With a content it was in the snapshot before; without one it was left out.
            Copy::No => match self.entry.node {
                Node::File { content: None, .. } => true,
                _ => facts.unchanged_since(&self.entry),
            },
        }
    }
}

/// A file's content into the store, if it is all the time what was seen.
fn read_whole(
    mut file: File,
    seen: &Facts,
    transaction: &WriteTransaction,
    progress: &dyn Progress,
) -> Result<Option<BlobRef>> {
    let is_same = |file: &File| facts_of(file).is_ok_and(|facts| facts.is_as(seen));
    if !is_same(&file) {
        return Ok(None);
    }
    let blob = transaction.put_blob(&mut file, progress)?;
    Ok(is_same(&file).then(|| blob.into()))
}

/// A list of bounded length: a snapshot's manifest must not grow with the number of files that are not in it.
fn listed(items: Vec<(&Path, &String)>) -> Vec<NotCaptured> {
    let rest = items.len().saturating_sub(LISTED);
    let mut list: Vec<NotCaptured> = items
        .into_iter()
        .take(LISTED)
        .map(|(path, reason)| NotCaptured {
            path: ByteText::new(path.as_os_str().as_bytes()),
            reason: reason.clone(),
        })
        .collect();
    if rest > 0 {
        list.push(NotCaptured { path: MORE.into(), reason: format!("and {rest} more") });
    }
    list
}
