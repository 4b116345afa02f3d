//! Where a process's cgroups are in the file system, for both versions of cgroups and for machines that have both.

use std::io;
use std::path::{Path, PathBuf};

use super::cgroup::memberships;
use super::mountinfo::{Mount, mounts_in};

/// Which version of cgroups a directory belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// A hierarchy for each controller.
    One,
    /// One hierarchy for all.
    Two,
}

/// A cgroup of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cgroup {
    /// Of which version.
    pub version: Version,
    /// The process's own cgroup first, then its ancestors up to the mount point. Empty if it lies outside of what we can see.
    pub directories: Vec<PathBuf>,
}

/// The cgroups of `pid` that have to do with `controller`: that of version 1 if it is mounted, and that of version 2. `None` if it has ended.
pub fn cgroups_of(pid: i32, controller: &str) -> io::Result<Option<Vec<Cgroup>>> {
    let hierarchies = Hierarchies::here()?;
    Ok(super::read_text(pid, "cgroup")?.map(|membership| hierarchies.located(&membership, controller)))
}

/// Where hierarchies are mounted, read once for questions about many processes.
#[derive(Clone, Debug)]
pub(super) struct Hierarchies(Vec<Mount>);

impl Hierarchies {
    /// Those that we see.
    pub(super) fn here() -> io::Result<Self> {
        Ok(Self::read(&super::read_text_at(Path::new("/proc/self/mountinfo"))?))
    }

    fn read(mounts: &str) -> Self {
        Self(mounts_in(mounts).filter(|mount| mount.kind.starts_with("cgroup")).collect())
    }

    /// The cgroups of a process with this `/proc/PID/cgroup` that have to do with a controller.
    pub(super) fn located(&self, membership: &str, controller: &str) -> Vec<Cgroup> {
        let mut found = Vec::new();
        for place in memberships(membership) {
            let version = if place.is_unified { Version::Two } else { Version::One };
            if version == Version::One && !place.has(controller) {
                continue;
            }
            if let Some(mount) = self.0.iter().find(|mount| holds(mount, version, controller)) {
                found.push(Cgroup { version, directories: upwards(mount, place.path) });
            }
        }
        found
    }
}

fn holds(mount: &Mount, version: Version, controller: &str) -> bool {
    match version {
        Version::Two => mount.kind == "cgroup2",
        Version::One => {
            mount.kind == "cgroup" && mount.super_options.split(',').any(|option| option == controller)
        }
    }
}

/// The directory of the cgroup `path` and those above it, down to up.
fn upwards(mount: &Mount, path: &str) -> Vec<PathBuf> {
    // A mount may show only a part of the hierarchy.
    let root = mount.root.to_str().filter(|root| *root != "/").unwrap_or_default();
    let below = path.strip_prefix(root).unwrap_or(path).trim_matches('/');
    // A cgroup outside our cgroup namespace is shown as `/..`: it has no directory here.
    if below.split('/').any(|part| part == "..") {
        return Vec::new();
    }
    let own = if below.is_empty() { mount.target.clone() } else { mount.target.join(below) };
    own.ancestors()
        .take_while(|directory| directory.starts_with(&mount.target))
        .map(Path::to_path_buf)
        .collect()
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

    fn located(membership: &str, mounts: &str, controller: &str) -> Vec<Cgroup> {
        Hierarchies::read(mounts).located(membership, controller)
    }

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
        for cgroup in cgroups_of(own, "freezer").unwrap().unwrap() {
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
