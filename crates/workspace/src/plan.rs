//! What a rollback would do to files, found out before anything is touched.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use base::io_error;
use cas_core::Store;
use manifest::{BlobRef, Entry, Node};
use rustix::fs::{FileType, OFlags};

use super::access::{Bases, Facts, kind_name, reason};
use super::authors::Author;
use super::capture::COMPANIONS;
use super::layer::is_whiteout;
use super::listing::content;
use super::put_back::PutBack;
use super::strangers::Stranger;
use super::{Base, Spot};
use crate::error::Result;

/// How many files are open at a time.
pub(super) const BATCH: usize = 64;
/// How a database of SQLite begins.
pub(super) const SQLITE: &[u8] = b"SQLite format 3\0";

/// What would be done.
#[derive(Clone, Default, Debug)]
pub struct Plan {
    /// Files that have another content now.
    pub write: Vec<PathBuf>,
    /// Files that are gone.
    pub create: Vec<PathBuf>,
    /// Files that were not there, as far as the automatic snapshot has them.
    pub remove: Vec<PathBuf>,
    /// How many files are as they were.
    pub unchanged: usize,
    /// Files to be overwritten that somebody else seems to have changed since the session's last snapshot.
    pub changed_by_others: Vec<PathBuf>,
    /// Files to be overwritten that changed since then, by the session or by somebody else: that cannot be told.
    pub unclear: Vec<PathBuf>,
    /// Files of the workspace that are left as they are now, because somebody else has made them so and no process needs them as they were.
    pub spared: Vec<PathBuf>,
    /// Files that a restore needs as they were, and that cannot be put back: it would fail.
    pub blocked: Vec<Blocked>,
}

/// A file that is in the way of a restore.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blocked {
    /// As the session sees it.
    pub path: PathBuf,
    /// For people.
    pub reason: String,
}

impl Plan {
    /// What the automatic snapshot must hold: everything that will be overwritten.
    pub fn touches(&self) -> Vec<PathBuf> {
        self.write.clone()
    }

    /// What people should hear of, though it is no reason to refuse.
    pub fn warnings(&self) -> Vec<String> {
        let is_companion = |path: &&PathBuf| {
            let name = path.as_os_str().as_bytes();
            COMPANIONS.iter().any(|suffix| name.ends_with(suffix.as_bytes()))
        };
        let removed: Vec<&PathBuf> = self.remove.iter().filter(|path| !is_companion(path)).collect();
        [
            (self.unclear.iter().collect(), "put back, though somebody else may have changed them; the automatic snapshot has them as they were"),
            (removed, "newer than the snapshot and taken away; the automatic snapshot has them"),
            (self.spared.iter().collect(), "left as they are, because somebody else changed them"),
        ]
        .into_iter()
        .filter(|(paths, _): &(Vec<&PathBuf>, _)| !paths.is_empty())
        .map(|(paths, what)| format!("{what}: {}", some_of(&paths)))
        .collect()
    }
}

/// The first of them, and how many more there are, for a sentence.
pub fn some_of(paths: &[impl AsRef<Path>]) -> String {
    const SHOWN: usize = 5;
    let mut words: Vec<String> =
        paths.iter().take(SHOWN).map(|path| format!("`{}`", path.as_ref().display())).collect();
    if paths.len() > SHOWN {
        words.push(format!("{} more", paths.len() - SHOWN));
    }
    words.join(", ")
}

/// What one file needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Action {
    Nothing,
    Write(Facts),
    Create,
    Blocked(String),
}

/// One file of the snapshot.
#[derive(Clone, Debug)]
pub(super) struct Step<'a> {
    pub(super) path: &'a Path,
    pub(super) spot: Spot,
    pub(super) entry: &'a Entry,
    pub(super) action: Action,
}

impl<'a> PutBack<'a> {
    /// Looks at everything, changes nothing.
    pub fn plan(&self) -> Result<Plan> {
        let mut plan = Plan::default();
        let mut written = Vec::new();
        for step in self.steps()? {
            match step.action {
                Action::Nothing => plan.unchanged += 1,
                Action::Create => plan.create.push(step.path.to_owned()),
                Action::Blocked(reason) => plan.blocked.push(Blocked { path: step.path.to_owned(), reason }),
                Action::Write(facts) if self.spares(step.path, &facts) => {
                    plan.spared.push(step.path.to_owned())
                }
                Action::Write(facts) => {
                    plan.write.push(step.path.to_owned());
                    written.push((step.path, step.spot, facts));
                }
            }
        }
        self.blame(written, &mut plan)?;
        for Stranger { path, facts, .. } in self.strangers()? {
            match facts.kind {
                // A name of the image that is there again, or is removed again after all.
                _ if is_whiteout(&facts) => match self.to.entries.contains_key(&path) {
                    true => {}
                    false => plan.create.push(path),
                },
                FileType::Directory => {}
                _ if self.spares(&path, &facts) => plan.spared.push(path),
                _ => {
                    if self.running && !self.is_of_user(&facts) {
                        plan.changed_by_others.push(path.clone());
                    }
                    plan.remove.push(path);
                }
            }
        }
        Ok(plan)
    }

