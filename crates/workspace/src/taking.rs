//! What is being taken into a snapshot, file by file, on a thread with the user's rights.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use base::io_error;
use cas_core::ObjectId;
use manifest::tree::Time;
use manifest::{ByteText, Entry, Node};
use rustix::fs::{FileType, Mode, OFlags};

use super::access::{Bases, Facts, file_name, open_below, open_descriptor, reason};
use super::capture::{CaptureRequest, Wanted, companions_of, trusted_before, workspace_of};
use super::in_order::InOrder;
use super::layer;
use super::listing::content;
use super::open_files::OpenFile;
use super::stage::{Stage, Staged};
use super::unchanged::Unchanged;
use super::volumes::Whole;
use super::walk::walk_some;
use super::{Base, Places, Spot};
use crate::error::Result;
use crate::policy::{FilePolicy, Rules};

/// Files open for reading up to this size are captured, if they are in the workspace.
const READ_CAPTURED: u64 = 8 << 20;
/// So much of what is new is copied ahead. The rest is read where it lies, afterwards: the first snapshot of a large directory need not copy it.
const COPIED_AHEAD: u64 = 256 << 20;

/// What was taken so far.
#[derive(Debug)]
pub(crate) struct Taking {
    pub(crate) stage: Stage,
    pub(crate) items: BTreeMap<PathBuf, Item>,
    pub(crate) not_captured: Vec<(PathBuf, String)>,
    /// Directories that are as they were.
    pub(crate) unchanged: Unchanged,
    /// Directories of which the layer has a part, and nothing is taken.
    pub(crate) partly: Vec<PathBuf>,
    /// Files that processes have open.
    pub(crate) open: BTreeSet<PathBuf>,
    trusted_before: Time,
    copied_ahead: u64,
    /// The workspace is a layer, and what it has of a file need not be all of it.
    is_layer: bool,
}

#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) entry: Entry,
    pub(crate) copy: Copy,
}

/// Where the content of a file is until it is in the store.
#[derive(Debug)]
pub(crate) enum Copy {
    /// It is there already, or not wanted.
    No,
    /// In a stable copy.
    Staged(Staged, Facts),
    /// Where it was seen, and is read later.
    InPlace(Facts),
}

impl Item {
    fn has_content(&self) -> bool {
        !matches!(self.copy, Copy::No) || content(&self.entry).is_some()
    }
}

impl Taking {
    pub(crate) fn new(request: &CaptureRequest<'_>) -> Result<Self> {
        let staging = request.staging;
        let stage = Stage::new(staging).map_err(io_error("create a file in", staging))?;
        Ok(Self {
            stage,
            items: BTreeMap::new(),
            not_captured: Vec::new(),
            unchanged: Unchanged::default(),
            partly: Vec::new(),
            open: BTreeSet::new(),
            trusted_before: trusted_before(),
            copied_ahead: 0,
            is_layer: request.places.is_layer,
        })
    }

    /// Does something with the rights of the user whose files they are.
    pub(crate) fn on_the_users_thread(
        &mut self,
        request: &CaptureRequest<'_>,
        work: impl FnOnce(&mut Self, &Bases) -> io::Result<()> + Send,
    ) -> Result<()> {
        self.trusted_before = trusted_before();
        sandbox::as_user(request.user, || work(self, &Bases::open(request.places)?))?
            .map_err(io_error("capture files of", workspace_of(request.places)))?;
        Ok(())
    }

    /// What processes have open, what was named, what SQLite keeps beside either, and the directories that lead there.
    pub(crate) fn open_and_named(
        &mut self,
        request: &CaptureRequest<'_>,
        bases: &Bases,
        open: &[OpenFile],
        standing: &[PathBuf],
    ) {
        for file in open {
            self.open_file(request, bases, file);
        }
        for path in request.named {
            self.by_name(request, bases, path, true);
        }
        let mut taken: BTreeSet<PathBuf> = open.iter().map(|file| file.path.clone()).collect();
        taken.extend(request.named.iter().cloned());
        taken.retain(|path| self.items.get(path).is_some_and(Item::has_content));
        for companion in taken.iter().flat_map(|path| companions_of(path)) {
            if !self.items.contains_key(&companion) {
                self.by_name(request, bases, &companion, false);
            }
        }
        let leading = taken.iter().flat_map(|path| path.ancestors().skip(1));
        let inside = standing.iter().flat_map(|path| path.ancestors());
        self.directories(request.places, bases, leading.chain(inside));
    }

