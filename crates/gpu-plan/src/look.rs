//! Who uses a GPU, and what stands in the way. Nothing is touched here.
//!
//! The look has two halves, with the preflight of everything else between them. The first reads `/proc` and NVML only, so that
//! what it finds can be told together with what else would fail, and so that a stopped process is refused before the driver is
//! asked about it (which would hang). The second asks the driver.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use checkpoint_cuda::{State, Target};
use gpu_detect::{Detector, Finding, Host, Kind, ProcessReport, Report, Strategy};
use preflight::Problem;
use sandbox::process::{self, Identity, ProcessInfo};

use crate::error::{GpuPlanError, Result};
use crate::{Gpus, used_by};

/// What `/proc` and NVML say of a tree that uses GPUs.
#[derive(Debug)]
pub struct Seen {
    /// What would make a snapshot fail.
    pub refusals: Vec<Problem>,
    /// What the user should know.
    pub warnings: Vec<Problem>,
    /// Processes whose device descriptors are this module's business.
    pub on_gpu: BTreeSet<i32>,
    /// Bytes on all GPUs.
    pub vram_bytes: u64,
    tree: Vec<ProcessInfo>,
    host: Host,
}

/// A process that the driver will take off its GPUs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OnGpu {
    /// Which one, as the machine numbers it.
    pub identity: Identity,
    /// Its number inside of the session.
    pub inside: u32,
    /// GPUs that it has open, with its bytes on each.
    pub devices: BTreeMap<String, u64>,
}

impl OnGpu {
    /// Its bytes on all of them.
    pub fn bytes(&self) -> u64 {
        self.devices.values().fold(0, |all, bytes| all.saturating_add(*bytes))
    }

    /// For the driver.
    pub fn target(&self) -> Target {
        Target { pid: self.identity.pid, vram_bytes: self.bytes() }
    }
}

/// What is to be taken off the GPU. Everything that could refuse it has been asked.
#[derive(Debug)]
pub struct GpuPlan {
    /// The processes that have something there.
    pub processes: Vec<OnGpu>,
    /// The GPUs as they are now.
    pub host: Host,
}

impl GpuPlan {
    /// What all of them have there.
    pub fn vram_bytes(&self) -> u64 {
        self.processes.iter().fold(0, |all, process| all.saturating_add(process.bytes()))
    }

    /// For the driver.
    pub fn targets(&self) -> Vec<Target> {
        self.processes.iter().map(OnGpu::target).collect()
    }
}

impl Gpus {
    /// The first half: what `/proc` and NVML say. `None` if nothing in the tree uses a GPU.
    pub fn see(&self, init: i32) -> Result<Option<Seen>> {
        if !self.present() {
            return Ok(None);
        }
        let proc = Path::new("/proc");
        let quick = Detector::new(proc, None).tree(init)?;
        if quick.processes.iter().all(|process| !process.uses_gpu) {
            return Ok(None);
        }
        let host = self.host()?;
        let report = Detector::new(proc, Some(host.clone())).tree(init)?;
        let tree = process::tree(init)?;
        let mut seen = Seen {
            refusals: refusals(&report),
            warnings: warnings(&report),
            on_gpu: users(&report).map(|process| process.pid).collect(),
            vram_bytes: 0,
            host,
            tree,
        };
        let pids: Vec<i32> = seen.tree.iter().map(|process| process.pid).collect();
        seen.vram_bytes =
            used_by(&seen.host, &pids).iter().fold(0, |all, (_, bytes)| all.saturating_add(*bytes));
        for process in seen.tree.iter().filter(|process| seen.on_gpu.contains(&process.pid)) {
            if let Some(how) = stopped(process) {
                seen.refusals.push(Problem {
                    pid: process.pid,
                    comm: process.comm.clone(),
                    what: "a stopped process with work on the GPU",
                    evidence: how,
                    way_out: "let it go on (`kill -CONT`): the driver can only lock a process that runs"
                        .to_owned(),
                });
            }
        }
        Ok(Some(seen))
    }

