//! The claims, one function each, in the order in which they are tried.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use api::{
    BranchRequest, Doctor, FindingState, GpuWish, JobResult, ResumeRequest, RollbackRequest, SnapshotOutcome,
    SnapshotRequest, Version,
};
use gpu_detect::{Detector, Host, HostGpu, Strategy};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::report::skip;
use super::subject::{Answer, Subject};
use crate::commands::online::Online;
use crate::commands::online::job::expect_result;
use crate::error::DaemonError;
use crate::format;

/// How long NVML may take.
const NVML_LIMIT: Duration = Duration::from_secs(20);
/// A refusal that takes longer is a hang.
const REFUSAL_LIMIT: Duration = Duration::from_secs(60);
/// How long NVML may take to notice that memory is free.
const SETTLE: Duration = Duration::from_secs(20);

type Seen<T> = Result<(T, String)>;

pub(super) fn daemon(online: &Online<'_>) -> Seen<Version> {
    let version: Version = online.get("/v1/version")?;
    if let Some(refusal) = &version.refusal {
        bail!("it refuses work: {}", refusal.message);
    }
    let said = format!(
        "infinijupd {}, CRIU {}",
        version.version,
        version.criu.as_deref().unwrap_or("of no known version")
    );
    Ok((version, said))
}

pub(super) fn host() -> Result<Host> {
    Ok(gpu_detect::host(NVML_LIMIT)?)
}

pub(super) fn driver() -> Seen<Host> {
    let host = host()?;
    ensure!(!host.gpus.is_empty(), "driver {} has no GPU", host.driver_version);
    ensure!(host.trouble.is_empty(), "{}", host.trouble.join("; "));
    let said = format!(
        "driver {}, CUDA {}.{}, {} GPUs",
        host.driver_version,
        host.cuda_version / 1000,
        host.cuda_version % 1000 / 10,
        host.gpus.len()
    );
    Ok((host, said))
}

/// The daemon's own look; `into` gets what it found also if that is bad.
pub(super) fn doctor(online: &Online<'_>, into: &mut Vec<api::Finding>) -> Seen<()> {
    let found: Doctor = online.get("/v1/doctor")?;
    into.clone_from(&found.findings);
    let bad = |state: FindingState| {
        let bad = found.findings.iter().filter(|finding| finding.state == state);
        bad.map(|finding| finding.item.clone()).collect::<Vec<_>>()
    };
    ensure!(found.works, "snapshots do not work here: {}", bad(FindingState::Fail).join(", "));
    let warned = bad(FindingState::Warn);
    let blocks = warned.iter().find(|item| *item == "gpu checkpoint");
    ensure!(blocks.is_none(), "the driver cannot checkpoint: see `infinijup doctor`");
    let said = if warned.is_empty() {
        "nothing to mend".to_owned()
    } else {
        format!("warnings: {}", warned.join(", "))
    };
    Ok(((), said))
}

/// What was computed by an optional part, if it is there.
pub(super) fn optional(first: &Answer, what: &str) -> Seen<()> {
    let computed = if what == "torch" { &first.torch } else { &first.compiled };
    if computed.is_none() {
        let why = first.absent.get(what).cloned().flatten();
        return skip(why.unwrap_or_else(|| "not there".to_owned()));
    }
    Ok(((), "computes, and is part of every comparison below".to_owned()))
}

/// Processes of the session that use a GPU, as the machine numbers them.
fn gpu_pids(subject: &Subject<'_>) -> Result<Vec<i32>> {
    let root = subject.look()?.pid.context("it has no process")?;
    let report = Detector::new(Path::new("/proc"), Some(host()?)).tree(root)?;
    Ok(report.processes.iter().filter(|process| process.uses_gpu).map(|process| process.pid).collect())
}

/// One of them.
pub(super) fn gpu_pid(subject: &Subject<'_>) -> Result<i32> {
    gpu_pids(subject)?.first().copied().context("no process of the session is seen to use a GPU")
}

/// Detection on the live process.
pub(super) fn detect(subject: &Subject<'_>) -> Seen<()> {
    let root = subject.look()?.pid.context("it has no process")?;
    let report = Detector::new(Path::new("/proc"), Some(host()?)).tree(root)?;
    let users: Vec<_> = report.processes.iter().filter(|process| process.uses_gpu).collect();
    ensure!(!users.is_empty(), "no process of the session is seen to use a GPU");
    let plain = matches!(report.strategy, Strategy::Driver | Strategy::DriverToStorage);
    ensure!(plain, "a plain CUDA process is classified {:?}", report.strategy);
    let micros = report.took.as_micros();
    Ok((
        (),
        format!("{} of {} processes use a GPU, found in {micros} µs", users.len(), report.processes.len()),
    ))
}