    fn open_file(&mut self, request: &CaptureRequest<'_>, bases: &Bases, file: &OpenFile) {
        if file.deleted {
            self.link_remaps(request, bases, file);
            return;
        }
        self.open.insert(file.path.clone());
        let small = file.facts.size <= READ_CAPTURED && request.places.in_workspace(&file.path);
        let wanted = match request.policy {
            FilePolicy::None => false,
            _ => file.written || (small && file.descriptor.is_some()),
        };
        if !wanted {
            // One that may grow freely needs no comparison.
            if !file.append_only {
                self.fingerprint(&file.path, &file.facts, true);
            }
            return;
        }
        let seen = as_it_lies(request.places, bases, &file.path, file.facts);
        if let Some(entry) = known(request, &file.path, &seen, file.mapped_written) {
            self.insert(&file.path, entry, Copy::No);
            return;
        }
        let opened = match file.descriptor {
            // A file that may be written but not read, by its name neither.
            Some((pid, fd)) => {
                open_descriptor(pid, fd).or_else(|error| open_same(request, bases, file).map_err(|_| error))
            }
            None => open_same(request, bases, file),
        };
        let opened = opened.map(|(handle, facts)| {
            let facts = as_it_lies(request.places, bases, &file.path, facts);
            (handle, facts)
        });
        self.copy(&file.path, opened, &file.facts, file.mapped_written, true);
    }

    /// Captures what a name leads to. Nothing is said of one that is not there.
    fn by_name(&mut self, request: &CaptureRequest<'_>, bases: &Bases, path: &Path, said: bool) {
        if self.items.get(path).is_some_and(Item::has_content) {
            return;
        }
        let Some(spot) = request.places.spot(path) else { return };
        match bases.facts(&spot) {
            Ok(None) => {}
            Ok(Some(facts)) => match known(request, path, &facts, false) {
                Some(entry) => self.insert(path, entry, Copy::No),
                None => {
                    let opened = bases.open_file(&spot, OFlags::RDONLY);
                    self.copy(path, opened, &facts, false, false);
                }
            },
            Err(error) if said => self.not_captured.push((path.to_owned(), reason(&error))),
            Err(_) => {}
        }
    }

    /// CRIU gives a file whose name is gone, but which has another one, a name for the time of the dump:
    /// `link_remap.N` beside where it was. The restore looks for it there.
    fn link_remaps(&mut self, request: &CaptureRequest<'_>, bases: &Bases, file: &OpenFile) {
        let found = (|| -> io::Result<Option<PathBuf>> {
            let Some(spot) = request.places.spot(&file.path) else { return Ok(None) };
            let (directory, _) = bases.parent(&spot)?;
            for item in rustix::fs::Dir::read_from(&directory)? {
                let item = item?;
                let name = item.file_name().to_bytes();
                if name.starts_with(b"link_remap.") && item.ino() == file.facts.ino {
                    return Ok(Some(file.path.with_file_name(OsStr::from_bytes(name))));
                }
            }
            Ok(None)
        })();
        match found {
            Ok(Some(path)) => self.by_name(request, bases, &path, true),
            Ok(None) => {}
            Err(error) => self.not_captured.push((file.path.clone(), reason(&error))),
        }
    }

    /// Everything that is wanted of whole directories. Ahead of the moment not all of it need be copied.
    pub(crate) fn trees(
        &mut self,
        request: &CaptureRequest<'_>,
        bases: &Bases,
        wanted: &Wanted,
        is_ahead: bool,
    ) -> io::Result<()> {
        let mut left = wanted.rules.bytes;
        for whole in &wanted.all {
            self.tree(request, bases, &wanted.rules, whole, &mut left, is_ahead)?;
        }
        Ok(())
    }

