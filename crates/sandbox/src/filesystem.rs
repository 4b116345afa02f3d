//! The file system of a box, built on a private bind of `/`.
//!
//! ```text
//! /                      the machine's own root file system
//! /home, /data, …        every other real file system, bound        external to CRIU: m0, m1, …
//! /proc                  of the box's own PID namespace
//! /sys                   read-only
//! /dev                   tmpfs with the usual harmless nodes and those of its GPUs; shm and pts of its own
//! /run                   tmpfs: no sockets of the machine's services; user/UID and lock are there
//! /run/infinijup-box     the box's directory                         external: box
//! WORKSPACE              the files of the session                    external: workspace
//! ```
//!
//! "Real" is everything that is not a view of the kernel: also a tmpfs, because a mount that *hides* something (as container
//! runtimes do) must go on hiding it. What lies below /proc, /sys, /dev and /run is left out, since those are made anew.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{
    Access, AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Uid, chownat, makedev, mknodat,
};
use rustix::mount::{MountFlags, mount, mount_bind};
use rustix::process::umask;

use crate::devices::{self, DeviceNode};
use crate::mounts::{self, Mount};
use crate::spec::{BOX_DIR, BoxMount, Plan};
use crate::user::as_user;

/// File systems that are views of the kernel.
const VIEWS: [&str; 20] = [
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "rpc_pipefs",
    "securityfs",
    "sysfs",
    "tracefs",
];

/// Made anew in each box.
const MADE_ANEW: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];

/// Name, major and minor number; all may be read and written by everybody.
const NODES: [(&str, u32, u32); 6] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];

type Outcome<T> = Result<T, String>;

/// Mounts everything below the plan's root and says what is external.
pub(crate) fn build(plan: &Plan) -> Outcome<Vec<BoxMount>> {
    let root = Path::new(&plan.root);
    // Both before anything is mounted: the paths are those of the machine.
    let box_dir = open_ours(Path::new(&plan.box_dir))?;
    let workspace = plan
        .workspace
        .as_ref()
        .map(|(source, inside)| open_workspace(plan, source.as_ref(), inside.as_ref()));
    let workspace = workspace.transpose()?;

    // Modes are meant as written here. Afterwards it is the usual one, not the daemon's.
    umask(Mode::empty());
    let mut external = bind_file_systems(root)?;
    fresh("proc", &root.join("proc"), MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, "")?;
    let read_only = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    fresh("sysfs", &root.join("sys"), read_only, "")?;
    build_dev(&root.join("dev"), &plan.devices)?;
    build_run(plan, root)?;
    umask(Mode::WGRP | Mode::WOTH);

    let inside = Path::new(BOX_DIR);
    bind(&box_dir, &under(root, inside))?;
    external.push(BoxMount {
        key: "box".to_owned(),
        inside: inside.to_owned(),
        outside: (&plan.box_dir).into(),
    });
    if let (Some(from), Some((source, inside))) = (workspace, &plan.workspace) {
        let inside = bind_workspace(root, &from, Path::new(inside))?;
        external.push(BoxMount { key: "workspace".to_owned(), inside, outside: source.into() });
    }
    Ok(external)
}

fn fresh(kind: &str, target: &Path, flags: MountFlags, options: &str) -> Outcome<()> {
    let options = std::ffi::CString::new(options).map_err(|error| error.to_string())?;
    mount(kind, target, kind, flags, Some(options.as_c_str())).map_err(failed("mount", target))
}

fn build_dev(dev: &Path, devices: &[DeviceNode]) -> Outcome<()> {
    fresh("tmpfs", dev, MountFlags::NOSUID, "mode=755,size=1m")?;
    for (name, major, minor) in NODES {
        let path = dev.join(name);
        mknodat(CWD, &path, FileType::CharacterDevice, Mode::from_raw_mode(0o666), makedev(major, minor))
            .map_err(failed("make the device", &path))?;
    }
    devices::make_all(dev, devices).map_err(|error| match std::error::Error::source(&error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    })?;
    for (link, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        symlink(target, dev.join(link)).map_err(failed("link", &dev.join(link)))?;
    }
    for name in ["shm", "pts"] {
        fs::create_dir(dev.join(name)).map_err(failed("make", &dev.join(name)))?;
    }
    fresh("tmpfs", &dev.join("shm"), MountFlags::NOSUID | MountFlags::NODEV, "mode=1777")?;
    let options = "newinstance,ptmxmode=0666,mode=0620,gid=5";
    fresh("devpts", &dev.join("pts"), MountFlags::NOSUID | MountFlags::NOEXEC, options)
}

fn build_run(plan: &Plan, root: &Path) -> Outcome<()> {
    // Names are resolved through this file on machines with systemd-resolved; read it before it is hidden.
    let resolver = fs::canonicalize("/etc/resolv.conf").ok().filter(|path| path.starts_with("/run"));
    let resolver = resolver.and_then(|path| Some((fs::read(&path).ok()?, path)));

    let run = root.join("run");
    fresh("tmpfs", &run, MountFlags::NOSUID | MountFlags::NODEV, "mode=755")?;
    let own = run.join("user").join(plan.uid.to_string());
    for (path, mode) in
        [(under(root, Path::new(BOX_DIR)), 0o755), (run.join("lock"), 0o1777), (own.clone(), 0o700)]
    {
        fs::create_dir_all(&path).map_err(failed("make", &path))?;
        rustix::fs::chmod(&path, Mode::from_raw_mode(mode)).map_err(failed("set the mode of", &path))?;
    }
    rustix::fs::chmod(run.join("user"), Mode::from_raw_mode(0o755))
        .map_err(failed("set the mode of", &run))?;
    let (uid, gid) = (Uid::from_raw(plan.uid), Gid::from_raw(plan.gid));
    chownat(CWD, &own, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW).map_err(failed("give away", &own))?;
    symlink("/dev/shm", run.join("shm")).map_err(failed("link", &run.join("shm")))?;
    if let Some((content, path)) = resolver {
        let copy = under(root, &path);
        let directory = copy.parent().unwrap_or(&run);
        fs::create_dir_all(directory).map_err(failed("make", directory))?;
        fs::write(&copy, content).map_err(failed("write", &copy))?;
        rustix::fs::chmod(&copy, Mode::from_raw_mode(0o644)).map_err(failed("set the mode of", &copy))?;
    }
    Ok(())
}

