//! `selftest`: on a machine with GPUs, tries everything that is claimed of them, through the daemon. One question is put to the driver
//! itself: whether it serves an ordinary user ([`permission`]).
//!
//! A session runs a small program ([`program.py`](../program.py)) with known bytes on each GPU and a kernel in a loop. After each
//! operation it is asked what it has now, and all of it is read back from the GPUs: bytes by hash, pointers, a mark that tells one
//! state from another, and a count that kernels and program must agree on. NVML is asked whether memory is in use or free.
//!
//! It is written for the day on which somebody runs it on hardware that its authors have not seen: it goes on after a failure where
//! that makes sense, names what it could not try and why, and leaves a report that can be sent to somebody.

mod checks;
mod container;
mod permission;
mod python;
mod report;
mod subject;

use anyhow::{Context as _, Result, ensure};
use api::FindingState;
use gpu_detect::{Host, HostGpu};

use self::python::Place;
use self::report::{Check, GpuLine, Report, State};
use self::subject::Subject;
use super::online::{Message, Online};
use crate::args::SelftestArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::format;

/// Every check, in order: what was never come to is in the report as skipped.
const CHECKS: [&str; 19] = [
    "daemon",
    "driver",
    "doctor",
    "python",
    "session",
    "detect",
    "gpu memory",
    "permission",
    "compiled kernel",
    "pytorch",
    "snapshot while it works",
    "unchanged memory",
    "rollback",
    "branch",
    "stopped process",
    "suspend",
    "resume",
    "another gpu",
    "container",
];

pub(crate) fn run(context: &Context, args: &SelftestArgs) -> Result<()> {
    let online = Online::new(context)?;
    let mut report = Report { time: format::time(jiff::Timestamp::now()), ..Report::default() };
    let mut run = Run { online: &online, args, report: &mut report };
    run.all()?;
    for name in CHECKS {
        if !report.checks.iter().any(|check| check.name == name) {
            let detail = "an earlier check failed".to_owned();
            report.checks.push(Check { name, state: State::Skipped, detail, micros: 0 });
        }
    }
    report.checks.sort_by_key(|check| CHECKS.iter().position(|name| *name == check.name));
    report.passed = report.failed().is_empty();
    let file = &args.report;
    let text = serde_json::to_string_pretty(&report).context("cannot write the report")?;
    std::fs::write(file, text + "\n").with_context(|| format!("cannot write `{}`", file.display()))?;
    let printer = &context.printer;
    printer.data(&Message { message_type: "selftest", content: &report }, &report.table())?;
    printer.note(&format!("the report is in {}", file.display()));
    if report.interrupted {
        return Err(CliError::Interrupted.into());
    }
    let failed = report.failed();
    if failed.is_empty() { Ok(()) } else { Err(CliError::SelftestFailed { checks: failed }.into()) }
}

struct Run<'a> {
    online: &'a Online<'a>,
    args: &'a SelftestArgs,
    report: &'a mut Report,
}

impl<'a> Run<'a> {
    fn check<T>(&mut self, name: &'static str, attempt: impl FnOnce() -> Result<(T, String)>) -> Option<T> {
        let printer = self.online.printer();
        self.report.check(name, |check| printer.note(&check.row().join("  ")), attempt)
    }

    fn all(&mut self) -> Result<()> {
        let online = self.online;
        self.version("infinijup", Some(env!("CARGO_PKG_VERSION").to_owned()));
        self.version("kernel", Some(rustix::system::uname().release().to_string_lossy().into_owned()));
        let Some(version) = self.check("daemon", || checks::daemon(online)) else { return Ok(()) };
        self.version("infinijupd", Some(version.version));
        self.version("criu", version.criu);
        let Some(host) = self.check("driver", checks::driver) else { return Ok(()) };
        self.version("driver", Some(host.driver_version.clone()));
        let cuda = host.cuda_version;
        self.version("cuda", Some(format!("{}.{}", cuda / 1000, cuda % 1000 / 10)));
        let mut found = Vec::new();
        self.check("doctor", || checks::doctor(online, &mut found));
        self.report.doctor = found;
        let named = self.args.python.as_deref();
        let python = self.check("python", || {
            let python = python::find(named)?;
            let versions = python::versions(&python)?;
            let bindings = versions.get("cuda-bindings").cloned().flatten();
            ensure!(
                bindings.is_some(),
                "`{}` has no cuda-bindings: pip install cuda-bindings",
                python.display()
            );
            let said = format!("{} with cuda-bindings {}", python.display(), bindings.unwrap_or_default());
            Ok(((python, versions), said))
        });
        let Some((python, versions)) = python else { return Ok(()) };
        self.report.versions.extend(versions);

        let place = Place::make()?;
        let gpus = self.choose(&host);
        self.one_session(&python, &place, &gpus)?;
        self.another_gpu(&python, &place, &gpus)?;
        let (image, bytes) = (self.args.image.as_deref(), self.report.bytes_per_gpu);
        self.check("container", || container::check(online, image, &place, &gpus, bytes));
        Ok(())
    }

