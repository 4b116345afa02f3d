//! What processes hold open and have mapped.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::{Needs, Preflight, Process};

/// What every dump is told: larger deleted files are not taken into the images.
const GHOST_LIMIT: u64 = 1 << 30;
const NVIDIA_MAJOR: u32 = 195;

/// Kinds of descriptors that CRIU cannot dump: a part of the link's text, what it is, the way out.
const UNDUMPABLE: [(&str, &str, &str); 9] = [
    (
        "[io_uring]",
        "io_uring",
        "have the program use epoll instead (libuv: UV_USE_IO_URING=0), or close the ring",
    ),
    ("[userfaultfd]", "userfaultfd", "end the part of the program that handles page faults itself"),
    ("[perf_event]", "a performance counter", "stop the profiler"),
    ("bpf-map", "a BPF map", "unload the BPF program"),
    ("bpf-prog", "a BPF program", "unload the BPF program"),
    ("bpf_link", "a BPF program", "unload the BPF program"),
    ("[fanotify]", "a fanotify group", "close it; inotify can be snapshotted"),
    ("[kvm", "a virtual machine", "shut the virtual machine down"),
    ("[landlock-ruleset]", "a landlock ruleset", "close the descriptor once the ruleset is in force"),
];

/// Looks at the descriptors and mappings of one process.
pub(super) fn examine(process: &Process, needs: &Needs, found: &mut Preflight) {
    let directory = process.directory.join("fd");
    for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
        let number = entry.file_name().to_string_lossy().into_owned();
        let Ok(link) = fs::read_link(entry.path()) else { continue };
        let link = link.to_string_lossy().into_owned();
        let seen = format!("descriptor {number} is {link}");
        if let Some((_, what, way_out)) =
            UNDUMPABLE.iter().find(|(text, ..)| is_anonymous(&link) && link.contains(text))
        {
            found.refusals.push(process.problem(what, seen, *way_out));
            continue;
        }
        if is_namespace(&link) {
            found.refusals.push(process.problem(
                "a handle of a namespace",
                seen,
                "close it: such a handle could be one of another session after a restore",
            ));
            continue;
        }
        if !link.starts_with('/') {
            continue;
        }
        let Ok(metadata) = fs::metadata(entry.path()) else { continue };
        let kind = metadata.file_type();
        if kind.is_char_device() || kind.is_block_device() {
            device(process, &link, metadata.rdev(), kind.is_block_device(), &seen, needs, found);
        } else if kind.is_file() {
            deleted(process, &link, metadata.blocks(), &seen, found);
        }
    }
    mappings(process, needs, found);
}

fn is_anonymous(link: &str) -> bool {
    link.starts_with("anon_inode:")
}

fn is_namespace(link: &str) -> bool {
    ["net:[", "mnt:[", "pid:[", "user:[", "ipc:[", "uts:[", "cgroup:[", "time:["]
        .iter()
        .any(|kind| link.starts_with(kind))
}

fn device(
    process: &Process,
    link: &str,
    device: u64,
    block: bool,
    seen: &str,
    needs: &Needs,
    found: &mut Preflight,
) {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    if major == NVIDIA_MAJOR || link.starts_with("/dev/nvidia") {
        gpu(process, seen, needs, found);
    } else if block || !matches!((major, minor), (1, _) | (5, _) | (136..=143, _)) {
        found.refusals.push(process.problem(
            "a device",
            format!("{seen} ({major}:{minor})"),
            "close it: the state of a device is not in the snapshot of a process",
        ));
    }
}

fn gpu(process: &Process, seen: &str, needs: &Needs, found: &mut Preflight) {
    if needs.on_gpu.contains(&process.pid) {
        return;
    }
    let what = "a GPU in use";
    if !found.refusals.iter().any(|known| known.pid == process.pid && known.what == what) {
        found.refusals.push(process.problem(
            what,
            seen,
            "free the GPU (in PyTorch: end the process that uses it) and take the snapshot then",
        ));
    }
}

pub(super) fn deleted(process: &Process, link: &str, blocks: u64, seen: &str, found: &mut Preflight) {
    let in_memory = ["/memfd:", "/dev/zero", "/SYSV"].iter().any(|name| link.starts_with(name));
    let bytes = blocks.saturating_mul(512);
    if link.ends_with(" (deleted)") && !in_memory && bytes > GHOST_LIMIT {
        found.refusals.push(process.problem(
            "a large deleted file",
            format!("{seen}, {} MiB", bytes >> 20),
            format!("close it or keep its name: deleted files are kept up to {} MiB", GHOST_LIMIT >> 20),
        ));
    }
}

fn mappings(process: &Process, needs: &Needs, found: &mut Preflight) {
    for line in process.read("maps").unwrap_or_default().lines() {
        let range = line.split(' ').next().unwrap_or_default();
        let Some(link) = line.splitn(6, ' ').nth(5).map(str::trim_start) else { continue };
        let seen = || format!("{range} maps {link}");
        if link.starts_with("/dev/nvidia") {
            gpu(process, &seen(), needs, found);
        } else if link.ends_with(" (deleted)")
            && let Ok(metadata) = fs::metadata(process.directory.join("map_files").join(range))
        {
            deleted(process, link, metadata.blocks(), &seen(), found);
        }
    }
}

/// Locks that others hold on files which the session has open: what is restored may have to wait for them.
pub(super) fn locks(proc: &Path, tree: &[i32], found: &mut Preflight) {
    let mut held: BTreeMap<(u64, u64), i32> = BTreeMap::new();
    for line in fs::read_to_string(proc.join("locks")).unwrap_or_default().lines() {
        // 1: POSIX  ADVISORY  WRITE 3568 fd:00:2531452 0 EOF
        let words: Vec<&str> = line.split_whitespace().filter(|word| *word != "->").collect();
        let [_, _, _, _, holder, file, ..] = words.as_slice() else { continue };
        let mut parts = file.split(':');
        let (Some(major), Some(minor), Some(inode)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let number = |text| u32::from_str_radix(text, 16).ok();
        let (Some(major), Some(minor), Ok(inode), Ok(holder)) =
            (number(major), number(minor), inode.parse(), holder.parse::<i32>())
        else {
            continue;
        };
        if holder > 0 && !tree.contains(&holder) {
            held.insert((rustix::fs::makedev(major, minor), inode), holder);
        }
    }
    if held.is_empty() {
        return;
    }
    for pid in tree {
        let process =
            Process { directory: proc.join(pid.to_string()), pid: *pid, comm: super::comm(proc, *pid) };
        for entry in fs::read_dir(process.directory.join("fd")).into_iter().flatten().flatten() {
            let Ok(metadata) = fs::metadata(entry.path()) else { continue };
            let Some(holder) = held.get(&(metadata.dev(), metadata.ino())) else { continue };
            let link = fs::read_link(entry.path()).unwrap_or_default();
            let warning = process.problem(
                "a lock that somebody else holds",
                format!("process {holder} has locked `{}`", link.display()),
                "a lock of the session on the same file can only be restored once that one is free",
            );
            if !found.warnings.contains(&warning) {
                found.warnings.push(warning);
            }
        }
    }
}
