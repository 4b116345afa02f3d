//! Looking at one process, a tree, or all.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::host::Host;
use crate::report::{ProcessReport, Report};

/// Looks into `/proc`.
#[derive(Clone, Debug)]
pub struct Detector {
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there is no /proc to look into"))]
    proc: PathBuf,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there is no /proc to look into"))]
    host: Option<Host>,
}

impl Detector {
    /// Looks into `proc` (`/proc`, or a copy of one) with what is known of the machine's GPUs.
    pub fn new(proc: &Path, host: Option<Host>) -> Self {
        Self { proc: proc.to_path_buf(), host }
    }

    /// One process, by itself.
    pub fn process(&self, pid: i32) -> Result<ProcessReport> {
        self.look_at_process(pid)
    }

    /// A process and all its descendants. One of them that may not be read refuses the tree; one that ends meanwhile does not.
    pub fn tree(&self, root: i32) -> Result<Report> {
        self.look_at_tree(root)
    }

    /// Processes that belong together without being a tree, such as those of a container. One of them that may not be read refuses them all; one
    /// that ends meanwhile does not.
    pub fn several(&self, pids: &[i32]) -> Result<Report> {
        self.look_at_several(pids)
    }

    /// Every process that this one may read.
    pub fn all(&self) -> Result<Report> {
        self.look_at_all()
    }
}

#[cfg(not(target_os = "linux"))]
mod nowhere {
    use super::{Detector, ProcessReport, Report, Result};
    use crate::error::DetectError;

    const NOT_HERE: DetectError = DetectError::NotSupported { system: std::env::consts::OS };

    impl Detector {
        pub(super) fn look_at_process(&self, _pid: i32) -> Result<ProcessReport> {
            Err(NOT_HERE)
        }

        pub(super) fn look_at_tree(&self, _root: i32) -> Result<Report> {
            Err(NOT_HERE)
        }

        pub(super) fn look_at_several(&self, _pids: &[i32]) -> Result<Report> {
            Err(NOT_HERE)
        }

        pub(super) fn look_at_all(&self) -> Result<Report> {
            Err(NOT_HERE)
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Instant;

    use super::{Detector, ProcessReport, Report, Result};
    use crate::error::DetectError;
    use crate::judge::{judge, together};
    use crate::read::{Buffers, Proc};
    use crate::report::Unreadable;
    use crate::seen::Seen;

    /// So many processes a thread make a thread worth starting.
    const WORTH_A_THREAD: usize = 64;
    /// More readers than this wait for each other in the kernel.
    const MOST_THREADS: usize = 8;

    /// What a look at some processes gave.
    #[derive(Default)]
    struct Looked {
        /// By number; of processes that do not matter only number and, if asked for, name.
        seen: Vec<Seen>,
        unreadable: Vec<Unreadable>,
    }

    impl Detector {
        pub(super) fn look_at_process(&self, pid: i32) -> Result<ProcessReport> {
            let proc = Proc::open(&self.proc)?;
            let mut buffers = Buffers::new();
            let seen = look(&proc, pid, Names::All, &mut buffers)?;
            if !seen.matters() {
                return Ok(judge(&seen, None, self.host.as_ref()));
            }
            // A parent that cannot be read tells nothing.
            let parent = look(&proc, seen.parent, Names::All, &mut buffers).ok().filter(Seen::matters);
            Ok(judge(&seen, parent.as_ref(), self.host.as_ref()))
        }

        pub(super) fn look_at_tree(&self, root: i32) -> Result<Report> {
            let begun = Instant::now();
            let proc = Proc::open(&self.proc)?;
            let mut buffers = Buffers::new();
            proc.process(root)?;
            let pids = tree(&proc, root, &mut buffers)?;
            // The root's parent is no part of the tree, but the root may have been forked from it.
            let report = self.report(&proc, &pids, Some(root), begun);
            if report.processes.is_empty() && report.unreadable.is_empty() {
                return Err(DetectError::NoProcess { pid: root });
            }
            Ok(report)
        }

        pub(super) fn look_at_several(&self, pids: &[i32]) -> Result<Report> {
            let begun = Instant::now();
            let proc = Proc::open(&self.proc)?;
            Ok(self.report(&proc, pids, pids.first().copied(), begun))
        }

        /// `forked` may have been forked from a process outside, which is looked at too.
        fn report(&self, proc: &Proc, pids: &[i32], forked: Option<i32>, begun: Instant) -> Report {
            let mut looked = look_at_many(proc, pids, Names::All);
            let above = looked.seen.iter().find(|seen| Some(seen.pid) == forked).map(|seen| seen.parent);
            let above = above.and_then(|pid| look(proc, pid, Names::All, &mut Buffers::new()).ok());
            let refused: Vec<String> = looked
                .unreadable
                .iter()
                .map(|of| format!("process {} ({}) could not be looked at: {}", of.pid, of.comm, of.reason))
                .collect();
            let processes = self.judge_all(&looked.seen, above.as_ref());
            looked.unreadable.sort_by_key(|of| of.pid);
            Report {
                looked_at: pids.len(),
                strategy: together(&processes, &refused),
                processes,
                unreadable: looked.unreadable,
                took: begun.elapsed(),
            }
        }

        pub(super) fn look_at_all(&self) -> Result<Report> {
            let begun = Instant::now();
            let proc = Proc::open(&self.proc)?;
            let pids = proc.pids(&mut Buffers::new())?;
            let mut looked = look_at_many(&proc, &pids, Names::OfThoseThatMatter);
            let mut processes = self.judge_all(&looked.seen, None);
            processes.retain(|process| process.uses_gpu || !process.findings.is_empty());
            looked.unreadable.sort_by_key(|of| of.pid);
            Ok(Report {
                looked_at: pids.len(),
                strategy: together(&processes, &[]),
                processes,
                unreadable: looked.unreadable,
                took: begun.elapsed(),
            })
        }

        fn judge_all(&self, seen: &[Seen], above: Option<&Seen>) -> Vec<ProcessReport> {
            let by_pid: BTreeMap<i32, &Seen> =
                seen.iter().chain(above).filter(|seen| seen.matters()).map(|seen| (seen.pid, seen)).collect();
            seen.iter().map(|one| judge(one, by_pid.get(&one.parent).copied(), self.host.as_ref())).collect()
        }
    }

    /// Whose names are worth a read.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Names {
        All,
        OfThoseThatMatter,
    }

