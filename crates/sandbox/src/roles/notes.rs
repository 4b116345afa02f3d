//! `notes`: becomes CRIU, which finds notes about the kernel that nobody else on the machine sees. Why: see
//! [`own_notes_runner`](crate::own_notes_runner).

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};

use super::real_ids::{KDAT, lay_down};
use super::{Outcome, options, while_doing};

/// Options: `--kdat FILE`, the notes for this CRIU, and `--true-kdat FILE`, those for everybody. Behind `--` the program and its words.
pub(super) fn notes(words: Vec<OsString>) -> Outcome {
    let (mut own, mut of_all) = (None, None);
    let mut words = words.into_iter();
    let program = options(&mut words, |option, value| {
        match option {
            "--kdat" => own = Some(PathBuf::from(value)),
            "--true-kdat" => of_all = Some(PathBuf::from(value)),
            _ => return Err(format!("unknown option {option}")),
        }
        Ok(())
    })?;
    let own = own.ok_or("the notes are missing")?;

    // A file is mounted over a file. Another CRIU that finds this one must find the truth in it.
    if !Path::new(KDAT).exists() {
        lay_down(&of_all.ok_or("the notes for everybody are missing")?)?;
    }
    unshare(CloneFlags::CLONE_NEWNS).map_err(while_doing("make a mount namespace"))?;
    keep_to_ourselves(Path::new("/run"))?;
    mount_bind(&own, KDAT).map_err(while_doing(format!("mount `{}` over `{KDAT}`", own.display())))?;
    Err(while_doing(format!("run `{}`", program.display()))(Command::new(&program).args(words).exec()))
}

/// What is mounted in this directory from now on is not mounted anywhere else. Everything else stays in touch with the machine's mounts,
/// so that those that go meanwhile are not kept by us.
fn keep_to_ourselves(directory: &Path) -> Outcome<()> {
    let real = directory.canonicalize().map_err(while_doing(format!("find `{}`", directory.display())))?;
    for place in real.ancestors() {
        match mount_change(place, MountPropagationFlags::PRIVATE) {
            Ok(()) => return Ok(()),
            // It is no mount; what it lies on is.
            Err(Errno::INVAL) => {}
            Err(error) => {
                return Err(while_doing(format!("keep mounts in `{}`", place.display()))(error));
            }
        }
    }
    Err(format!("`{}` is on no mount", real.display()))
}
