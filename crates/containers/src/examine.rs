//! A container is looked at as it runs, before anything is locked, frozen or written.
//!
//! What is found is said with what was seen and the way out. A finding that *blocks* means that a snapshot would fail or come out wrong; that
//! something could not be looked at blocks, too. What every tree of processes is looked at for (descriptors, sockets, room on disk) is
//! `preflight`'s, when a snapshot is made.

use std::path::Path;
use std::time::{Duration, Instant};

use gpu_detect::{Detector, Report, Strategy};
use serde::Serialize;

use crate::container::{Container, Status};
use crate::error::{ContainerError, Result};
use crate::finding::{Finding, Topic, Weight};
use crate::held::{self, Held};
use crate::{gpus, layers, processes, seccomp};

/// What a look at a container gave.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Examination {
    /// Whether a snapshot can be taken as things are.
    pub can_be_captured: bool,
    /// Who holds it still; empty if it runs.
    pub held: Vec<Held>,
    /// Its processes, its first one first.
    pub processes: Vec<i32>,
    /// What its processes have on GPUs.
    pub gpu: Report,
    /// GPUs that it was given, whether or not something uses them.
    pub gpus_granted: Vec<String>,
    /// Everything that was found, what blocks first.
    pub findings: Vec<Finding>,
    /// How long the look took.
    #[serde(rename = "took_us", serialize_with = "microseconds")]
    pub took: Duration,
}

/// Looks at a container that runs.
pub fn examine(container: &Container, detector: &Detector) -> Result<Examination> {
    let begun = Instant::now();
    let not_running = || ContainerError::NotRunning {
        container: container.id.to_string(),
        status: container.status.word(),
    };
    let init = container.pid.filter(|_| container.status != Status::Stopped).ok_or_else(not_running)?;
    let pids = processes::of(container, init)?;
    let mut findings = Vec::new();
    if pids.len() > processes::MOST {
        findings.push(Finding::blocks(
            Topic::Processes,
            format!("more than {} processes", processes::MOST),
            Vec::new(),
            "nothing was found to be wrong with them; there are too many to look at",
        ));
    }
    let held = held::look(container, init, &pids).map_err(ContainerError::io("read", Path::new("/proc")))?;
    findings.extend(held.iter().map(|held| {
        Finding::blocks(Topic::Held, held.how.clone(), held.evidence.clone(), held.undo.clone())
    }));
    findings.extend(says_paused_and_is_not(container, &held));
    let gpu = detector.several(&pids)?;
    if let Strategy::Refuse { reasons } = &gpu.strategy {
        findings.push(Finding::blocks(
            Topic::Gpu,
            "its work on GPUs cannot be captured",
            reasons.clone(),
            "`infinijup detect --pid PID --verbose` says more about each process",
        ));
    }
    let gpus_granted = gpus::granted(container, init);
    findings.extend(gpus::look(&gpu, &gpus_granted));
    findings.extend(seccomp::look(container, &pids));
    findings.extend(layers::look(container, init, &pids));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.weight));
    let can_be_captured = findings.iter().all(|finding| finding.weight != Weight::Blocks);
    Ok(Examination {
        can_be_captured,
        held,
        processes: pids,
        gpu,
        gpus_granted,
        findings,
        took: begun.elapsed(),
    })
}

/// A runtime may have lost track: what it calls paused runs.
fn says_paused_and_is_not(container: &Container, held: &[Held]) -> Option<Finding> {
    let frozen = held.iter().any(|held| !matches!(held.by, held::By::Signal | held::By::Tracer));
    let says = matches!(container.status, Status::Paused | Status::Pausing);
    let runtime = container.runtime.kind().word();
    (says && !frozen).then(|| {
        Finding::warning(
            Topic::Held,
            format!("{runtime} takes it for paused, and it is not frozen"),
            vec![format!("{runtime} says that it is {}", container.status.word())],
            format!("resume it with {runtime}: somebody thawed its cgroup past it"),
        )
    })
}

fn microseconds<S: serde::Serializer>(took: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(u64::try_from(took.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::thread;

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;
    use crate::held::By;
    use crate::sample::{container, runc};

    struct Sleeper(Child);

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn looked_at(container: &Container) -> Examination {
        examine(container, &Detector::new(Path::new("/proc"), None)).unwrap()
    }

    #[test]
    fn one_that_runs_can_be_captured_and_one_that_is_stopped_cannot() {
        let sleeper = Sleeper(Command::new("sleep").arg("1000").spawn().unwrap());
        let pid = i32::try_from(sleeper.0.id()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let mut one = container(runc("/run/runc"), "c1", pid);
        one.root.writable = Some(directory.path().to_owned());
        let seen = looked_at(&one);
        assert_eq!((seen.processes[0], seen.held.as_slice()), (pid, [].as_slice()));
        assert!(seen.can_be_captured, "{:?}", seen.findings);

        kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
        while !base::proc::Stat::of(pid).unwrap().unwrap().is_stopped() {
            thread::yield_now();
        }
        let seen = looked_at(&one);
        assert_eq!(seen.held.iter().map(|held| held.by).collect::<Vec<_>>(), [By::Signal]);
        assert!(!seen.can_be_captured && seen.findings[0].topic == Topic::Held);
    }

    #[test]
    fn nothing_is_taken_for_granted() {
        let own = i32::try_from(std::process::id()).unwrap();
        let mut one = container(runc("/run/runc"), "c1", own);
        // Nobody says where its files are.
        let seen = looked_at(&one);
        assert!(!seen.can_be_captured && seen.findings.iter().any(|finding| finding.topic == Topic::Layers));
        // A runtime that has lost track.
        one.status = Status::Paused;
        let seen = looked_at(&one);
        assert!(
            seen.findings.iter().any(|finding| finding.what.contains("is not frozen")),
            "{:?}",
            seen.findings
        );
        one.status = Status::Stopped;
        let refused = examine(&one, &Detector::new(Path::new("/proc"), None)).unwrap_err();
        assert_eq!(refused.code(), "IJ-O020");
        one.status = Status::Running;
        one.pid = Some(i32::MAX);
        let refused = examine(&one, &Detector::new(Path::new("/proc"), None)).unwrap_err();
        assert_eq!(refused.code(), "IJ-O021");
    }
}
