//! A box's file systems in memory, `/dev/shm` and `/run`: saved while its tree stands still, put back before it is restored.
//!
//! The work is done inside by the roles `pack` and `unpack`, which takes three programs to start. Mostly there is nothing to be saved,
//! so a look from outside comes first: through `/proc/PID/root` of the box's first process, which the box's owner may follow.
//! Below it no link is followed: one that was made inside would lead somewhere outside. An empty archive stands for file systems as
//! every box has them at its start (`filesystem.rs`).

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, ResolveFlags, fstat, open, openat2, readlinkat, statat};

use crate::error::{Result, SandboxError};
use crate::exec::role_inside;
use crate::process::Identity;
use crate::program::Program;

/// What is saved.
pub(crate) const TAKEN: [&str; 2] = ["dev/shm", "run"];
/// What in it is not: the box's own directory, which outlives it, and CRIU's notes on the kernel.
pub(crate) const LEFT_OUT: [&str; 2] = ["run/infinijup-box", "run/criu.kdat"];

/// Writes the box's file systems in memory to `archive`, which is empty. Its processes must stand still.
pub fn pack_tmpfs(program: &Program, holder: Identity, archive: File) -> Result<()> {
    match is_as_made(holder) {
        Ok(true) if holder.is_alive() => Ok(()),
        // What cannot be seen from outside is packed inside, which says what is wrong.
        _ => role_inside(program, holder, &["pack"], Stdio::null(), Stdio::from(archive)).map(drop),
    }
}

/// Fills the file systems in memory of a box that has no processes yet.
pub fn unpack_tmpfs(program: &Program, holder: Identity, archive: File) -> Result<()> {
    let packed = archive
        .metadata()
        .map_err(SandboxError::io("look at", Path::new("the archive of a box's memory")))?
        .len();
    if packed == 0 {
        return Ok(());
    }
    role_inside(program, holder, &["unpack"], Stdio::from(archive), Stdio::null()).map(drop)
}

/// Are there only the directories that every box is made with, as they were made?
fn is_as_made(holder: Identity) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(format!("/proc/{}/root", holder.pid), flags, Mode::empty())?;
    let user = statat(&root, "run", AtFlags::SYMLINK_NOFOLLOW)?.st_uid.to_string();
    let of_user = format!("run/user/{user}");
    let made: [(&str, u32, &[&str]); 5] = [
        ("dev/shm", 0o1777, &[]),
        ("run", 0o755, &["infinijup-box", "criu.kdat", "lock", "shm", "user"]),
        ("run/lock", 0o1777, &[]),
        ("run/user", 0o755, &[&user]),
        (&of_user, 0o700, &[]),
    ];
    for (path, mode, known) in made {
        let directory = openat2(&root, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
        if Mode::from_raw_mode(fstat(&directory)?.st_mode).as_raw_mode() != mode
            || has_more_than(directory, known)?
        {
            return Ok(false);
        }
    }
    Ok(readlinkat(&root, "run/shm", Vec::new())?.as_bytes() == b"/dev/shm")
}

fn has_more_than(directory: OwnedFd, known: &[&str]) -> io::Result<bool> {
    for entry in Dir::new(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." && !known.iter().any(|known| known.as_bytes() == name) {
            return Ok(true);
        }
    }
    Ok(false)
}