    /// What each file of the snapshot needs.
    pub(super) fn steps(&self) -> Result<Vec<Step<'a>>> {
        let mut steps: Vec<Step<'a>> = self
            .to
            .files()
            .filter_map(|(path, entry)| {
                Some(Step { path, spot: self.spot(path)?, entry, action: Action::Nothing })
            })
            .collect();
        let seen = sandbox::as_user(self.user, || -> io::Result<Vec<_>> {
            let bases = Bases::open(self.places)?;
            Ok(steps.iter().map(|step| bases.facts(&step.spot)).collect())
        })?
        .map_err(io_error("open", "/"))?;
        for (step, seen) in steps.iter_mut().zip(seen).filter(|(step, _)| !self.spared.contains(step.path)) {
            let hides = |facts: &Facts| {
                self.places.is_layer && step.spot.base == Base::Workspace && is_whiteout(facts)
            };
            // A name that was removed is nothing.
            let seen = seen.map(|seen| seen.filter(|facts| !hides(facts)));
            step.action = first_look(step.entry, seen);
            if self.places.is_read_only(step.path) {
                self.only_read(step);
            }
        }
        // The same size says nothing about the bytes.
        let doubtful: Vec<&mut Step<'a>> = steps
            .iter_mut()
            .filter(|step| {
                let Node::File { size, .. } = step.entry.node else { return false };
                matches!(step.action, Action::Write(facts) if facts.size == size)
            })
            .collect();
        for mut batch in batches(doubtful) {
            let pairs: Vec<_> = batch.iter().map(|step| (&step.spot, content(step.entry))).collect();
            let same = self.same_contents(&pairs)?;
            for (step, same) in batch.iter_mut().zip(same) {
                if same {
                    step.action = Action::Nothing;
                }
            }
        }
        Ok(steps)
    }

    /// What may only be read is not written to, whatever a snapshot has of it. A process that had it open needs it all the same.
    fn only_read(&self, step: &mut Step<'_>) {
        let Node::File { size, .. } = step.entry.node else { return };
        step.action = match std::mem::replace(&mut step.action, Action::Nothing) {
            Action::Write(facts) if facts.size == size => Action::Nothing,
            _ if !self.to.needs(step.path) => Action::Nothing,
            Action::Write(facts) => Action::Blocked(format!(
                "has {} bytes, had {size} at the snapshot, and is where it may only be read",
                facts.size
            )),
            Action::Create => Action::Blocked("is gone, and was where it may only be read".to_owned()),
            other => other,
        };
    }

    /// Which files have exactly this content. One that cannot be read has not.
    pub(super) fn same_contents(&self, files: &[(&Spot, Option<BlobRef>)]) -> Result<Vec<bool>> {
        let mut same = Vec::with_capacity(files.len());
        for batch in files.chunks(BATCH) {
            let handles = sandbox::as_user(self.user, || {
                let bases = Bases::open(self.places)?;
                let open = |(spot, _): &(&Spot, _)| bases.open_file(spot, OFlags::RDONLY).ok();
                io::Result::Ok(batch.iter().map(open).collect::<Vec<_>>())
            })?
            .map_err(io_error("open", "/"))?;
            for ((_, content), handle) in batch.iter().zip(handles) {
                same.push(match (content, handle) {
                    (Some(content), Some((file, facts))) if facts.size == content.len => {
                        has_content(self.store, &file, *content)?
                    }
                    _ => false,
                });
            }
        }
        Ok(same)
    }

    /// Whether a file of the workspace stays as it is now: a document that an editor looks after, or something that somebody else has
    /// written. Not if processes of the snapshot had it open, or those of now write to it.
    fn spares(&self, path: &Path, facts: &Facts) -> bool {
        let is_needed = || {
            self.to.needs(path)
                || self.open.iter().any(|file| file.written && !file.deleted && file.path == path)
        };
        let is_document = || path.extension().is_some_and(|extension| extension == "ipynb");
        !self.force
            && self.has_all_around(path)
            && (is_document() || self.at_work.author(facts.ctime) == Author::Others)
            && !is_needed()
    }

    /// Whether a file can be the session's own by its owner. Where several users live, that tells nothing.
    fn is_of_user(&self, facts: &Facts) -> bool {
        self.places.many_owners || facts.uid == self.user.uid
    }

    /// Whether the snapshot has everything of the directory that a path is in.
    pub(super) fn has_all_around(&self, path: &Path) -> bool {
        self.to.has_all_around(self.places, path)
    }

    /// Where a path of the snapshot is now.
    pub(super) fn spot(&self, path: &Path) -> Option<Spot> {
        if self.to.is_of_lost_volume(self.places, path) { None } else { self.places.spot(path) }
    }

    /// Who changed the files that will be overwritten, since the last snapshot. What the session has open for writing is its own doing,
    /// unless none of its descriptors is where the file now ends: then it was not the last to write. Of what it does not have open, the
    /// times tell ([`super::AtWork`]); where they do not, what is in a directory that belongs to the session may be its own.
    fn blame(&self, written: Vec<(&Path, Spot, Facts)>, plan: &mut Plan) -> Result<()> {
        let open =
            |path: &Path| self.open.iter().find(|file| file.written && !file.deleted && file.path == path);
        let head = self.head.unwrap_or(self.to);
        let mut doubtful = Vec::new();
        for (path, spot, facts) in written {
            let known = head.entries.get(path);
            let author = self.at_work.author(facts.ctime);
            let own = match open(path) {
                Some(file) => file.own_end,
                None => author == Author::Session,
            };
            if !own && !known.is_some_and(|entry| facts.unchanged_since(entry)) {
                let its_place = self.has_all_around(path);
                let may_be_own = self.running
                    && its_place
                    && author != Author::Others
                    && self.is_of_user(&facts)
                    && open(path).is_none();
                doubtful.push((path, spot, known.and_then(content), may_be_own));
            }
        }
        let pairs: Vec<_> = doubtful.iter().map(|(_, spot, content, _)| (spot, *content)).collect();
        let same = self.same_contents(&pairs)?;
        for ((path, _, _, may_be_own), same) in doubtful.iter().zip(same) {
            match (same, may_be_own) {
                (true, _) => {}
                (false, true) => plan.unclear.push((*path).to_owned()),
                (false, false) => plan.changed_by_others.push((*path).to_owned()),
            }
        }
        Ok(())
    }

    /// The workspace as the session sees it.
    pub(super) fn workspace_path(&self) -> PathBuf {
        self.places.workspace.as_ref().map_or_else(|| PathBuf::from("/"), |(inside, _)| inside.clone())
    }
}

