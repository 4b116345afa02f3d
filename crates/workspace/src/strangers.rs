//! What is there now and was not, and goes when files are put back.
//!
//! Nothing goes that the automatic snapshot does not have as it is now. In a directory of a user's these are files. In a container's layer everything
//! is: whatever lies there hides a name of the image. A whiteout that goes lets a file of the image be seen again, and a whiteout that is to
//! come back needs a name that nobody has. So in a layer links, pipes, sockets, whiteouts and directories are strangers, too.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use base::io_error;
use manifest::{BlobRef, Entry, Node};
use rustix::fs::{AtFlags, FileType, OFlags};

use super::Spot;
use super::access::{Bases, Facts, kind_name, open_below, reason};
use super::capture::companions_of;
use super::layer::{is_whiteout, mark, marks_of, removed, says_removed};
use super::listing::{Listing, content};
use super::plan::is_sqlite;
use super::put_back::{PutBack, PutBackDone};
use super::taking::link_target;
use super::volumes::Whole;
use super::walk::walk_some;
use crate::error::Result;

/// Something that is there now and was not.
#[derive(Debug)]
pub(super) struct Stranger {
    pub(super) path: PathBuf,
    pub(super) spot: Spot,
    pub(super) facts: Facts,
}

/// What goes is in a snapshot.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kept<'a> {
    /// If it is in this one as it is now.
    In(&'a Listing),
    /// For certain: this is a copy of something that stays.
    Elsewhere,
}

impl PutBack<'_> {
    /// What is there now and was not: what SQLite keeps beside a database, and, if the snapshot has the whole directory, everything else in it. A
    /// directory comes after what is in it.
    pub(super) fn strangers(&self) -> Result<Vec<Stranger>> {
        let mut beside = Vec::new();
        for (path, entry) in self.to.files() {
            let Some(content) = content(entry) else { continue };
            for companion in companions_of(path).filter(|companion| !self.to.entries.contains_key(companion))
            {
                if let Some(spot) = self.spot(&companion) {
                    beside.push((companion, spot, content));
                }
            }
        }
        let rules = self
            .policy
            .rules(self.places.is_home(self.user))
            .map_err(io_error("look through", self.workspace_path()))?;
        let wholes = self.wholes();
        let (beside, walked) = sandbox::as_user(self.user, || -> io::Result<_> {
            let bases = Bases::open(self.places)?;
            let there = |(path, spot, content): (PathBuf, Spot, BlobRef)| {
                let facts = bases.facts(&spot).ok().flatten().filter(Facts::is_file)?;
                Some((Stranger { path, spot, facts }, content))
            };
            let beside: Vec<_> = beside.into_iter().filter_map(there).collect();
            let mut walked = Vec::new();
            for (rules, whole) in
                rules.iter().flat_map(|rules| wholes.iter().map(move |whole| (rules, whole)))
            {
                if let Ok(handle) = whole.open(&bases) {
                    let found = walk_some(handle.as_fd(), &rules.patterns, &whole.skipped, rules.names)?;
                    walked.push((whole, found));
                }
            }
            Ok((beside, walked))
        })?
        .map_err(io_error("look through", self.workspace_path()))?;
        let mut strangers = Vec::new();
        let beside = beside.into_iter().filter(|(found, _)| !self.places.is_read_only(&found.path));
        for (found, content) in beside {
            if is_sqlite(self.store, content)? {
                strangers.push(found);
            }
        }
        let listed: BTreeSet<PathBuf> = strangers.iter().map(|found| found.path.clone()).collect();
        for (whole, walked) in walked {
            for seen in walked.seen.into_iter().rev() {
                let path = whole.at.join(&seen.path);
                if self.is_strange(&path, &seen.facts)
                    && !listed.contains(&path)
                    && !self.spared.contains(&path)
                    && !self.places.is_read_only(&path)
                {
                    strangers.push(Stranger { path, spot: whole.spot_of(&seen.path), facts: seen.facts });
                }
            }
        }
        Ok(strangers)
    }

    /// Directories of which the snapshot has everything.
    fn wholes(&self) -> Vec<Whole> {
        let workspace = self.to.whole_tree.then(|| self.places.whole_workspace());
        let wanted = self.policy.volumes().iter().filter(|volume| self.to.volumes.contains(volume));
        workspace.into_iter().chain(wanted.filter_map(|volume| self.places.volume(volume).ok())).collect()
    }

    fn is_strange(&self, path: &Path, facts: &Facts) -> bool {
        if self.to.left_out(path) {
            return false;
        }
        let known = self.to.entries.get(path);
        if !self.is_in_layer(path) {
            return facts.is_file() && known.is_none();
        }
        match (facts.kind, known) {
            (FileType::BlockDevice, _) => false,
            (FileType::CharacterDevice, _) if !is_whiteout(facts) => false,
            (_, None) => true,
            // Seen and not captured: it cannot come back.
            (_, Some(Entry { node: Node::File { content: None, .. }, .. })) => false,
            (_, Some(entry)) => says_removed(entry) != is_whiteout(facts),
        }
    }

    pub(super) fn is_in_layer(&self, path: &Path) -> bool {
        self.places.is_layer && self.places.in_workspace(path)
    }

    /// Removes what may go.
    pub(super) fn remove_strangers(&self, kept: Kept<'_>, done: &mut PutBackDone) -> Result<()> {
        let strangers = self.strangers()?;
        if strangers.is_empty() {
            return Ok(());
        }
        let gone = sandbox::as_user(self.user, || -> io::Result<_> {
            let bases = Bases::open(self.places)?;
            let mut gone = PutBackDone::default();
            for stranger in strangers {
                self.remove(&bases, kept, stranger, &mut gone);
            }
            Ok(gone)
        })?
        .map_err(io_error("remove files of", self.user.name.as_str()))?;
        done.removed.extend(gone.removed);
        done.kept.extend(gone.kept);
        Ok(())
    }

    fn remove(&self, bases: &Bases, kept: Kept<'_>, stranger: Stranger, done: &mut PutBackDone) {
        let Stranger { path, spot, facts } = stranger;
        // What the snapshot has in the place of a whiteout needs that place, and a whiteout has nothing that could be lost.
        let known = self.to.entries.get(&path);
        let makes_room = is_whiteout(&facts) && known.is_some();
        let held = match kept {
            Kept::Elsewhere => true,
            Kept::In(_) if makes_room => true,
            Kept::In(listing) => {
                listing.entries.get(&path).is_some_and(|entry| holds(bases, &spot, entry, &facts))
            }
        };
        if !held {
            done.kept.push((path, format!("{}, and no snapshot has it as it is now", new(&facts))));
            return;
        }
        let outcome = match facts.is_dir() {
            true => remove_directory(bases, &spot, known.is_none()),
            false => unlink(bases, &spot, &facts).map(|()| true),
        };
        match outcome {
            Ok(true) => {
                self.remove_empty_parents(bases, &path, &spot);
                if !makes_room && !facts.is_dir() {
                    done.removed.push(path);
                }
            }
            Ok(false) => {}
            Err(error) => done.kept.push((path, reason(&error))),
        }
    }

    /// Directories that were made since go with the last file in them.
    fn remove_empty_parents(&self, bases: &Bases, path: &Path, spot: &Spot) {
        let inside = |path: &Path| {
            let is_ours = self.places.in_workspace(path)
                || (self.has_all_around(path) && !self.to.volumes.iter().any(|volume| volume == path));
            // Those of a layer are looked at one by one, after all that is in them.
            is_ours && !self.is_in_layer(path) && !self.to.entries.contains_key(path)
        };
        for (path, below) in path.ancestors().zip(spot.below.ancestors()).skip(1) {
            if below.as_os_str().is_empty() || !inside(path) {
                return;
            }
            let spot = Spot { base: spot.base, below: below.to_owned() };
            let gone = bases
                .parent(&spot)
                .and_then(|(parent, name)| Ok(rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?));
            if gone.is_err() {
                return;
            }
        }
    }
}

