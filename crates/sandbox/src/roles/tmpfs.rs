//! `pack` and `unpack`: the box's file systems in memory, as a tar archive.
//!
//! CRIU takes the box's mounts for the machine's and leaves them alone, so what lies in `/dev/shm` and `/run` is ours to save while
//! the tree stands still, and to put back before it is restored. `tar` does both, as it does for CRIU itself: it knows holes,
//! links and modes, and it is on every machine that CRIU's users have. The `tar` crate would pack in this process, but makes
//! two files of one that has two names, and CRIU gives a second name to files that it could not find again otherwise.

use std::os::unix::process::CommandExt;
use std::process::Command;

use super::{Outcome, rights, while_doing};
use crate::tmpfs::{LEFT_OUT, TAKEN};

pub(super) fn pack() -> Outcome {
    let left_out = LEFT_OUT.map(|path| format!("--exclude={path}"));
    let left_out = left_out.iter().map(String::as_str);
    become_tar(["--create", "--sparse", "--one-file-system"].into_iter().chain(left_out).chain(TAKEN))
}

pub(super) fn unpack() -> Outcome {
    become_tar(["--extract", "--same-permissions", "--overwrite"])
}

fn become_tar<'a>(words: impl IntoIterator<Item = &'a str>) -> Outcome {
    rights::give_up()?;
    let mut tar = Command::new("tar");
    tar.args(["--directory=/", "--file=-", "--numeric-owner", "--warning=no-file-ignored"]).args(words);
    Err(while_doing("run `tar`")(tar.exec()))
}