    fn version(&mut self, name: &str, version: Option<String>) {
        self.report.versions.insert(name.to_owned(), version);
    }

    /// The GPUs that are used, and how much of each: no more than a fifth of what is free, since branches come on top.
    fn choose(&mut self, host: &Host) -> Vec<HostGpu> {
        let most = self.args.gpus.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        let gpus: Vec<HostGpu> = host.gpus.iter().take(most).cloned().collect();
        let room = gpus.iter().map(|gpu| gpu.free_bytes / 5).min().unwrap_or(0);
        self.report.bytes_per_gpu = (self.args.size << 20).min(room) >> 20 << 20;
        let line = |gpu: &HostGpu| GpuLine {
            uuid: gpu.uuid.clone(),
            name: gpu.name.clone(),
            pci_id: gpu.pci_id.clone(),
            memory_bytes: gpu.memory_bytes,
        };
        self.report.gpus = gpus.iter().map(line).collect();
        gpus
    }

    fn begin(
        &mut self,
        name: &str,
        python: &std::path::Path,
        place: &Place,
        gpus: &[HostGpu],
    ) -> Result<Subject<'a>> {
        let directory = place.for_session(name)?;
        let session = format!("selftest-{}-{name}", std::process::id());
        let uuids = gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
        Subject::start(self.online, &session, python, directory, self.report.bytes_per_gpu, uuids)
    }

    /// Everything that one session on all GPUs can show.
    fn one_session(&mut self, python: &std::path::Path, place: &Place, gpus: &[HostGpu]) -> Result<()> {
        let online = self.online;
        let begun = std::time::Instant::now();
        let started = self.begin("all", python, place, gpus);
        let subject = self.report.check(
            "session",
            |check| online.printer().note(&check.row().join("  ")),
            || {
                let subject = started?;
                let bytes = format::size(subject.first.bytes());
                let said = format!("{bytes} on {} GPUs after {} ms", gpus.len(), begun.elapsed().as_millis());
                Ok((subject, said))
            },
        );
        let Some(subject) = subject else { return Ok(()) };
        self.check("detect", || checks::detect(&subject));
        self.check("gpu memory", || checks::vram(&subject, gpus));
        self.check("permission", || permission::check(checks::gpu_pid(&subject)?));
        self.check("compiled kernel", || checks::optional(&subject.first, "compiled"));
        self.check("pytorch", || checks::optional(&subject.first, "torch"));
        let first = self.check("snapshot while it works", || checks::snapshot(online, &subject));
        if let Some(first) = first {
            self.check("unchanged memory", || checks::unchanged(online, &subject));
            self.check("rollback", || checks::rollback(online, &subject, &first));
            self.check("branch", || checks::branch(online, &subject));
            self.check("stopped process", || checks::frozen(online, &subject));
            if self.check("suspend", || checks::suspend(online, &subject, gpus)).is_some() {
                self.check("resume", || checks::resume(online, &subject));
            }
        }
        self.end(&subject);
        Ok(())
    }

    /// What needs a session on one GPU and a second GPU.
    fn another_gpu(&mut self, python: &std::path::Path, place: &Place, gpus: &[HostGpu]) -> Result<()> {
        let online = self.online;
        let remap = |finding: &api::Finding| finding.item == "gpu remap" && finding.state == FindingState::Ok;
        let remap = self.report.doctor.iter().any(remap);
        let (from, to) = match checks::pair(gpus, remap) {
            Ok(pair) => pair,
            Err(error) => {
                self.check::<()>("another gpu", || Err(error));
                return Ok(());
            }
        };
        let started = self.begin("one", python, place, std::slice::from_ref(&from));
        match started {
            Err(error) => {
                self.check::<()>("another gpu", || Err(error));
            }
            Ok(subject) => {
                self.check("another gpu", || checks::elsewhere(online, &subject, &from, &to));
                self.end(&subject);
            }
        }
        Ok(())
    }

    fn end(&self, subject: &Subject<'_>) {
        if let Err(error) = subject.remove() {
            let name = format::safe(&subject.session.name);
            self.online.printer().warning(&format!("the session {name} is still there: {error}"));
        }
    }
}