    /// The second half: what the driver says. Refuses what it will not take.
    pub fn plan(&self, seen: Seen) -> Result<GpuPlan> {
        let Seen { on_gpu, tree, host, .. } = seen;
        let driver = self.driver()?;
        // A zombie has nothing on the GPU any more, and no memory to ask about it.
        let pids: Vec<i32> =
            tree.iter().filter(|process| !process.is_zombie()).map(|process| process.pid).collect();
        let found = driver.find(&pids)?;
        let mut problems = Vec::new();
        let mut processes = Vec::new();
        for process in &tree {
            let known = found.iter().find(|one| one.pid == process.pid);
            let problem = |what: &'static str, evidence: String, way_out: &str| Problem {
                pid: process.pid,
                comm: process.comm.clone(),
                what,
                evidence,
                way_out: way_out.to_owned(),
            };
            match known.map(|known| known.state) {
                Some(State::Running) => processes.push(OnGpu {
                    identity: process.identity(),
                    inside: inside(process)?,
                    devices: devices(process.pid, &host),
                }),
                // Somebody else took it off the GPU. It has nothing there now, and will be as it is after a restore.
                Some(State::Checkpointed) => {}
                Some(State::Failed) => problems.push(problem(
                    "work on the GPU that is lost",
                    "the driver says that it has failed".to_owned(),
                    "end it, or go back to an earlier snapshot",
                )),
                Some(other) => problems.push(problem(
                    "work on the GPU that somebody else has locked",
                    format!("the driver says that it is {other}"),
                    "wait for whoever locked it, or unlock it (`cuda-checkpoint --action unlock --pid PID`)",
                )),
                None if on_gpu.contains(&process.pid) && !process.is_zombie() => problems.push(problem(
                    "a GPU in use",
                    "it has device descriptors, and the driver knows of no CUDA in it".to_owned(),
                    "end what uses the GPU without CUDA (monitoring, graphics), then take the snapshot",
                )),
                None => {}
            }
        }
        if !problems.is_empty() {
            return Err(GpuPlanError::Refused { problems });
        }
        let plan = GpuPlan { processes, host };
        // Else it need not fit into memory; who puts it there all the same asks then.
        if !driver.capabilities().custom_storage {
            checkpoint_cuda::host_memory::check_now(&plan.targets())?;
        }
        Ok(plan)
    }
}

fn users(report: &Report) -> impl Iterator<Item = &ProcessReport> {
    report.processes.iter().filter(|process| process.uses_gpu)
}

fn problem(process: &ProcessReport, finding: &Finding) -> Problem {
    Problem {
        pid: process.pid,
        comm: process.comm.clone(),
        what: finding.kind.title(),
        evidence: finding.evidence.join(", "),
        way_out: finding
            .way_out
            .clone()
            .unwrap_or_else(|| "end the process, or run it without this".to_owned()),
    }
}

fn refusals(report: &Report) -> Vec<Problem> {
    let mut refusals = Vec::new();
    for process in &report.processes {
        let before = refusals.len();
        let blocking = process.findings.iter().filter(|finding| finding.blocks);
        refusals.extend(blocking.map(|finding| problem(process, finding)));
        if let Strategy::Refuse { reasons } = &process.strategy
            && refusals.len() == before
        {
            refusals.push(Problem {
                pid: process.pid,
                comm: process.comm.clone(),
                what: "work on the GPU that cannot be taken",
                evidence: reasons.join("; "),
                way_out: "see `infinijup detect --verbose`".to_owned(),
            });
        }
    }
    if let (Strategy::Refuse { reasons }, true) = (&report.strategy, refusals.is_empty()) {
        refusals.push(Problem {
            pid: 0,
            comm: String::new(),
            what: "work on the GPU that cannot be taken",
            evidence: reasons.join("; "),
            way_out: "see `infinijup detect --tree --verbose`".to_owned(),
        });
    }
    refusals
}

fn warnings(report: &Report) -> Vec<Problem> {
    let mut warnings = Vec::new();
    for process in &report.processes {
        let noted = process
            .findings
            .iter()
            .filter(|finding| !finding.blocks && finding.way_out.is_some() && finding.kind != Kind::Context);
        warnings.extend(noted.map(|finding| problem(process, finding)));
    }
    warnings
}

/// How it is stopped, if it is.
fn stopped(process: &ProcessInfo) -> Option<String> {
    let mut stopped = 0_usize;
    let mut all = 0_usize;
    for task in fs::read_dir(format!("/proc/{}/task", process.pid)).into_iter().flatten().flatten() {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        all += 1;
        stopped += usize::from(matches!(state, Some('T' | 't')));
    }
    (stopped > 0).then(|| format!("{stopped} of {all} threads are stopped"))
}

/// Its number as it sees it itself, which is the one it has again after a restore.
pub fn inside(process: &ProcessInfo) -> Result<u32> {
    let number = process.namespace_pids.last().copied().unwrap_or(process.pid);
    u32::try_from(number).map_err(|_| GpuPlanError::StrangeNumber { number })
}

