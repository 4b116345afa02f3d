//! Directories, file systems and room.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags};

use super::{Finding, Machine};
use crate::preflight::{available_memory, free_bytes};

const GIB: u64 = 1 << 30;

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

pub(super) fn look(machine: &Machine<'_>) -> Vec<Finding> {
    vec![
        state(machine.state_dir),
        run(machine.run_dir),
        reflinks(machine.state_dir),
        disk(machine.state_dir),
        memory(),
        tmpfs(machine.run_dir),
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
            "make it, owned by root with mode 0700, or name another in INFINIJUP_STATE",
        ),
    }
}

fn run(directory: &Path) -> Finding {
    let item = "run directory";
    let shown = directory.display();
    if !directory.is_dir() {
        return Finding::fail(
            item,
            format!("`{shown}` is not there"),
            "make it, owned by root, or name another in INFINIJUP_RUN",
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

fn disk(directory: &Path) -> Finding {
    match free_bytes(directory) {
        Ok(free) if free >= 4 * GIB => Finding::ok("disk", format!("{} GiB are free", free / GIB)),
        Ok(free) => Finding::warn(
            "disk",
            format!("{} MiB are free where snapshots are kept", free >> 20),
            "free some: a snapshot needs up to the memory of its session",
        ),
        Err(error) => Finding::warn("disk", error.to_string(), "make the state directory"),
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

fn tmpfs(directory: &Path) -> Finding {
    let item = "tmpfs";
    let try_it = || -> io::Result<()> {
        let point = scratch(directory)?;
        fs::create_dir(&point)?;
        let mounted = rustix::mount::mount(
            "tmpfs",
            &point,
            "tmpfs",
            MountFlags::NOSUID | MountFlags::NODEV,
            Some(c"size=4k"),
        );
        if mounted.is_ok() {
            rustix::mount::unmount(&point, UnmountFlags::DETACH)?;
        }
        fs::remove_dir(&point)?;
        Ok(mounted?)
    };
    match try_it() {
        Ok(()) => Finding::ok(item, "can be mounted: large sessions are dumped to memory, with short pauses"),
        Err(error) => Finding::fail(
            item,
            format!("cannot be mounted: {error}"),
            "give CAP_SYS_ADMIN to the daemon; in a container also allow mount (seccomp, AppArmor)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::FindingState;
    use super::*;

    #[test]
    fn nothing_is_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(state(dir.path()).state, FindingState::Ok);
        assert_ne!(reflinks(dir.path()).state, FindingState::Fail);
        let _privileged = tmpfs(dir.path());
        assert_eq!(run(dir.path()).state, FindingState::Ok);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let absent = dir.path().join("absent");
        assert_eq!(state(&absent).state, FindingState::Fail);
        assert_eq!(run(&absent).state, FindingState::Fail);
    }
}
