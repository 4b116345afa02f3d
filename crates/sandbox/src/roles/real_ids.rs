//! `real-ids`: becomes CRIU, with a user's real ids and root's powers. Why: see
//! [`real_ids_runner`](crate::real_ids_runner).

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_res_gid, set_thread_res_uid};

use super::{Outcome, number, while_doing, with_causes, word};
use crate::cgroup;

/// Where CRIU looks for its notes about the kernel.
const KDAT: &str = "/run/criu.kdat";

pub(super) fn real_ids(words: Vec<OsString>) -> Outcome {
    let (mut uid, mut gid, mut kdat, mut kdat_here, mut groups) = (0, 0, None, None, Vec::new());
    let mut words = words.into_iter();
    loop {
        let option = word(&mut words, "an option or `--`")?;
        if option == "--" {
            break;
        }
        let value = words.next().ok_or_else(|| format!("the value of {option} is missing"))?;
        match option.as_str() {
            "--uid" => uid = number(&value, &option)?,
            "--gid" => gid = number(&value, &option)?,
            "--kdat" => kdat = Some(PathBuf::from(value)),
            "--kdat-here" => kdat_here = Some(PathBuf::from(value)),
            "--cgroup" => groups.push(PathBuf::from(value)),
            _ => return Err(format!("unknown option {option}")),
        }
    }
    let program = words.next().ok_or("there is no program to run")?;

    cgroup::join(&groups, rustix::process::getpid().as_raw_nonzero().get()).map_err(with_causes)?;
    if let Some(kdat) = kdat {
        lend(&kdat)?;
    }
    if let Some(kdat) = kdat_here {
        lay_down(&kdat)?;
    }
    let root = (Uid::ROOT, Gid::ROOT);
    set_thread_res_gid(Gid::from_raw(gid), root.1, root.1)
        .map_err(while_doing("take the group's real id"))?;
    set_thread_res_uid(Uid::from_raw(uid), root.0, root.0).map_err(while_doing("take the user's real id"))?;
    Err(while_doing(format!("run `{}`", program.display()))(Command::new(&program).args(words).exec()))
}

/// Shows CRIU the notes at the place where it looks, in a mount namespace of its own.
///
/// It trusts them only on a tmpfs. The rest of `/run` stays as it is, because the sources of a box's mounts are there: so a
/// small tmpfs is laid over the directory that holds the notes, and from it one file is bound to CRIU's place.
fn lend(kdat: &Path) -> Outcome<()> {
    let failed = |what: &str| format!("{what} `{}`", kdat.display());
    let notes = fs::read(kdat).map_err(while_doing(failed("read")))?;
    let directory = kdat.parent().ok_or("the notes need a directory")?;
    if let Err(error) = File::create_new(KDAT)
        && error.kind() != std::io::ErrorKind::AlreadyExists
    {
        return Err(while_doing(format!("make `{KDAT}`"))(error));
    }
    unshare(CloneFlags::CLONE_NEWNS).map_err(while_doing("make a mount namespace"))?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(while_doing("make the mounts private"))?;
    mount("tmpfs", directory, "tmpfs", MountFlags::empty(), Some(c"mode=700,size=1m"))
        .map_err(while_doing(failed("mount a tmpfs around")))?;
    fs::write(kdat, notes).map_err(while_doing(failed("write")))?;
    mount_bind(kdat, KDAT).map_err(while_doing(format!("lend `{KDAT}`")))
}

/// Puts the notes at the place where CRIU looks, for everybody: what is dumped lives in the machine's own mount namespace, and CRIU
/// takes every mount of a namespace other than its own for a part of the tree. They are written anew each time, and those of
/// another boot are removed when the daemon starts.
fn lay_down(kdat: &Path) -> Outcome<()> {
    let temporary = format!("{KDAT}.{}", rustix::process::getpid().as_raw_nonzero());
    fs::copy(kdat, &temporary).map_err(while_doing(format!("copy `{}`", kdat.display())))?;
    fs::rename(&temporary, KDAT).map_err(while_doing(format!("write `{KDAT}`")))
}
