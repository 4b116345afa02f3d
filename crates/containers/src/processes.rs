//! The processes of a container.
//!
//! Those below its first process, and those in its cgroup, which also has what was brought in from outside later (`exec`).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use base::proc::{self, Stat};

use crate::container::Container;
use crate::error::{ContainerError, Result};

/// More than this is no container that anybody wants to wait for.
pub(crate) const MOST: usize = 20_000;
/// Cgroups within cgroups.
const MOST_DEPTH: usize = 16;

/// The processes of a container, its first one first; an error if that has ended meanwhile.
pub(crate) fn of(container: &Container, init: i32) -> Result<Vec<i32>> {
    let begun = started(init);
    let mut found = BTreeSet::from([init]);
    let mut unvisited = vec![init];
    while let Some(pid) = unvisited.pop().filter(|_| found.len() < MOST) {
        let children = proc::children(pid).unwrap_or_default();
        unvisited.extend(children.into_iter().filter(|child| found.insert(*child)));
    }
    if let Some(directory) = directory_of(container, init) {
        members(&directory, MOST_DEPTH, &mut found);
    }
    // The list was about this container only if its first process was there all the time.
    if begun.is_none() || started(init) != begun {
        return Err(ContainerError::Ended { container: container.id.to_string() });
    }
    let alive = |pid: &i32| Stat::of(*pid).ok().flatten().is_some_and(|stat| !stat.is_over());
    let others = found.into_iter().filter(|pid| *pid != init).filter(alive);
    Ok([init].into_iter().chain(others).collect())
}

fn started(pid: i32) -> Option<u64> {
    Stat::of(pid).ok().flatten().filter(|stat| !stat.is_over()).map(|stat| stat.start_time)
}

/// The directory of the cgroup that is the container's; `None` if it has none of its own.
pub(crate) fn directory_of(container: &Container, init: i32) -> Option<PathBuf> {
    let cgroup = proc::cgroups_of(init, "freezer").ok()??.into_iter().next()?;
    let own = cgroup.directories.first()?;
    // The first process may have moved into a cgroup that the container made itself. Of systemd's words for a cgroup the last is in its name.
    let specified = container.specification.cgroups_path().unwrap_or_default();
    let name = specified.rsplit(['/', ':']).next().unwrap_or_default();
    let is_named = |directory: &&PathBuf| {
        let last = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        !name.is_empty() && (last == name || last.ends_with(&format!("-{name}.scope")))
    };
    let directory = cgroup.directories.iter().find(is_named).unwrap_or(own);
    // At the top are all processes of the machine.
    (cgroup.directories.last() != Some(directory)).then(|| directory.clone())
}

fn members(directory: &Path, depth: usize, found: &mut BTreeSet<i32>) {
    let text = proc::read_text_at(&directory.join("cgroup.procs")).unwrap_or_default();
    found.extend(proc::numbers(&text).take(MOST));
    if depth == 0 || found.len() > MOST {
        return;
    }
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            members(&entry.path(), depth - 1, found);
        }
    }
}
