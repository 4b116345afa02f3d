//! Finding the processes, and filling them one after the other.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base::proc::{self, Stat};

use super::followed::{Begun, Known};
use super::source::Source;
use super::target::Target;
use crate::ahead::Process;
use crate::error::{MemoryError, Result};
use crate::mappings::anonymous_memory;
use crate::pages::{Run, Task, difference, merged};
use crate::scan::Pagemap;
use crate::standing::{Frozen, Standing};

/// How long threads may take to come to a halt.
const STOP_LIMIT: Duration = Duration::from_secs(2);
/// Between two looks whether they have.
const BETWEEN_LOOKS: Duration = Duration::from_micros(200);

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Filled {
    /// Bytes that were missing.
    pub missing: u64,
    /// Of these, bytes that had to be written; the others are zeros.
    pub written: u64,
}

/// Puts all pages that `source` has into the processes below `root`, which all stand still; so they do when this returns. On an error
/// some may be filled and others not, and none of them may run. If this program ends in the middle of it, they are killed.
pub fn fill(root: i32, source: &dyn Source) -> Result<Filled> {
    let tree = still_tree(root)?;
    Standing::hold_or_kill(&tree, |_| Ok(fill_all(&tree, root, source, false)?.0))
}

/// The same, and processes that missed something are followed from their first instruction on. One that cannot be runs all the same.
pub fn fill_and_follow(root: i32, source: &dyn Source) -> Result<(Filled, Begun)> {
    fill_then(root, source, true, || ()).map(|(filled, begun, ())| (filled, begun))
}

/// The same, if it is wished, and then `then`, for as long as that takes: until it returns they are held as they were for the fill, so
/// that nobody can let them go, and they do not outlive this program. If one of them was killed meanwhile, that is an error: what is left
/// is not the tree that it was, and must not run.
pub fn fill_then<T: Send>(
    root: i32,
    source: &dyn Source,
    follow: bool,
    then: impl FnOnce() -> T + Send,
) -> Result<(Filled, Begun, T)> {
    let tree = still_tree(root)?;
    Standing::hold_or_kill(&tree, |held| {
        let (filled, known) = fill_all(&tree, root, source, follow)?;
        // While all of them are held: a page that is written between being filled and being protected would look clean. And before the wait:
        // whoever waits for them to go does not wait for this.
        let begun = if follow { Begun::follow(held, known) } else { Begun::default() };
        let answer = then();
        for pid in &tree {
            Frozen::look(*pid)?;
        }
        Ok((filled, begun, answer))
    })
}

fn still_tree(root: i32) -> Result<Vec<i32>> {
    let tree = tree(root)?;
    for pid in &tree {
        wait_until_still(*pid)?;
    }
    Ok(tree)
}

/// They were told to stop before they could run, but threads come to a halt one by one.
fn wait_until_still(pid: i32) -> Result<Frozen> {
    let deadline = Instant::now() + STOP_LIMIT;
    loop {
        match Frozen::look(pid) {
            Err(MemoryError::NotStill { .. }) if Instant::now() < deadline => {
                std::thread::sleep(BETWEEN_LOOKS)
            }
            looked => return looked,
        }
    }
}

fn fill_all(tree: &[i32], root: i32, source: &dyn Source, remember: bool) -> Result<(Filled, Vec<Known>)> {
    let missing = source.missing();
    let found = find(tree, root, &missing)?;
    let (mut filled, mut known) = (Filled::default(), Vec::new());
    for (task, runs) in missing {
        let pid = *found.get(&task).ok_or(MemoryError::NoTask { task, root })?;
        let target = look(pid, task, runs, remember)?;
        source.give(task, &target).map_err(|source| MemoryError::Source { task, source })?;
        if target.given() != target.wanted() {
            return Err(MemoryError::NotAll { task, given: target.given(), wanted: target.wanted() });
        }
        filled.missing += target.wanted();
        filled.written += target.written();
        known.push(Known { pid, task, prints: target.into_prints() });
    }
    Ok((filled, known))
}

/// The process of each task that misses something. None may be there twice.
fn find(tree: &[i32], root: i32, missing: &BTreeMap<Task, Vec<Run>>) -> Result<BTreeMap<Task, i32>> {
    let mut found = BTreeMap::new();
    for pid in tree {
        let task = Process::of(*pid)?.task;
        if missing.contains_key(&task) && found.insert(task, *pid).is_some() {
            return Err(MemoryError::NoTask { task, root });
        }
    }
    Ok(found)
}

/// `root` and everything below it but the dead.
fn tree(root: i32) -> Result<Vec<i32>> {
    let all = proc::pids().map_err(MemoryError::system("list the processes", root))?;
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for stat in all.into_iter().filter_map(|pid| Stat::of(pid).ok().flatten()) {
        if !stat.is_over() {
            children.entry(stat.parent).or_default().push(stat.pid);
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        found.extend(children.remove(pid).unwrap_or_default());
        next += 1;
    }
    Ok(found)
}

/// Sees that a process has room for its pages, and which of them are there already.
fn look(pid: i32, task: Task, missing: Vec<Run>, remember: bool) -> Result<Target> {
    let room = merged(anonymous_memory(pid)?);
    if let Some(run) = difference(&merged(missing.clone()), &room).first() {
        return Err(MemoryError::NoRoom { task, address: run.start });
    }
    let mut pagemap = Pagemap::open(pid)?;
    let mut there = Vec::new();
    for run in &missing {
        match pagemap.is_known_to_the_kernel() {
            true => pagemap.all(*run, &mut there).map_err(MemoryError::number("list the pages", pid))?,
            // An old kernel: nothing is known to be empty.
            false => there.push(*run),
        }
    }
    Ok(Target::new(pid, missing, merged(there), remember))
}
