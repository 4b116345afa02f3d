//! `real-ids`: becomes CRIU, with a user's real ids and root's powers. Why: see
//! [`real_ids_runner`](crate::real_ids_runner).

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_res_gid, set_thread_res_uid};

use super::{Outcome, number, options, while_doing};

/// Where CRIU looks for its notes about the kernel.
pub(super) const KDAT: &str = "/run/criu.kdat";

pub(super) fn real_ids(words: Vec<OsString>) -> Outcome {
    let (mut uid, mut gid, mut kdat) = (0, 0, None);
    let mut words = words.into_iter();
    let program = options(&mut words, |option, value| {
        match option {
            "--uid" => uid = number(&value, option)?,
            "--gid" => gid = number(&value, option)?,
            "--kdat" => kdat = Some(PathBuf::from(value)),
            _ => return Err(format!("unknown option {option}")),
        }
        Ok(())
    })?;

    if let Some(kdat) = kdat {
        lay_down(&kdat)?;
    }
    let root = (Uid::ROOT, Gid::ROOT);
    set_thread_res_gid(Gid::from_raw(gid), root.1, root.1)
        .map_err(while_doing("take the group's real id"))?;
    set_thread_res_uid(Uid::from_raw(uid), root.0, root.0).map_err(while_doing("take the user's real id"))?;
    Err(while_doing(format!("run `{}`", program.display()))(Command::new(&program).args(words).exec()))
}

/// Puts the notes at the place where CRIU looks, for everybody: what is dumped lives in the machine's own mount namespace, and CRIU
/// takes every mount of a namespace other than its own for a part of the tree. They are written anew each time, and those of
/// another boot are removed when the daemon starts.
pub(super) fn lay_down(kdat: &Path) -> Outcome<()> {
    let temporary = format!("{KDAT}.{}", rustix::process::getpid().as_raw_nonzero());
    fs::copy(kdat, &temporary).map_err(while_doing(format!("copy `{}`", kdat.display())))?;
    fs::rename(&temporary, KDAT).map_err(while_doing(format!("write `{KDAT}`")))
}
