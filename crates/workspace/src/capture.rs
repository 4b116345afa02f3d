//! Taking the files into a snapshot.
//!
//! Two halves, because every millisecond of the first one is a millisecond in which the user's program stands still.
//! [`begin`] runs while all processes are frozen and makes copies that nobody can change any more. [`Pending::finish`] runs
//! after the thaw and does what takes time: cutting, hashing, compressing, writing.
//!
//! What was captured before and has the same inode, size and ctime is not read again; its content is in the store. A ctime
//! can only be trusted if a change right after our look would have given another one. Clocks of file systems tick every few
//! milliseconds, so a file that changed a moment ago is entered without its ctime and read again the next time; so is a
//! file that is mapped for writing, because the kernel does not note each write to a page.
//!
//! Of files that are only open for reading, a restore needs that they have the same size. Small ones in the workspace are
//! captured like others; of the rest size and times are kept, so that a rollback can tell beforehand that it would fail.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::io_error;
use cas_core::progress::Progress;
use cas_core::{ObjectId, WriteTransaction};
use manifest::snapshot::{NotCaptured, OutsideSection, WorkspacePolicy, WorkspaceSection};
use manifest::tree::Time;
use manifest::{ByteText, Entry, Node};
use rustix::fs::{FileType, Mode, OFlags};
use sandbox::User;

use super::access::{Bases, Facts, file_name, open_below, open_descriptor, reason};
use super::build::Directory;
use super::listing::{Listing, content};
use super::open_files::{self, OpenFile};
use super::patterns::Patterns;
use super::stage::{Stage, Staged};
use super::walk::walk;
use super::{Base, Places, Spot};
use crate::error::Result;
use crate::policy::FilePolicy;

/// Files open for reading up to this size are captured, if they are in the workspace.
const READ_CAPTURED: u64 = 8 << 20;
/// Longer than any file system's clock takes for a tick.
const TICK: Duration = Duration::from_millis(50);
/// A snapshot's section lists that many paths; the rest is a number.
const LISTED: usize = 500;
/// What SQLite keeps beside a database. An older database with a newer log is a broken one.
pub(crate) const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// What to capture.
#[derive(Clone, Copy, Debug)]
pub struct CaptureRequest<'a> {
    /// Whose rights decide.
    pub user: &'a User,
    /// Where the files are.
    pub places: &'a Places,
    /// Which of them are wanted.
    pub policy: &'a FilePolicy,
    /// Files that are captured whatever the policy says: the notebook, and what a rollback is about to overwrite.
    pub named: &'a [PathBuf],
    /// A directory of ours for copies, on disk or in memory.
    pub staging: &'a Path,
    /// What the snapshot before knows.
    pub parent: &'a Listing,
}

/// Stable copies, on the way to the store. Holds no name on disk: dropping it leaves nothing behind.
#[derive(Debug)]
pub struct Pending {
    policy: WorkspacePolicy,
    places: Places,
    mapped: BTreeSet<(PathBuf, u64)>,
    stage: Stage,
    items: BTreeMap<PathBuf, Item>,
    not_captured: Vec<(PathBuf, String)>,
}

/// The files of a snapshot, in the store.
#[derive(Debug)]
pub struct Captured {
    /// Those of the workspace.
    pub workspace: WorkspaceSection,
    /// Those elsewhere.
    pub outside: OutsideSection,
    /// What is in neither, with its full path.
    pub not_captured: Vec<NotCaptured>,
}

#[derive(Debug)]
struct Item {
    path: PathBuf,
    entry: Entry,
    copy: Option<Staged>,
}

/// Takes stable copies. The processes are frozen, or there are none.
pub fn begin(request: &CaptureRequest<'_>, pids: &[i32]) -> Result<Pending> {
    let open = open_files::look(pids, request.places)?;
    let standing = open_files::working_directories(pids);
    let stage = Stage::new(request.staging).map_err(io_error("create a file in", request.staging))?;
    let mut taking = Taking {
        request: *request,
        trusted_before: trusted_before(),
        stage,
        items: BTreeMap::new(),
        not_captured: Vec::new(),
    };
    let outcome = sandbox::as_user(request.user, || {
        let outcome = taking.take(&open.files, &standing);
        (taking, outcome)
    })?;
    let (taking, outcome) = outcome;
    outcome.map_err(io_error("capture files of", workspace_of(request.places)))?;
    Ok(Pending {
        policy: match request.policy {
            FilePolicy::Open => WorkspacePolicy::Open,
            FilePolicy::Tree { .. } => WorkspacePolicy::Tree,
            FilePolicy::None => WorkspacePolicy::None,
        },
        places: request.places.clone(),
        mapped: open.mapped,
        stage: taking.stage,
        items: taking.items,
        not_captured: taking.not_captured,
    })
}

