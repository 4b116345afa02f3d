//! A second container beside the one that a session is: its own files, and which volumes both of them see.
//!
//! Its own layer is a copy of what the first one has written, as that is now, with what the snapshot has laid over it. A volume in which the snapshot has
//! files that were open for writing is copied, too: two programs that append to one log, or write one database, destroy it. All other volumes are
//! shared, and those that may be written to are named to whoever asked.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use base::io_error;
use containers::Kind;
use containers::beside::{Copied, Made, Second, copy_whole};
use lifecycle::Result;
use lifecycle::ports::{ContainerRecord, MadeBranch, Place, Record};
use workspace::{AtWork, BranchFiles, BranchFilesMade, Places, PutBack};

use crate::containers_here::{back_error, container_of, live, maker_of};

/// Where copies of volumes are, in the session's own directory.
const VOLUMES: &str = "volumes";

/// Makes it, for the branch that `record` is, and fills it. The record that comes of it says where it is.
pub(super) fn make(
    place: &Place,
    record: &Record,
    original: &Record,
    wanted: &BranchFiles<'_>,
) -> Result<MadeBranch> {
    let (container, of) = (container_of(record)?, container_of(original)?);
    let (specification, home) = (live(of)?, place.session(&record.id));
    let mut told = BranchFilesMade::default();
    let copies = home.join(VOLUMES);
    let volumes = Volumes::of(wanted);
    let seen = volumes.places(&copies);
    let second = Second {
        id: &container.id,
        of: &specification,
        bundle: &of.bundle,
        root: &original.files_at,
        home: &home,
        files: wanted.workspace,
        volumes: &seen,
    };
    let made = maker_of(of)?.beside(&second).map_err(back_error)?;
    // On layers of an image there is nothing to be copied of a model: what it has written is not the session's.
    let is_layered = !matches!(of.runtime.kind(), Kind::Runc | Kind::Crun);
    if !(of.is_model && is_layered) {
        copy(&original.files_at, &made.files, wanted, &mut told)?;
    }
    for volume in volumes.0.iter().filter(|volume| volume.fate == Fate::Copied) {
        fs::create_dir_all(&copies).map_err(io_error("create", &copies))?;
        copy(&volume.outside, &volume.place(&copies).1, wanted, &mut told)?;
    }
    told.shared = volumes.shared();
    let branch = Record {
        files_at: fs::canonicalize(&made.files).map_err(io_error("look at", &made.files))?,
        mapped: seen,
        container: Some(named(container, made)),
        ..record.clone()
    };
    lay_over(&branch, &volumes, wanted, &mut told)?;
    Ok((branch, told))
}

/// What is known of it now that it is there.
fn named(wanted: &ContainerRecord, made: Made) -> ContainerRecord {
    // Where the runtime gives ids, what was asked for is its name.
    let name = (made.id != wanted.id).then(|| wanted.id.to_string());
    ContainerRecord { id: made.id, name, bundle: made.bundle, ..wanted.clone() }
}

/// A directory or a file of this machine that the first one sees.
struct Volume {
    /// How many there were before it.
    number: usize,
    inside: PathBuf,
    outside: PathBuf,
    writable: bool,
    fate: Fate,
}

/// What the second one sees there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Shared,
    Copied,
}

impl Volume {
    /// As the second one sees it, and where that is.
    fn place(&self, copies: &Path) -> (PathBuf, PathBuf) {
        let outside = match self.fate {
            Fate::Shared => self.outside.clone(),
            Fate::Copied => copies.join(self.number.to_string()),
        };
        (self.inside.clone(), outside)
    }
}

/// The innermost last.
struct Volumes(Vec<Volume>);

impl Volumes {
    fn of(wanted: &BranchFiles<'_>) -> Self {
        let Places { mapped, read_only, .. } = wanted.source;
        let seen = mapped.iter().enumerate().map(|(number, (inside, outside))| Volume {
            number,
            inside: inside.clone(),
            outside: outside.clone(),
            writable: !read_only.contains(inside),
            fate: Fate::Shared,
        });
        let mut all: Vec<Volume> = seen.collect();
        all.sort_by_key(|volume| volume.inside.components().count());
        let files = wanted.from.files().map(|(path, _)| path);
        let files = files.filter(|path| wanted.from.content(path).is_some());
        // One that was chosen belongs to the snapshot also if it was empty.
        for path in files.chain(wanted.from.volumes.iter().map(PathBuf::as_path)) {
            if let Some(volume) = all.iter_mut().rev().find(|volume| path.starts_with(&volume.inside))
                && volume.fate == Fate::Shared
                && volume.writable
            {
                volume.fate = Fate::Copied;
            }
        }
        Self(all)
    }

    fn places(&self, copies: &Path) -> Vec<(PathBuf, PathBuf)> {
        self.0.iter().map(|volume| volume.place(copies)).collect()
    }

    /// What both of them may write to.
    fn shared(&self) -> Vec<PathBuf> {
        let shared = self.0.iter().filter(|volume| volume.fate == Fate::Shared && volume.writable);
        shared.map(|volume| volume.inside.clone()).collect()
    }

    /// Whether a file is the second one's own.
    fn is_own(&self, path: &Path) -> bool {
        let volume = self.0.iter().rev().find(|volume| path.starts_with(&volume.inside));
        volume.is_none_or(|volume| volume.fate == Fate::Copied)
    }
}

fn copy(from: &Path, to: &Path, wanted: &BranchFiles<'_>, told: &mut BranchFilesMade) -> Result<()> {
    let Copied { bytes, some_went } = copy_whole(from, to, wanted.max_bytes).map_err(back_error)?;
    told.bytes += bytes;
    if some_went {
        let from = from.display();
        told.warnings.push(format!("files of `{from}` went away while they were copied, and it lacks them"));
    }
    Ok(())
}

/// What the snapshot has, over what was copied. Nothing but the second one's own is touched.
fn lay_over(
    branch: &Record,
    volumes: &Volumes,
    wanted: &BranchFiles<'_>,
    told: &mut BranchFilesMade,
) -> Result<()> {
    let places = Places {
        workspace: Some((branch.workspace.clone(), branch.files_at.clone())),
        mapped: branch.mapped.clone(),
        ..wanted.source.clone()
    };
    let others = wanted.from.entries.keys().filter(|path| !volumes.is_own(path));
    let spared: BTreeSet<PathBuf> = others.cloned().collect();
    let put_back = PutBack {
        store: wanted.store,
        user: wanted.user,
        places: &places,
        policy: &branch.policy_back(wanted.from, &places),
        to: wanted.from,
        head: None,
        running: false,
        open: &[],
        at_work: &AtWork::unknown(),
        force: true,
        spared: &spared,
    };
    // What is overwritten and removed is a copy, so nothing need be kept of it.
    let done = put_back.run_in_copy()?;
    told.left_out.extend(done.kept);
    Ok(())
}
