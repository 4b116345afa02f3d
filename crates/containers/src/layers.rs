//! The files of a container: its writable layer, what is mounted over it, and directories of this machine in it.

use std::path::{Path, PathBuf};

use base::proc::{self, Mount};

use crate::container::Container;
use crate::finding::{Finding, Topic};
use crate::volumes::Volumes;

/// File systems that live in the kernel alone, or in memory: CRIU makes them again, or saves what is in them.
const PLAIN: [&str; 14] = [
    "overlay", "proc", "sysfs", "tmpfs", "devpts", "mqueue", "cgroup", "cgroup2", "ext4", "xfs", "btrfs",
    "zfs", "ext3", "ext2",
];
/// Answered by a process: what is in flight is lost, and who answers may be part of the container.
const BY_PROCESSES: [&str; 4] = ["fuse", "autofs", "9p", "virtiofs"];
/// On other machines: what they hold is not in a snapshot, and locks are theirs.
const ELSEWHERE: [&str; 6] = ["nfs", "nfs4", "cifs", "smb3", "ceph", "lustre"];
/// So many lines tell enough.
const MOST_LINES: usize = 32;

/// Looks at what is mounted in a container, and at what its processes watch.
pub(crate) fn look(container: &Container, init: i32, pids: &[i32]) -> Vec<Finding> {
    let Some(table) = proc::read_text(init, "mountinfo").ok().flatten() else {
        let why = vec![format!("`/proc/{init}/mountinfo` cannot be read")];
        return vec![Finding::blocks(Topic::Mounts, "its mounts are not known", why, "run it as root")];
    };
    let mounts: Vec<Mount> = proc::mounts_in(&table).collect();
    let mut found = mounted(&mounts);
    found.extend(volumes(container));
    found.push(writable(container));
    found.extend(watches(&mounts, pids));
    found
}

fn mounted(mounts: &[Mount]) -> Vec<Finding> {
    let line = |mount: &Mount| format!("{} ({})", mount.target.display(), mount.kind);
    let of = |is: &dyn Fn(&str) -> bool| -> Vec<String> {
        mounts.iter().filter(|mount| is(&mount.kind)).map(line).take(MOST_LINES).collect()
    };
    let by_process =
        |kind: &str| BY_PROCESSES.iter().any(|name| kind == *name || kind.starts_with(&format!("{name}.")));
    let elsewhere = |kind: &str| ELSEWHERE.contains(&kind);
    let unknown = |kind: &str| !PLAIN.contains(&kind) && !by_process(kind) && !elsewhere(kind);
    let mut found = Vec::new();
    let answered = of(&by_process);
    if !answered.is_empty() {
        let way_out = "unmount it, or mount it outside and give it to the container as a volume";
        found.push(Finding::warning(
            Topic::Mounts,
            "file systems that a process answers for",
            answered,
            way_out,
        ));
    }
    let remote = of(&elsewhere);
    if !remote.is_empty() {
        let way_out = "what is in there is not part of a snapshot, and must not change before it is restored";
        found.push(Finding::warning(Topic::Mounts, "file systems of other machines", remote, way_out));
    }
    let other = of(&unknown);
    if !other.is_empty() {
        let way_out = "try a snapshot and a restore once before you rely on it";
        found.push(Finding::warning(
            Topic::Mounts,
            "file systems that we know nothing about",
            other,
            way_out,
        ));
    }
    found
}

/// Directories of this machine: they are not copied unless somebody asks for it.
fn volumes(container: &Container) -> Option<Finding> {
    let root = container.root.path.as_deref().unwrap_or_else(|| Path::new("/"));
    let bundle = container.bundle.as_deref().unwrap_or_else(|| Path::new("/"));
    let Volumes { mapped, read_only, .. } =
        Volumes::of(&container.specification, root, bundle, &container.id);
    let line = |(at, here): &(PathBuf, PathBuf)| {
        let how = if read_only.contains(at) { "read-only" } else { "written to" };
        format!("{} is {} here, {how}", at.display(), here.display())
    };
    let lines: Vec<String> = mapped.iter().map(line).take(MOST_LINES).collect();
    (!lines.is_empty()).then(|| {
        Finding::note(
            Topic::Volumes,
            "directories of this machine that it sees; a snapshot names them",
            lines,
        )
    })
}