fn workspace_of(places: &Places) -> PathBuf {
    places.workspace.as_ref().map_or_else(|| PathBuf::from("/"), |(inside, _)| inside.clone())
}

/// Changes up to here have ctimes that a later change cannot have too.
fn trusted_before() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(TICK);
    Time { seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nanoseconds: since.subsec_nanos() }
}

/// The first half, on the user's thread.
struct Taking<'a> {
    request: CaptureRequest<'a>,
    trusted_before: Time,
    stage: Stage,
    items: BTreeMap<PathBuf, Item>,
    not_captured: Vec<(PathBuf, String)>,
}

impl Taking<'_> {
    fn take(&mut self, open: &[OpenFile], standing: &[PathBuf]) -> io::Result<()> {
        let bases = Bases::open(self.request.places)?;
        for file in open {
            self.open_file(&bases, file);
        }
        for path in self.request.named {
            self.by_name(&bases, path, true);
        }
        let captured: Vec<PathBuf> = self.captured().map(Path::to_owned).collect();
        for path in captured {
            self.companions(&bases, &path);
        }
        if let FilePolicy::Tree { include, exclude, max_bytes } = self.request.policy {
            let patterns = Patterns::new(include, exclude)?;
            self.tree(&bases, &patterns, *max_bytes)?;
        }
        self.directories(&bases, standing);
        Ok(())
    }

    fn captured(&self) -> impl Iterator<Item = &Path> {
        let has_content = |item: &&Item| item.copy.is_some() || content(&item.entry).is_some();
        self.items.values().filter(has_content).map(|item| item.path.as_path())
    }

    fn open_file(&mut self, bases: &Bases, file: &OpenFile) {
        if file.deleted {
            self.link_remaps(bases, file);
            return;
        }
        let small = file.facts.size <= READ_CAPTURED && self.request.places.in_workspace(&file.path);
        let wanted = match self.request.policy {
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
        let known = self.known(&file.path, &file.facts, file.mapped_written);
        if let Some(entry) = known {
            self.insert(&file.path, entry, None);
            return;
        }
        let opened = match file.descriptor {
            // A file that may be written but not read, by its name neither.
            Some((pid, fd)) => {
                open_descriptor(pid, fd).or_else(|error| self.open_same(bases, file).map_err(|_| error))
            }
            None => self.open_same(bases, file),
        };
        self.copy(&file.path, opened, &file.facts, file.mapped_written, true);
    }

    /// By name, if the name still leads to that file.
    fn open_same(&self, bases: &Bases, file: &OpenFile) -> io::Result<(File, Facts)> {
        let spot = self.request.places.spot(&file.path).ok_or(io::ErrorKind::NotFound)?;
        let (handle, facts) = bases.open_file(&spot, OFlags::RDONLY)?;
        if facts.ino != file.facts.ino {
            return Err(io::Error::other("its name leads to another file"));
        }
        Ok((handle, facts))
    }

    /// Captures what a name leads to. Nothing is said of one that is not there.
    fn by_name(&mut self, bases: &Bases, path: &Path, said: bool) {
        if self.items.get(path).is_some_and(|item| item.copy.is_some() || content(&item.entry).is_some()) {
            return;
        }
        let Some(spot) = self.request.places.spot(path) else { return };
        match bases.facts(&spot) {
            Ok(None) => {}
            Ok(Some(facts)) => {
                if let Some(entry) = self.known(path, &facts, false) {
                    self.insert(path, entry, None);
                } else {
                    let opened = bases.open_file(&spot, OFlags::RDONLY);
                    self.copy(path, opened, &facts, false, false);
                }
            }
            Err(error) if said => self.not_captured.push((path.to_owned(), reason(&error))),
            Err(_) => {}
        }
    }

    fn companions(&mut self, bases: &Bases, path: &Path) {
        for companion in companions_of(path) {
            if !self.items.contains_key(&companion) {
                self.by_name(bases, &companion, false);
            }
        }
    }

    /// CRIU gives a file whose name is gone, but which has another one, a name for the time of the dump:
    /// `link_remap.N` beside where it was. The restore looks for it there.
    fn link_remaps(&mut self, bases: &Bases, file: &OpenFile) {
        let found = (|| -> io::Result<Option<PathBuf>> {
            let Some(spot) = self.request.places.spot(&file.path) else { return Ok(None) };
            let (directory, _) = bases.parent(&spot)?;
            for item in rustix::fs::Dir::read_from(&directory)? {
                let item = item?;
                let name = item.file_name().to_bytes();
                if name.starts_with(b"link_remap.") && item.ino() == file.facts.ino {
                    return Ok(Some(file.path.with_file_name(std::ffi::OsStr::from_bytes(name))));
                }
            }
            Ok(None)
        })();
        match found {
            Ok(Some(path)) => self.by_name(bases, &path, true),
            Ok(None) => {}
            Err(error) => self.not_captured.push((file.path.clone(), reason(&error))),
        }
    }

    fn tree(&mut self, bases: &Bases, patterns: &Patterns, max_bytes: u64) -> io::Result<()> {
        let root = workspace_of(self.request.places);
        let Ok(handle) = bases.get(Base::Workspace) else { return Ok(()) };
        let walked = walk(handle, patterns)?;
        let left_out = walked.left_out.into_iter().map(|(path, reason)| (root.join(path), reason));
        self.not_captured.extend(left_out);
        let mut left = max_bytes;
        for seen in walked.seen {
            let path = root.join(&seen.path);
            if let Some(item) = self.items.get(&path).filter(|item| item.copy.is_some()) {
                left = left.saturating_sub(item.copy.as_ref().map_or(0, |_| seen.facts.size));
                continue;
            }
            match seen.facts.kind {
                FileType::RegularFile if seen.facts.size > left => {
                    self.fingerprint(&path, &seen.facts, false);
                    let text = format!("beyond the bound of {max_bytes} bytes");
                    self.not_captured.push((path, text));
                }
                FileType::RegularFile => {
                    left -= seen.facts.size;
                    self.by_name(bases, &path, true);
                }
                _ => self.other(handle, &seen.path, &path, &seen.facts),
            }
        }
        Ok(())
    }

    /// A directory, a link, a pipe: what it is, without content.
    fn other(&mut self, handle: std::os::fd::BorrowedFd<'_>, below: &Path, path: &Path, facts: &Facts) {
        let node = match facts.kind {
            FileType::Directory => Node::Dir { tree: ObjectId::from_bytes([0; 32]) },
            FileType::Symlink => {
                let flags = OFlags::PATH | OFlags::NOFOLLOW;
                let target = open_below(handle, below, flags, Mode::empty())
                    .and_then(|link| Ok(rustix::fs::readlinkat(&link, c"", Vec::new())?));
                match target {
                    Ok(target) if !target.is_empty() => {
                        Node::Symlink { target: ByteText::new(target.as_bytes()) }
                    }
                    _ => return,
                }
            }
            FileType::Fifo => Node::Fifo,
            FileType::Socket => Node::Socket,
            _ => {
                self.not_captured.push((path.to_owned(), "is a device".to_owned()));
                return;
            }
        };
        if let Ok(name) = file_name(path) {
            self.insert(path, facts.entry(name, node), None);
        }
    }

    /// The entry of the snapshot before, if nothing can have changed since.
    fn known(&self, path: &Path, facts: &Facts, mapped: bool) -> Option<Entry> {
        let entry = self.request.parent.entries.get(path)?;
        (!mapped && content(entry).is_some() && facts.unchanged_since(entry)).then(|| entry.clone())
    }

    fn copy(
        &mut self,
        path: &Path,
        opened: io::Result<(File, Facts)>,
        seen: &Facts,
        mapped: bool,
        needed: bool,
    ) {
        let outcome = opened.and_then(|(file, facts)| {
            let copy = self.stage.copy(&file, facts.size, facts.allocated)?;
            Ok((facts, copy, file_name(path)?))
        });
        match outcome {
            Ok((facts, copy, name)) => {
                let mut entry = facts.entry(name, Node::File { size: facts.size, content: None });
                if mapped || facts.ctime >= self.trusted_before {
                    entry.ctime = None;
                }
                self.insert(path, entry, Some(copy));
            }
            Err(error) => {
                self.fingerprint(path, seen, needed);
                self.not_captured.push((path.to_owned(), reason(&error)));
            }
        }
    }

    /// What a file looks like, without its content. Only one that the processes have open has a number: without that one
    /// as it was, a restore fails.
    fn fingerprint(&mut self, path: &Path, facts: &Facts, needed: bool) {
        if let (Ok(name), false) = (file_name(path), self.items.contains_key(path)) {
            let mut entry = facts.entry(name, Node::File { size: facts.size, content: None });
            if !needed {
                (entry.ino, entry.ctime) = (None, None);
            }
            self.insert(path, entry, None);
        }
    }

    fn insert(&mut self, path: &Path, entry: Entry, copy: Option<Staged>) {
        self.items.insert(path.to_owned(), Item { path: path.to_owned(), entry, copy });
    }

    /// The directories that lead to the files, and those that processes are in: a rollback may have to make them again.
    fn directories(&mut self, bases: &Bases, standing: &[PathBuf]) {
        let mut above: BTreeSet<PathBuf> = standing.iter().cloned().collect();
        let outer = standing.iter().flat_map(|path| path.ancestors().skip(1));
        above.extend(outer.filter(|path| path.file_name().is_some()).map(Path::to_owned));
        for path in self.captured() {
            above.extend(
                path.ancestors().skip(1).filter(|path| path.file_name().is_some()).map(Path::to_owned),
            );
        }
        for path in above {
            if self.items.contains_key(&path) {
                continue;
            }
            let Some(spot) = self.request.places.spot(&path) else { continue };
            if let Ok(Some(facts)) = directory_facts(bases, &spot)
                && let Ok(name) = file_name(&path)
            {
                let node = Node::Dir { tree: ObjectId::from_bytes([0; 32]) };
                self.insert(&path, facts.entry(name, node), None);
            }
        }
    }
}

