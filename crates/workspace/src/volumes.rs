//! Directories of which everything belongs to a snapshot: the workspace, and volumes that somebody chose.
//!
//! A volume is a directory of this machine that is mounted in a container. Others may have it, too, so nothing of it belongs to a snapshot but what is
//! open for writing, unless somebody says so by name. What is mounted in it in turn is another volume.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use super::access::Bases;
use super::capture::workspace_of;
use super::walk::Skipped;
use super::{Base, Places, Spot, innermost};
use crate::error::{Result, WorkspaceError};
use crate::policy::FilePolicy;

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct Whole {
    /// As it is seen.
    pub(crate) at: PathBuf,
    pub(crate) spot: Spot,
    /// What is in it and belongs to something else.
    pub(crate) skipped: Skipped,
}

impl Whole {
    pub(crate) fn open(&self, bases: &Bases) -> io::Result<OwnedFd> {
        bases.directory(&self.spot)
    }

    /// A place in it.
    pub(crate) fn spot_of(&self, below: &Path) -> Spot {
        Spot { base: self.spot.base, below: self.spot.below.join(below) }
    }
}

impl FilePolicy {
    /// Refuses volumes that cannot belong to a snapshot: when it is asked for, and before anything stands still.
    pub fn check_volumes(&self, places: &Places) -> Result<()> {
        self.volumes().iter().try_for_each(|volume| places.volume(volume).map(drop))
    }

    /// As it is, with these volumes, but for those that are not there any more.
    #[must_use]
    pub fn with_volumes(self, more: &[PathBuf], places: &Places) -> Self {
        match self {
            Self::Tree { include, exclude, max_bytes, mut volumes } => {
                volumes.extend(more.iter().cloned());
                volumes.sort();
                volumes.dedup();
                volumes.retain(|volume| places.volume(volume).is_ok());
                Self::Tree { include, exclude, max_bytes, volumes }
            }
            other => other,
        }
    }
}

impl Places {
    pub(crate) fn whole_workspace(&self) -> Whole {
        let spot = Spot { base: Base::Workspace, below: PathBuf::new() };
        Whole { at: workspace_of(self), spot, skipped: self.skipped() }
    }

    /// A volume that somebody chose.
    pub(crate) fn volume(&self, chosen: &Path) -> Result<Whole> {
        let refused = |why: &str| WorkspaceError::Volume { path: chosen.to_owned(), why: why.to_owned() };
        let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        if !chosen.is_absolute() || !chosen.components().all(plain) {
            return Err(refused("it is not the full path of a directory"));
        }
        let mounted = self.mapped.iter().rev().find(|(inside, _)| inside == chosen);
        let Some((at, here)) = mounted else {
            return Err(refused(match self.private.iter().any(|private| chosen.starts_with(private)) {
                true => "it is in memory or the runtime's own",
                false => "no volume is mounted there",
            }));
        };
        if self.is_read_only(chosen) {
            return Err(refused("it may only be read there"));
        }
        let spot = self.spot(chosen).ok_or_else(|| refused("it is in memory or the runtime's own"))?;
        // Looked at again through a handle when it is opened.
        if !here.is_dir() {
            return Err(refused("it is no directory"));
        }
        let others = self.mapped.iter().map(|(inside, _)| inside).chain(&self.private);
        let others = others.filter_map(|inside| inside.strip_prefix(at).ok());
        let daemons = self.daemons.iter().filter_map(|daemons| daemons.strip_prefix(here).ok());
        let skipped: Vec<PathBuf> =
            others.filter(|below| *below != Path::new("")).map(Path::to_owned).collect();
        if self.is_copy(here) {
            // The daemon's own directory is around this one, and not in it.
            return Ok(Whole { at: at.clone(), spot, skipped: Skipped(skipped) });
        }
        let skipped = skipped.into_iter().chain(daemons.map(Path::to_owned)).collect();
        Ok(Whole { at: at.clone(), spot, skipped: Skipped(skipped) })
    }

    /// What is mounted around a path, other than the workspace.
    pub(crate) fn mounted_around(&self, path: &Path) -> Option<&PathBuf> {
        innermost(self.private.iter().chain(self.mapped.iter().map(|(inside, _)| inside)), |at| at, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_that_are_mounted_there_and_may_be_written_to_are_chosen() {
        let here = tempfile::tempdir().unwrap();
        let here = here.path().canonicalize().unwrap();
        std::fs::write(here.join("file"), "x").unwrap();
        let mapped = |at: &str, below: &str| (PathBuf::from(at), here.join(below));
        let places = Places {
            workspace: Some(("/".into(), "/real".into())),
            private: vec!["/run".into(), "/data/cache".into()],
            mapped: vec![mapped("/data", ""), mapped("/settings", ""), mapped("/data/file", "file")],
            read_only: vec!["/settings".into()],
            daemons: Some(here.join("daemon")),
            ..Places::default()
        };
        let whole = places.volume(Path::new("/data/")).unwrap();
        assert_eq!((whole.at.as_path(), whole.spot.base), (Path::new("/data"), Base::Root));
        assert_eq!(whole.skipped.0, ["file", "cache", "daemon"].map(PathBuf::from));
        let policy = |volume: &str| FilePolicy::Tree {
            include: Vec::new(),
            exclude: Vec::new(),
            max_bytes: 1,
            volumes: vec![volume.into()],
        };
        for (chosen, why) in [
            ("/elsewhere", "no volume"),
            ("/data/deep", "no volume"),
            ("/run/x", "in memory"),
            ("/settings", "only be read"),
            ("/data/file", "no directory"),
            ("/data/../data", "full path"),
            ("data", "full path"),
        ] {
            let said = policy(chosen).check_volumes(&places).unwrap_err().to_string();
            assert!(said.contains(why) && said.contains(chosen), "{said}");
        }
        let more = policy("/data").with_volumes(&["/gone".into(), "/data".into()], &places);
        assert_eq!(more, policy("/data"));
        assert_eq!(places.mounted_around(Path::new("/data/cache/x")), Some(&PathBuf::from("/data/cache")));
    }
}