    fn tree(
        &mut self,
        request: &CaptureRequest<'_>,
        bases: &Bases,
        rules: &Rules,
        whole: &Whole,
        left: &mut u64,
        is_ahead: bool,
    ) -> io::Result<()> {
        let root = &whole.at;
        let handle = match whole.open(bases) {
            Ok(handle) => handle,
            // A workspace that is gone has no files.
            Err(_) if whole.spot.base == Base::Workspace => return Ok(()),
            Err(error) => {
                self.not_captured.push((root.clone(), reason(&error)));
                return Ok(());
            }
        };
        let walked = walk_some(handle.as_fd(), &rules.patterns, &whole.skipped, rules.names)?;
        let left_out = walked.left_out.into_iter().map(|(path, reason)| (root.join(path), reason));
        self.not_captured.extend(left_out);
        let mut before = InOrder::new(&request.parent.entries, root);
        // Most files are as they were. They are entered together at the end, in the order in which they were seen.
        let mut as_they_were = Vec::new();
        for seen in walked.seen {
            let (path, facts) = (root.join(&seen.path), seen.facts);
            if self.is_partly(&path) {
                continue;
            }
            if self.items.get(&path).is_some_and(Item::has_content) {
                *left = left.saturating_sub(facts.size);
                continue;
            }
            match facts.kind {
                FileType::RegularFile if facts.size > (*left).min(rules.file_bytes) => {
                    let bound = if facts.size > rules.file_bytes { rules.file_bytes } else { rules.bytes };
                    self.fingerprint(&path, &facts, false);
                    self.not_captured.push((path, format!("beyond the bound of {bound} bytes")));
                }
                FileType::RegularFile => {
                    *left -= facts.size;
                    if let Some(entry) = before.get(&path).filter(|entry| is_known(entry, &facts)) {
                        as_they_were.push((path, Item { entry: entry.clone(), copy: Copy::No }));
                    } else if is_ahead && facts.size > COPIED_AHEAD - self.copied_ahead {
                        self.later(&path, facts);
                    } else {
                        self.copied_ahead += if is_ahead { facts.size } else { 0 };
                        let spot = whole.spot_of(&seen.path);
                        self.copy(&path, bases.open_file(&spot, OFlags::RDONLY), &facts, false, false);
                    }
                }
                _ => self.other(request.places, handle.as_fd(), &seen.path, &path, &facts),
            }
        }
        self.items.append(&mut as_they_were.into_iter().collect());
        // Those in it were seen by themselves.
        self.directories(request.places, bases, root.ancestors());
        Ok(())
    }

    /// A directory, a link, a pipe: what it is, without content.
    pub(crate) fn other(
        &mut self,
        places: &Places,
        handle: BorrowedFd<'_>,
        below: &Path,
        path: &Path,
        facts: &Facts,
    ) {
        let Ok(name) = file_name(path) else { return };
        let is_layer = places.is_layer && places.in_workspace(path);
        let node = match facts.kind {
            FileType::Directory => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
                let opened = || open_below(handle, below, flags, Mode::empty());
                match is_layer.then(|| opened().and_then(layer::marks_of)).transpose() {
                    Ok(marks) => {
                        let entry = facts.entry(name, Node::Dir { tree: ObjectId::from_bytes([0; 32]) });
                        self.insert(path, Entry { xattrs: marks.unwrap_or_default(), ..entry }, Copy::No);
                        return;
                    }
                    Err(error) => {
                        self.not_captured.push((path.to_owned(), reason(&error)));
                        self.partly.push(path.to_owned());
                        return;
                    }
                }
            }
            FileType::Symlink => match link_target(handle, below) {
                // A way into what the daemon keeps, such as a branch's files, is no part of anybody's work.
                Ok(target) if places.is_daemons(Path::new(OsStr::from_bytes(target.as_bytes()))) => {
                    return;
                }
                Ok(target) if !target.as_bytes().is_empty() => Node::Symlink { target },
                _ => return,
            },
            FileType::Fifo => Node::Fifo,
            FileType::Socket => Node::Socket,
            _ if is_layer && layer::is_whiteout(facts) => {
                self.insert(path, layer::removed(name), Copy::No);
                return;
            }
            _ => {
                self.not_captured.push((path.to_owned(), "is a device".to_owned()));
                return;
            }
        };
        self.insert(path, facts.entry(name, node), Copy::No);
    }

    /// Whether a path is in a directory that the layer has in part.
    pub(crate) fn is_partly(&self, path: &Path) -> bool {
        self.partly.iter().any(|above| path.starts_with(above))
    }

    /// Makes a stable copy of a file.
    pub(crate) fn copy(
        &mut self,
        path: &Path,
        opened: io::Result<(File, Facts)>,
        seen: &Facts,
        mapped: bool,
        needed: bool,
    ) {
        let is_layer = self.is_layer;
        let outcome = opened.and_then(|(file, facts)| {
            if is_layer {
                layer::marks_of(&file)?;
            }
            let copy = self.stage.copy(&file, facts.size, facts.allocated)?;
            Ok((facts, copy, file_name(path)?))
        });
        match outcome {
            Ok((facts, copy, name)) => {
                let mut entry = facts.entry(name, Node::File { size: facts.size, content: None });
                if mapped || facts.ctime >= self.trusted_before {
                    entry.ctime = None;
                }
                self.insert(path, entry, Copy::Staged(copy, facts));
            }
            Err(error) => {
                self.fingerprint(path, seen, needed);
                self.not_captured.push((path.to_owned(), reason(&error)));
            }
        }
    }

    /// A file that is read when nothing waits for it.
    fn later(&mut self, path: &Path, facts: Facts) {
        if let Ok(name) = file_name(path) {
            let entry = facts.entry(name, Node::File { size: facts.size, content: None });
            self.insert(path, entry, Copy::InPlace(facts));
        }
    }

    /// What a file looks like, without its content. Only one that the processes have open has a number: without that one
    /// as it was, a restore fails.
    pub(crate) fn fingerprint(&mut self, path: &Path, facts: &Facts, needed: bool) {
        if let (Ok(name), false) = (file_name(path), self.items.contains_key(path)) {
            let mut entry = facts.entry(name, Node::File { size: facts.size, content: None });
            if !needed {
                (entry.ino, entry.ctime) = (None, None);
            }
            self.insert(path, entry, Copy::No);
        }
    }

    /// It is another thing by now.
    pub(crate) fn forget(&mut self, path: &Path) {
        self.unchanged.forget_above(path);
        if let Some(Item { entry: Entry { node: Node::Dir { .. }, .. }, .. }) = self.items.remove(path) {
            self.items.retain(|below, _| !below.starts_with(path));
        }
    }

    fn insert(&mut self, path: &Path, entry: Entry, copy: Copy) {
        self.unchanged.forget_above(path);
        self.items.insert(path.to_owned(), Item { entry, copy });
    }

    /// Directories as they are: a rollback may have to make them again.
    fn directories<'a>(&mut self, places: &Places, bases: &Bases, paths: impl Iterator<Item = &'a Path>) {
        let wanted: BTreeSet<&Path> = paths.filter(|path| path.file_name().is_some()).collect();
        for path in wanted {
            if self.items.contains_key(path) {
                continue;
            }
            let Some(spot) = places.spot(path) else { continue };
            if let Ok(Some(facts)) = directory_facts(bases, &spot)
                && let Ok(base) = bases.get(spot.base)
            {
                self.other(places, base, &spot.below, path, &facts);
            }
        }
    }
}