fn directory_facts(bases: &Bases, spot: &Spot) -> io::Result<Option<Facts>> {
    if spot.below.as_os_str().is_empty() {
        return Ok(None);
    }
    Ok(bases.facts(spot)?.filter(Facts::is_dir))
}

/// The files that SQLite may keep beside a database.
pub(crate) fn companions_of(path: &Path) -> impl Iterator<Item = PathBuf> {
    COMPANIONS
        .map(|suffix| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        })
        .into_iter()
}

impl Pending {
    /// Puts the copies into the store. Durable after the transaction's commit.
    pub fn finish(self, transaction: &WriteTransaction, progress: &dyn Progress) -> Result<Captured> {
        let Self { policy, places, mapped, stage, mut items, not_captured } = self;
        // Libraries and other mapped files: CRIU compares them with what they were.
        for (path, ino) in mapped {
            if let (Some(facts), Ok(name)) =
                (open_files::facts_of_mapped(&path, ino, &places), file_name(&path))
            {
                let entry = facts.entry(name, Node::File { size: facts.size, content: None });
                items.entry(path.clone()).or_insert(Item { path, entry, copy: None });
            }
        }
        let root = workspace_of(&places);
        let (mut inside, mut outside) = (Directory::default(), Directory::default());
        for Item { path, mut entry, copy } in items.into_values() {
            if let Some(copy) = copy {
                let blob = transaction.put_blob(&mut stage.reader(&copy), progress)?;
                entry.node = Node::File { size: blob.len, content: Some(blob.into()) };
            }
            match path.strip_prefix(&root) {
                Ok(below) if policy != WorkspacePolicy::None || content(&entry).is_some() => {
                    inside.insert(below, entry);
                }
                // Without a policy there is no tree, but a rollback still wants to compare.
                _ => outside.insert(&path, entry),
            }
        }
        let tree = match (policy, inside.is_empty()) {
            (WorkspacePolicy::None, true) => None,
            _ => Some(inside.save(transaction)?),
        };
        let outside = if outside.is_empty() { None } else { Some(outside.save(transaction)?) };
        let (mut within, mut beyond) = (Vec::new(), Vec::new());
        for (path, reason) in &not_captured {
            match path.strip_prefix(&root) {
                Ok(below) => within.push((below, reason)),
                Err(_) => beyond.push((path.as_path(), reason)),
            }
        }
        let all = not_captured.iter().map(|(path, reason)| (path.as_path(), reason));
        Ok(Captured {
            workspace: WorkspaceSection {
                policy,
                root: ByteText::new(root.as_os_str().as_bytes()),
                tree,
                not_captured: listed(within),
            },
            outside: OutsideSection { tree: outside, not_captured: listed(beyond) },
            not_captured: listed(all.collect()),
        })
    }
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
        list.push(NotCaptured { path: "…".into(), reason: format!("and {rest} more") });
    }
    list
}

#[cfg(test)]
mod tests;