fn new(facts: &Facts) -> String {
    match facts.is_file() {
        true => "is new".to_owned(),
        false if is_whiteout(facts) => "was removed from what the image has".to_owned(),
        false => format!("is a new {}", kind_name(facts.kind)),
    }
}

/// Whether a snapshot has something as it is now. A file without a ctime was captured in the moment that it changed, or is mapped: its other
/// facts must do.
fn holds(bases: &Bases, spot: &Spot, entry: &Entry, facts: &Facts) -> bool {
    let base = || bases.get(spot.base).ok();
    match &entry.node {
        Node::File { .. } => holds_file(entry, facts),
        Node::Dir { .. } => {
            let marks = || marks_of(bases.directory(spot).ok()?).ok();
            facts.is_dir() && facts.is_owned_as(entry) && marks().is_some_and(|marks| marks == entry.xattrs)
        }
        Node::Symlink { target } => {
            let there = || link_target(base()?, &spot.below).ok();
            facts.kind == FileType::Symlink && there().is_some_and(|there| there == *target)
        }
        Node::Fifo => facts.kind == FileType::Fifo,
        Node::Socket => facts.kind == FileType::Socket,
        Node::Char { .. } => says_removed(entry) && is_whiteout(facts),
        Node::Block { .. } => false,
    }
}

/// Whether a snapshot has a file's content as it is now.
pub(super) fn holds_file(entry: &Entry, facts: &Facts) -> bool {
    let Node::File { size, content: Some(_) } = entry.node else { return false };
    facts.is_file()
        && entry.ino == Some(facts.ino)
        && size == facts.size
        && entry.mtime == facts.mtime
        && entry.ctime.is_none_or(|ctime| ctime == facts.ctime)
}

/// Removes what was looked at, if that is what still has the name.
fn unlink(bases: &Bases, spot: &Spot, seen: &Facts) -> io::Result<()> {
    let (parent, name) = bases.parent(spot)?;
    if !seen.is_file() {
        let now = super::access::facts_at(parent.as_fd(), name)?;
        if (now.kind, now.ino) != (seen.kind, seen.ino) {
            return Err(io::Error::other("is another thing by now"));
        }
    }
    Ok(rustix::fs::unlinkat(parent, name, AtFlags::empty())?)
}

/// A directory that the layer need not have goes if nothing is left in it. Otherwise it hides nothing of the image any more, if that is `shown` again.
/// Says whether it is gone.
fn remove_directory(bases: &Bases, spot: &Spot, shown: bool) -> io::Result<bool> {
    let (parent, name) = bases.parent(spot)?;
    match rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR) {
        Ok(()) => return Ok(true),
        Err(rustix::io::Errno::NOTEMPTY | rustix::io::Errno::EXIST) if shown => {}
        Err(rustix::io::Errno::NOTEMPTY | rustix::io::Errno::EXIST) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let handle = open_below(parent.as_fd(), Path::new(name), flags, rustix::fs::Mode::empty())?;
    let plain = removed(super::access::file_name(Path::new(name))?);
    mark(handle, &plain).map(|_| false)
}
