//! What is looked for, and what the kernel knows of a container however its runtime says it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use base::proc;

use crate::container::{Container, RootFilesystem};
use crate::member::Member;
use crate::query::Query;
use crate::specification::{MOST_BYTES, Specification};

/// What is looked for.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) query: &'a Query,
    pub(super) member: Option<&'a Member>,
}

impl Wanted<'_> {
    pub(super) fn fits(self, container: &Container) -> bool {
        self.query.fits(container) || self.has_member(container.pid)
    }

    pub(super) fn has_member(self, pid: Option<i32>) -> bool {
        self.member.zip(pid).is_some_and(|(member, pid)| member.is_in(pid))
    }
}

/// A `config.json`. One that cannot be read or is none is none.
pub(super) fn read_specification(path: &Path) -> Option<Specification> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes).ok()?;
    Specification::parse(&bytes)
}

/// A first process as runtimes write it: 0 if there is none.
pub(super) fn first_process(pid: i64) -> Option<i32> {
    i32::try_from(pid).ok().filter(|pid| *pid > 0)
}

/// The cgroup of a container's first process: in the freezer's hierarchy, or that of version 2.
pub(super) fn cgroup_of(pid: Option<i32>) -> Option<String> {
    let text = proc::read_text(pid?, "cgroup").ok()??;
    let places: Vec<_> = proc::memberships(&text).collect();
    let place =
        places.iter().find(|place| place.has("freezer")).or_else(|| places.iter().find(|one| one.is_unified));
    place.map(|place| place.path.to_owned())
}

/// The layers of a root as the kernel has mounted it, where the runtime does not say.
pub(super) fn mounted_root(pid: Option<i32>, mut root: RootFilesystem) -> RootFilesystem {
    let table = pid.and_then(|pid| proc::read_text(pid, "mountinfo").ok().flatten()).unwrap_or_default();
    let Some(mount) = proc::mounts_in(&table).find(|mount| mount.target == Path::new("/")) else {
        return root;
    };
    if mount.kind == "overlay" {
        root.writable = mount.super_option("upperdir").filter(|path| path.is_absolute());
        root.lower = layers(mount.super_option("lowerdir"));
    } else {
        root.writable.clone_from(&root.path);
    }
    root.mounted_as = Some(mount.kind);
    root
}

/// overlayfs' list of layers, of which the first lies on top.
pub(super) fn layers(list: Option<PathBuf>) -> Vec<PathBuf> {
    let list = list.unwrap_or_default();
    let list = list.to_string_lossy();
    list.split(':').filter(|layer| !layer.is_empty()).map(PathBuf::from).collect()
}