fn writable(container: &Container) -> Finding {
    let root = &container.root;
    let mut evidence = Vec::new();
    evidence.extend(container.snapshotter.as_ref().map(|name| format!("its layers are kept by {name}")));
    evidence.extend(root.mounted_as.as_ref().map(|kind| format!("its root is mounted as {kind}")));
    evidence.extend(root.writable.as_ref().map(|path| format!("what it writes is in {}", path.display())));
    match &root.writable {
        _ if root.read_only => Finding::note(Topic::Layers, "its root is read-only", evidence),
        Some(path) if is_directory(path) => {
            Finding::note(Topic::Layers, "what it has written is a directory of its own", evidence)
        }
        _ => Finding::blocks(
            Topic::Layers,
            "nobody says where its own files are",
            evidence,
            "use a snapshotter that keeps them in a directory (overlayfs, native), and look as root",
        ),
    }
}

fn is_directory(path: &Path) -> bool {
    path.is_absolute() && path.is_dir()
}

/// CRIU finds the file that is watched by its handle, which overlayfs gives out only if it was mounted so.
fn watches(mounts: &[Mount], pids: &[i32]) -> Option<Finding> {
    let root = mounts.iter().find(|mount| mount.target == Path::new("/"))?;
    let gives_handles = root.super_option("nfs_export").is_some_and(|value| value == Path::new("on"));
    if root.kind != "overlay" || gives_handles {
        return None;
    }
    let watching = |pid: &&i32| {
        let targets = proc::descriptors(**pid).ok().flatten().unwrap_or_default();
        targets.iter().any(|(_, target)| target.to_string_lossy() == "anon_inode:inotify")
    };
    let lines: Vec<String> = pids
        .iter()
        .filter(watching)
        .map(|pid| format!("process {pid} watches files (inotify)"))
        .take(MOST_LINES)
        .collect();
    (!lines.is_empty()).then(|| {
        Finding::warning(
            Topic::Layers,
            "files on overlayfs are watched, which gives out no handles of them",
            lines,
            "CRIU then looks for each file by its number, through the whole tree; the native snapshotter has no such trouble",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Weight;

    fn mount(target: &str, kind: &str, options: &str) -> Mount {
        Mount::parse(&format!("1 2 0:1 / {target} rw - {kind} {kind} {options}")).unwrap()
    }

    #[test]
    fn each_kind_of_file_system_is_judged() {
        let plain = [mount("/", "overlay", "rw"), mount("/proc", "proc", "rw"), mount("/data", "ext4", "rw")];
        assert_eq!(mounted(&plain), []);
        let odd = [mount("/a", "fuse.sshfs", "rw"), mount("/b", "nfs4", "rw"), mount("/c", "weirdfs", "rw")];
        let found = mounted(&odd);
        let told: Vec<&str> =
            found.iter().flat_map(|finding| &finding.evidence).map(String::as_str).collect();
        assert_eq!(told, ["/a (fuse.sshfs)", "/b (nfs4)", "/c (weirdfs)"]);
        assert!(found.iter().all(|finding| finding.weight == Weight::Warning));
    }

    #[test]
    fn watches_matter_on_an_overlay_without_handles_only() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(watches(&[mount("/", "ext4", "rw")], &[own]), None);
        assert_eq!(watches(&[mount("/", "overlay", "rw,nfs_export=on")], &[own]), None);
        let _watch = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::CLOEXEC).unwrap();
        let found = watches(&[mount("/", "overlay", "rw")], &[own]).unwrap();
        assert_eq!(found.evidence, [format!("process {own} watches files (inotify)")]);
    }
}