fn first_look(entry: &Entry, seen: io::Result<Option<Facts>>) -> Action {
    let Node::File { size, content } = entry.node else { return Action::Nothing };
    match (seen, content) {
        // Seen and not captured, and no process had it open.
        (_, None) if entry.ino.is_none() => Action::Nothing,
        (Err(error), _) => Action::Blocked(reason(&error)),
        (Ok(Some(facts)), _) if !facts.is_file() => {
            Action::Blocked(format!("is a {} now", kind_name(facts.kind)))
        }
        (Ok(None), Some(_)) => Action::Create,
        (Ok(Some(facts)), Some(_)) if facts.unchanged_since(entry) => Action::Nothing,
        (Ok(Some(facts)), Some(_)) => Action::Write(facts),
        (Ok(None), None) => Action::Blocked("is gone, and the snapshot does not have its content".to_owned()),
        (Ok(Some(facts)), None) if facts.size != size => Action::Blocked(format!(
            "has {} bytes, had {size} at the snapshot, and the snapshot does not have its content",
            facts.size
        )),
        (Ok(Some(_)), None) => Action::Nothing,
    }
}

/// Vectors of at most so many.
fn batches<T>(items: Vec<T>) -> impl Iterator<Item = Vec<T>> {
    let mut items = items.into_iter();
    std::iter::from_fn(move || {
        let batch: Vec<T> = items.by_ref().take(BATCH).collect();
        (!batch.is_empty()).then_some(batch)
    })
}

/// Whether a file has the bytes of a blob, and no others.
pub(super) fn has_content(store: &Store, file: &File, content: BlobRef) -> Result<bool> {
    let mut blob = store.open_blob(&content.into())?;
    let mut at = 0;
    let mut buffer = Vec::new();
    while let Some(chunk) = blob.next_chunk()? {
        buffer.resize(chunk.len(), 0);
        if file.read_exact_at(&mut buffer, at).is_err() || buffer != chunk {
            return Ok(false);
        }
        at += chunk.len() as u64;
    }
    Ok(true)
}

/// Whether a content is a database of SQLite.
pub(super) fn is_sqlite(store: &Store, content: BlobRef) -> Result<bool> {
    if content.len < 100 {
        return Ok(false);
    }
    let mut blob = store.open_blob(&content.into())?;
    Ok(blob.next_chunk()?.is_some_and(|chunk| chunk.starts_with(SQLITE)))
}