    fn look(proc: &Proc, pid: i32, names: Names, buffers: &mut Buffers) -> Result<Seen> {
        let process = proc.process(pid)?;
        let mut seen = process.glance(buffers)?;
        if seen.matters() {
            process.closer_look(&mut seen, buffers);
        } else if names == Names::All {
            let status = process.status(buffers)?;
            seen = Seen { pid, comm: status.name, parent: status.parent, ..Seen::default() };
        }
        Ok(seen)
    }

    /// The kernel does nearly all of the work and does it for several readers at a time.
    fn look_at_many(proc: &Proc, pids: &[i32], names: Names) -> Looked {
        let cores = thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
        let threads = cores.min(pids.len() / WORTH_A_THREAD + 1);
        let next = AtomicUsize::new(0);
        let work = || {
            let (mut looked, mut buffers) = (Looked::default(), Buffers::new());
            while let Some(pid) = pids.get(next.fetch_add(1, Ordering::Relaxed)) {
                match look(proc, *pid, names, &mut buffers) {
                    Ok(seen) => looked.seen.push(seen),
                    Err(error) => looked.unreadable.extend(why_not(proc, *pid, &error, &mut buffers)),
                }
            }
            looked
        };
        let mut all = Looked::default();
        thread::scope(|scope| {
            let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let own = work();
            for looked in helpers.into_iter().filter_map(|helper| helper.join().ok()).chain([own]) {
                all.seen.extend(looked.seen);
                all.unreadable.extend(looked.unreadable);
            }
        });
        all.seen.sort_by_key(|seen| seen.pid);
        all
    }

    /// A process that has ended is not there, a zombie holds nothing, and a thread of the kernel's is no process: only the rest
    /// is unreadable.
    fn why_not(proc: &Proc, pid: i32, error: &DetectError, buffers: &mut Buffers) -> Option<Unreadable> {
        if matches!(error, DetectError::NoProcess { .. }) {
            return None;
        }
        let status = proc.process(pid).and_then(|process| process.status(buffers)).ok()?;
        if status.kernel || status.state == Some('Z') {
            return None;
        }
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
        Some(Unreadable { pid, comm: status.name, reason: format!("{error}{cause}") })
    }

    /// The root and its descendants: by the kernel's lists of children, or where it keeps none by everybody's parent.
    fn tree(proc: &Proc, root: i32, buffers: &mut Buffers) -> Result<Vec<i32>> {
        let mut members = BTreeSet::from([root]);
        let mut unvisited = vec![root];
        let mut parents = None;
        while let Some(pid) = unvisited.pop() {
            let Ok(process) = proc.process(pid) else { continue };
            let children = match process.children(buffers) {
                Some(children) => children,
                None => {
                    if parents.is_none() {
                        parents = Some(everybodys_parent(proc, buffers)?);
                    }
                    let of_this = |(child, parent): &(i32, i32)| (*parent == pid).then_some(*child);
                    parents.iter().flatten().filter_map(of_this).collect()
                }
            };
            unvisited.extend(children.into_iter().filter(|child| members.insert(*child)));
        }
        Ok(members.into_iter().collect())
    }

    fn everybodys_parent(proc: &Proc, buffers: &mut Buffers) -> Result<Vec<(i32, i32)>> {
        let mut parents = Vec::new();
        for pid in proc.pids(buffers)? {
            let parent = proc.process(pid).and_then(|process| process.parent(buffers));
            parents.extend(parent.ok().flatten().map(|parent| (pid, parent)));
        }
        Ok(parents)
    }
}