/// The entry of the snapshot before, if nothing can have changed since.
fn known(request: &CaptureRequest<'_>, path: &Path, facts: &Facts, mapped: bool) -> Option<Entry> {
    let entry = request.parent.entries.get(path)?;
    (!mapped && is_known(entry, facts)).then(|| entry.clone())
}

/// Whether an entry of the snapshot before says all of a file that looks like this.
fn is_known(entry: &Entry, facts: &Facts) -> bool {
    content(entry).is_some() && facts.unchanged_since(entry)
}

/// How an open file looks by its name where it lies. An overlay, or a mount with other owners, shows some of that in another way.
fn as_it_lies(places: &Places, bases: &Bases, path: &Path, seen: Facts) -> Facts {
    let spot = if places.many_owners { places.spot(path) } else { None };
    let lies = spot.and_then(|spot| bases.facts(&spot).ok().flatten()).filter(Facts::is_file);
    lies.filter(|lies| (lies.size, lies.mtime, lies.ctime) == (seen.size, seen.mtime, seen.ctime))
        .unwrap_or(seen)
}

/// Where a link leads.
pub(crate) fn link_target(base: BorrowedFd<'_>, below: &Path) -> io::Result<ByteText> {
    let link = open_below(base, below, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())?;
    Ok(ByteText::new(rustix::fs::readlinkat(&link, c"", Vec::new())?.into_bytes()))
}

/// By name, if the name still leads to that file.
fn open_same(request: &CaptureRequest<'_>, bases: &Bases, file: &OpenFile) -> io::Result<(File, Facts)> {
    let spot = request.places.spot(&file.path).ok_or(io::ErrorKind::NotFound)?;
    let (handle, facts) = bases.open_file(&spot, OFlags::RDONLY)?;
    if facts.ino != file.facts.ino {
        return Err(io::Error::other("its name leads to another file"));
    }
    Ok((handle, facts))
}

fn directory_facts(bases: &Bases, spot: &Spot) -> io::Result<Option<Facts>> {
    if spot.below.as_os_str().is_empty() {
        return Ok(None);
    }
    Ok(bases.facts(spot)?.filter(Facts::is_dir))
}
