//! Where a process's cgroups are in the file system, for both versions of cgroups and for machines that have both.

use std::fs;
use std::path::{Path, PathBuf};

use base::proc;

use crate::error::{CudaError, Result};
use crate::process;

/// Which version of cgroups a directory belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Version {
    One,
    Two,
}

/// A cgroup of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Cgroup {
    pub(crate) version: Version,
    /// The process's own cgroup first, then its ancestors up to the mount point.
    pub(crate) directories: Vec<PathBuf>,
}

/// The cgroups of `pid` that have to do with `controller`: that of version 1 if it is mounted, and that of version 2.
pub(crate) fn of(pid: i32, controller: &str) -> Result<Vec<Cgroup>> {
    let mounts = Path::new("/proc/self/mountinfo");
    let mounts = fs::read(mounts).map_err(CudaError::io("read", mounts))?;
    let mounts = String::from_utf8_lossy(&mounts);
    let membership = process::read(pid, "cgroup")?;
    Ok(located(&membership, &mounts, controller))
}

fn located(membership: &str, mounts: &str, controller: &str) -> Vec<Cgroup> {
    let mut found = Vec::new();
    for place in proc::memberships(membership) {
        let version = if place.is_unified { Version::Two } else { Version::One };
        if version == Version::One && !place.has(controller) {
            continue;
        }
        let mount = mounts.lines().filter_map(Mount::parse).find(|mount| mount.holds(version, controller));
        if let Some(mount) = mount {
            found.push(Cgroup { version, directories: mount.upwards(place.path) });
        }
    }
    found
}

struct Mount<'a> {
    root: &'a str,
    point: PathBuf,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    /// A line of `mountinfo`: `36 35 98:0 /root /point options … - type source super-options`.
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        // Cgroup mount points hold no blanks on any machine we know of; if one does, it is not found, and nothing is read.
        Some(Self { root, point: PathBuf::from(point), kind, options })
    }

    fn holds(&self, version: Version, controller: &str) -> bool {
        match version {
            Version::Two => self.kind == "cgroup2",
            Version::One => {
                self.kind == "cgroup" && self.options.split(',').any(|option| option == controller)
            }
        }
    }

    /// The directory of the cgroup `path` and those above it, down to up.
    fn upwards(&self, path: &str) -> Vec<PathBuf> {
        // A mount may show only a part of the hierarchy.
        let below = path.strip_prefix(self.root).filter(|_| self.root != "/").unwrap_or(path);
        let below = below.trim_matches('/');
        // A cgroup outside our cgroup namespace is shown as `/..`: it has no directory here.
        if below.split('/').any(|part| part == "..") {
            return Vec::new();
        }
        let own = if below.is_empty() { self.point.clone() } else { self.point.join(below) };
        own.ancestors()
            .take_while(|directory| directory.starts_with(&self.point))
            .map(Path::to_path_buf)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOUNTS: &str = "\
33 24 0:28 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755
34 33 0:29 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw
37 33 0:32 / /sys/fs/cgroup/freezer rw,nosuid - cgroup cgroup rw,freezer
38 33 0:33 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
";
    const MEMBERSHIP: &str =
        "5:freezer:/box/one\n4:memory:/docker/abc/one\n3:cpu,cpuacct:/\n0::/user.slice\n";

    fn paths(cgroup: &Cgroup) -> Vec<&str> {
        cgroup.directories.iter().map(|path| path.to_str().unwrap()).collect()
    }

    #[test]
    fn both_versions_are_found_with_their_ancestors() {
        let found = located(MEMBERSHIP, MOUNTS, "freezer");
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].version, Version::One);
        assert_eq!(
            paths(&found[0]),
            ["/sys/fs/cgroup/freezer/box/one", "/sys/fs/cgroup/freezer/box", "/sys/fs/cgroup/freezer"]
        );
        assert_eq!(found[1].version, Version::Two);
        assert_eq!(paths(&found[1]), ["/sys/fs/cgroup/unified/user.slice", "/sys/fs/cgroup/unified"]);
    }

    #[test]
    fn a_mount_of_a_part_is_understood() {
        let found = located(MEMBERSHIP, MOUNTS, "memory");
        assert_eq!(paths(&found[0]), ["/sys/fs/cgroup/memory/one", "/sys/fs/cgroup/memory"]);
        assert_eq!(located("0::/../other\n", MOUNTS, "memory")[0].directories, Vec::<PathBuf>::new());
    }

    #[test]
    fn our_own_are_found() {
        let own = i32::try_from(std::process::id()).unwrap();
        for cgroup in of(own, "freezer").unwrap() {
            assert!(cgroup.directories.iter().all(|directory| directory.is_dir()), "{cgroup:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(membership in any::<String>(), mounts in any::<String>()) {
            let _ = located(&membership, &mounts, "freezer");
        }

        #[test]
        fn no_likely_text_makes_the_parsers_panic(
            membership in "([0-9]:(freezer|):[/a.]{0,9}\n){0,3}",
            mounts in "([0-9] [0-9] 0:1 [/a]{0,4} [/a]{0,4} rw - cgroup2? x freezer\n){0,3}",
        ) {
            let _ = located(&membership, &mounts, "freezer");
        }
    }
}
