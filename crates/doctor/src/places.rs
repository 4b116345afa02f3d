//! Directories, file systems and room.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use base::proc::MachineMemory;
use cas_core::layout::{Format, Layout};

use crate::{Finding, Machine};

const GIB: u64 = 1 << 30;
const SHARED_MEMORY: &str = "/dev/shm";

/// `statfs` magic numbers and names.
const KINDS: [(i64, &str); 8] = [
    (0x9123_683e, "btrfs"),
    (0x5846_5342, "xfs"),
    (0xef53, "ext4"),
    (0x0102_1994, "tmpfs"),
    (0x794c_7630, "overlay"),
    (0x6969, "nfs"),
    (0x2fc1_2fc1, "zfs"),
    (0xca45_1a4e, "bcachefs"),
];

pub(crate) fn look(machine: &Machine<'_>) -> Vec<Finding> {
    vec![
        state(machine.state_dir),
        encryption(machine.state_dir),
        run(machine.run_dir),
        reflinks(machine.state_dir),
        disk((machine.free_bytes)(machine.state_dir)),
        memory(),
        shared_memory((machine.free_bytes)(Path::new(SHARED_MEMORY))),
    ]
}

fn kind(path: &Path) -> String {
    let Ok(found) = rustix::fs::statfs(path) else { return "an unknown file system".to_owned() };
    KINDS
        .iter()
        .find(|(magic, _)| *magic == found.f_type)
        .map_or_else(|| format!("a file system of type {:#x}", found.f_type), |(_, name)| (*name).to_owned())
}

/// A name that nothing else has.
fn scratch(directory: &Path) -> io::Result<PathBuf> {
    let name = cas_core::fsio::random_name().map_err(|error| io::Error::other(error.to_string()))?;
    Ok(directory.join(format!(".doctor-{name}")))
}

fn state(directory: &Path) -> Finding {
    let item = "state directory";
    let try_it = || -> io::Result<()> {
        let path = scratch(directory)?;
        let written = fs::write(&path, b"x").and_then(|()| File::open(&path)?.sync_all());
        fs::remove_file(&path)?;
        written
    };
    let shown = directory.display();
    match try_it() {
        Ok(()) => Finding::ok(item, format!("`{shown}` can be written to ({})", kind(directory))),
        Err(error) => Finding::fail(
            item,
            format!("`{shown}` cannot be written to: {error}"),
            "make it with mode 0700, or name another in INFINIJUP_STATE",
        ),
    }
}

/// Both are well: who has an encrypted disk needs no encrypted store.
fn encryption(state: &Path) -> Finding {
    let encrypted = Format::read(&Layout::new(&state.join("store"))).is_ok_and(|format| format.encrypted);
    Finding::ok(
        "encryption",
        match encrypted {
            true => "the store is encrypted; plain images are in memory only",
            false => "the store is not encrypted: `infinijup store encrypt` does that",
        },
    )
}

fn run(directory: &Path) -> Finding {
    let item = "run directory";
    let shown = directory.display();
    if !directory.is_dir() {
        return Finding::fail(
            item,
            format!("`{shown}` is not there"),
            "make it with mode 0700, or name another in INFINIJUP_RUN",
        );
    }
    let kind = kind(directory);
    if kind == "tmpfs" {
        return Finding::ok(item, format!("`{shown}` is on tmpfs"));
    }
    Finding::ok(item, format!("`{shown}` is on {kind}; a tmpfs is usual"))
}

fn reflinks(directory: &Path) -> Finding {
    let item = "reflinks";
    let try_it = || -> io::Result<bool> {
        let (from, to) = (scratch(directory)?, scratch(directory)?);
        fs::write(&from, [1; 4096])?;
        let cloned = File::open(&from).and_then(|from| {
            let to = File::create(&to)?;
            Ok(rustix::fs::ioctl_ficlone(&to, &from).is_ok())
        });
        fs::remove_file(&from)?;
        fs::remove_file(&to)?;
        cloned
    };
    match try_it() {
        Ok(true) => {
            Finding::ok(item, format!("there ({}): branches share what they do not change", kind(directory)))
        }
        Ok(false) => Finding::warn(
            item,
            format!("not on {}: each branch gets a full copy of its workspace", kind(directory)),
            "put the state directory and the workspaces on btrfs or xfs if branches of large workspaces are slow",
        ),
        Err(error) => {
            Finding::warn(item, format!("cannot be tried: {error}"), "make the state directory writable")
        }
    }
}

fn disk(free: Result<u64, String>) -> Finding {
    match free {
        Ok(free) if free >= 4 * GIB => Finding::ok("disk", format!("{} GiB are free", free / GIB)),
        Ok(free) => Finding::warn(
            "disk",
            format!("{} MiB are free where snapshots are kept", free >> 20),
            "free some: a snapshot needs up to the memory of its session",
        ),
        Err(error) => Finding::warn("disk", error, "make the state directory"),
    }
}

fn memory() -> Finding {
    let free = available_memory();
    if free >= GIB {
        return Finding::ok("memory", format!("{} GiB are available", free / GIB));
    }
    Finding::warn(
        "memory",
        format!("{} MiB are available", free >> 20),
        "large sessions are dumped to disk instead of memory, with longer pauses: add memory, or suspend some sessions",
    )
}

/// Bytes of memory that can be had without swapping.
fn available_memory() -> u64 {
    MachineMemory::read().ok().and_then(|memory| memory.available).unwrap_or(0)
}

/// Where large sessions are dumped to.
fn shared_memory(free: Result<u64, String>) -> Finding {
    let item = SHARED_MEMORY;
    match free {
        Ok(free) => Finding::ok(
            item,
            format!("{} MiB are free: large sessions are dumped to memory, with short pauses", free >> 20),
        ),
        Err(error) => Finding::warn(
            item,
            format!("cannot be used: {error}"),
            "mount a tmpfs there; sessions larger than the page cache are dumped to disk until then",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FindingState;

    #[test]
    fn nothing_is_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(state(dir.path()).state, FindingState::Ok);
        assert_ne!(reflinks(dir.path()).state, FindingState::Fail);
        assert_eq!(run(dir.path()).state, FindingState::Ok);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let absent = dir.path().join("absent");
        assert_eq!(state(&absent).state, FindingState::Fail);
        assert_eq!(run(&absent).state, FindingState::Fail);
    }
}
