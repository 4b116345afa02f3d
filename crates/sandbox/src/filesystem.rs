//! The file system of a box: the machine's, with a few places made anew.
//!
//! ```text
//! /                      the machine's, with everything that is mounted in it, as its user sees it
//! /proc                  of the box's own PID namespace
//! /dev                   tmpfs with the usual harmless nodes and those of its GPUs; shm and pts of its own
//! /run                   tmpfs: no sockets of the machine's services; user/UID and lock are there
//! /run/infinijup-box     the box's directory
//! WORKSPACE              the files of the session, if they are kept elsewhere (a branch)
//! MAPPED                 directories that lie at another place on this machine than on that of its snapshot
//! ```
//!
//! Nothing is taken away: a mount namespace of an ordinary user inherits the machine's mounts as one piece, which can be covered and
//! not opened. So the box has no root of its own, and CRIU, which runs in the same mount namespace, has no mounts to save.
//!
//! A user may not make device nodes; they are bound from the machine's `/dev`, with the rights that they have there. Everything that
//! is bound is opened first, before what is mounted hides it, and bound by its descriptor.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_bind_recursive, mount_change,
};
use rustix::process::umask;

use crate::devices;
use crate::places;
use crate::spec::{BOX_DIR, Plan};

/// The nodes that everybody may use.
const NODES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

pub(crate) type Outcome<T> = Result<T, String>;

/// Mounts everything.
pub(crate) fn build(plan: &Plan) -> Outcome<()> {
    // Nothing that we mount may travel out, and nothing that is mounted outside may come in.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(failed("make private everything below", Path::new("/")))?;
    let box_dir = open_directory(Path::new(&plan.box_dir))?;
    let workspace = plan.workspace.as_ref().filter(|(source, inside)| source != inside);
    // All are opened before the first is mounted, since one may hide where another lies; the workspace may lie in one of them.
    let all: Vec<_> = plan.mapped.iter().chain(workspace).collect();
    let sources = all.iter().map(|(source, _)| open_directory(Path::new(source)));
    let sources = sources.collect::<Outcome<Vec<OwnedFd>>>()?;
    let mut nodes = Vec::new();
    for name in NODES {
        nodes.push((name, open_node(name)?));
    }
    for node in &plan.devices {
        nodes.push((node.name.as_str(), devices::open(node).map_err(|error| with_cause(&error))?));
    }
    // Names are resolved through this file on machines with systemd-resolved; read it before it is hidden.
    let resolver = fs::canonicalize("/etc/resolv.conf").ok().filter(|path| path.starts_with("/run"));
    let resolver = resolver.and_then(|path| Some((fs::read(&path).ok()?, path)));

    for ((_, inside), source) in all.iter().zip(&sources) {
        bind_all(source, &descriptor(&places::open(Path::new(inside))?))?;
    }
    // Modes are meant as written here.
    umask(Mode::empty());
    build_dev(&nodes)?;
    build_run(&box_dir, resolver)?;
    umask(Mode::WGRP | Mode::WOTH);
    // Last: until here, descriptors are named by the machine's /proc.
    fresh("proc", "/proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, "")
}

pub(crate) fn fresh(kind: &str, target: &str, flags: MountFlags, options: &str) -> Outcome<()> {
    let options = std::ffi::CString::new(options).map_err(|error| error.to_string())?;
    mount(kind, target, kind, flags, Some(options.as_c_str())).map_err(|error| {
        let hint = match (kind, error) {
            ("proc", rustix::io::Errno::PERM) => "; a container that hides parts of its /proc does that",
            _ => "",
        };
        format!("cannot mount `{target}`: {}{hint}", io::Error::from(error))
    })
}

fn build_dev(nodes: &[(&str, OwnedFd)]) -> Outcome<()> {
    let dev = Path::new("/dev");
    fresh("tmpfs", "/dev", MountFlags::NOSUID, "mode=755,size=1m")?;
    for (name, node) in nodes {
        let place = dev.join(name);
        fs::File::create_new(&place).map_err(failed("make", &place))?;
        bind(node, &place)?;
    }
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
    fresh("tmpfs", "/dev/shm", MountFlags::NOSUID | MountFlags::NODEV, "mode=1777")?;
    let options = "newinstance,ptmxmode=0666,mode=0620";
    fresh("devpts", "/dev/pts", MountFlags::NOSUID | MountFlags::NOEXEC, options)
}

fn build_run(box_dir: &OwnedFd, resolver: Option<(Vec<u8>, PathBuf)>) -> Outcome<()> {
    let run = Path::new("/run");
    fresh("tmpfs", "/run", MountFlags::NOSUID | MountFlags::NODEV, "mode=755")?;
    let own = run.join("user").join(rustix::process::geteuid().as_raw().to_string());
    for (path, mode) in
        [(Path::new(BOX_DIR), 0o755), (&run.join("lock"), 0o1777), (&run.join("user"), 0o755), (&own, 0o700)]
    {
        fs::create_dir_all(path).map_err(failed("make", path))?;
        rustix::fs::chmod(path, Mode::from_raw_mode(mode)).map_err(failed("set the mode of", path))?;
    }
    symlink("/dev/shm", run.join("shm")).map_err(failed("link", &run.join("shm")))?;
    if let Some((content, path)) = resolver {
        let directory = path.parent().unwrap_or(run);
        fs::create_dir_all(directory).map_err(failed("make", directory))?;
        fs::write(&path, content).map_err(failed("write", &path))?;
        rustix::fs::chmod(&path, Mode::from_raw_mode(0o644)).map_err(failed("set the mode of", &path))?;
    }
    bind(box_dir, Path::new(BOX_DIR))
}

pub(crate) fn open_directory(path: &Path) -> Outcome<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(failed("open", path))
}

fn open_node(name: &str) -> Outcome<OwnedFd> {
    let path = Path::new("/dev").join(name);
    rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(failed("open", &path))
}

fn bind(from: &OwnedFd, to: &Path) -> Outcome<()> {
    mount_bind(descriptor(from), to).map_err(failed("bind to", to))
}

/// With what is mounted below.
pub(crate) fn bind_all(from: &OwnedFd, to: &Path) -> Outcome<()> {
    mount_bind_recursive(descriptor(from), to).map_err(failed("bind to", to))
}

pub(crate) fn descriptor(fd: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

pub(crate) fn failed<E: Into<io::Error>>(action: &str, path: &Path) -> impl FnOnce(E) -> String {
    move |error| format!("cannot {action} `{}`: {}", path.display(), error.into())
}

fn with_cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
