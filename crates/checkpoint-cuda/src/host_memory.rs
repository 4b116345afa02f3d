//! Does the GPU's memory fit into the machine's?
//!
//! A checkpoint moves all device memory of a process into anonymous memory of that process. If the process's memory cgroup or
//! the machine cannot take it, the kernel kills the process in the middle of the move. So this is found out before anything is
//! locked. Space on the GPUs, for a restore, is NVML's to tell and not looked at here.

use std::fs;
use std::path::{Path, PathBuf};

use base::proc::{self, CgroupVersion as Version, MachineMemory};

use crate::error::{CudaError, Result};
use crate::facts::Target;

/// Memory that some processes share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryLimit {
    /// For people: the machine's memory, or a cgroup.
    pub place: String,
    /// Bytes that can still be taken.
    pub available: u64,
    /// Which of the targets take from it.
    pub pids: Vec<i32>,
}

/// Checks that each of `limits` can take the device memory of those of `targets` that take from it, and the machine, with
/// `host_available` bytes, that of all.
pub fn check(targets: &[Target], host_available: u64, limits: &[MemoryLimit]) -> Result<()> {
    let needed = |takes: &dyn Fn(i32) -> bool| {
        targets
            .iter()
            .filter(|target| takes(target.pid))
            .fold(0_u64, |sum, target| sum.saturating_add(target.vram_bytes))
    };
    let all = needed(&|_| true);
    if all > host_available {
        let place = "the memory of this machine".to_owned();
        return Err(CudaError::NoRoom { needed: all, available: host_available, place });
    }
    for limit in limits {
        let needed = needed(&|pid| limit.pids.contains(&pid));
        if needed > limit.available {
            return Err(CudaError::NoRoom { needed, available: limit.available, place: limit.place.clone() });
        }
    }
    Ok(())
}

/// [`check`] with the machine and the cgroups as they are now.
pub fn check_now(targets: &[Target]) -> Result<()> {
    check(targets, host_available()?, &limits(targets)?)
}

/// Memory that the machine can hand out without swapping.
pub fn host_available() -> Result<u64> {
    let memory = MachineMemory::read().map_err(CudaError::io("read", "/proc/meminfo"))?;
    Ok(memory.available.unwrap_or(u64::MAX))
}

/// All memory cgroups with a limit that the targets are in, directly or from below.
pub fn limits(targets: &[Target]) -> Result<Vec<MemoryLimit>> {
    let mut found: Vec<(PathBuf, MemoryLimit)> = Vec::new();
    for target in targets {
        let cgroups = proc::cgroups_of(target.pid, "memory");
        let cgroups = cgroups.map_err(CudaError::io("read", proc::path(target.pid, "cgroup")))?;
        for cgroup in cgroups.ok_or(CudaError::Ended { pid: target.pid })? {
            for directory in cgroup.directories {
                if let Some((_, limit)) = found.iter_mut().find(|(known, _)| *known == directory) {
                    limit.pids.push(target.pid);
                } else if let Some(available) = available(cgroup.version, &directory) {
                    let place = format!("the memory of cgroup `{}`", directory.display());
                    let limit = MemoryLimit { place, available, pids: vec![target.pid] };
                    found.push((directory, limit));
                }
            }
        }
    }
    Ok(found.into_iter().map(|(_, limit)| limit).collect())
}

/// What a memory cgroup can still take; `None` if it has no limit.
fn available(version: Version, directory: &Path) -> Option<u64> {
    let (limit, usage) = match version {
        Version::One => ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        Version::Two => ("memory.max", "memory.current"),
    };
    let read = |file: &str| fs::read_to_string(directory.join(file)).ok();
    // No limit is `max` in version 2, and all of the address space in version 1.
    let limit: u64 = read(limit)?.trim().parse().ok().filter(|limit| *limit < u64::MAX >> 2)?;
    let used: u64 = read(usage)?.trim().parse().ok()?;
    // The kernel gives up cached files before it kills.
    let cached = read("memory.stat")
        .and_then(|text| line(&text, "total_inactive_file ").or_else(|| line(&text, "inactive_file ")))
        .unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(cached)))
}

/// The first number of the line that starts with `name`.
fn line(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn targets() -> [Target; 2] {
        [Target { pid: 7, vram_bytes: 3 * GIB }, Target { pid: 8, vram_bytes: 2 * GIB }]
    }

    fn limit(available: u64, pids: &[i32]) -> MemoryLimit {
        MemoryLimit { place: "a cgroup".to_owned(), available, pids: pids.to_vec() }
    }

    #[test]
    fn the_machine_must_take_all() {
        check(&targets(), 5 * GIB, &[]).unwrap();
        let refused = check(&targets(), 5 * GIB - 1, &[]).unwrap_err();
        assert_eq!(refused.code(), "IJ-G020");
        assert!(refused.to_string().contains("this machine"), "{refused}");
        let absurd = [Target { pid: 7, vram_bytes: u64::MAX }, Target { pid: 8, vram_bytes: u64::MAX }];
        check(&absurd, 5 * GIB, &[]).unwrap_err();
    }

    #[test]
    fn a_cgroup_must_take_what_is_in_it() {
        check(&targets(), u64::MAX, &[limit(3 * GIB, &[7]), limit(2 * GIB, &[8])]).unwrap();
        check(&targets(), u64::MAX, &[limit(4 * GIB, &[7, 8])]).unwrap_err();
        let refused = check(&targets(), u64::MAX, &[limit(GIB, &[8])]).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "2147483648 bytes of GPU memory do not fit into a cgroup, which has room for 1073741824"
        );
    }

    #[test]
    fn limits_are_read_in_both_versions() {
        let directory = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(directory.path().join(file), text).unwrap();
        assert_eq!(available(Version::One, directory.path()), None);
        write("memory.limit_in_bytes", "9223372036854771712\n");
        write("memory.usage_in_bytes", "100\n");
        assert_eq!(available(Version::One, directory.path()), None);
        write("memory.limit_in_bytes", "1000\n");
        assert_eq!(available(Version::One, directory.path()), Some(900));
        write("memory.stat", "inactive_file 1\ntotal_inactive_file 60\n");
        assert_eq!(available(Version::One, directory.path()), Some(960));

        write("memory.max", "max\n");
        write("memory.current", "5000\n");
        assert_eq!(available(Version::Two, directory.path()), None);
        write("memory.max", "4000\n");
        write("memory.stat", "inactive_file 10\n");
        assert_eq!(available(Version::Two, directory.path()), Some(0));
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(host_available().unwrap() > 0);
        limits(&[Target { pid: i32::try_from(std::process::id()).unwrap(), vram_bytes: 1 }]).unwrap();
    }
}