/// The bytes that NVML ascribes to these processes, by GPU.
fn bytes_of(host: &Host, pids: &[i32]) -> Vec<(String, Option<u64>)> {
    let of = |gpu: &HostGpu| {
        let own =
            gpu.processes.iter().filter(|one| i32::try_from(one.pid).is_ok_and(|pid| pids.contains(&pid)));
        let own: Vec<Option<u64>> = own.map(|one| one.bytes).collect();
        let known = own.iter().copied().try_fold(0_u64, |sum, bytes| Some(sum.saturating_add(bytes?)));
        (gpu.uuid.clone(), if own.is_empty() { Some(0) } else { known })
    };
    host.gpus.iter().map(of).collect()
}

/// NVML, the daemon and the program agree on what is in use.
pub(super) fn vram(subject: &Subject<'_>, gpus: &[HostGpu]) -> Seen<()> {
    let (pids, least) = (gpu_pids(subject)?, subject.first.bytes() / u64::try_from(gpus.len().max(1))?);
    for (uuid, bytes) in bytes_of(&host()?, &pids) {
        match bytes {
            None => return skip("the driver does not say how much a process uses"),
            Some(bytes) if gpus.iter().any(|gpu| gpu.uuid == uuid) => {
                ensure!(bytes >= least, "NVML shows {bytes} bytes on {uuid}, the program has {least}");
            }
            Some(bytes) => ensure!(bytes == 0, "it uses {uuid}, which it was not given"),
        }
    }
    let view = subject.look()?;
    let shown = view.vram_bytes.unwrap_or(0);
    ensure!(shown >= subject.first.bytes(), "the daemon shows {shown} bytes");
    Ok(((), format!("{} on {} GPUs", format::size(shown), gpus.len())))
}

fn take(online: &Online<'_>, subject: &Subject<'_>, message: &str) -> Result<SnapshotOutcome> {
    let request = SnapshotRequest { message: Some(message.to_owned()), ..SnapshotRequest::default() };
    let result = online.post_job(subject.path("/snapshot"), &request)?;
    Ok(expect_result!(result, JobResult::Snapshot(outcome) => outcome))
}

/// A snapshot while kernels run; gives its id.
pub(super) fn snapshot(online: &Online<'_>, subject: &Subject<'_>) -> Seen<String> {
    let taken = take(online, subject, "selftest: first")?;
    ensure!(taken.vram_bytes >= subject.first.bytes(), "it holds {} bytes of GPU memory", taken.vram_bytes);
    let held = subject.holds(1)?;
    let said = format!(
        "GPU paused {} ms, frozen {} ms, {} ms in all; {held}",
        taken.gpu_paused_us / 1000,
        taken.frozen_us / 1000,
        taken.total_us / 1000
    );
    Ok((taken.commit, said))
}

/// GPU memory that did not change is not stored again.
pub(super) fn unchanged(online: &Online<'_>, subject: &Subject<'_>) -> Seen<()> {
    let taken = take(online, subject, "selftest: second")?;
    subject.holds(1)?;
    let bytes = subject.first.bytes();
    ensure!(taken.new_bytes < bytes / 2, "{} bytes were stored again, of {bytes}", taken.new_bytes);
    Ok(((), format!("{} new in the store", format::size(taken.new_bytes))))
}

/// The mark is changed, and is the old one after the way back.
pub(super) fn rollback(online: &Online<'_>, subject: &Subject<'_>, to: &str) -> Seen<()> {
    subject.ask(Some(2))?;
    subject.holds(2)?;
    let begun = Instant::now();
    let request =
        RollbackRequest { to: to.to_owned(), force: false, files: true, note: None, notebook: None };
    online.post_job(subject.path("/rollback"), &request)?;
    let took = begun.elapsed();
    let held = subject.holds(1)?;
    Ok(((), format!("back in {} ms; {held}", took.as_millis())))
}

/// A branch beside the original, each with its own state from then on.
pub(super) fn branch(online: &Online<'_>, subject: &Subject<'_>) -> Seen<()> {
    let name = format!("{}-branch", subject.session.name);
    let request = BranchRequest { name: Some(name), ..BranchRequest::default() };
    let result = online.post_job(subject.path("/branch"), &request)?;
    let mut made = expect_result!(result, JobResult::Branch { branches } => branches);
    let branch = subject.branched(made.pop().context("there is no branch")?.session)?;
    let compared = (|| {
        branch.holds(1)?;
        branch.ask(Some(3))?;
        branch.holds(3).context("the branch does not keep what it writes")?;
        subject.holds(1).context("the original was changed by its branch")
    })();
    let removed = branch.remove();
    compared?;
    removed.context("the branch cannot be removed")?;
    Ok(((), "both live, with equal bytes and pointers, and write each for itself".to_owned()))
}

/// A stopped process; it goes on when this is dropped.
struct Stopped(Vec<Pid>);

impl Drop for Stopped {
    fn drop(&mut self) {
        for pid in &self.0 {
            let _ = kill_process(*pid, Signal::CONT);
        }
    }
}

