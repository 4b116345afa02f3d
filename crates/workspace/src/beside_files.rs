//! Directories, links, pipes and whiteouts that a snapshot has, and whose everything is.
//!
//! In a user's own directory all that is made is the user's, and only what is missing is made. In a container several users live: what is put back
//! has the owner that it had, and a file whose bytes are as they were can have another owner now. There, directories come before the files in them,
//! so that nothing lies open to somebody for whom its directory was closed.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use manifest::{Entry, Node};
use rustix::fs::{AtFlags, Mode, OFlags};

use super::access::{Bases, kind_name, make_directory, open_below, own, own_link, reason};
use super::layer::{is_whiteout, make_whiteout, mark, says_removed};
use super::listing::content;
use super::plan::{Action, Step};
use super::put_back::{PutBackDone, Writer};
use super::{Base, Spot};
use crate::error::Result;

impl Writer<'_> {
    /// Directories as they were, before anything is put into them.
    pub(super) fn directories(&self, done: &mut PutBackDone) -> Result<()> {
        if !self.places.many_owners {
            return Ok(());
        }
        // What has no names was not looked at, and is made when something needs it.
        let is_known = |entry: &Entry| matches!(entry.node, Node::Dir { .. }) && entry.nlink != Some(0);
        self.each(
            done,
            |path, spot, entry| {
                if is_known(entry) { self.directory(path, spot, entry) } else { Ok(false) }
            },
        )
    }

    /// What has no content, and is gone: of a whole tree all of it, otherwise the directories of the processes.
    pub(super) fn what_is_missing(&self, done: &mut PutBackDone) -> Result<()> {
        self.each(done, |path, spot, entry| self.missing(path, spot, entry))
    }

    /// Files whose bytes are as they were may be somebody else's now.
    pub(super) fn owners(&self, steps: &[Step<'_>], done: &mut PutBackDone) -> Result<()> {
        if !self.places.many_owners {
            return Ok(());
        }
        let same =
            steps.iter().filter(|step| step.action == Action::Nothing && content(step.entry).is_some());
        let same = same.filter(|step| self.may_be_written(step.path));
        let kept = sandbox::as_user(self.user, || {
            let mut kept = Vec::new();
            for step in same {
                let outcome = match self.bases.facts(&step.spot) {
                    Ok(Some(facts)) if facts.is_file() && !facts.is_owned_as(step.entry) => {
                        let opened = self.bases.open_file(&step.spot, OFlags::RDONLY);
                        opened.and_then(|(file, _)| own(file, step.entry))
                    }
                    _ => continue,
                };
                if let Err(error) = outcome {
                    kept.push((step.path.to_owned(), format!("its owner stays: {}", reason(&error))));
                }
            }
            kept
        })?;
        done.kept.extend(kept);
        Ok(())
    }

    fn may_be_written(&self, path: &Path) -> bool {
        !self.places.is_read_only(path) && !self.spared.is_some_and(|spared| spared.contains(path))
    }

    /// Goes through all that the snapshot has, on the user's thread and in order: what leads to a path comes before it.
    fn each(
        &self,
        done: &mut PutBackDone,
        what: impl Fn(&Path, &Spot, &Entry) -> io::Result<bool> + Sync,
    ) -> Result<()> {
        let (created, kept) = sandbox::as_user(self.user, || {
            let (mut created, mut kept) = (Vec::<PathBuf>::new(), Vec::new());
            for (path, entry) in &self.to.entries {
                let Some(spot) = self.spot(path).filter(|_| self.may_be_written(path)) else { continue };
                match what(path, &spot, entry) {
                    Ok(true) => created.push(path.clone()),
                    Ok(false) => {}
                    Err(error) => kept.push((path.clone(), reason(&error))),
                }
            }
            (created, kept)
        })?;
        done.created.extend(created);
        done.kept.extend(kept);
        Ok(())
    }

    fn directory(&self, path: &Path, spot: &Spot, entry: &Entry) -> io::Result<bool> {
        let is_in_layer = self.places.is_layer && spot.base == Base::Workspace;
        self.make_room(spot)?;
        let Some(facts) = self.bases.facts(spot)? else {
            let parent = || self.bases.parent(spot);
            let (parent, name) = match parent() {
                // Those that lead there were not looked at.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.bases.make_parents(spot, |_| UNKNOWN)?;
                    parent()?
                }
                other => other?,
            };
            // Closed until it is its owner's.
            let made = make_directory(parent.as_fd(), name, 0o700)?;
            if is_in_layer {
                mark(&made, entry)?;
            }
            return own(made, entry).map(|()| true);
        };
        let is_all_of_it =
            self.to.has_all_around(self.places, path) && !self.to.volumes.iter().any(|one| one == path);
        if !facts.is_dir() || !is_all_of_it {
            return Ok(false);
        }
        let handle = self.bases.directory(spot)?;
        if is_in_layer {
            mark(&handle, entry)?;
        }
        if !facts.is_owned_as(entry) {
            own(handle, entry)?;
        }
        Ok(false)
    }

    fn missing(&self, path: &Path, spot: &Spot, entry: &Entry) -> io::Result<bool> {
        let many_owners = self.places.many_owners;
        let is_made = match &entry.node {
            Node::Symlink { .. } => true,
            Node::Dir { .. } => !many_owners,
            Node::Fifo => many_owners,
            Node::Char { .. } => {
                let is_layer = self.places.is_layer && spot.base == Base::Workspace;
                is_layer && says_removed(entry) && self.to.has_all_around(self.places, path)
            }
            Node::File { .. } | Node::Socket | Node::Block { .. } => false,
        };
        if !is_made {
            return Ok(false);
        }
        if !says_removed(entry) {
            self.make_room(spot)?;
        }
        match self.bases.facts(spot)? {
            None => {}
            Some(facts) if says_removed(entry) && !is_whiteout(&facts) => {
                return Err(io::Error::other(format!(
                    "is a {} now, and was removed then",
                    kind_name(facts.kind)
                )));
            }
            Some(_) => return Ok(false),
        }
        let (parent, name) = self.bases.parent(spot)?;
        match &entry.node {
            Node::Symlink { target } => {
                rustix::fs::symlinkat(OsStr::from_bytes(target.as_bytes()), &parent, name)?;
                if many_owners {
                    own_link(parent.as_fd(), name, entry)?;
                }
            }
            Node::Fifo => {
                rustix::fs::mkfifoat(&parent, name, Mode::RUSR | Mode::WUSR)?;
                // For both ways, so that it waits for nobody.
                let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
                own(open_below(parent.as_fd(), Path::new(name), flags, Mode::empty())?, entry)?;
            }
            Node::Char { .. } => make_whiteout(parent.as_fd(), name)?,
            _ => drop(make_directory(parent.as_fd(), name, entry.mode)?),
        }
        Ok(true)
    }

    /// A whiteout is in the way of what the snapshot has: it, or a directory that leads there, was removed from the layer since.
    pub(super) fn make_room(&self, spot: &Spot) -> io::Result<()> {
        if !self.places.is_layer || spot.base != Base::Workspace {
            return Ok(());
        }
        let mut above: Vec<&Path> = spot.below.ancestors().filter(|below| *below != Path::new("")).collect();
        above.reverse();
        for below in above {
            let spot = Spot { base: spot.base, below: below.to_owned() };
            match self.bases.facts(&spot)? {
                Some(facts) if is_whiteout(&facts) => return remove_whiteout(self.bases, &spot),
                Some(_) => {}
                None => break,
            }
        }
        Ok(())
    }
}

/// The mode of a directory of which nothing is known.
const UNKNOWN: u32 = 0o755;

fn remove_whiteout(bases: &Bases, spot: &Spot) -> io::Result<()> {
    let (parent, name) = bases.parent(spot)?;
    Ok(rustix::fs::unlinkat(parent, name, AtFlags::empty())?)
}
