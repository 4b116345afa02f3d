//! Room on disk and in memory, and mounts that were made inside the session.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::{Needs, Preflight, Problem};
use crate::error::{Result, io_error};

/// What a dump needs beside the memory itself: tables, small images, the log.
const BESIDE: u64 = 32 << 20;
/// The store always needs some: packs are written before old ones go.
const STORE_LEAST: u64 = 64 << 20;

/// Where the launcher mounts file systems of the session's own.
const OWN: [&str; 11] = [
    "/",
    "/proc",
    "/sys",
    "/dev",
    "/dev/shm",
    "/dev/pts",
    "/dev/mqueue",
    "/run",
    "/tmp",
    "/run/lock",
    "/sys/fs/cgroup",
];

/// Mounts that the session was not given: FUSE, mostly. CRIU can neither dump nor restore them.
pub(super) fn mounts(proc: &Path, init: i32, needs: &Needs, found: &mut Preflight) {
    let table = fs::read(proc.join(init.to_string()).join("mountinfo")).unwrap_or_default();
    for line in String::from_utf8_lossy(&table).lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let Some(point) = words.get(4).map(|point| unescaped(point)) else { continue };
        let kind = words
            .iter()
            .position(|word| *word == "-")
            .and_then(|at| words.get(at + 1))
            .copied()
            .unwrap_or_default();
        let known = OWN.iter().any(|own| point == Path::new(own)) || needs.known_mounts.contains(&point);
        if known && !kind.starts_with("fuse.") {
            continue;
        }
        if known && needs.known_mounts.contains(&point) {
            continue;
        }
        found.refusals.push(Problem {
            pid: init,
            comm: super::comm(proc, init),
            what: "a mount that the session was not given",
            evidence: format!("`{}` is a mount of type {kind}", point.display()),
            way_out: format!("unmount it inside the session (fusermount -u {})", point.display()),
        });
    }
}

/// `mountinfo` writes blanks and the like as octal numbers.
fn unescaped(text: &str) -> PathBuf {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.filter(|_| *first == b'\\').and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(out))
}

/// Compares what will be written with what is free.
pub(super) fn examine(needs: &Needs, found: &mut Preflight) -> Result<()> {
    let wanted = found.memory_bytes.saturating_add(BESIDE);
    if needs.staging_in_memory {
        let free = available_memory();
        if free < wanted {
            found.refusals.push(lack("memory", &needs.staging, wanted, free));
        }
    }
    let free = free_bytes(&needs.staging)?;
    if free < wanted {
        found.refusals.push(lack("room for the images", &needs.staging, wanted, free));
    }
    let free = free_bytes(&needs.store)?;
    if free < STORE_LEAST {
        found.refusals.push(lack("room in the store", &needs.store, STORE_LEAST, free));
    } else if free < wanted {
        found.warnings.push(lack(
            "room in the store, if little of it is known yet",
            &needs.store,
            wanted,
            free,
        ));
    }
    Ok(())
}

fn lack(what: &'static str, path: &Path, wanted: u64, free: u64) -> Problem {
    Problem {
        pid: 0,
        comm: String::new(),
        what,
        evidence: format!(
            "`{}` has {} MiB free, {} MiB are needed",
            path.display(),
            free >> 20,
            wanted >> 20
        ),
        way_out: "free some, or end what uses it".to_owned(),
    }
}

/// Bytes that are free at a path, or at the nearest directory above it that is there.
pub(crate) fn free_bytes(path: &Path) -> Result<u64> {
    let nearest = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let room = rustix::fs::statvfs(nearest).map_err(io_error("examine", nearest))?;
    Ok(room.f_bavail.saturating_mul(room.f_frsize))
}

/// Bytes of memory that can be had without swapping.
pub(crate) fn available_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap_or_default();
    line.split_whitespace()
        .next()
        .and_then(|number| number.parse::<u64>().ok())
        .unwrap_or(0)
        .saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_mountinfo() {
        assert_eq!(unescaped("/a\\040b\\"), Path::new("/a b\\"));
        assert_eq!(unescaped("/plain"), Path::new("/plain"));
    }

    #[test]
    fn too_little_room_is_told_with_figures() {
        let dir = tempfile::tempdir().unwrap();
        let mut found = Preflight { memory_bytes: u64::MAX / 2, ..Preflight::default() };
        let needs = Needs {
            staging: dir.path().join("not/there/yet"),
            store: dir.path().to_owned(),
            staging_in_memory: true,
            uid: None,
            known_mounts: Vec::new(),
            boxed: false,
            on_gpu: Default::default(),
            vram_bytes: 0,
        };
        examine(&needs, &mut found).unwrap();
        assert_eq!(found.refusals.len(), 2, "{found:?}");
        assert!(found.refusals[1].evidence.contains("MiB free"));
        assert_eq!(found.warnings.len(), 1);
    }
}