/// A process that something has stopped cannot be locked: refused at once, never waited for.
pub(super) fn frozen(online: &Online<'_>, subject: &Subject<'_>) -> Seen<()> {
    let pids: Vec<Pid> = gpu_pids(subject)?.into_iter().filter_map(Pid::from_raw).collect();
    ensure!(!pids.is_empty(), "no process to stop");
    let stopped = Stopped(pids);
    for pid in &stopped.0 {
        kill_process(*pid, Signal::STOP).context("cannot stop it")?;
    }
    let begun = Instant::now();
    let answer = take(online, subject, "selftest: of a stopped process");
    let took = begun.elapsed();
    drop(stopped);
    let held = subject.holds(1)?;
    ensure!(took < REFUSAL_LIMIT, "it took {} s to answer", took.as_secs());
    match answer {
        Ok(_) => Ok(((), format!("let run and taken all the same; {held}"))),
        Err(error) => match error.downcast_ref::<DaemonError>() {
            Some(DaemonError(body)) => {
                Ok(((), format!("refused in {} ms ({}); {held}", took.as_millis(), body.code)))
            }
            None => Err(error),
        },
    }
}

/// After it, no GPU holds a byte of the session.
pub(super) fn suspend(online: &Online<'_>, subject: &Subject<'_>, gpus: &[HostGpu]) -> Seen<()> {
    let (pids, before) = (gpu_pids(subject)?, host()?);
    let least = subject.first.bytes() / u64::try_from(gpus.len().max(1))?;
    let result = online.post_job(subject.path("/suspend"), &json!({}))?;
    let outcome = expect_result!(result, JobResult::Suspend(outcome) => outcome);
    let bytes = subject.first.bytes();
    ensure!(
        outcome.freed_vram_bytes >= bytes,
        "it says that it freed {} of {bytes}",
        outcome.freed_vram_bytes
    );
    let deadline = Instant::now() + SETTLE;
    loop {
        let after = host()?;
        let held = bytes_of(&after, &pids).into_iter().find(|(_, bytes)| *bytes != Some(0));
        let free = |host: &Host, uuid: &str| {
            host.gpus.iter().find(|gpu| gpu.uuid == uuid).map_or(0, |gpu| gpu.free_bytes)
        };
        let tight =
            gpus.iter().find(|gpu| free(&after, &gpu.uuid) < free(&before, &gpu.uuid).saturating_add(least));
        match (held, tight) {
            (None, None) => {
                return Ok((
                    (),
                    format!("{} of GPU memory freed, none held", format::size(outcome.freed_vram_bytes)),
                ));
            }
            (Some((uuid, bytes)), _) if Instant::now() >= deadline => {
                bail!("NVML still shows {bytes:?} bytes on {uuid}")
            }
            (None, Some(gpu)) if Instant::now() >= deadline => {
                bail!("memory of {} did not become free", gpu.uuid)
            }
            _ => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// Back on the same GPUs.
pub(super) fn resume(online: &Online<'_>, subject: &Subject<'_>) -> Seen<()> {
    let begun = Instant::now();
    online.post_job(subject.path("/resume"), &ResumeRequest::default())?;
    let took = begun.elapsed();
    let held = subject.holds(1)?;
    Ok(((), format!("back in {} ms; {held}", took.as_millis())))
}

/// Two GPUs that can take each other's place.
pub(super) fn pair(gpus: &[HostGpu], remap: bool) -> Result<(HostGpu, HostGpu)> {
    if !remap {
        return skip("the driver cannot restore onto another GPU (580 can)");
    }
    for (at, one) in gpus.iter().enumerate() {
        if let Some(other) = gpus.iter().skip(at + 1).find(|other| other.pci_id == one.pci_id) {
            return Ok((one.clone(), other.clone()));
        }
    }
    skip("there are no two GPUs of the same kind")
}

/// From one GPU to another by a map of UUIDs.
pub(super) fn elsewhere(
    online: &Online<'_>,
    subject: &Subject<'_>,
    from: &HostGpu,
    to: &HostGpu,
) -> Seen<()> {
    online.post_job(subject.path("/suspend"), &json!({}))?;
    let gpus = Some(GpuWish::List { gpus: vec![to.uuid.clone()] });
    let begun = Instant::now();
    online.post_job(subject.path("/resume"), &ResumeRequest { force: false, gpus })?;
    let took = begun.elapsed();
    let held = subject.holds(1)?;
    for (uuid, bytes) in bytes_of(&host()?, &gpu_pids(subject)?) {
        match bytes {
            Some(bytes) if uuid == to.uuid => ensure!(bytes > 0, "nothing of it is on {uuid}"),
            Some(bytes) if uuid == from.uuid => ensure!(bytes == 0, "{bytes} bytes of it are on {uuid}"),
            _ => {}
        }
    }
    Ok(((), format!("GPU {} to GPU {} in {} ms; {held}", from.index, to.index, took.as_millis())))
}