/// Binds every real file system to its place.
fn bind_file_systems(root: &Path) -> Outcome<Vec<BoxMount>> {
    let table = mounts::table().map_err(|error| error.to_string())?;
    let mut external = Vec::new();
    for target in real_file_systems(&table) {
        let inside = under(root, &target);
        match mount_bind(&target, &inside) {
            Ok(()) => {}
            // Hidden below another mount, or a user's FUSE mount that root may not look into.
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR | rustix::io::Errno::ACCESS) => continue,
            Err(error) => return Err(failed("bind", &target)(error)),
        }
        external.push(BoxMount {
            key: format!("m{}", external.len()),
            inside: target.clone(),
            outside: target,
        });
    }
    Ok(external)
}

/// Where real file systems are mounted below `/`, parents before children.
fn real_file_systems(table: &[Mount]) -> BTreeSet<PathBuf> {
    let root = table.iter().rev().find(|mount| mount.target == Path::new("/")).map(|mount| &mount.source);
    table
        .iter()
        .filter(|mount| mount.target != Path::new("/") && !VIEWS.contains(&mount.kind.as_str()))
        .filter(|mount| !MADE_ANEW.iter().any(|place| mount.target.starts_with(place)))
        // A second view of `/` is the root of a box that is being made just now, ours or another.
        .filter(|mount| Some(&mount.source) != root)
        .map(|mount| mount.target.clone())
        .collect()
}

/// Opens a directory of the daemon's own. Its parents are root's, so no link can be slipped in.
fn open_ours(path: &Path) -> Outcome<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
        .map_err(failed("open", path))
}

/// Opens the workspace: with the user's rights if it is the user's own directory.
fn open_workspace(plan: &Plan, source: &Path, inside: &Path) -> Outcome<OwnedFd> {
    if source != inside {
        return open_ours(source);
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = || {
        let directory = rustix::fs::open(source, flags, Mode::empty())?;
        // the way to it was tried just now, itself not yet
        rustix::fs::accessat(CWD, descriptor(&directory), Access::EXEC_OK, AtFlags::empty())?;
        Ok::<_, rustix::io::Errno>(directory)
    };
    as_user(&plan.user(), open)
        .map_err(|error| error.to_string())?
        .map_err(failed("open, as the user,", source))
}

/// Binds the workspace to its place, and says where that really is: links on the way are followed inside the new root
/// only.
fn bind_workspace(root: &Path, from: &OwnedFd, inside: &Path) -> Outcome<PathBuf> {
    let top = rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(failed("open", root))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let place = rustix::fs::openat2(
        &top,
        inside,
        flags,
        Mode::empty(),
        ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
    )
    .map_err(failed("find the place of the workspace", inside))?;
    let real =
        fs::read_link(descriptor(&place)).map_err(failed("find the place of the workspace", inside))?;
    bind(from, &descriptor(&place))?;
    let real = real.strip_prefix(root).map_err(|_| format!("`{}` leads out of the box", inside.display()))?;
    Ok(Path::new("/").join(real))
}

fn bind(from: &OwnedFd, to: &Path) -> Outcome<()> {
    mount_bind(descriptor(from), to).map_err(failed("bind to", to))
}

fn descriptor(fd: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

/// An absolute path as seen inside, seen from outside.
fn under(root: &Path, inside: &Path) -> PathBuf {
    root.join(inside.strip_prefix("/").unwrap_or(inside))
}

fn failed<E: Into<io::Error>>(action: &str, path: &Path) -> impl FnOnce(E) -> String {
    move |error| format!("cannot {action} `{}`: {}", path.display(), error.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_real_file_systems_are_taken_over_parents_first() {
        let text = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
                    2 1 0:4 / /proc rw - proc proc rw\n\
                    3 1 0:5 / /run rw - tmpfs tmpfs rw\n\
                    4 3 8:1 / /run/infinijup/root/other rw - ext4 /dev/sda1 rw\n\
                    5 1 8:3 / /srv/data/deep rw - xfs /dev/sda3 rw\n\
                    6 1 8:2 / /srv/data rw - ext4 /dev/sda2 rw\n\
                    7 1 0:9 / /mnt/hidden ro - tmpfs none ro\n\
                    8 1 0:7 / /srv/cg rw - cgroup2 none rw\n\
                    9 1 8:1 / /tmp/roots/a rw - ext4 /dev/sda1 rw\n\
                    10 1 8:1 /srv/pool /srv/bound rw - ext4 /dev/sda1 rw\n";
        let found = real_file_systems(&mounts::parse(text));
        let found: Vec<&str> = found.iter().filter_map(|path| path.to_str()).collect();
        assert_eq!(found, ["/mnt/hidden", "/srv/bound", "/srv/data", "/srv/data/deep"]);
    }
}