fn devices(pid: i32, host: &Host) -> BTreeMap<String, u64> {
    used_by(host, &[pid]).into_iter().collect()
}

/// What a tree that is off the GPU still has of it: CRIU could not dump that.
pub fn left_behind(init: i32) -> Result<Option<String>> {
    for process in process::tree(init)?.iter().filter(|process| !process.is_zombie()) {
        if let Some(seen) = device_of(Path::new("/proc"), process.pid) {
            return Ok(Some(format!("{} ({}): {seen}", process.comm, process.pid)));
        }
    }
    Ok(None)
}

fn device_of(proc: &Path, pid: i32) -> Option<String> {
    let directory = proc.join(pid.to_string());
    for entry in fs::read_dir(directory.join("fd")).into_iter().flatten().flatten() {
        let Ok(link) = fs::read_link(entry.path()) else { continue };
        if link.as_os_str().as_encoded_bytes().starts_with(b"/dev/nvidia") {
            let number = entry.file_name();
            return Some(format!("descriptor {} is {}", number.to_string_lossy(), link.display()));
        }
    }
    let maps = fs::read(directory.join("maps")).unwrap_or_default();
    String::from_utf8_lossy(&maps).lines().find_map(|line| {
        let path = line.splitn(6, ' ').nth(5)?.trim_start();
        let range = line.split(' ').next()?;
        path.starts_with("/dev/nvidia").then(|| format!("{range} maps {path}"))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_left_of_a_device_is_seen() {
        let proc = tempfile::tempdir().unwrap();
        let fd = proc.path().join("7/fd");
        fs::create_dir_all(&fd).unwrap();
        symlink("/dev/null", fd.join("0")).unwrap();
        let maps =
            "7f00-7f10 rw-s 00000000 00:01 4142    /dev/zero (deleted)\n200000000-200800000 ---p 0 00:00 0\n";
        fs::write(proc.path().join("7/maps"), maps).unwrap();
        assert_eq!(device_of(proc.path(), 7), None);
        fs::write(
            proc.path().join("7/maps"),
            format!("{maps}7f20-7f30 -w-s 00000000 00:05 668    /dev/nvidia0\n"),
        )
        .unwrap();
        assert_eq!(device_of(proc.path(), 7).unwrap(), "7f20-7f30 maps /dev/nvidia0");
        symlink("/dev/nvidiactl", fd.join("9")).unwrap();
        assert_eq!(device_of(proc.path(), 7).unwrap(), "descriptor 9 is /dev/nvidiactl");
        assert_eq!(device_of(proc.path(), 8), None);
    }

    fn report(findings: Vec<Finding>, strategy: Strategy) -> Report {
        let process = ProcessReport {
            pid: 7,
            comm: "python".into(),
            uses_gpu: true,
            gpus: Vec::new(),
            vram_bytes: 0,
            cgroup: Default::default(),
            findings,
            strategy: strategy.clone(),
        };
        Report {
            processes: vec![process],
            unreadable: Vec::new(),
            looked_at: 1,
            strategy,
            took: std::time::Duration::ZERO,
        }
    }

    #[test]
    fn what_blocks_is_told_with_its_evidence_and_the_way_out() {
        let finding = |kind, blocks, way_out: Option<&str>| Finding {
            kind,
            confidence: gpu_detect::Confidence::Certain,
            evidence: vec!["seen here".into()],
            way_out: way_out.map(str::to_owned),
            blocks,
        };
        let refuse = Strategy::Refuse { reasons: vec!["it shares memory".into()] };
        let found = report(
            vec![finding(Kind::Context, false, None), finding(Kind::Ipc, true, Some("use one process"))],
            refuse.clone(),
        );
        let problems = refusals(&found);
        assert_eq!(problems.len(), 1);
        assert_eq!((problems[0].pid, problems[0].way_out.as_str()), (7, "use one process"));
        assert_eq!(problems[0].evidence, "seen here");
        // A refusal without a finding is a refusal all the same.
        assert!(refusals(&report(Vec::new(), refuse))[0].evidence.contains("shares memory"));
        assert!(refusals(&report(vec![finding(Kind::Context, false, None)], Strategy::Driver)).is_empty());
        let noted = report(vec![finding(Kind::Nccl, false, Some("leave it"))], Strategy::Driver);
        assert_eq!(warnings(&noted).len(), 1);
    }
}
