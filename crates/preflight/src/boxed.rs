//! What CRIU cannot save from inside a box, where it has the rights of its user and no more.
//!
//! The kernel lets nobody but the machine's root follow `/proc/PID/map_files`, so a mapped file must have a name; it lets nobody
//! lift another's system call filter; and it hides processes that asked to be hidden. CRIU would find most of this out in the middle
//! of a dump. The worst it would not find at all: a memory file that is mapped *and* open comes back as two.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

use super::state::field;
use super::{Preflight, Process};

/// Looks at one process.
pub(super) fn examine(process: &Process, status: &str, found: &mut Preflight) {
    if !matches!(field(status, "Seccomp"), "" | "0") {
        found.refusals.push(process.problem(
            "a system call filter",
            "it has a seccomp filter, which only root may lift for a moment",
            "end what filters itself (a sandboxed browser, for one), or run without the filter",
        ));
    }
    let open = match descriptors(process, found) {
        Ok(open) => open,
        // What a process has belongs to root as soon as its memory is gone: it does not hide, it ends.
        Err(_) if process.is_ending() => return,
        Err(error) => {
            found.refusals.push(process.problem(
                "a process that hides itself",
                format!("its descriptors cannot be listed: {error}"),
                "end it (a key agent or password tool, mostly): its memory is closed to everybody but root",
            ));
            return;
        }
    };
    mappings(process, &open, found);
}

/// Inodes of open files in memory. Deleted files of foreign groups are refused on the way: nobody but root could make them again.
fn descriptors(process: &Process, found: &mut Preflight) -> std::io::Result<BTreeSet<u64>> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut memory_files = BTreeSet::new();
    for entry in fs::read_dir(process.directory.join("fd"))? {
        let Ok(entry) = entry else { continue };
        let (Ok(link), Ok(metadata)) = (fs::read_link(entry.path()), fs::metadata(entry.path())) else {
            continue;
        };
        let link = link.to_string_lossy();
        if link.starts_with("/memfd:") {
            memory_files.insert(metadata.ino());
        } else if link.ends_with(" (deleted)")
            && metadata.is_file()
            && (metadata.uid() != uid || metadata.gid() != gid)
        {
            found.refusals.push(process.problem(
                "a deleted file of another group",
                format!(
                    "descriptor {} is {link}, of user {} and group {}",
                    entry.file_name().to_string_lossy(),
                    metadata.uid(),
                    metadata.gid()
                ),
                "close it, or keep its name: a file of another group cannot be made again without root",
            ));
        }
    }
    Ok(memory_files)
}

fn mappings(process: &Process, memory_files: &BTreeSet<u64>, found: &mut Preflight) {
    let mut named: BTreeSet<String> = BTreeSet::new();
    for line in process.read("maps").unwrap_or_default().lines() {
        let mut words = line.splitn(6, ' ');
        let (range, inode) = (words.next().unwrap_or_default(), words.nth(3).unwrap_or_default());
        let Some(link) = words.next().map(str::trim_start).filter(|link| link.ends_with(" (deleted)")) else {
            continue;
        };
        let (what, way_out) = if link.starts_with("/SYSV") {
            ("System V shared memory", "use POSIX shared memory or multiprocessing.shared_memory instead")
        } else if link.starts_with("/memfd:") {
            if !inode.parse().is_ok_and(|inode| memory_files.contains(&inode)) {
                continue;
            }
            (
                "a memory file that is mapped and open",
                "close the descriptor once it is mapped, or use a file in /dev/shm",
            )
        } else if link.starts_with("/dev/zero") {
            // How the kernel shows anonymous shared memory.
            continue;
        } else {
            (
                "a mapped file that was deleted or replaced",
                "restart the program that has it loaded (after an upgrade of a library, the kernel)",
            )
        };
        // A library has several mappings.
        if named.insert(format!("{what} {link}")) {
            found.refusals.push(process.problem(what, format!("{range} maps {link}"), way_out));
        }
    }
}
